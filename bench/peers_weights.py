# SPDX-License-Identifier: MIT
"""Writes a CTranslate2 Whisper model as a peer wants it: FOLDER f16|q8_0|q4_0|pt OUT.

The same weights for every engine: f16 and pt hold the values of the folder, q8_0 and q4_0 are made
of them as whisper.cpp's own tool does it. Needs numpy, and torch for pt; run by bench/peers with
the interpreter of the peer's environment."""
import os
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools/convert"))
import weight_files as wf  # noqa: E402

GROUP = 32  # values that share a scale
GGML_FTYPES = {"f16": 1, "q4_0": 2, "q8_0": 7}  # of a whole file
GGML_TYPES = {"q4_0": 2, "q8_0": 8}  # of a tensor


def q8_0(x):
    """Blocks of scale (f16) and 32 bytes; the scale takes the largest magnitude to 127."""
    g = x.reshape(-1, GROUP)
    scale = np.abs(g).max(axis=1, keepdims=True) / np.float32(127)
    q = g * np.where(scale > 0, 1 / np.where(scale > 0, scale, 1), 0)
    q = np.copysign(np.floor(np.abs(q) + np.float32(0.5)), q)  # as roundf of C
    out = np.empty(len(g), [("scale", "<f2"), ("q", "i1", GROUP)])
    out["scale"], out["q"] = scale[:, 0], q
    return out.tobytes()


def q4_0(x):
    """Blocks of scale (f16) and 16 bytes; the scale takes the value of largest magnitude to -8.
    Low halves of the bytes hold the first 16 values, high halves the others."""
    g = x.reshape(-1, GROUP)
    top = np.take_along_axis(g, np.abs(g).argmax(axis=1)[:, None], axis=1)
    scale = top / np.float32(-8)
    q = g * np.where(scale != 0, 1 / np.where(scale != 0, scale, 1), 0) + np.float32(8.5)
    q = np.clip(q, 0, 15).astype(np.uint8)
    out = np.empty(len(g), [("scale", "<f2"), ("q", "u1", GROUP // 2)])
    out["scale"], out["q"] = scale[:, 0], q[:, : GROUP // 2] | q[:, GROUP // 2 :] << 4
    return out.tobytes()


def mel_filters(n_mels):
    """[n_mels, bins], from rows of (filter, bin, weight)."""
    out = np.zeros((n_mels, 201), np.float32)
    for m, b, weight in np.load(ROOT / f"tests/data/audio/mel_filters_{n_mels}.npy"):
        out[int(m), int(b)] = weight
    return out


def write_ggml(openai, kind, out):
    dims = wf.whisper_dims(openai)
    multilingual = dims["n_vocab"] >= 51865
    vocabulary = ROOT / "src/text/data" / ("multilingual" if multilingual else "gpt2")
    tokens = wf.read_tiktoken(vocabulary.with_suffix(".tiktoken"))
    tensors = wf.ggml_tensors(openai)
    if kind != "f16":
        for name, t in tensors.items():
            # vectors, positions and the three-dimensional convolutions stay as they are
            if t.dtype == "F16" and t.data.ndim == 2:
                x = wf.to_float32(t)
                body = {"q8_0": q8_0, "q4_0": q4_0}[kind](x)
                tensors[name] = (GGML_TYPES[kind], x.shape, body)
    wf.write_ggml(out, dims, GGML_FTYPES[kind], mel_filters(dims["n_mels"]), tokens, tensors)


def write_pt(openai, out):
    import torch
    state = {name: torch.from_numpy(np.array(t.data)) for name, t in openai.items()}
    torch.save({"dims": wf.whisper_dims(openai), "model_state_dict": state}, out)


def main():
    folder, kind, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    spec, _, tensors, aliases = wf.read_ct2(folder / "model.bin")
    if spec != "WhisperSpec":
        sys.exit(f"{folder} holds a {spec}, not a Whisper model")
    openai = wf.ct2_to_openai(tensors, aliases)
    part = out.with_name(out.name + ".part")
    if kind == "pt":
        write_pt(openai, part)
    else:
        write_ggml(openai, kind, part)
    os.replace(part, out)


if __name__ == "__main__":
    main()
