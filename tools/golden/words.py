#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Goldens of word times, from openai-whisper's own code.

    python3 -m venv VENV; VENV/bin/pip install openai-whisper==20250625
    words.py rules [tests/data]               what needs no weights
    words.py models [tests/data/whisper]      tiny models whose weights are a hash of their names
    words.py silence MODEL [OUT]              real weights on speech with silence between

rules    writes decode/align.json (median filter, dynamic time warping), text/words.json (tokens to
         words, punctuation) and pipeline/words.json: windows of transcribe() with a stand-in for
         the model, so that what words do to segments and to the next window is seen alone.
models   writes words.json: find_alignment() and transcribe() with word times, with and without
         hallucination_silence_threshold; the models are those of whisper.py.
silence  MODEL is a CTranslate2 folder with 16 or 32 bit weights (`vocis pull base`), whose
         config.json names the alignment heads. Writes words_silence.json.

Shipped goldens: openai-whisper 20250625, torch 2.8.0, numpy 2.4.6. All in float32.
"""
import argparse
import importlib.util
import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent.parent
# `import whisper` must not find the file beside this one.
sys.path = [p for p in sys.path if Path(p or ".").resolve() != ROOT / "tools/golden"]
sys.path.append(str(ROOT / "tools/convert"))

import numpy as np
import torch
import whisper
from whisper.tokenizer import get_tokenizer

timing = sys.modules["whisper.timing"]
transcribing = sys.modules["whisper.transcribe"]


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size, flush=True)


# ---- numbers ---------------------------------------------------------------------------------


def starts(matrix):
    """Where each row begins: jump_times of find_alignment, in frames."""
    text, time = timing.dtw(-torch.tensor(matrix, dtype=torch.float32))
    jumps = np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)
    return time[jumps].tolist()


def numbers(rng):
    median = []
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 13, 40):
        x = [rng.randint(-9, 9) / 2 for _ in range(n)]
        median.append({"x": x, "y": timing.median_filter(torch.tensor([x]), 7)[0].tolist()})
    warp = []
    for n, m in ((1, 1), (1, 5), (5, 1), (2, 3), (7, 7), (9, 30), (12, 8), (25, 60)):
        for levels in (1, 2, 3, 1000):  # few levels: many ties
            matrix = [[rng.randrange(levels) / 4 for _ in range(m)] for _ in range(n)]
            warp.append({"x": matrix, "start": starts(matrix)})
    return {"median": median, "dtw": warp}


# ---- text ------------------------------------------------------------------------------------

TEXTS = {
    "en": " Hello, world! It's (really) 3.5% \"better\" -- isn't it? ... e.g. [x] co-op, O'Neil's\n"
          " new",
    "es": " ¿Qué tal? ¡Muy bien, señor! El 25 de año.",
    "de": " Größe »ähnlich« – Straßenbahn, 1.000,50 €.",
    "ru": " Привет, как дела? «Хорошо».",
    "ar": " مرحبا بالعالم، كيف حالك؟",
    "he": " שלום עולם!",
    "hi": " नमस्ते दुनिया, कैसे हो?",
    "ko": " 안녕하세요, 세계! 뷁",
    "zh": "甚至出現交易幾乎停滯的情況。你好，世界！𠮷",
    "yue": "我哋去邊度食飯呀？",
    "ja": "こんにちは、世界。「元気」ですか？ラーメン",
    "th": "สวัสดีชาวโลก ครับ",
    "my": "မင်္ဂလာပါ",
    "lo": "ສະບາຍດີ",
    "el": " Καλημέρα κόσμε\u3000wide\u00a0space 🎉👩‍👩‍👧 ok",
}


def split(tokenizer, ids):
    words, tokens = tokenizer.split_to_word_tokens(ids + [tokenizer.eot])
    if len(tokens) <= 1:
        return {"ids": ids, "words": [], "counts": []}
    return {"ids": ids, "words": words[:-1], "counts": [len(t) for t in tokens[:-1]]}


def texts(rng):
    cases = []
    for language, text in TEXTS.items():
        tokenizer = get_tokenizer(True, num_languages=100, language=language)
        ids = tokenizer.encode(text)
        for cut in {len(ids), len(ids) - 1, len(ids) // 2}:  # also within a character
            cases.append({"language": language, **split(tokenizer, ids[:cut])})
    english = get_tokenizer(False)
    for language in ("en", "es", "zh", "el"):
        cases.append({"language": None, **split(english, english.encode(TEXTS[language]))})
    for i in range(60):  # what no text gives
        language = rng.choice(["en", "zh", None])
        tokenizer = english if language is None else get_tokenizer(
            True, num_languages=100, language=language)
        ids = [rng.randrange(256 if i % 2 else 50000) for _ in range(rng.randint(0, 12))]
        ids = [i for i in ids if b"\0" not in tokenizer.encoding.decode_single_token_bytes(i)]
        cases.append({"language": language, **split(tokenizer, ids)})
    merges = []
    pieces = [" a", "b", " (", "(", ")", ".", ",", " \"", "\"", " ", " '", "'", "!?", " -", "。",
              " word", "”)", "?", " “", "“¿", ""]
    marks = ("\"'“¿([{-", "\"'.。,，!！?？:：”)]}、")
    for _ in range(80):
        words = [rng.choice(pieces) for _ in range(rng.randint(0, 9))]
        prepended, appended = marks if rng.random() < 0.8 else ("", rng.choice(["", ".,"]))
        alignment = [timing.WordTiming(w, [0] * (i + 1), 0, 0, 0) for i, w in enumerate(words)]
        timing.merge_punctuations(alignment, prepended, appended)
        merges.append({"words": words, "prepended": prepended, "appended": appended,
                       "merged": [t.word for t in alignment],
                       "counts": [len(t.tokens) for t in alignment]})
    return {"split": cases, "merge": merges}


# ---- windows ---------------------------------------------------------------------------------


class StandIn:
    """Instead of a model: its text is made up, and so are its words. Keeps what transcribe() makes
    of every window."""

    def __init__(self, rng, threshold, content_frames):
        self.rng, self.threshold, self.content_frames = rng, threshold, content_frames
        self.dims = SimpleNamespace(n_mels=80, n_audio_ctx=1500, n_text_ctx=448)
        self.device, self.is_multilingual, self.num_languages = torch.device("cpu"), False, 99
        self.tokenizer = get_tokenizer(False)
        self.windows, self.calls = [], 0

    def segment_tokens(self, start, end):
        begin = self.tokenizer.timestamp_begin
        n = self.rng.choice([0, 1, 2, 3, 5, 9])
        return [begin + start, *(self.rng.randrange(1000, 20000) for _ in range(n)), begin + end]

    def decode(self, mel, options):
        frame = sys._getframe(2).f_locals  # decode_with_fallback, then transcribe
        if self.windows and self.windows[-1].get("next") is None:
            w = self.windows[-1]
            w["next"], w["last_speech_after"] = frame["seek"], frame["last_speech_timestamp"]
            w["kept"] = len(frame["all_segments"]) - w["before"]
        self.calls += 1
        if self.calls > 40:
            raise StopIteration
        self.before = len(frame["all_segments"])
        size = min(3000, self.content_frames - frame["seek"])
        tokens, at, last = [], 0, max(1, size // 2)
        for _ in range(self.rng.randint(1, 5)):
            start = min(last, at + self.rng.choice([0, 0, 10, 60, 200]))
            at = min(last, start + self.rng.choice([0, 20, 80, 150, 400]))
            tokens += self.segment_tokens(start, at)
        ending = self.rng.random()
        if ending < 0.3:
            tokens += [self.tokenizer.timestamp_begin + at]  # a pair
        elif ending < 0.5:
            tokens = tokens[:-1] + [9999]  # unfinished
        return SimpleNamespace(tokens=tokens, temperature=0.0, avg_logprob=-0.3, text="",
                               compression_ratio=1.0, no_speech_prob=0.0)

    def find_alignment(self, model, tokenizer, text_tokens, mel, num_frames, **_):
        rng, at, last, words, rest = self.rng, 0, num_frames // 2, [], list(text_tokens)
        odd = rng.random() < 0.5
        while rest and rng.random() < 0.98:
            n = min(len(rest), rng.choice([1, 1, 1, 2, 3]))
            start = min(last, at + rng.choice([0, 0, 0, 0, 30, 120]))
            at = min(last, start + rng.choice([0, 1, 3, 15, 20, 25, 40, 150]))
            text = rng.choice([" w", " word", ".", ",", "?", " (", " said", "\""])
            words.append(timing.WordTiming(text, rest[:n], start / 50, at / 50,
                                           rng.randint(10, 250 if odd else 990) / 1000))
            rest = rest[n:]
        self.alignment = [(w.word, len(w.tokens), w.start, w.end, w.probability) for w in words]
        return words

    def add_word_timestamps(self, **kwargs):
        tokenizer, segments = kwargs["tokenizer"], kwargs["segments"]
        drafts = [{"start": s["start"], "end": s["end"],
                   "n": sum(t < tokenizer.eot for t in s["tokens"])} for s in segments]
        ADD_WORD_TIMESTAMPS(**kwargs)
        frame = sys._getframe(1).f_locals
        self.windows.append({
            "seek": segments[0]["seek"], "size": kwargs["num_frames"],
            "last_speech": kwargs["last_speech_timestamp"], "threshold": self.threshold,
            "content": self.content_frames, "single_ending": frame["single_timestamp_ending"],
            "from_timestamps": frame["seek"], "before": self.before,
            "alignment": self.alignment, "drafts": drafts,
            "result": [{"start": s["start"], "end": s["end"],
                        "words": [(w["word"], w["start"], w["end"]) for w in s["words"]]}
                       for s in segments]})


ADD_WORD_TIMESTAMPS = timing.add_word_timestamps


def windows(rng):
    kept = []
    for i in range(24):
        content = rng.choice([2500, 6100, 12034])
        model = StandIn(rng, [None, 0.5, 2.0][i % 3], content)
        timing.find_alignment = model.find_alignment
        transcribing.add_word_timestamps = model.add_word_timestamps
        try:
            whisper.transcribe(model, np.zeros(content * 160, np.float32), temperature=0.0,
                               word_timestamps=True,
                               hallucination_silence_threshold=model.threshold)
        except StopIteration:
            pass
        # The reference may stand still, which we do not.
        kept += [w for w in model.windows if w.get("next") is not None and w["next"] > w["seek"]]
    for w in kept:
        del w["before"]
    return kept


def rules(args):
    folder, rng = Path(args.folder or ROOT / "tests/data"), random.Random(7)
    write(folder / "decode/align.json", numbers(rng))
    write(folder / "text/words.json", texts(rng))
    write(folder / "pipeline/words.json", {"windows": windows(rng)})


# ---- models ----------------------------------------------------------------------------------


def sibling():
    path = ROOT / "tools/golden/whisper.py"
    spec = importlib.util.spec_from_file_location("golden_whisper", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def transcribed(model, audio, **options):
    r = whisper.transcribe(model, audio, temperature=0.0, fp16=False, word_timestamps=True,
                           **options)
    return [{"seek": s["seek"], "start": round(s["start"], 4), "end": round(s["end"], 4),
             "tokens": s["tokens"],
             "words": [[w["word"], round(w["start"], 4), round(w["end"], 4),
                        round(w["probability"], 7)] for w in s["words"]]}
            for s in r["segments"]]


def aligned(model, audio, text):
    tokenizer = get_tokenizer(model.is_multilingual, language="en",
                              num_languages=model.num_languages)
    mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(audio), model.dims.n_mels)
    ids, frames = tokenizer.encode(text), len(audio) // 160
    words = timing.find_alignment(model, tokenizer, ids, mel, frames)
    return {"ids": ids, "words": [[w.word, w.start, w.end, w.probability] for w in words]}


TEXT = " And so, my fellow Americans, ask not what your country can do for you, " * 4


def models(args):
    other, out = sibling(), {}
    jfk = other.read_jfk()
    long = np.concatenate([jfk, jfk[::-1], jfk, np.zeros(7 * 16000, np.float32), jfk])
    for name, n_mels, n_vocab in (("en", 80, 51864), ("multi", 80, 51865), ("v3", 128, 51866)):
        model, _ = other.random_model(n_mels, n_vocab)
        options = dict(language="en", no_speech_threshold=None, sample_len=40)
        out[name] = {"alignment": aligned(model, jfk, TEXT),
                     "words": transcribed(model, long, **options),
                     "silence": transcribed(model, long, hallucination_silence_threshold=1.0,
                                            **options)}
        print(name, flush=True)
    write(Path(args.folder or ROOT / "tests/data/whisper") / "words.json", out)


def silence(args):
    other = sibling()
    model, dims = other.load_ct2(args.model)
    heads = json.loads((Path(args.model) / "config.json").read_text())["alignment_heads"]
    mask = torch.zeros(dims["n_text_layer"], dims["n_text_head"], dtype=torch.bool)
    for layer, head in heads:
        mask[layer, head] = True
    model.register_buffer("alignment_heads", mask.to_sparse(), persistent=False)
    jfk = other.read_jfk()
    out = {"heads": heads, "runs": []}
    for parts in args.parts:
        audio = np.concatenate([jfk if p == "jfk" else np.zeros(int(float(p) * 16000), np.float32)
                                for p in parts.split(",")])
        for threshold in (None, 1.0):
            segments = transcribed(model, audio, language="en", no_speech_threshold=None,
                                   hallucination_silence_threshold=threshold)
            out["runs"].append({"parts": parts.split(","), "threshold": threshold,
                                "segments": segments})
            print(parts, threshold, [(s["seek"], s["start"], s["end"],
                                      "".join(w[0] for w in s["words"])) for s in segments])
    write(Path(args.out or ROOT / "tests/data/whisper/words_silence.json"), out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("rules", "models"):
        commands.add_parser(name).add_argument("folder", nargs="?")
    p = commands.add_parser("silence")
    p.add_argument("model")
    p.add_argument("out", nargs="?")
    p.add_argument("--parts", nargs="*", default=["jfk,61,jfk"])
    args = parser.parse_args()
    torch.set_num_threads(2)
    {"rules": rules, "models": models, "silence": silence}[args.command](args)


if __name__ == "__main__":
    main()
