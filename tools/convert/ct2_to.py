#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a CTranslate2 Whisper model (the folders of faster-whisper) in another format.

    ct2_to.py FOLDER hf OUT              model.safetensors, config.json, generation_config.json
    ct2_to.py FOLDER mlx OUT             weights.safetensors (float16), config.json
    ct2_to.py FOLDER mlx-q4|mlx-q8 OUT   the same, affine quantised in groups of 64
    ct2_to.py FOLDER ct2-float32|ct2-bfloat16|ct2-int16|ct2-int8 OUT
    ct2_to.py FOLDER ggml OUT.bin --filters mel_filters.npz --vocabulary multilingual.tiktoken

Only numpy is needed. The source is read as float; nothing is exact in the quantised outputs.
"""
import argparse
import json
import shutil
from pathlib import Path

import numpy as np

import weight_files as wf


def load_json(path):
    return json.loads(path.read_text()) if path.exists() else {}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def copy_tokenizer(source, out):
    for name in ("tokenizer.json", "vocabulary.txt", "vocabulary.json", "preprocessor_config.json"):
        if (source / name).exists():
            shutil.copy(source / name, out / name)


def special_tokens(source):
    """{"<|en|>": 50259, ...} from tokenizer.json; empty when it is not there."""
    added = load_json(source / "tokenizer.json").get("added_tokens", [])
    return {t["content"]: t["id"] for t in added}


def hf_configs(source, dims):
    first_special = 50257 if dims["n_vocab"] >= 51865 else 50256
    start = first_special + 1
    config = {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper",
        "activation_function": "gelu", "scale_embedding": False, "tie_word_embeddings": True,
        "num_mel_bins": dims["n_mels"], "max_source_positions": dims["n_audio_ctx"],
        "d_model": dims["n_audio_state"], "encoder_attention_heads": dims["n_audio_head"],
        "encoder_layers": dims["n_audio_layer"], "encoder_ffn_dim": 4 * dims["n_audio_state"],
        "vocab_size": dims["n_vocab"], "max_target_positions": dims["n_text_ctx"],
        "decoder_attention_heads": dims["n_text_head"], "decoder_layers": dims["n_text_layer"],
        "decoder_ffn_dim": 4 * dims["n_text_state"], "max_length": dims["n_text_ctx"],
        "bos_token_id": first_special, "eos_token_id": first_special,
        "pad_token_id": first_special, "decoder_start_token_id": start, "torch_dtype": "float16",
    }
    ct2 = load_json(source / "config.json")
    special = special_tokens(source)
    generation = {
        "bos_token_id": first_special, "eos_token_id": first_special,
        "pad_token_id": first_special, "decoder_start_token_id": start,
        "max_length": dims["n_text_ctx"], "max_initial_timestamp_index": 50,
        "is_multilingual": dims["n_vocab"] >= 51865,
    }
    for key, source_key in (("alignment_heads", "alignment_heads"),
                            ("suppress_tokens", "suppress_ids"),
                            ("begin_suppress_tokens", "suppress_ids_begin")):
        if source_key in ct2:
            generation[key] = ct2[source_key]
    if "<|notimestamps|>" in special:
        generation["no_timestamps_token_id"] = special["<|notimestamps|>"]
    if generation["is_multilingual"] and special:
        ids = set(ct2.get("lang_ids", []))
        generation["lang_to_id"] = {k: v for k, v in special.items() if v in ids}
        generation["task_to_id"] = {k: special[f"<|{k}|>"] for k in ("transcribe", "translate")}
    return config, generation


def write_hf(source, openai, out):
    config, generation = hf_configs(source, wf.whisper_dims(openai))
    tensors = {wf.openai_to_hf_name(k): t for k, t in openai.items()}
    wf.write_safetensors(out / "model.safetensors", tensors, {"format": "pt"})
    write_json(out / "config.json", config)
    write_json(out / "generation_config.json", generation)


def is_mlx_linear(name, t):
    return name.endswith(".weight") and t.data.ndim == 2 and "positional" not in name


def write_mlx(source, openai, out, bits=None, group=64):
    config = {**wf.whisper_dims(openai), "model_type": "whisper"}
    tensors = {}
    for name, t in wf.openai_to_mlx(openai).items():
        if bits and is_mlx_linear(name, t):
            packed, scales, biases = wf.quantise_affine(wf.to_float32(t), bits, group)
            stem = name.removesuffix(".weight")
            tensors[name] = wf.tensor(packed)
            tensors[stem + ".scales"] = wf.tensor(scales, "F16")
            tensors[stem + ".biases"] = wf.tensor(biases, "F16")
        else:
            tensors[name] = wf.cast(t, "F16")
    if bits:
        config["quantization"] = {"group_size": group, "bits": bits}
    heads = load_json(source / "config.json").get("alignment_heads")
    if heads:
        tensors["alignment_heads"] = wf.tensor(np.array(heads), "I64")
    wf.write_safetensors(out / "weights.safetensors", tensors, {"format": "mlx"})
    write_json(out / "config.json", config)


def is_ct2_weight(name):
    return name.endswith("/weight")


def write_ct2(source, model, out, kind):
    spec, revision, tensors, aliases = model
    written = {}
    for name, t in tensors.items():
        floating = t.dtype in ("F32", "F16", "BF16")
        if is_ct2_weight(name) and kind == "int8":
            written[name], written[name + "_scale"] = wf.quantise_int8(t)
        elif is_ct2_weight(name) and kind == "int16":
            written[name], written[name + "_scale"] = wf.quantise_int16(t)
        elif floating and t.data.ndim > 0:
            written[name] = wf.cast(t, "BF16" if kind == "bfloat16" else "F32")
        else:
            written[name] = t
    wf.write_ct2(out / "model.bin", spec, revision, written, aliases)
    shutil.copy(source / "config.json", out / "config.json")


def write_ggml(openai, out, filters_path, vocabulary_path):
    dims = wf.whisper_dims(openai)
    with np.load(filters_path) as z:
        filters = z[f"mel_{dims['n_mels']}"]
    tokens = wf.read_tiktoken(vocabulary_path)
    wf.write_ggml(out, dims, 1, filters, tokens, wf.ggml_tensors(openai))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=["hf", "mlx", "mlx-q4", "mlx-q8", "ggml", "ct2-float32",
                                         "ct2-bfloat16", "ct2-int16", "ct2-int8"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--filters", type=Path, help="mel_filters.npz of openai-whisper (ggml)")
    parser.add_argument("--vocabulary", type=Path, help="its .tiktoken file (ggml)")
    args = parser.parse_args()

    model = wf.read_ct2(args.folder / "model.bin")
    if model[0] != "WhisperSpec":
        parser.error(f"{args.folder} holds a {model[0]}, not a Whisper model")
    openai = wf.ct2_to_openai(model[2], model[3])
    if args.kind == "ggml":
        if not args.filters or not args.vocabulary:
            parser.error("ggml needs --filters and --vocabulary")
        write_ggml(openai, args.out, args.filters, args.vocabulary)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    if args.kind == "hf":
        write_hf(args.folder, openai, args.out)
    elif args.kind.startswith("mlx"):
        write_mlx(args.folder, openai, args.out, {"mlx": None, "mlx-q4": 4, "mlx-q8": 8}[args.kind])
    else:
        write_ct2(args.folder, model, args.out, args.kind.removeprefix("ct2-"))
    copy_tokenizer(args.folder, args.out)


if __name__ == "__main__":
    main()
