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
import argparse
import json
import random
import subprocess
import tempfile
import wave
from pathlib import Path

from measure import VOCIS, decode, parse, word_error_rate

RATE = 16000


def compose(clips, order, path):
    """Writes the clips in the order of that number; returns their words."""
    chosen = list(range(len(clips)))
    random.Random(order).shuffle(chosen)
    with wave.open(str(path), "wb") as w:
        w.setparams((1, 2, RATE, 0, "NONE", ""))
        for i in chosen:
            pause = random.Random(order * 1000 + i).uniform(0, 0.4)
            w.writeframes(clips[i][0] + bytes(2 * int(RATE * pause)))
    return " ".join(clips[i][1] for i in chosen)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--orders", type=int, default=6)
    parser.add_argument("--model", default="base")
    args, options = parse(parser)
    lines = map(json.loads, args.manifest.read_text().splitlines())
    clips = [(decode(args.manifest.parent / line["audio"], "s16le"), line["text"])
             for line in lines]
    errors = 0
    with tempfile.TemporaryDirectory() as name:
        audio = Path(name) / "joined.wav"
        for order in range(args.orders):
            right = compose(clips, order, audio)
            document = subprocess.run([VOCIS, "transcribe", "--model", args.model, "-l", "en", "-q",
                                       "-f", "json", *options, audio], stdout=subprocess.PIPE,
                                      check=True).stdout
            rate = word_error_rate(right, json.loads(document)["text"])
            print(f"order {order}: {100 * rate:5.2f} %", flush=True)
            errors += rate
    print(f"mean:    {100 * errors / args.orders:5.2f} %")


if __name__ == "__main__":
    main()
