#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tiny valid weight files of every format and variant: seeds for the fuzzers and fixtures
for tests/formats.

    make_corpus.py OUT     OUT/{safetensors,ctranslate2,ggml}/*.bin and OUT/expected.json

expected.json tells what a reader must see, computed here in numpy:
{ path: { format, layout, tensors: { name: { dtype, shape, values } } } }
"""
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "../../tools/convert"), str(HERE / "../../tools/golden")]
import blocks
import weight_files as wf

NAMES = {"F32": "f32", "F16": "f16", "BF16": "bf16", "F64": "f64", "I64": "i64", "I32": "i32",
         "I16": "i16", "I8": "i8", "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8",
         "BOOL": "bool"}


def describe(dtype, values):
    values = np.asarray(values, np.float32)
    return {"dtype": dtype, "shape": list(values.shape),
            "values": [float(v) for v in values.ravel()]}


def plain(t):
    return describe(NAMES[t.dtype], wf.to_float32(t))


def ramp(*shape, dtype="F16"):
    """Values that half precision holds exactly"""
    x = (np.arange(np.prod(shape, dtype=int)) % 17 - 8).reshape(shape) / 4
    return wf.tensor(x, dtype)


def unpack_affine(packed, scales, biases, bits, group):
    stream = np.unpackbits(packed.view(np.uint8), axis=1, bitorder="little")
    q = (stream.reshape(len(packed), -1, bits) << np.arange(bits)).sum(axis=2).astype(np.float32)
    # one rounding for the product, one for the sum
    return np.repeat(scales, group, axis=1) * q + np.repeat(biases, group, axis=1)


def safetensors_files():
    every = {f"t.{d}": wf.tensor(np.array([[1, 0, 1], [0, 1, 1]]), d) for d in NAMES}
    every["scalar"] = wf.tensor(np.float32(2.5))
    every["empty"] = wf.tensor(np.zeros((0, 4), np.float32))
    openai = {"encoder.blocks.0.mlp.0.weight": ramp(4, 2), "encoder.conv1.weight": ramp(2, 2, 3),
              "alignment_heads": wf.tensor(np.array([[1, 0], [1, 1]]), "I64")}
    hf = {"model.encoder.layers.0.self_attn.q_proj.weight": ramp(2, 2, dtype="F32"),
          "model.decoder.embed_tokens.weight": ramp(3, 2, dtype="BF16")}
    silero = {"stft_conv.weight": ramp(2, 1, 4, dtype="F32"),
              "lstm_cell.bias_ih": ramp(4, dtype="F32")}
    for stem, layout, tensors in (("every_type", "unknown", every), ("openai", "openai", openai),
                                  ("huggingface", "huggingface", hf), ("silero", "silero", silero)):
        yield stem, layout, tensors, {k: plain(t) for k, t in tensors.items()}
    for bits in (4, 8):
        x = np.random.default_rng(bits).standard_normal((2, 64)).astype(np.float32)
        packed, scales, biases = wf.quantise_affine(x, bits, 64)
        scales, biases = wf.tensor(scales, "F16"), wf.tensor(biases, "F16")
        stem = "encoder.blocks.0.mlp1"
        tensors = {stem + ".weight": wf.tensor(packed), stem + ".scales": scales,
                   stem + ".biases": biases, stem + ".bias": ramp(2)}
        values = unpack_affine(packed, wf.to_float32(scales), wf.to_float32(biases), bits, 64)
        yield f"mlx_{bits}", "mlx", tensors, {stem + ".weight": describe("affine", values),
                                              stem + ".bias": plain(ramp(2))}


def ctranslate2_files():
    scalars = {"decoder/num_heads": wf.tensor(np.int16(2)),
               "encoder/pre_norm": wf.tensor(np.int8(1)),
               "decoder/activation": wf.tensor(np.int8(3))}
    embedding = "decoder/embeddings/weight"
    aliases = {"decoder/projection/weight": embedding}
    x = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
    for kind in ("F16", "F32", "BF16", "I8", "I16"):
        tensors = {embedding: wf.tensor(x, kind if kind[0] != "I" else "F32"), **scalars}
        expected = {k: plain(t) for k, t in tensors.items()}
        if kind[0] == "I":
            q, scale = (wf.quantise_int8 if kind == "I8" else wf.quantise_int16)(tensors[embedding])
            tensors[embedding], tensors[embedding + "_scale"] = q, scale
            s = scale.data.reshape(-1, 1) if kind == "I8" else scale.data
            expected[embedding] = describe("rowscaled_i8" if kind == "I8" else "scaled_i16",
                                           q.data.astype(np.float32) / s)
        expected["decoder/projection/weight"] = expected[embedding]
        yield kind.lower(), tensors, aliases, expected


def block_bytes(name, rng):
    """One random block whose half-precision scales are small numbers."""
    _, size, _ = blocks.TYPES[name]
    b = rng.integers(0, 256, size, dtype=np.uint8)
    halves = {"q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0],
              "q2_k": [80, 82],
              "q3_k": [108], "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208]}[name]
    for at in halves:
        b[at : at + 2] = np.frombuffer(np.float16(rng.uniform(-0.1, 0.1)).tobytes(), np.uint8)
    return b.tobytes()


def ggml_files():
    dims = {"n_vocab": 4, "n_audio_ctx": 3, "n_audio_state": 2, "n_audio_head": 1,
            "n_audio_layer": 1,
            "n_text_ctx": 3, "n_text_state": 2, "n_text_head": 1, "n_text_layer": 1, "n_mels": 2}
    tensors = {"encoder.conv1.weight": ramp(2, 2, 3), "encoder.conv1.bias": ramp(2, 1, dtype="F32"),
               "decoder.ln.bias": ramp(2, dtype="F32"), "scalar": ramp(dtype="F32")}
    yield "f16", dims, 1, tensors, {k: plain(t) for k, t in tensors.items()}
    yield "empty", dims, 1, {}, {}
    rng = np.random.default_rng(3)
    for name, (kind, _, values) in blocks.TYPES.items():
        body = block_bytes(name, rng)
        tensors = {"w": (kind, (1, values), body), "b": ramp(2, dtype="F32")}
        yield name, dims, 2000 + kind, tensors, {
            "w": describe(name, blocks.unpack(name, body).reshape(1, values)),
            "b": plain(tensors["b"])}


def main():
    out, expected = Path(sys.argv[1]), {}
    for folder in ("safetensors", "ctranslate2", "ggml"):
        (out / folder).mkdir(parents=True, exist_ok=True)

    def note(path, layout, tensors):
        expected[path] = {"format": path.split("/")[0], "layout": layout, "tensors": tensors}

    for stem, layout, tensors, seen in safetensors_files():
        path = f"safetensors/{stem}.bin"
        wf.write_safetensors(out / path, tensors, {"note": "tiny"})
        note(path, layout, seen)
    for stem, tensors, aliases, seen in ctranslate2_files():
        path = f"ctranslate2/{stem}.bin"
        wf.write_ct2(out / path, "WhisperSpec", 3, tensors, aliases)
        note(path, "ctranslate2", seen)
    for stem, dims, ftype, tensors, seen in ggml_files():
        path = f"ggml/{stem}.bin"
        filters = np.arange(6, dtype=np.float32).reshape(2, 3)
        wf.write_ggml(out / path, dims, ftype, filters, [b"a", b"", b"bc"], tensors)
        note(path, "openai", seen)
    lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in expected.items()]
    (out / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
