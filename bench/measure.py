# SPDX-License-Identifier: MIT
"""What the benchmarks share. One idea: an engine is timed as a whole process, from its start to
the text on its standard output, since that is what its users wait for."""
import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VOCIS = ROOT / "build/release/cmake/program/vocis"
JFK = ROOT / "tests/data/audio/jfk.wav"
JFK_TEXT = ("And so, my fellow Americans, ask not what your country can do for you, "
            "ask what you can do for your country.")
MIB = 1024 * 1024
RATE = 16000

Run = collections.namedtuple("Run", "seconds cpu peak private output failure")


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def parser_of(description):
    """A parser for a benchmark of one model of this build."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base")
    return parser


def parse(parser):
    """The parsed arguments, and what stands behind --, which is for vocis transcribe."""
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    return parser.parse_args(sys.argv[1:cut]), sys.argv[cut + 1:]


def decode(path, form):
    """Mono samples at 16 kHz of any file, by ffmpeg: bytes of its format f32le or s16le."""
    return subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-f", form, "-ac", "1", "-ar",
                           str(RATE), "-"], stdout=subprocess.PIPE, check=True).stdout


def wave_file(path):
    """A WAV file to be written: mono, 16 bits, 16 kHz."""
    file = wave.open(str(path), "wb")
    file.setparams((1, 2, RATE, 0, "NONE", ""))
    return file


# ---- one process ------------------------------------------------------------------------------


class PrivateMemory(threading.Thread):
    """Watches the largest amount of memory that a process has for itself. The kernel keeps the peak
    of all that is resident, but weights that are mapped from their file belong to that, and are
    given back as soon as somebody needs the room."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.path, self.largest, self.ended = f"/proc/{pid}/status", 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.02):
            try:
                found = re.search(r"RssAnon:\s*(\d+) kB", Path(self.path).read_text())
            except OSError:  # no Linux, or the process has just ended
                return
            if found:
                self.largest = max(self.largest, int(found.group(1)) * 1024)


def run(command):
    """Runs a command to its end. failure is None, or what it said last when it failed."""
    with tempfile.TemporaryFile() as messages:
        begin = time.monotonic()
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=messages)
        watch = PrivateMemory(process.pid)
        watch.start()
        output = process.stdout.read().decode("utf-8", "replace")
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        watch.ended.set()
        watch.join()
        process.stdout.close()
        process.returncode = os.waitstatus_to_exitcode(status)
        messages.seek(0)
        said = messages.read().decode("utf-8", "replace").strip().splitlines()
    failure = None
    if process.returncode < 0:
        failure = f"ended by {signal.Signals(-process.returncode).name}"
    elif process.returncode:
        failure = (said or [f"exit status {process.returncode}"])[-1].strip()
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit, watch.largest,
               output, failure)


# ---- the machine ------------------------------------------------------------------------------


def cpu_name():
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return "unknown processor"
    name = re.search(r"model name\s*:\s*(.*)", text)
    flags = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
             if re.search(rf"\b{f}\b", text)]
    return " ".join([name.group(1) if name else "unknown processor", *flags])


class Others:
    """How many processors are kept busy by others, or taken from this virtual machine."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        """(time, seconds of all processors that were spent, those of them that were spent here)"""
        try:
            ticks = [int(n) for n in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        except (OSError, ValueError):
            return None
        spent = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), spent, sum(os.times()[:4])

    def busy(self):
        end = self.now()
        if not self.begin or not end or end[0] <= self.begin[0]:
            return 0.0
        wall, spent, own = (b - a for a, b in zip(self.begin, end))
        return max(0.0, (spent - own) / wall)


def warn_of_load():
    """Says how busy the machine is before anything is timed. Nothing is refused."""
    others = Others()
    time.sleep(1)
    busy = others.busy()
    try:
        load = "load average %.2f, %.2f, %.2f" % os.getloadavg()
    except OSError:
        load = "load average unknown"
    say(f"{cpu_name()}; {os.cpu_count()} processors; {load}")
    if busy > 0.1:
        say(f"warning: other processes use {busy:.1f} processors now; take the figures as hints")
    return load


# ---- vocis ------------------------------------------------------------------------------------


def vocis_types(vocis):
    """The arithmetic that this build offers, in the order of its help, without auto."""
    text = run([vocis, "transcribe", "--help"]).output
    found = re.search(r"--compute TYPE(.*?)\bauto\b", text, re.S)
    return re.findall(r"\b(f32|bf16|int8|int4)\b", found.group(1)) if found else []


def pulled(vocis, name):
    """The path of a model; fetched when name is no path."""
    if Path(name).exists():
        return Path(name).resolve()
    say(f"fetching {name}, unless it is here")
    done = subprocess.run([vocis, "pull", "--quiet", name], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(1)  # it has said why
    return Path(done.stdout.strip())


def word_errors(vocis, reference, text, language):
    """The word error rate of text in percent; reference is the true text."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("reference.txt", "hypothesis.txt")]
        for path, words in zip(paths, (reference, text)):
            path.write_text(words, encoding="utf-8")
        command = [vocis, "eval", "--reference", paths[0], "--hypothesis", paths[1], "--json"]
        done = run(command + (["--language", language] if language else []))
    rate = None if done.failure else json.loads(done.output)["wer"]["rate"]
    return None if rate is None else 100 * rate


def run_transcribe(model, options, *audio):
    """What this build writes of English recordings, as JSON."""
    return subprocess.run([VOCIS, "transcribe", "--model", model, "-l", "en", "-q", "-f", "json",
                           *options, *audio], stdout=subprocess.PIPE, check=True).stdout


def transcript(model, options, audio):
    """The JSON that this build makes of an English recording."""
    return json.loads(run_transcribe(model, options, audio))


# ---- recordings and tables --------------------------------------------------------------------


def test_data():
    """The folder of recordings outside the repository, or None."""
    folder = os.environ.get("VOCIS_TEST_DATA")
    return Path(folder).resolve() if folder else None


def default_audio():
    """The long recording of the test data, else the clip of the repository."""
    data = test_data()
    path = data / "golden/whisper_real/visible.flac" if data else JFK
    return path if path.exists() else JFK


def write_manifest(clips, path):
    """clips: (audio, text). The manifest of `vocis eval`, one JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"audio": str(audio), "text": text}) for audio, text in clips)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def default_manifest():
    """The clips of the test data that have a transcript, else the clip of the repository."""
    data = test_data()
    goldens = data / "golden/whisper_real/base.json" if data else None
    if goldens and goldens.exists():
        files = json.loads(goldens.read_text(encoding="utf-8"))["files"]
        clips = [(data / f["file"], f["reference"]) for f in files if f["reference"]]
        return write_manifest(clips, ROOT / "build/bench/clips.jsonl")
    say("a single recording, since VOCIS_TEST_DATA names no folder with more; a word error rate "
        "of so little says nothing")
    return write_manifest([(JFK, JFK_TEXT)], ROOT / "build/bench/jfk.jsonl")


def seconds_of(path):
    if str(path).endswith(".wav"):
        try:
            with wave.open(str(path)) as w:
                return w.getnframes() / w.getframerate()
        except wave.Error:
            pass
    out = run(["ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0",
               path])
    if out.failure:
        sys.exit(f"{path}: {out.failure}")
    return float(out.output)


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def print_table(head, rows):
    """In Markdown that reads well as it is: the first column to the left, figures to the right."""
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]

    def line(row):
        cells = [cell.rjust(w) if i else cell.ljust(w)
                 for i, (cell, w) in enumerate(zip(row, widths))]
        return "| " + " | ".join(cells) + " |"

    print(line(head))
    print("|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":"
                         for i, w in enumerate(widths)) + "|")
    for row in rows:
        print(line(row))
