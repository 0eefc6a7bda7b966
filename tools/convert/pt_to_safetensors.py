#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts an OpenAI Whisper checkpoint (.pt) to safetensors, names and types unchanged.

    pt_to_safetensors.py base.pt OUT       writes OUT/model.safetensors and OUT/config.json

Needs torch and numpy. The checkpoint is loaded with weights_only, which runs no code from it.
"""
import argparse
import json
from pathlib import Path

import torch

import weight_files as wf


def to_tensor(t):
    t = t.detach().contiguous()
    if t.dtype == torch.bfloat16:
        return wf.Tensor("BF16", t.view(torch.int16).numpy().view("<u2"))
    return wf.tensor(t.numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    checkpoint = torch.load(args.checkpoint, map_location="cpu", weights_only=True)
    if "model_state_dict" not in checkpoint or "dims" not in checkpoint:
        parser.error(f"{args.checkpoint} is no openai-whisper checkpoint")
    dims = {k: int(v) for k, v in checkpoint["dims"].items()}
    tensors = {k: to_tensor(t) for k, t in checkpoint["model_state_dict"].items()}
    args.out.mkdir(parents=True, exist_ok=True)
    wf.write_safetensors(args.out / "model.safetensors", tensors, {"dims": json.dumps(dims)})
    (args.out / "config.json").write_text(json.dumps(dims, indent=2) + "\n")


if __name__ == "__main__":
    main()
