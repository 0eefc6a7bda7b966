#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden subtitles, from the writers of openai-whisper.

    pip download --no-deps --no-binary :all: openai-whisper==20250625, unpack, then
    python3 tools/golden/subtitles.py UNPACKED/whisper/utils.py tests/data/subtitles/whisper.json

Sets of segments with times of words (some written by hand, some drawn from a fixed seed, with
pauses on both sides of the 3 s at which lines break) go through WriteSRT and WriteVTT with many
settings. Only the module `utils` is loaded, so torch is not needed. Words have neither blanks alone
nor characters that vocis escapes and the reference does not.
"""
import importlib.util
import io
import json
import random
import sys

WORDS = ("the a of and speech, recognition word words. yes no! really? well; twenty-one "
         "extraordinarily incomprehensibilities time I we're O'Neil's \"quoted\" (so) 3.5 $20 "
         "naïve Straße élan žluťoučký данные слово. λόγος café").split()
OPTIONS = [
    {},
    {"highlight_words": True},
    {"max_words_per_line": 1},
    {"max_words_per_line": 3},
    {"max_line_width": 20},
    {"max_line_width": 42, "max_line_count": 2},
    {"max_line_width": 20, "max_line_count": 1},
    {"max_line_width": 12, "max_line_count": 3, "highlight_words": True},
    {"max_line_width": 1, "max_line_count": 1},
    {"max_line_width": 25, "max_words_per_line": 4},
    {"max_line_width": 30, "max_line_count": 2, "max_words_per_line": 2},
    {"max_line_count": 1},
    {"max_words_per_line": 2, "highlight_words": True},
]


def segment(words):
    return {"start": words[0]["start"], "end": words[-1]["end"],
            "text": "".join(w["word"] for w in words), "words": words}


def timed(text, start, step=0.4, gap=0.0):
    words = []
    for i, word in enumerate(text.split()):
        begin = round(start + i * (step + gap), 2)
        words.append({"word": " " + word, "start": begin, "end": round(begin + step, 2)})
    return words


def by_hand():
    yield [segment(timed("And so, my fellow Americans, ask not what your country can do for you, "
                         "ask what you can do for your country.", 0.3))]
    yield [segment(timed("One two three.", 0.0)), segment(timed("After a pause of three.", 3.8)),
           segment(timed("After a longer one.", 8.41, 0.2)),
           segment(timed("Hours later.", 3661.04, 0.25, 0.1))]
    # characters of a script without blanks, and words of one character
    yield [segment([{"word": c, "start": round(i * 0.2, 2), "end": round(i * 0.2 + 0.2, 2)}
                    for i, c in enumerate("今日は、いい天気ですね。")])]
    # a pause of 3 s whose two doubles differ by more than that, words without length
    yield [segment([{"word": " before", "start": 4.4, "end": 4.9},
                    {"word": " exactly", "start": 7.4, "end": 7.4},
                    {"word": " three", "start": 7.4, "end": 7.4},
                    {"word": " seconds", "start": 10.4, "end": 11.0}])]


def drawn(rng, n_segments):
    segments, now = [], rng.choice([0.0, 0.32, 59.9])
    for _ in range(n_segments):
        words = []
        for _ in range(rng.randint(1, 18)):
            now += rng.choice([0, 0, 0, 0, 0.02, 0.1, 0.7, 2.9, 3.0, 3.02, 6.5])
            length = rng.choice([0, 0.02, 0.14, 0.3, 0.62, 1.8])
            word = rng.choice(WORDS)
            words.append({"word": word if rng.random() < 0.05 else " " + word,
                          "start": round(now, 2), "end": round(now + length, 2)})
            now += length
        segments.append(segment(words))
    return segments


def main():
    spec = importlib.util.spec_from_file_location("utils", sys.argv[1])
    utils = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(utils)
    rng = random.Random(7)
    sets = list(by_hand()) + [drawn(rng, n) for n in (1, 3, 8)]
    cases = []
    for i, segments in enumerate(sets):
        for options in OPTIONS:
            case = {"segments": i, "options": options}
            for name, writer in [("srt", utils.WriteSRT), ("vtt", utils.WriteVTT)]:
                out = io.StringIO()
                writer(".").write_result({"segments": segments}, out, options)
                case[name] = out.getvalue()
            cases.append(case)
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        json.dump({"reference": "openai-whisper 20250625", "segments": sets, "cases": cases}, f,
                  ensure_ascii=False, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
