#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Word errors of long recordings without the luck of a single one: clips with known words are
joined in several orders, with pauses of 0 to 0.4 s, and transcribed. In another order other
sentences share a window, and windows are cut elsewhere. Prints the errors of every order and their
mean.

    orders.py CLIPS.jsonl [--orders N] [--model MODEL] [-- options of vocis transcribe]

A line of the manifest is {"audio": path, "text": words}. Needs Python 3 and ffmpeg.

Example:
  bench/orders.py clips.jsonl -- --compute int8 --chunking vad --beam-size 5
"""
import json
import random
import tempfile
from pathlib import Path

from measure import RATE, VOCIS, decode, parse, parser_of, transcript, wave_file, word_errors


def compose(clips, order, path):
    """Writes the clips in the order of that number; returns their words."""
    chosen = list(range(len(clips)))
    random.Random(order).shuffle(chosen)
    with wave_file(path) as w:
        for i in chosen:
            pause = random.Random(order * 1000 + i).uniform(0, 0.4)
            w.writeframes(clips[i][0] + bytes(2 * int(RATE * pause)))
    return " ".join(clips[i][1] for i in chosen)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--orders", type=int, default=6)
    args, options = parse(parser)
    lines = map(json.loads, args.manifest.read_text().splitlines())
    clips = [(decode(args.manifest.parent / line["audio"], "s16le"), line["text"])
             for line in lines]
    errors = 0
    with tempfile.TemporaryDirectory() as name:
        audio = Path(name) / "joined.wav"
        for order in range(args.orders):
            right = compose(clips, order, audio)
            heard = transcript(args.model, options, audio)["text"]
            rate = word_errors(VOCIS, right, heard, "en")
            print(f"order {order}: {rate:5.2f} %", flush=True)
            errors += rate
    print(f"mean:    {errors / args.orders:5.2f} %")


if __name__ == "__main__":
    main()
