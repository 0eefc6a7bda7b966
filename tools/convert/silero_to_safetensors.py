#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes src/models/silero/silero_vad.safetensors from the released package silero-vad.

    pip download --no-deps silero-vad==6.2.3     (a wheel; needs: pip install onnx numpy)
    tools/convert/silero_to_safetensors.py silero_vad-6.2.3-py3-none-any.whl OUT.safetensors

The wheel's silero_vad_op18_ifless.onnx has every tensor of the 16 kHz network as an initialiser.
Names become those of the project's own safetensors file (which holds other weights); values and
shapes stay as they are.
"""
import argparse
import hashlib
import json
import struct
import sys
import zipfile

import numpy as np
import onnx
from onnx import numpy_helper

ONNX = "silero_vad/data/silero_vad_op18_ifless.onnx"

TENSORS = {
    "stft_conv.weight": ("stft.forward_basis_buffer", (258, 1, 256)),
    "conv1.weight": ("encoder.0.reparam_conv.weight", (128, 129, 3)),
    "conv1.bias": ("encoder.0.reparam_conv.bias", (128,)),
    "conv2.weight": ("encoder.1.reparam_conv.weight", (64, 128, 3)),
    "conv2.bias": ("encoder.1.reparam_conv.bias", (64,)),
    "conv3.weight": ("encoder.2.reparam_conv.weight", (64, 64, 3)),
    "conv3.bias": ("encoder.2.reparam_conv.bias", (64,)),
    "conv4.weight": ("encoder.3.reparam_conv.weight", (128, 64, 3)),
    "conv4.bias": ("encoder.3.reparam_conv.bias", (128,)),
    "lstm_cell.weight_ih": ("decoder.rnn.weight_ih", (512, 128)),
    "lstm_cell.weight_hh": ("decoder.rnn.weight_hh", (512, 128)),
    "lstm_cell.bias_ih": ("decoder.rnn.bias_ih", (512,)),
    "lstm_cell.bias_hh": ("decoder.rnn.bias_hh", (512,)),
    "final_conv.weight": ("decoder.decoder.2.weight", (1, 128, 1)),
    "final_conv.bias": ("decoder.decoder.2.bias", (1,)),
}


def read_onnx(path):
    """The model's bytes, and the version of the package that holds them."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            metadata = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
            lines = wheel.read(metadata).decode("utf-8").splitlines()
            version = next(l.split(": ")[1] for l in lines if l.startswith("Version: "))
            return wheel.read(ONNX), version
    with open(path, "rb") as file:
        return file.read(), "unknown"


def write_safetensors(path, tensors, metadata):
    header, at = {"__metadata__": metadata}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-(8 + len(text)) % 64)  # data begins at a cache line
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", help="the wheel, or silero_vad_op18_ifless.onnx out of it")
    parser.add_argument("out")
    args = parser.parse_args()
    data, version = read_onnx(args.source)
    stored = {t.name: t for t in onnx.load_from_string(data).graph.initializer}
    tensors = {}
    for name, (source, shape) in TENSORS.items():
        array = np.ascontiguousarray(numpy_helper.to_array(stored["model." + source]), "<f4")
        if array.shape != shape:
            sys.exit(f"{source} has shape {array.shape}, not {shape}")
        tensors[name] = array
    write_safetensors(args.out, tensors, {
        "source": f"silero-vad {version}, {ONNX}",
        "source_sha256": hashlib.sha256(data).hexdigest(),
        "licence": "MIT, Copyright (c) 2020-present Silero Team",
    })
    print(f"{args.out}: {sum(a.size for a in tensors.values())} parameters of {version}")


if __name__ == "__main__":
    main()
