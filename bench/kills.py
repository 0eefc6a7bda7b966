#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is nothing lost and nothing different when vocis transcribe --resume is killed? Transcribes a
recording once undisturbed; then again and again with kill -9 at random moments, each time until a
run comes to its end, and compares every output (text and subtitles byte for byte, of JSON all but
seconds and memory) with the undisturbed one.

    kills.py AUDIO [--kills N] [--model MODEL] [-- options of vocis transcribe]

Example:
  bench/kills.py talk.flac --kills 100 -- --compute int8 --chunking vad
"""
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import VOCIS, parse, parser_of, say


def contents(folder):
    """{name: bytes or JSON}, without what no two runs have in common."""
    found = {}
    for path in folder.iterdir():
        found[path.name] = path.read_bytes()
        if path.suffix == ".json":
            document = found[path.name] = json.loads(found[path.name])
            del document["peak_memory_bytes"]
            for seconds in ("total", "mel", "cut", "encode", "decode"):
                del document["timings"][seconds]
    return found


def main():
    parser = parser_of(__doc__)
    parser.add_argument("audio", type=Path)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args, options = parse(parser)
    chance = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as name:
        command = [VOCIS, "transcribe", "--model", args.model, "-q", "-f", "txt,srt,json",
                   "--resume", *options, args.audio, "-o"]
        plain, out = Path(name) / "plain", Path(name) / "out"
        begin = time.monotonic()
        subprocess.run([*command, plain], check=True)
        seconds = time.monotonic() - begin
        want = contents(plain)
        kills = rounds = 0
        killed = False
        while kills < args.kills or killed:
            process = subprocess.Popen([*command, out])
            try:
                process.wait(chance.uniform(0, seconds) if kills < args.kills else None)
            except subprocess.TimeoutExpired:
                process.kill()
            status = process.wait()
            killed = status == -signal.SIGKILL
            if killed:
                kills += 1
                continue
            rounds += 1
            if status or contents(out) != want:
                say(f"after {kills} kills: exit status {status}, or other output")
                return 1
            for path in out.iterdir():
                path.unlink()
        print(f"{kills} kills, {rounds} runs to the end: every output as undisturbed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
