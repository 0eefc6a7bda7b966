#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `--boost` gives and costs: how many of some listed words are wrong without it and with it,
how many of all other words, and what lists do that have nothing to do with the recordings.

The list beside this file was chosen before anything was boosted: --choose prints it again, the 20
rarest (by the package wordfreq) of the words that the model missed in a run without boosting.

Examples:
  bench/boost.py --model base --beam-size 1
  bench/boost.py --lists words,common --manifest clips.jsonl
"""
import argparse
import base64
import json
import random
import re
import sys
import tempfile
from pathlib import Path

import measure
from measure import ROOT, say

LISTED = Path(__file__).with_name("boost.txt")
FREQUENT = ("the and of to a in that is it was I for you he with on as his they be at one have "
            "this from or had by hot word but what some we can out other were all there when up "
            "use your how said an each she").split() + ["the and of", "of the", "in the"]
FOREIGN = ("Straßenbahnhaltestelle|Geschwindigkeitsbegrenzung|Entschuldigung bitte|ich weiß nicht|"
           "il faut que|s'il vous plaît|je ne sais quoi|qu'est-ce que c'est|mañana por la mañana|"
           "buenos días|добрый вечер|спасибо большое|до свидания|東京都|ありがとうございます|谢谢你们|"
           "我不知道|안녕하세요|شكرا جزيلا|धन्यवाद|καλημέρα|dziękuję bardzo|Việt Nam|și nu|não sei")
MARKS = [",,,,,,", ".", "...", "!!!!!!", "?", "-", "—", '"', ". . . .", "、。", "'", "♪♪♪", "((("]


def words(text):
    return re.findall(r"[a-z0-9']+", text.lower().replace("-", " "))


def align(a, b):
    """Cheapest edits from a to b as pairs; None where one side has nothing."""
    cost = [list(range(len(b) + 1))]
    for i, x in enumerate(a):
        row = [i + 1]
        for j, y in enumerate(b):
            row.append(min(cost[i][j] + (x != y), cost[i][j + 1] + 1, row[j] + 1))
        cost.append(row)
    pairs, i, j = [], len(a), len(b)
    while i or j:
        if i and j and cost[i][j] == cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]):
            i, j = i - 1, j - 1
            pairs.append((a[i], b[j]))
        elif i and cost[i][j] == cost[i - 1][j] + 1:
            i -= 1
            pairs.append((a[i], None))
        else:
            j -= 1
            pairs.append((None, b[j]))
    return pairs[::-1]


def phrases(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[0].strip() for line in lines if line.strip() and line[0] != "#"]


def absurd(clips):
    """{name: phrases} that must change nothing."""
    lines = (ROOT / "src/text/data/gpt2.tiktoken").read_text().splitlines()
    tokens = (base64.b64decode(line.split()[0]) for line in lines if line.strip())
    known = [t.decode()[1:] for t in tokens if re.fullmatch(rb" [A-Za-z]{3,}", t)]
    texts = [clip["reference"].split() for clip in clips]
    flat = [word for text in texts for word in text]
    return {"words": random.Random(1).sample(known, 1000),
            "common": FREQUENT,
            "marks": MARKS,
            "foreign": FOREIGN.split("|"),
            "blank": ["", "   ", "\t", "\t2", "# nothing"],
            "reversed": [" ".join(text[::-1])[:200].strip() for text in texts],
            "pairs": sorted({f"{b} {a}" for a, b in zip(flat, flat[1:])})}


def count(clips, listed):
    """(listed words, wrong ones, other words, edits there)"""
    n, wrong, others, edits = 0, 0, 0, 0
    for clip in clips:
        for right, heard in align(words(clip["reference"]), words(clip["hypothesis"])):
            if right in listed:
                n, wrong = n + 1, wrong + (right != heard)
            else:
                others, edits = others + (right is not None), edits + (right != heard)
    return n, wrong, others, edits


def choose(clips):
    from wordfreq import zipf_frequency
    missed = set()
    for clip in clips:
        pairs = align(words(clip["reference"]), words(clip["hypothesis"]))
        missed.update(right for right, heard in pairs if right and right != heard)
    return sorted(missed, key=lambda word: (zipf_frequency(word, "en"), word))[:20]


def evaluate(args, list_path):
    command = [args.vocis, "eval", "--json", "--verbose", "--quiet", "--model", args.model,
               "--language", "en", "--compute", args.compute, "--beam-size", args.beam_size,
               "--no-fallback", *(["--boost", list_path] if list_path else []), args.manifest]
    done = measure.run(command)
    if done.failure:
        sys.exit(f"vocis eval failed: {done.failure}")
    say(f"{list_path or 'without'}: {done.seconds:.0f} s")
    return json.loads(done.output)["list"]


def row(name, clips, plain, listed):
    n, wrong, others, edits = count(clips, listed)
    lengths = [(len(words(a["hypothesis"])), len(words(b["hypothesis"])))
               for a, b in zip(plain, clips)]
    changed = sum(a["hypothesis"] != b["hypothesis"] for a, b in zip(plain, clips))
    return [name, f"{wrong} of {n}", f"{100 * edits / others:.2f}", str(changed),
            str(sum(b < a for a, b in lengths)), str(sum(b == 0 < a for a, b in lengths))]


def arguments():
    parser = argparse.ArgumentParser(prog="bench/boost.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base", help="a name that vocis knows, or a path (base)")
    parser.add_argument("--manifest", type=Path, metavar="FILE",
                        help="of vocis eval (the clips of VOCIS_TEST_DATA, or jfk.wav)")
    parser.add_argument("--beam-size", type=int, default=1, help="beams; 1 is greedy (1)")
    parser.add_argument("--compute", default="f32", help="arithmetic (f32)")
    parser.add_argument("--lists", default="listed,words,common,marks,foreign,blank,reversed,pairs",
                        help="which, with commas (all)")
    parser.add_argument("--choose", action="store_true", help="print the list, boost nothing")
    parser.add_argument("--vocis", type=Path, default=measure.VOCIS, metavar="FILE",
                        help="the program (of the release build)")
    return parser.parse_args()


def main():
    args = arguments()
    args.manifest = (args.manifest or measure.default_manifest()).resolve()
    args.model = measure.pulled(args.vocis, args.model)
    plain = evaluate(args, None)
    if args.choose:
        print("\n".join(choose(plain)))
        return
    listed = {word for phrase in phrases(LISTED) for word in words(phrase)}
    lists = {"listed": phrases(LISTED), **absurd(plain)}
    table = [row("none", plain, plain, listed)]
    with tempfile.TemporaryDirectory() as folder:
        for name in filter(None, args.lists.split(",")):
            path = Path(folder, name)
            path.write_text("\n".join(lists[name]) + "\n", encoding="utf-8")
            table.append(row(name, evaluate(args, path), plain, listed))
    measure.print_table(["list", "listed words wrong", "WER of all others, %", "texts that differ",
                         "with fewer words", "emptied"], table)


if __name__ == "__main__":
    main()
