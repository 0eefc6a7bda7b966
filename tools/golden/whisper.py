#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Goldens of Whisper as a whole, from openai-whisper's own code.

    apt install python3-torch ffmpeg; python3 -m venv --system-site-packages VENV
    VENV/bin/pip install openai-whisper==20250625 (with --no-deps where torch is the system's)

    whisper.py random [tests/data/whisper]     tiny models whose weights are a hash of their names
    whisper.py real MODEL DATA LIST OUT NAME   real weights on every clip of LIST
    whisper.py long MODEL AUDIO OUT            real weights on one long recording

random   writes en.json, multi.json and v3.json (the shape of large-v3): encoder rows, logits,
         language, decode() with many options on jfk.wav, transcribe() on four copies of it.
         tests/models/support_hash.c makes the same weights.
real     MODEL is a CTranslate2 folder with 16 or 32 bit weights (`vocis pull base`), DATA the
         folder of recordings, LIST a golden written by this command before, or any JSON file with
         {"files": [{"file": path below DATA, "reference": transcript}]}. Writes OUT/NAME.json,
         OUT/NAME_jfk_encoder.npy and OUT/NAME_jfk_logits.json. Minutes to an hour.
long     greedy; greedy without conditioning on previous text; greedy with word times.

Shipped goldens (random): openai-whisper 20250625, torch 1.13.1 (Debian 1.13.1+dfsg-4), numpy
1.24.2. The goldens of the real weights outside the repository: openai-whisper 20250625, torch
2.8.0. All in float32 at temperature 0 without fallback.
"""
import argparse
import json
import sys
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# `import whisper` must not find this file.
sys.path = [p for p in sys.path if Path(p or ".").resolve() != ROOT / "tools/golden"]
sys.path.append(str(ROOT / "tools/convert"))

import numpy as np
import torch
import weight_files as wf
import whisper

JFK = "ggml-org__whisper.cpp/samples/jfk.wav"
GAMMA, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


# ---- random models -------------------------------------------------------------------------


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def mix_array(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def hashed(name, shape):
    """Uniform in [-scale, scale) from SplitMix64 over the name and the element's index."""
    seed = 0
    for byte in name.encode():
        seed = mix(((seed ^ byte) + GAMMA) & MASK)
    count = int(np.prod(shape))
    u = mix_array(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GAMMA) + np.uint64(seed))
    x = (u >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    norm = "ln" in name
    if norm and name.endswith(".weight"):
        return (np.float32(1) + np.float32(0.3) * x).reshape(shape)
    if name.endswith(".bias"):
        scale = np.float32(0.1)
    elif "embedding" in name:
        scale = np.float32(0.5)
    else:
        scale = np.float32(4 / np.sqrt(np.float64(np.prod(shape[1:]))))
    return (scale * x).reshape(shape)


def random_model(n_mels, n_vocab):
    dims = dict(n_mels=n_mels, n_audio_ctx=1500, n_audio_state=32, n_audio_head=2,
                n_audio_layer=2, n_vocab=n_vocab, n_text_ctx=448, n_text_state=32, n_text_head=2,
                n_text_layer=2)
    model = whisper.model.Whisper(whisper.model.ModelDimensions(**dims)).eval()
    state = {k: torch.from_numpy(hashed(k, tuple(v.shape))) for k, v in model.state_dict().items()
             if k != "encoder.positional_embedding"}
    model.load_state_dict(state, strict=False)
    return model, dims


def read_jfk():
    with wave.open(str(ROOT / "tests/data/audio/jfk.wav")) as clip:
        pcm = np.frombuffer(clip.readframes(clip.getnframes()), np.int16)
    return pcm.astype(np.float32) / 32768.0


def decoded(model, mel, **options):
    r = whisper.decode(model, mel, whisper.DecodingOptions(
        language="en", fp16=False, sample_len=60, **options))
    return {"options": options, "tokens": r.tokens, "avg_logprob": r.avg_logprob,
            "no_speech_prob": r.no_speech_prob, "compression_ratio": r.compression_ratio,
            "text": r.text}


def random_golden(n_mels, n_vocab):
    model, dims = random_model(n_mels, n_vocab)
    jfk = read_jfk()
    mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(jfk), n_mels)
    tokenizer = whisper.tokenizer.get_tokenizer(model.is_multilingual, language="en",
                                                num_languages=model.num_languages)
    prompt = list(tokenizer.sot_sequence_including_notimestamps) + \
        tokenizer.encode(" And so my fellow Americans")
    with torch.no_grad():
        audio = model.embed_audio(mel[None])
        logits = model.logits(torch.tensor([prompt]), audio)[0, -1]
    top = torch.topk(logits, 10)
    out = {"dims": dims, "encoder_first_rows": audio[0, :4].tolist(),
           "encoder_row_1499": audio[0, 1499].tolist(),
           "encoder_abs_sum": audio.abs().sum(dtype=torch.float64).item(),
           "prompt_tokens": prompt,
           "last_logits_top10": [[i, v] for i, v in zip(top.indices.tolist(), top.values.tolist())],
           "last_logits_first16": logits[:16].tolist()}
    if model.is_multilingual:
        token, p = whisper.detect_language(model, mel)
        best = sorted(p.items(), key=lambda e: -e[1])[:5]
        out["detect_language"] = {"token": token.item(), "top5": best}
    out["greedy_ts"] = decoded(model, mel)
    out["greedy_nots"] = decoded(model, mel, without_timestamps=True)
    out["beam5"] = decoded(model, mel, beam_size=5)
    out["beam5_patience2_lp0.6"] = decoded(model, mel, beam_size=5, patience=2.0,
                                           length_penalty=0.6)
    out["greedy_prompt"] = decoded(model, mel, prompt="previous words here", prefix="And so")
    out["greedy_nosuppress"] = decoded(model, mel, suppress_tokens="", suppress_blank=False)
    silence = np.zeros(7 * 16000, np.float32)
    result = whisper.transcribe(model, np.concatenate([jfk, jfk[::-1], jfk, silence, jfk]),
                                language="en", temperature=0.0, no_speech_threshold=None,
                                sample_len=40, fp16=False)
    keys = ("seek", "start", "end", "tokens", "avg_logprob", "no_speech_prob",
            "compression_ratio")
    out["transcribe_long"] = {"segments": [{k: s[k] for k in keys} for s in result["segments"]]}
    return out


def random_models(folder):
    for name, n_mels, n_vocab in (("en", 80, 51864), ("multi", 80, 51865), ("v3", 128, 51866)):
        Path(folder, name + ".json").write_text(json.dumps(random_golden(n_mels, n_vocab)) + "\n")
        print(name, flush=True)


# ---- real weights --------------------------------------------------------------------------


def load_ct2(folder):
    _, _, tensors, aliases = wf.read_ct2(Path(folder) / "model.bin")
    openai = wf.ct2_to_openai(tensors, aliases)
    dims = wf.whisper_dims(openai)
    model = whisper.model.Whisper(whisper.model.ModelDimensions(**dims)).eval()
    model.load_state_dict({k: torch.from_numpy(np.array(wf.to_float32(t)))
                           for k, t in openai.items()})
    return model, dims


def transcribed(model, audio, **options):
    """Text, segments and, when asked for, words, rounded for the file."""
    r = whisper.transcribe(model, audio, temperature=0.0, fp16=False, **options)
    segments = []
    for s in r["segments"]:
        segment = {"seek": s["seek"], "start": round(s["start"], 2), "end": round(s["end"], 2),
                   "tokens": s["tokens"], "temperature": s["temperature"]}
        for key in ("avg_logprob", "compression_ratio", "no_speech_prob"):
            segment[key] = round(s[key], 6)
        if "words" in s:
            segment["words"] = [{"word": w["word"], "start": round(w["start"], 2),
                                 "end": round(w["end"], 2), "p": round(w["probability"], 4)}
                                for w in s["words"]]
        segments.append(segment)
    return {"text": r["text"], "segments": segments}


def languages(model, audio):
    mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(audio), model.dims.n_mels)
    _, p = whisper.detect_language(model, mel)
    return {k: round(v, 5) for k, v in sorted(p.items(), key=lambda e: -e[1])[:5]}


def clip_golden(model, path, entry):
    audio = whisper.load_audio(str(path))
    out = {"file": entry["file"], "reference": entry.get("reference")}
    if model.is_multilingual:
        out["language"] = languages(model, audio)
    out["greedy"] = transcribed(model, audio, word_timestamps=True)
    if path.stat().st_size < 1 << 20:
        out["beam5"] = transcribed(model, audio, beam_size=5)
    if len(audio) > 30 * 16000:
        out["greedy_without_words"] = transcribed(model, audio)
    out["seconds"] = round(len(audio) / 16000, 3)
    return out


def jfk_golden(model, audio, out, name):
    mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(audio), model.dims.n_mels)
    tokenizer = whisper.tokenizer.get_tokenizer(model.is_multilingual, language="en",
                                                num_languages=model.num_languages)
    ids = list(tokenizer.sot_sequence_including_notimestamps) + tokenizer.encode(
        " And so my fellow Americans ask not what your country can do for you")
    with torch.no_grad():
        encoded = model.embed_audio(mel[None])
        logits = model.logits(torch.tensor([ids]), encoded)[0]
    np.save(out / f"{name}_jfk_encoder.npy", encoded[0].numpy())
    top = torch.topk(logits, 20)
    golden = {"input_ids": ids, "top20_ids": top.indices.tolist(),
              "top20_logits": [[round(v, 4) for v in row] for row in top.values.tolist()],
              "logsumexp": [round(v, 4) for v in torch.logsumexp(logits, -1).tolist()]}
    (out / f"{name}_jfk_logits.json").write_text(json.dumps(golden))


def header(name, dims):
    return {"model": name, "dims": dims, "threads": torch.get_num_threads(),
            "torch": torch.__version__, "whisper": whisper.__version__}


def real(args):
    model, dims = load_ct2(args.model)
    out, data = Path(args.out), Path(args.data)
    jfk_golden(model, whisper.load_audio(str(data / JFK)), out, args.name)
    golden = {**header(args.name, dims), "files": []}
    for entry in json.loads(Path(args.list).read_text())["files"][: args.limit]:
        golden["files"].append(clip_golden(model, data / entry["file"], entry))
        print(entry["file"], flush=True)
    (out / f"{args.name}.json").write_text(json.dumps(golden))


def long_form(args):
    model, _ = load_ct2(args.model)
    audio = whisper.load_audio(args.audio)
    runs = {"greedy": {}, "greedy_unconditioned": {"condition_on_previous_text": False},
            "greedy_words": {"word_timestamps": True}}
    golden = {"model": Path(args.model).name, "audio": Path(args.audio).name,
              "runs": {k: transcribed(model, audio, **v) for k, v in runs.items()}}
    Path(args.out).write_text(json.dumps(golden))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("random")
    p.add_argument("folder", nargs="?", default=str(ROOT / "tests/data/whisper"))
    p = commands.add_parser("real")
    for name in ("model", "data", "list", "out", "name"):
        p.add_argument(name)
    p.add_argument("--limit", type=int, help="only so many clips, to try things out")
    p = commands.add_parser("long")
    for name in ("model", "audio", "out"):
        p.add_argument(name)
    args = parser.parse_args()
    torch.set_num_threads(2)
    if args.command == "random":
        random_models(args.folder)
    else:
        {"real": real, "long": long_form}[args.command](args)


if __name__ == "__main__":
    main()
