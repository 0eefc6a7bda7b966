#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The voice encoder of Resemblyzer as a safetensors file in f16, for src/models/ge2e. The source is
the package's wheel, or pretrained.pt out of it. The file is a pickle, which is read with torch's
weights_only loader; the state of the optimiser in it is left out."""
import argparse
import hashlib
import io
import json
import struct
import sys
import zipfile

import numpy as np
import torch

PICKLE = "resemblyzer/pretrained.pt"
TENSORS = {"linear.weight": (256, 256), "linear.bias": (256,)}
for layer in range(3):
    TENSORS[f"lstm.weight_ih_l{layer}"] = (1024, 256 if layer else 40)
    TENSORS[f"lstm.weight_hh_l{layer}"] = (1024, 256)
    TENSORS[f"lstm.bias_ih_l{layer}"] = (1024,)
    TENSORS[f"lstm.bias_hh_l{layer}"] = (1024,)


def our_name(name):
    """lstm.weight_ih_l0 -> lstm.0.weight_ih"""
    if not name.startswith("lstm."):
        return name
    kind, layer = name[5:].rsplit("_l", 1)
    return f"lstm.{layer}.{kind}"


def read_pickle(path):
    """The model's bytes, and the version of the package that holds them."""
    if path.endswith(".whl"):
        with zipfile.ZipFile(path) as wheel:
            metadata = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
            lines = wheel.read(metadata).decode("utf-8").splitlines()
            version = next(l.split(": ")[1] for l in lines if l.startswith("Version: "))
            return wheel.read(PICKLE), version
    with open(path, "rb") as file:
        return file.read(), "unknown"


def write_safetensors(path, tensors, metadata):
    header, at = {"__metadata__": metadata}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": {"<f2": "F16", "<f4": "F32"}[array.dtype.str],
                        "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-(8 + len(text)) % 64)  # data begins at a cache line
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", help="the wheel, or pretrained.pt out of it")
    parser.add_argument("out")
    args = parser.parse_args()
    data, version = read_pickle(args.source)
    state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)["model_state"]
    tensors = {}
    for name, shape in TENSORS.items():
        array = state[name].numpy()
        if array.shape != shape:
            sys.exit(f"{name} has shape {array.shape}, not {shape}")
        # Vectors are small, and sums begin with them: they stay exact.
        dtype = "<f2" if array.ndim == 2 else "<f4"
        tensors[our_name(name)] = np.ascontiguousarray(array, dtype)
    write_safetensors(args.out, tensors, {
        "source": f"Resemblyzer {version}, {PICKLE}",
        "source_sha256": hashlib.sha256(data).hexdigest(),
        "licence": "Apache-2.0, https://github.com/resemble-ai/Resemblyzer",
        "changes": "weights only, rounded to f16, other names",
    })
    print(f"{args.out}: {sum(a.size for a in tensors.values())} parameters of {version}")


if __name__ == "__main__":
    main()
