#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden values of tokenizer, normalisers and error rates, from the reference's own classes.

    pip install tiktoken regex more-itertools jiwer
    pip download --no-deps --no-binary :all: openai-whisper==20250625, unpack, then
    python3 tools/golden/text.py UNPACKED/whisper tests/data/text

Only the modules `tokenizer` and `normalizers` of openai-whisper are loaded, so torch is not
needed. The inputs of tokenizer_golden.json and normalizer_golden.json are read from those files
themselves; add an entry with its text alone, run this, and the values are filled in. random.json
holds strings of many scripts and of number words from a fixed seed (characters that Unicode 14
knows, so that library versions agree). With --spelling FILE also writes the spelling map of the
English normaliser as src/text/data/english_spelling.txt has it.
"""
import argparse
import json
import random
import sys
import types
import unicodedata
import zlib
from importlib.metadata import version
from pathlib import Path

SIZES = {"english_only_51864": ("gpt2", 99), "multilingual_51865": ("multilingual", 99),
         "multilingual_v3_51866": ("multilingual", 100)}
BLOCKS = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x800),
          (0x900, 0xE00), (0xE00, 0x1100), (0x1100, 0x1200), (0x1E00, 0x2100), (0x2000, 0x2C00),
          (0x3000, 0x3400), (0x4E00, 0xA000), (0xAC00, 0xD7A4), (0xF900, 0xFFF0),
          (0x10000, 0x12000), (0x1D000, 0x1E000), (0x1F000, 0x1FB00)]
PIECES = ("won't 'd 's been n't 'm y'all mr st 1 2 12 100 1,000 3.5 0.07 5% $ €2 £ ¢7 $0.07 $20 "
          "and and a half half per cent percent point hello the ' - 20th 10k 5 th x1y2 ² ٣ १२.५ ５ "
          "1.5.2 0 00 007 . .. (uh) [x] <y> um hmm ß é ΑΣ Σ İ ﬁ _ don't 12345678901234567890123 o "
          "oh one 1s colour centre").split() + [
              " and a half", "\n", "\t", "\u00a0", "\x1c", "\u2028"]


def load(whisper):
    package = types.ModuleType("whisper")
    package.__path__ = [str(whisper)]
    sys.modules["whisper"] = package
    from whisper import tokenizer
    from whisper.normalizers.basic import BasicTextNormalizer
    from whisper.normalizers.english import EnglishTextNormalizer
    return tokenizer, BasicTextNormalizer, EnglishTextNormalizer


def special_tokens(tokenizer, name, n_languages):
    encoding = tokenizer.get_encoding(name, n_languages)
    t = tokenizer.Tokenizer(encoding, num_languages=n_languages)
    languages = list(tokenizer.LANGUAGES)[:n_languages]
    ids = {s: i for s, i in t.special_tokens.items()}
    named = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|zh|>", f"<|{languages[-1]}|>"]
    if n_languages == 100:
        named.insert(4, "<|su|>")
    named += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>",
              "<|nospeech|>", "<|notimestamps|>", "<|0.00|>", "<|30.00|>"]
    suppress = list(t.non_speech_tokens) + [t.transcribe, t.translate, t.sot, t.sot_prev, t.sot_lm,
                                            t.no_speech]
    return {"tiktoken_file": f"{name}.tiktoken", "n_base": encoding.eot_token,
            "num_languages": n_languages, "n_vocab": encoding.n_vocab,
            "ids": {s: ids[s] for s in sorted(named, key=ids.get)},
            "language_ids": {c: ids[f"<|{c}|>"] for c in languages},
            "blank_suppress_at_begin": encoding.encode(" ") + [t.eot],
            "non_speech_tokens": list(t.non_speech_tokens),
            "suppress_tokens_default": sorted(suppress)}


def random_text(rng, number_words, blocks):
    if rng.random() < 0.5:
        words = number_words if rng.random() < 0.5 else number_words + PIECES
        return rng.choice([" ", " ", "", "  "]).join(rng.choices(words, k=rng.randint(1, 10)))
    chosen = rng.choices(blocks, k=rng.randint(1, 3))
    text = ""
    for _ in range(rng.randint(1, 20)):
        if rng.random() < 0.2:
            text += rng.choice(" \n'  .")
        if rng.random() < 0.1:
            text += rng.choice(PIECES)
        text += rng.choice(rng.choice(chosen))
    return text


def edit_pairs(rng):
    """Pairs of texts, some alike, some not."""
    words = ["the", "a", "café", "one", "two", "naïve", "x"]
    for k in range(60):
        a = rng.choices(words, k=rng.randint(1, 40))
        b = rng.choices(words, k=rng.randint(0, 40))
        if k % 2:
            b = [rng.choice(words) if rng.random() < 0.15 else w for w in a if rng.random() > 0.1]
            b += rng.choices(words, k=rng.randint(0, 3))
        yield " ".join(a), " ".join(b)


def write(path, value, lines=False):
    if lines:
        head = ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in value.items() if k != "cases")
        cases = ",\n".join(json.dumps(c, separators=(",", ":")) for c in value["cases"])
        text = "{" + head + ',\n"cases": [\n' + cases + "\n]}\n"
    else:
        text = json.dumps(value, ensure_ascii=False, indent=0)
    path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("whisper", type=Path, help="folder of the reference's package")
    parser.add_argument("out", type=Path)
    parser.add_argument("--spelling", type=Path)
    args = parser.parse_args()
    tokenizer, Basic, English = load(args.whisper)
    import jiwer
    gpt2, multi = tokenizer.get_encoding("gpt2", 99), tokenizer.get_encoding("multilingual", 99)
    english = English()
    basic = {"basic": Basic(), "basic_no_diacritics": Basic(remove_diacritics=True),
             "basic_split_letters": Basic(split_letters=True)}
    made_with = {"openai-whisper": args.whisper.joinpath("version.py").read_text().split('"')[1],
                 **{p: version(p) for p in ("tiktoken", "regex", "more-itertools", "jiwer")},
                 "python": sys.version.split()[0], "unicode": unicodedata.unidata_version,
                 "zlib": zlib.ZLIB_RUNTIME_VERSION}

    def normalized(text):
        return {"english": english(text), **{k: f(text) for k, f in basic.items()}}

    def encoded(text):
        return {"gpt2": gpt2.encode_ordinary(text), "multilingual": multi.encode_ordinary(text)}

    write(args.out / "languages.json", tokenizer.LANGUAGES)
    write(args.out / "special_tokens.json",
          {k: special_tokens(tokenizer, *v) for k, v in SIZES.items()})
    path = args.out / "tokenizer_golden.json"
    write(path, [{"text": c["text"], **encoded(c["text"])} for c in json.loads(path.read_text())])
    path = args.out / "normalizer_golden.json"
    write(path, [{"in": c["in"], **normalized(c["in"])} for c in json.loads(path.read_text())])

    rng = random.Random(20250625)
    number_words = sorted(english.standardize_numbers.words)
    blocks = [[chr(c) for c in range(*b) if unicodedata.category(chr(c)) not in ("Cn", "Co")]
              for b in BLOCKS]
    texts = [random_text(rng, number_words, blocks) for _ in range(500)]
    write(args.out / "random.json",
          {"made_with": made_with,
           "cases": [{"text": t, **encoded(t), **normalized(t)} for t in texts]}, lines=True)

    cases = []
    for a, b in edit_pairs(rng):
        w, c = jiwer.process_words(a, b), jiwer.process_characters(a, b)
        cases.append({"reference": a, "hypothesis": b,
                      "word_errors": w.substitutions + w.deletions + w.insertions,
                      "char_errors": c.substitutions + c.deletions + c.insertions,
                      "ratio": len(a.encode()) / len(zlib.compress(a.encode()))})
    write(args.out / "errors.json", {"made_with": made_with, "cases": cases}, lines=True)

    if args.spelling:
        pairs = sorted(p for p in english.standardize_spellings.mapping.items() if " " not in p[0])
        args.spelling.write_text("".join(f"{k} {v}\n" for k, v in pairs))


if __name__ == "__main__":
    main()
