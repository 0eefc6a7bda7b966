#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How late live text is, and what listening costs: plays a recording in real time to vocis listen.

    listen.py --vocis PROGRAM --model MODEL AUDIO [--words WORDS.json] [--seconds N] [--repeat N]

The recording goes through a pipe as a microphone would send it: 20 ms every 20 ms. Printed are

  late finals   for every utterance, when its last final came, less the end of its speech (as the
                voice detector gives it) and less the pause that ends an utterance
  firm words    with --words: for every word, when it became stable or final, less its end. The file
                is a list of [start, end, word], or the JSON of openai-whisper with word times
  lag, memory   the largest distance between sound pushed and sound that came out, per quarter of
                the run, and resident memory (VmRSS) at the quarters: neither may grow

--repeat plays the recording N times, --fast as fast as the machine takes it through `vocis
transcribe --stream` (24 hours of a day in some; memory alone is measured then).
Needs Python 3 and ffmpeg.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time

RATE = 16000


def load(path, start, seconds):
    command = ["ffmpeg", "-v", "error", "-nostdin", "-ss", str(start), "-i", path, "-f", "s16le",
               "-ac", "1", "-ar", str(RATE)]
    if seconds:
        command += ["-t", str(seconds)]
    return subprocess.run(command + ["-"], stdout=subprocess.PIPE, check=True).stdout


def memory(pid, key):
    try:
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(rf"{key}:\s+(\d+) kB", f.read()).group(1)) / 1024
    except (OSError, AttributeError):
        return 0.0


def play(pipe, pcm, repeat, marks, pid):
    """20 ms every 20 ms; memory at every quarter."""
    block = RATE // 50 * 2
    total = len(pcm) * repeat
    begin, done = time.monotonic(), 0
    try:
        while done < total:
            due = int((time.monotonic() - begin) * 50) * block
            while done < min(due, total):
                at = done % len(pcm)
                pipe.write(pcm[at:at + block])
                done += len(pcm[at:at + block])
                if done * 4 // total > len(marks):
                    marks.append(memory(pid, "VmRSS"))
            pipe.flush()
            time.sleep(0.005)
    except BrokenPipeError:
        pass
    pipe.close()


def listen(options, pcm):
    command = [options.vocis, "listen", "--raw-rate", str(RATE), "--json", "--quiet", "--model",
               options.model, "--compute", options.compute, "--pause", str(options.pause),
               "--step", str(options.step), "--language", options.language, "-"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    marks, events = [], []
    player = threading.Thread(target=play, args=(child.stdin, pcm, options.repeat, marks,
                                                 child.pid))
    player.start()
    for line in child.stdout:
        events.append(json.loads(line))
    player.join()
    if child.wait():
        sys.exit(f"vocis listen ended with {child.returncode}")
    return events, marks


def words_of(path, start):
    with open(path) as f:
        data = json.load(f)
    if isinstance(data, dict):
        runs = data.get("runs", {"": data})
        found = [w for r in runs.values() for s in r["segments"] for w in s.get("words", [])]
        data = [[w["start"], w["end"], w["word"]] if isinstance(w, dict) else w for w in found]
    return [(a - start, b - start, plain(w)) for a, b, w in data if a >= start and plain(w)]


def plain(word):
    return re.sub(r"[^\w']", "", word).lower()


def table(name, values):
    if not values:
        return
    v = sorted(values)
    at = lambda q: v[min(len(v) - 1, int(q * len(v)))]
    print(f"{name:34} n {len(v):5}  median {statistics.median(v):7.0f} ms  "
          f"90 % {at(0.9):7.0f}  95 % {at(0.95):7.0f}  worst {v[-1]:7.0f}")


def late_finals(events, pause):
    """Milliseconds after the pause was over, for utterances that ended by a pause."""
    last, late = {}, []
    for e in events:
        if e["event"] == "final":
            last[e["utterance"]] = e["heard"]
        if e["event"] == "speech_end" and e["utterance"] in last:
            late.append(1000 * (last[e["utterance"]] - e["end"]) - pause)
    return late


def firm_words(events, words):
    """(word, when it was firm, milliseconds it took), by walking along both sequences."""
    firm, shown = [], {}
    for e in events:
        if e["event"] == "partial":
            text, key = e["stable"].split(), e["utterance"]
        elif e["event"] == "final":
            text, key = e["text"].split(), e["utterance"]
        else:
            continue
        have = shown.setdefault(key, [])
        if e["event"] == "final":
            before = shown.setdefault(("finals", key), 0)
            for i, word in enumerate(text):
                if before + i >= len(have):
                    firm.append((plain(word), e["heard"], "final"))
            shown[("finals", key)] = before + len(text)
        else:
            for word in text[len(have):]:
                firm.append((plain(word), e["heard"], "stable"))
            shown[key] = text
    found, at = [], 0
    for word, when, how in firm:
        for k in range(at, min(at + 12, len(words))):
            if words[k][2] == word and words[k][1] <= when:
                found.append((1000 * (when - words[k][1]), how))
                at = k + 1
                break
    return found


def report(options, events, marks):
    ended = [e for e in events if e["event"] == "end"]
    late = late_finals(events, options.pause)
    table(f"finals after a pause of {options.pause} ms", late)
    if options.words:
        found = firm_words(events, words_of(options.words, options.start))
        table("words firm (stable or final)", [d for d, _ in found])
        table("  by agreement", [d for d, how in found if how == "stable"])
        table("  by the final", [d for d, how in found if how == "final"])
    finals = [e for e in events if e["event"] == "final"]
    duration = ended[0]["end"]
    for quarter in range(4):
        part = [e["heard"] - e["end"] for e in finals
                if quarter * duration / 4 <= e["heard"] < (quarter + 1) * duration / 4]
        if part and len(marks) > quarter:
            print(f"quarter {quarter + 1}: finals at most {max(part):.2f} s after their end, "
                  f"{marks[quarter]:.1f} MB resident")
    print(f"{duration:.0f} s, {len(finals)} finals, "
          f"{sum(e['event'] == 'skipped' for e in events)} skips")
    if options.save:
        with open(options.save, "w") as f:
            f.writelines(json.dumps(e) + "\n" for e in events)


def fast(options, pcm):
    child = subprocess.Popen([options.vocis, "transcribe", "--stream", "--raw-rate", str(RATE),
                              "--quiet", "--model", options.model, "--compute", options.compute,
                              "--language", options.language, "-"],
                             stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    begin = time.monotonic()
    for i in range(options.repeat):
        child.stdin.write(pcm)
        hours = (i + 1) * len(pcm) / 2 / RATE / 3600
        print(f"{hours:7.3f} h  {time.monotonic() - begin:7.0f} s  "
              f"resident {memory(child.pid, 'VmRSS'):.1f} MB, "
              f"at most {memory(child.pid, 'VmHWM'):.1f} MB", flush=True)
    child.stdin.close()
    if child.wait():
        sys.exit(f"vocis transcribe ended with {child.returncode}")
    print(f"done after {time.monotonic() - begin:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("audio")
    parser.add_argument("--vocis", default="build/release/cmake/program/vocis")
    parser.add_argument("--model", default="base")
    parser.add_argument("--compute", default="int8")
    parser.add_argument("--language", default="en")
    parser.add_argument("--pause", type=int, default=500)
    parser.add_argument("--step", type=float, default=0.5)
    parser.add_argument("--start", type=float, default=0)
    parser.add_argument("--seconds", type=float, default=0, help="of the recording; 0: all")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--words")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--save", help="file for the events")
    options = parser.parse_args()
    if not os.path.exists(options.vocis):
        sys.exit(f"there is no {options.vocis}")
    pcm = load(options.audio, options.start, options.seconds)
    if options.fast:
        fast(options, pcm)
    else:
        report(options, *listen(options, pcm))


main()
