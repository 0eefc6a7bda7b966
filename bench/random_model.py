#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a Whisper of a given size with random weights, for timing sizes whose real weights are
not at hand: python3 bench/random_model.py large-v3 DIR. The layout is that of Hugging Face, f16.
What it writes is noise, so timings should fix the number of tokens: vocis transcribe
--without-timestamps --no-fallback --max-tokens 110. Needs numpy."""
import json
import os
import struct
import sys

import numpy

#        layers (encoder, decoder), width, heads, mel bands, vocabulary
SIZES = {"tiny.en": (4, 4, 384, 6, 80, 51864), "tiny": (4, 4, 384, 6, 80, 51865),
         "base": (6, 6, 512, 8, 80, 51865), "small": (12, 12, 768, 12, 80, 51865),
         "medium": (24, 24, 1024, 16, 80, 51865), "large-v2": (32, 32, 1280, 20, 80, 51865),
         "large-v3": (32, 32, 1280, 20, 128, 51866), "turbo": (32, 4, 1280, 20, 128, 51866)}


def block(side, i, d):
    name = f"model.{side}.layers.{i}."
    parts = ["self_attn"] + (["encoder_attn"] if side == "decoder" else [])
    for part in parts:
        for proj in ("q", "k", "v", "out"):
            yield f"{name}{part}.{proj}_proj.weight", (d, d)
            if proj != "k":
                yield f"{name}{part}.{proj}_proj.bias", (d,)
        yield f"{name}{part}_layer_norm.weight", (d,)
        yield f"{name}{part}_layer_norm.bias", (d,)
    yield name + "fc1.weight", (4 * d, d)
    yield name + "fc1.bias", (4 * d,)
    yield name + "fc2.weight", (d, 4 * d)
    yield name + "fc2.bias", (d,)
    yield name + "final_layer_norm.weight", (d,)
    yield name + "final_layer_norm.bias", (d,)


def tensors(encoder_layers, decoder_layers, d, mels, vocab):
    yield "model.encoder.conv1.weight", (d, mels, 3)
    yield "model.encoder.conv1.bias", (d,)
    yield "model.encoder.conv2.weight", (d, d, 3)
    yield "model.encoder.conv2.bias", (d,)
    yield "model.encoder.embed_positions.weight", (1500, d)
    for i in range(encoder_layers):
        yield from block("encoder", i, d)
    yield "model.encoder.layer_norm.weight", (d,)
    yield "model.encoder.layer_norm.bias", (d,)
    yield "model.decoder.embed_tokens.weight", (vocab, d)
    yield "model.decoder.embed_positions.weight", (448, d)
    for i in range(decoder_layers):
        yield from block("decoder", i, d)
    yield "model.decoder.layer_norm.weight", (d,)
    yield "model.decoder.layer_norm.bias", (d,)


def values(rng, name, shape):
    if "norm.weight" in name:
        return numpy.ones(shape, numpy.float16)
    if name.endswith("bias"):
        return numpy.zeros(shape, numpy.float16)
    return (rng.standard_normal(shape, numpy.float32) * 0.02).astype(numpy.float16)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in SIZES:
        sys.exit(f"usage: random_model.py {'|'.join(SIZES)} DIR")
    size, folder = sys.argv[1:]
    encoder_layers, decoder_layers, d, heads, mels, vocab = SIZES[size]
    os.makedirs(folder, exist_ok=True)
    listed = list(tensors(encoder_layers, decoder_layers, d, mels, vocab))
    header, at = {}, 0
    for name, shape in listed:
        size_bytes = 2 * int(numpy.prod(shape))
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size_bytes]}
        at += size_bytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = numpy.random.default_rng(1)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in listed:
            file.write(values(rng, name, shape).tobytes())
    config = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"],
              "num_mel_bins": mels, "max_source_positions": 1500, "max_target_positions": 448,
              "d_model": d, "encoder_layers": encoder_layers, "decoder_layers": decoder_layers,
              "encoder_attention_heads": heads, "decoder_attention_heads": heads,
              "encoder_ffn_dim": 4 * d, "decoder_ffn_dim": 4 * d, "vocab_size": vocab}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)


if __name__ == "__main__":
    main()
