#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The benchmarks against peers take too long for a check; what they would run is looked at: every
engine in the modes that it has, with the same settings, and nothing for what is wrongly asked.

    benchmarks.py PROGRAM      PROGRAM: a built vocis
"""
import json
import os
import shlex
import subprocess
import sys

from csource import ROOT, finish

JFK = ROOT / "tests/data/audio/jfk.wav"


def run(name, *options):
    """(exit status, standard output)"""
    env = {k: v for k, v in os.environ.items() if k != "VOCIS_TEST_DATA"}
    done = subprocess.run([sys.executable, ROOT / "bench" / name, *options], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout


def dry(name, *options):
    """The command lines that would be run, split into words."""
    status, out = run(name, "--vocis", sys.argv[1], "--dry-run", "--model", "some/base", *options)
    return [shlex.split(line) for line in out.splitlines()] if status == 0 else []


def check_help():
    for name in ("peers", "quant"):
        status, out = run(name, "--help")
        if status or "--dry-run" not in out:
            yield f"bench/{name} --help ends with {status}"


def check_refusals():
    wrong = [("peers", "--modes", "f33"), ("peers", "--modes", "f32-beam0"),
             ("peers", "--peers", "nobody"), ("peers", "--runs", "0"),
             ("peers", "--reference", JFK),
             ("quant", "--beams", "1,x"), ("quant", "--threads", "0")]
    for name, *options in wrong:
        if run(name, *options, "--dry-run")[0] != 2:
            yield f"bench/{name} takes {' '.join(str(o) for o in options)}"
    for option in ("--rounds", "--minutes"):
        if run("hour", option, "0")[0] != 2:
            yield f"bench/hour takes {option} 0"


def check_vocis():
    found = dry("peers", "--peers", "none", "--threads", "3",
                "--modes", "f32,int8-batch16,bf16-beam5-notimes")
    expected = ["--compute f32 --beam-size 1",
                "--compute int8 --beam-size 1 --temperature 0 --no-fallback --chunking vad "
                "--batch-size 16",
                "--compute bf16 --beam-size 5 --temperature 0 --no-fallback --without-timestamps"]
    lines = [" ".join(words) for words in found]
    if len(lines) != len(expected):
        yield f"vocis would run {len(lines)} times, not {len(expected)}"
    for line, part in zip(lines, expected):
        if part not in line or "--threads 3" not in line or not line.endswith(str(JFK)):
            yield f"no {part} in {line}"


def check_peers():
    found = [words for words in dry("peers", "--with", "openai", "--modes",
                                    "f32,bf16,int4,f32-batch8-times,int8-beam5-notimes")
             if words[1] != "transcribe"]
    jobs = [(words[2], json.loads(words[3])) for words in found]
    got = [(name, j["arithmetic"], j["beam"], j["batch"], j["times"]) for name, j in jobs]
    expected = [("faster-whisper", "float32", 1, 0, None),
                ("faster-whisper", "float32", 1, 8, True),
                ("faster-whisper", "int8", 5, 0, False),
                ("whisper.cpp", "f16", 1, 0, None),
                ("whisper.cpp", "q4_0", 1, 0, None),
                ("whisper.cpp", "q8_0", 5, 0, False),
                ("openai-whisper", "float32", 1, 0, None)]
    if got != expected:
        yield f"the peers would run {got}, not {expected}"
    for name, job in jobs:
        if (job["audio"], job["language"], job["threads"]) != (str(JFK), "en", 2):
            yield f"{name} would run with {job}"


def check_quant():
    found = [" ".join(words) for words in dry("quant", "--types", "f32,int8", "--beams", "1,5")]
    expected = [f"--compute {kind} --beam-size {beam} --no-fallback"
                for beam in (1, 5) for kind in ("f32", "int8")]
    if len(found) != len(expected) or not all(e in f for f, e in zip(found, expected)):
        yield f"quant would run {found}"


def main():
    problems = [p for check in (check_help, check_refusals, check_vocis, check_peers, check_quant)
                for p in check()]
    finish(problems, "2 benchmarks")


main()
