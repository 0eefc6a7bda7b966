#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Goldens for src/formats and the de-quantiser.

    formats.py DATA OUT      DATA: the test data folder, OUT: tests/data/formats

blocks.bin, blocks.json    every quantised block type as made by ggml's own quantisers, wrapped
                           into a whisper.cpp file, and the sha256 of ggml's own values
whisper_ggml.json          sha256 of every tensor of the ggml models of DATA, by blocks.py
mlx/                       matrices quantised by MLX, with MLX's own values beside them
quantize.safetensors       numbers, and what MLX quantises them to
"""
import hashlib
import json
import struct
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "convert"))
import blocks
import weight_files as wf

BY_NUMBER = {v[0]: k for k, v in blocks.TYPES.items()}


def digest(values):
    return hashlib.sha256(np.ascontiguousarray(values, "<f4").tobytes()).hexdigest()


def read_gguf(path):
    """{name: (type number, shape, bytes)} of a GGUF file; its facts are skipped over."""
    data, at = Path(path).read_bytes(), 24
    n_tensors, n_facts = struct.unpack_from("<qq", data, 8)
    plain = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def text():
        nonlocal at
        n = struct.unpack_from("<Q", data, at)[0]
        at += 8 + n
        return data[at - n : at].decode("utf-8", "replace")

    def skip(kind):
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            inner, n = struct.unpack_from("<IQ", data, at)
            at += 12
            for _ in range(n):
                skip(inner)
        else:
            at += plain[kind]

    for _ in range(n_facts):
        text()
        at += 4
        skip(struct.unpack_from("<I", data, at - 4)[0])
    infos = []
    for _ in range(n_tensors):
        name, n = text(), struct.unpack_from("<I", data, at)[0]
        dims = struct.unpack_from(f"<{n}q", data, at + 4)
        kind, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * n)
        at += 16 + 8 * n
        infos.append((name, kind, tuple(reversed(dims)), offset))
    start, out = -(-at // 32) * 32, {}
    for name, kind, shape, offset in infos:
        block, values = {0: (4, 1), 1: (2, 1), 30: (2, 1)}.get(kind) or blocks.TYPES.get(
            BY_NUMBER.get(kind), (0, 0, 1))[1:]
        size = int(np.prod(shape)) // values * block
        out[name] = (kind, shape, data[start + offset : start + offset + size])
    return out


def golden_blocks(data, out):
    tensors, expected = {}, {}
    gguf = read_gguf(data / "golden/ggml_quant/ggml_quant_golden.gguf")
    for name, (kind, shape, body) in gguf.items():
        if kind not in BY_NUMBER:
            continue
        truth = np.frombuffer(gguf[name + ".deq"][2], "<f4")
        ours = blocks.unpack(BY_NUMBER[kind], body)
        assert digest(truth) == digest(ours), name
        tensors[BY_NUMBER[kind]] = (kind, shape, body)
        expected[BY_NUMBER[kind]] = {
            "shape": shape, "sha256": digest(truth),
            "some": [float(v) for v in truth.reshape(shape)[:, 100]]}
    dims = dict.fromkeys(wf.GGML_DIMS, 1)
    wf.write_ggml(out / "blocks.bin", dims, 2002, np.zeros((1, 1)), [], tensors)
    (out / "blocks.json").write_text(json.dumps(expected, indent=1) + "\n")


def read_ggml_tensors(path):
    data, at = Path(path).read_bytes(), 48
    n_mel, n_fft = struct.unpack_from("<2i", data, at)
    at += 8 + 4 * n_mel * n_fft
    n_tokens = struct.unpack_from("<i", data, at)[0]
    at += 4
    for _ in range(n_tokens):
        at += 4 + struct.unpack_from("<I", data, at)[0]
    while at < len(data):
        n, length, kind = struct.unpack_from("<3i", data, at)
        shape = struct.unpack_from(f"<{n}i", data, at + 12)[::-1]
        at += 12 + 4 * n
        name = data[at : at + length].decode()
        at += length
        block, values = {0: (4, 1), 1: (2, 1)}.get(kind) or blocks.TYPES[BY_NUMBER[kind]][1:]
        size = int(np.prod(shape)) // values * block
        yield name, kind, shape, data[at : at + size]
        at += size


def golden_whisper_ggml(data, out):
    golden = {}
    for path in sorted((data / "golden/whisper_ggml").glob("*.bin")):
        golden[path.name] = {}
        for name, kind, shape, body in read_ggml_tensors(path):
            plain = {0: "<f4", 1: "<f2"}.get(kind)
            values = np.frombuffer(body, plain) if plain else blocks.unpack(BY_NUMBER[kind], body)
            golden[path.name][name] = {"shape": shape, "sha256": digest(values)}
    # one tensor a line keeps differences readable
    lines = [json.dumps(name) + ": {\n" + ",\n".join(
        f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items()) + "\n }"
        for name, entries in golden.items()]
    (out / "whisper_ggml.json").write_text("{\n " + ",\n ".join(lines) + "\n}\n")


def golden_mlx(out):
    import mlx.core as mx

    rng = np.random.default_rng(5)
    folder = out / "mlx"
    folder.mkdir(exist_ok=True)
    arrays, config = {}, {"model_type": "whisper", "quantization": {"group_size": 64, "bits": 4}}
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            x = rng.standard_normal((3, 128)).astype(np.float32)
            x[1] = np.abs(x[1]) + 1  # all of one sign
            x[2, :64] = 0  # a group of zeros
            kind = {32: mx.float32, 64: mx.float16, 128: mx.bfloat16}[group]
            w, scales, biases = mx.quantize(mx.array(x).astype(kind), group_size=group, bits=bits)
            name = f"b{bits}g{group}"
            arrays.update({name + ".weight": w, name + ".scales": scales, name + ".biases": biases})
            # values in f32, since MLX itself would round them to the type of the scales
            arrays[name + ".expected"] = mx.dequantize(
                w, scales.astype(mx.float32), biases.astype(mx.float32), group_size=group,
                bits=bits)
            if (bits, group) != (4, 64):
                config["quantization"][name] = {"group_size": group, "bits": bits}
            rounded = np.array(mx.array(x).astype(kind).astype(mx.float32))
            ours = wf.quantise_affine(rounded, bits, group)
            if kind == mx.float32:
                assert (np.array(w) == ours[0]).mean() > 0.99, name
    mx.save_safetensors(str(folder / "model.safetensors"), arrays, {"mlx": mx.__version__})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def golden_quantize(out):
    """Rows of every sort: like weights, of one sign, constant, zero, with an outlier, tiny."""
    import mlx.core as mx

    rng = np.random.default_rng(6)
    arrays = {}
    for bits in (4, 8):
        for group in (32, 64, 128):
            for kind in (mx.float32, mx.float16, mx.bfloat16):
                x = (rng.standard_normal((6, 128)) * 0.05).astype(np.float32)
                x[1] = np.abs(x[1]) + 1
                x[2] = -0.25
                x[3, 32:] = 0
                x[4, 7] = -40
                x[5] *= 1e-6
                x = mx.array(x).astype(kind)
                name = f"b{bits}g{group}{str(kind).split('.')[-1]}"
                made = mx.quantize(x, group_size=group, bits=bits)
                arrays[name + ".input"] = x
                arrays.update(zip((f"{name}.{k}" for k in ("weight", "scales", "biases")), made))
    mx.save_safetensors(str(out / "quantize.safetensors"), arrays, {"mlx": mx.__version__})


def main():
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    golden_blocks(data, out)
    golden_whisper_ggml(data, out)
    golden_mlx(out)
    golden_quantize(out)


if __name__ == "__main__":
    main()
