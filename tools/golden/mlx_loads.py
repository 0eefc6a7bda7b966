#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loads folders that `vocis convert` wrote with the real mlx-whisper and mlx-audio, and lets both
transcribe a recording.

    mlx_loads.py [--native] RECORDING FOLDER...

Needs, of PyPI: "mlx[cpu]" mlx-whisper mlx-audio. Fails when a package does not load a folder, when
a weight of the network is missing, when quantised layers differ from what mlx.core.quantize makes
of FOLDER/../f16 (if that is there), or when the recording gives no text. MLX's products with
quantised matrices take minutes on a CPU, so matrices are expanded after loading; --native does not.
"""
import argparse
import sys
import warnings
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import mlx_whisper
from mlx.utils import tree_flatten
from mlx_audio.stt.utils import load as load_audio_model
from mlx_whisper.load_models import load_model as load_whisper_model
from mlx_whisper.transcribe import ModelHolder


def is_quantised(module):
    return isinstance(module, (nn.QuantizedLinear, nn.QuantizedEmbedding))


def expand(model):
    """Quantised layers become ordinary ones with the numbers that MLX reads in them."""
    def plain(module):
        if not is_quantised(module):
            return module
        scales, biases = (x.astype(mx.float32) for x in (module.scales, module.biases))
        weight = mx.dequantize(module.weight, scales, biases,
                               group_size=module.group_size, bits=module.bits)
        rows, columns = weight.shape
        if isinstance(module, nn.QuantizedEmbedding):
            other = nn.Embedding(rows, columns)
        else:
            other = nn.Linear(columns, rows, bias="bias" in module)
            if "bias" in module:
                other.bias = module.bias
        other.weight = weight
        return other

    leaves = model.leaf_modules()
    model.update_modules(nn.utils.tree_map(plain, leaves, is_leaf=nn.Module.is_module))


def check_weights(folder, model):
    """Every parameter of the network is in the file, in its shape; returns (layers, differing)."""
    stored = mx.load(str(folder / "weights.safetensors"))
    own = dict(tree_flatten(model.parameters()))
    own.pop("alignment_heads", None)
    missing = [k for k in own if k not in stored or stored[k].shape != own[k].shape]
    if missing:
        sys.exit(f"{folder}: missing or of another shape: {missing}")
    reference = folder.parent / "f16" / "weights.safetensors"
    layers = [k.removesuffix(".scales") for k in stored if k.endswith(".scales")]
    if not reference.exists():
        return len(layers), None
    full, differing = mx.load(str(reference)), 0
    for name in layers:
        columns = full[name + ".weight"].shape[1]
        group = columns // stored[name + ".scales"].shape[1]
        bits = stored[name + ".weight"].shape[1] * 32 // columns
        made = mx.quantize(full[name + ".weight"], group_size=group, bits=bits)
        ours = [stored[f"{name}.{k}"] for k in ("weight", "scales", "biases")]
        differing += not all(a.dtype == b.dtype and mx.array_equal(a, b)
                             for a, b in zip(made, ours))
    return len(layers), differing


def transcribe(folder, recording, native):
    whisper = load_whisper_model(str(folder), mx.float32)
    layers, differing = check_weights(folder, whisper)
    audio = load_audio_model(str(folder))
    if audio._processor is None:
        sys.exit(f"{folder}: mlx-audio found no tokenizer")
    for model in (whisper, audio):
        if not native:
            expand(model)
        model.set_dtype(mx.float32)  # 16-bit products are slow, too
    ModelHolder.model, ModelHolder.model_path = whisper, str(folder)
    texts = {
        "mlx-whisper": mlx_whisper.transcribe(recording, path_or_hf_repo=str(folder), fp16=False,
                                              language="en")["text"],
        "mlx-audio": audio.generate(recording, language="en", fp16=False).text,
    }
    print(f"{folder.name}: {layers} quantised layers, {differing} differ from mlx.core.quantize"
          if differing is not None else f"{folder.name}: {layers} quantised layers")
    for package, text in texts.items():
        print(f"  {package:12} {text.strip()}")
    return all(t.strip() for t in texts.values()) and not differing


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("recording")
    parser.add_argument("folders", type=Path, nargs="+")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    good = [transcribe(f.resolve(), args.recording, args.native) for f in args.folders]
    sys.exit(0 if all(good) else 1)


main()
