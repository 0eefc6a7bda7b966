# SPDX-License-Identifier: MIT
"""The vocis program, run as a user runs it: python3 test_program.py PROGRAM [CLASS].

Needs Python 3 and nothing else. Models are found through VOCIS_TEST_MODELS, a folder that holds
base/ and tiny.en/.
"""
import fcntl
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import wave

PROGRAM = os.path.abspath(sys.argv[1])
MODELS = os.environ.get("VOCIS_TEST_MODELS")
CLIP = os.path.abspath("tests/data/audio/jfk.wav")
VERBS = ["transcribe", "listen", "diarize", "pull", "models", "inspect", "convert", "bench", "eval",
         "completion", "help"]
FORMATS = ["txt", "srt", "vtt", "tsv", "json", "csv", "lrc"]
SPEECH = "ask not what your country can do for you"


def run(*words, stdin=b"", stdout=subprocess.PIPE, cwd=None, timeout=300):
    """Exit status, standard output and standard error; nothing is ever downloaded."""
    environment = dict(os.environ, HF_HUB_OFFLINE="1")
    done = subprocess.run([PROGRAM, *words], input=stdin, stdout=stdout, stderr=subprocess.PIPE,
                          cwd=cwd, env=environment, timeout=timeout)
    out = done.stdout.decode() if done.stdout is not None else ""
    return done.returncode, out, done.stderr.decode()


def options_of(verb):
    text = run(verb, "--help")[1]
    return sorted(set(re.findall(r"^  (?:-\w, |    )(--[a-z0-9-]+)", text, re.M)))


def without_marks(text):
    return re.sub(r"[^a-z ]", "", text.lower())


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def usage(self, *words):
        """Ends with 2, prints nothing on standard output; gives the sentence."""
        status, out, err = run(*words)
        self.assertEqual((status, out), (2, ""), err)
        self.assertTrue(err.startswith("vocis: "), err)
        self.assertIn("--help", err)
        return err.split("\n")[0]


def stereo(path, left, right):
    """The clip's seconds [from, to) in each channel, times a factor; 0 elsewhere."""
    with wave.open(CLIP) as clip:
        n = clip.getnframes()
        samples = struct.unpack(f"<{n}h", clip.readframes(n))
    columns = []
    for begin, end, factor in (left, right):
        columns.append([int(factor * x) if begin * 16000 <= i < end * 16000 else 0
                        for i, x in enumerate(samples)])
    with wave.open(path, "wb") as file:
        file.setparams((2, 2, 16000, 0, "NONE", ""))
        file.writeframes(struct.pack(f"<{2 * n}h", *[x for pair in zip(*columns) for x in pair]))
    return path


class Speakers(Program):
    def turns(self, *words, **more):
        status, out, err = run("diarize", "-f", "json", *words, **more)
        self.assertEqual(status, 0, err)
        return [json.loads(line)["turns"] for line in out.splitlines()], err

    def test_channels(self):
        call = stereo(self.path("a call.wav"), (0, 5, 1), (5, 11, 1))
        (turns,), err = self.turns(call)
        self.assertEqual(err, "")
        self.assertGreaterEqual(len(turns), 3)
        for t in turns:
            self.assertEqual(t["speaker"], int(t["start"] > 4.9))
        with open(call, "rb") as file:
            self.assertEqual(self.turns("-", stdin=file.read())[0], [turns])
        status, out, _ = run("diarize", call)
        self.assertEqual(status, 0)
        for t, line in zip(turns, out.splitlines()):
            self.assertRegex(line, rf"^SPEAKER a_call 1 \d+\.\d{{3}} \d+\.\d{{3}} <NA> <NA> "
                                   rf"speaker_{t['speaker'] + 1} <NA> <NA>$")
            self.assertAlmostEqual(float(line.split()[3]), t["start"], places=2)
        self.assertEqual({t["speaker"] for t in self.turns("--by", "voices", call)[0][0]}, {0})
        self.assertEqual({t["speaker"] for t in self.turns("--channel", "0", call)[0][0]}, {0})

    def test_one_sound_in_two_channels(self):
        alone, err = self.turns(CLIP)
        self.assertEqual(err, "")
        silent = stereo(self.path("silent.wav"), (0, 11, 1), (0, 0, 1))
        against = stereo(self.path("against.wav"), (0, 11, 1), (0, 11, -1))
        twice = stereo(self.path("twice.wav"), (0, 11, 1), (0, 11, 1))
        for path, warning in ((silent, "silent"), (against, "cancel each other"), (twice, "")):
            turns, err = self.turns(path)
            self.assertEqual(turns, alone)
            self.assertIn(warning, err)
        self.assertEqual(self.turns("--num-speakers", "1", twice)[0], alone)

    def test_refusals(self):
        status, _, err = run("diarize", "--by", "channels", CLIP)
        self.assertEqual(status, 1)
        self.assertIn("one channel only", err)
        self.assertEqual(run("diarize", self.path("nowhere.wav"))[0], 1)
        self.usage("transcribe", "--num-speakers", "2", CLIP)
        self.usage("diarize", "--by", "channels", "--num-speakers", "2", CLIP)
        self.usage("diarize", "--num-speakers", "2", "--max-speakers", "3", CLIP)
        self.usage("diarize", "--min-speakers", "4", "--max-speakers", "3", CLIP)
        self.usage("diarize", "--raw-channels", "2", CLIP)


class WithModel(Program):
    @classmethod
    def setUpClass(cls):
        if not MODELS:
            raise unittest.SkipTest("VOCIS_TEST_MODELS is not set: no model to run")
        cls.quick = ["--model", os.path.join(MODELS, "tiny.en"), "--beam-size", "1",
                     "--no-fallback"]

    def transcribe(self, *words, **more):
        return run("transcribe", *self.quick, *words, **more)


class CommandLine(Program):
    def test_version(self):
        status, out, err = run("--version")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"^vocis \d+\.\d+\.\d+\n")

    def test_help_is_worth_reading(self):
        for words in [["--help"], ["-h"], ["help"]] + [[v, "--help"] for v in VERBS]:
            status, out, err = run(*words)
            self.assertEqual((status, err), (0, ""), words)
            self.assertTrue(out.startswith("Usage: vocis "), words)
            self.assertLessEqual(max(map(len, out.split("\n"))), 80, words)
            if words != ["help", "--help"]:
                self.assertIn("Example", out, words)
        for verb in VERBS:
            self.assertEqual(run("help", verb)[1], run(verb, "--help")[1])
            self.assertIn(f"  {verb} ", run("--help")[1])

    def test_man_pages_and_completions_know_every_option(self):
        for verb in VERBS[:-2]:
            with open(f"man/vocis-{verb}.1") as f:
                page = f.read().replace("\\-", "-")
            for option in options_of(verb):
                self.assertRegex(page, rf"(?m)^\.It .*Fl {option[1:]}\b")
            for option in re.findall(r"^\.It .*Fl (-[a-z0-9-]+)", page, re.M):
                self.assertIn("-" + option, options_of(verb), verb)
            for shell in ["bash", "zsh", "fish"]:
                script = run("completion", shell)[1]
                for option in options_of(verb):
                    self.assertIn(f"-l {option[2:]} " if shell == "fish" else option, script)

    def test_bash_completes(self):
        script = run("completion", "bash")[1] + '''
            complete_words() {
                COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _vocis
                echo "${COMPREPLY[*]}"
            }
            complete_words vocis tr
            complete_words vocis transcribe --beam
            complete_words vocis transcribe --task t
            complete_words vocis pull large-v3-
        '''
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        self.assertEqual(done.stdout.split("\n")[:4],
                         ["transcribe", "--beam-size", "transcribe translate", "large-v3-turbo"],
                         done.stderr)

    def test_what_was_meant(self):
        for words, meant in [
            (["trascribe", "a"], "transcribe"),
            ([CLIP], f"vocis transcribe {CLIP}"),
            (["transcribe", "--beam-sise", "5", "a"], "--beam-size"),
            (["transcribe", "--bestof", "5", "a"], "--best-of"),
            (["transcribe", "--task", "translte", "a"], "translate"),
            (["transcribe", "-f", "vvt", "a"], "vtt"),
            (["transcribe", "-l", "germna", "a"], "german"),
        ]:
            self.assertIn(meant, self.usage(*words), words)

    def test_wrong_values(self):
        for words, named in [
            (["transcribe"], "FILE"),
            (["transcribe", "--beam-size", "0", "a"], "1 to 64"),
            (["transcribe", "--beam-size", "2.5", "a"], "whole number"),
            (["transcribe", "--temperature", "nan", "a"], "--temperature"),
            (["transcribe", "--temperature", "warm", "a"], "--temperature"),
            (["transcribe", "--seed", "-1", "a"], "--seed"),
            (["transcribe", "--model"], "--model needs a value"),
            (["transcribe", "--model", "--quiet", "a"], "--model needs a value"),
            (["transcribe", "--fp16", "a=b", "--fp16=maybe", "a"], "True or False"),
            (["transcribe", "--device", "cuda", "a"], "cpu"),
            (["transcribe", "--cpu", "abacus", "a"], "abacus"),
            (["transcribe", "-f", "srt", "a", "b"], "--output-dir"),
            (["transcribe", "-f", "json", "-o", "-", "a"], "--output-dir"),
            (["transcribe", "-", "-"], "once"),
            (["transcribe", "--boost", "-", "-"], "once"),
            (["listen", "talk.wav"], "vocis transcribe"),
            (["listen", "--raw-rate", "16000"], "(-)"),
            (["listen", "--device", "usb", "-"], "--device"),
            (["listen", "--step", "0.01", "-"], "--step"),
            (["transcribe", "--stream", "-f", "srt", "a"], "--stream"),
            (["transcribe", "--raw-format", "u8", "a"], "--raw-rate"),
            (["transcribe", "--clip-timestamps", "5,2", "a"], "--clip-timestamps"),
            (["transcribe", "--clip-timestamps", "x", "a"], "--clip-timestamps"),
            (["transcribe", "--suppress-tokens", "5,x", "a"], "--suppress-tokens"),
            (["pull"], "NAME"),
            (["models", "x"], "x"),
            (["convert", "base"], "IN OUT"),
            (["convert", "a", "b", "--dtype", "int3"], "int8"),
            (["convert", "a", "b", "--dtype", "int8", "--group", "48"], "32 64 128"),
            (["convert", "a", "b", "--group", "64"], "--dtype int8 or int4"),
            (["convert", "a", "b", "--keep", "*"], "--dtype int8 or int4"),
            (["convert", "a", "b", "--calibrate", "c.wav"], "--dtype int4"),
            (["convert", "a", "b", "--dtype", "int8", "-c", "c.wav"], "--dtype int4"),
            (["convert", "a", "b", "--dtype", "int4", *["-cx"] * 257], "256 times"),
            (["eval"], "manifest"),
            (["eval", "--reference", "x"], "--hypothesis"),
            (["completion", "tcsh"], "tcsh"),
            (["--quiet", "transcribe"], "--quiet"),
        ]:
            self.assertIn(named, self.usage(*words), words)

    def test_phrases_that_cannot_be_boosted(self):
        path = self.path("phrases.txt")
        for lines, number, wrong in [
            (b"fine\n\xff\xfebad\n", 2, "UTF-8"),
            (b"# c\r\n\r\na\xed\xa0\x80\n", 3, "UTF-8"),
            (b"a\xf4\x90\x80\x80", 1, "UTF-8"),
            (b"f\0i\0n\0e\0", 1, "NUL"),
            (b"fine\t2\nheavy\t4.01\n", 2, "0 to 4"),
            (b"light\t-1", 1, "0 to 4"),
            (b"odd\tnan", 1, "0 to 4"),
            (b"odd\theavy", 1, "no weight"),
            (b"odd\t1 2", 1, "no weight"),
            (b"odd\t1\t2", 1, "no weight"),
            (b"x" * 257, 1, "256"),
            (b"x\n" * 10001, 10001, "10000"),
        ]:
            with open(path, "wb") as f:
                f.write(lines)
            for verb in "transcribe", "eval":
                status, out, err = run(verb, "--boost", path, CLIP)
                self.assertEqual((status, out), (1, ""), lines[:40])
                self.assertIn(f"phrases.txt:{number}: ", err)
                self.assertIn(wrong, err)
        status, out, err = run("transcribe", "--boost", self.path("none.txt"), CLIP)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("none.txt", err)

    def test_full_disk_and_closed_pipe(self):
        for words in [["--help"], ["transcribe", "--help"], ["models"], ["completion", "bash"]]:
            with open("/dev/full", "wb") as full:
                status, _, err = run(*words, stdout=full)
            self.assertEqual(status, 1, words)
            self.assertIn("vocis: standard output: No space left", err)
            reader, writer = os.pipe()
            os.close(reader)
            status, _, err = run(*words, stdout=writer)
            os.close(writer)
            self.assertEqual(status, 1, words)
            self.assertIn("Broken pipe", err)

    def test_model_that_is_not_there(self):
        status, out, err = run("transcribe", "--model", "basse", CLIP)
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"^vocis: basse: .*base")
        status, _, err = run("transcribe", "--model", self.path(), "--json-errors", CLIP)
        self.assertEqual(status, 1)
        self.assertEqual(set(json.loads(err)), {"file", "status", "message"})
        status, out, err = run("pull", "basse", "--cache-dir", self.folder)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("vocis: basse:", err)

    def test_models(self):
        listed = json.loads(run("models", "--json", "--cache-dir", self.folder)[1])
        self.assertIn("base", [m["name"] for m in listed])
        table = run("models")[1].split("\n")
        self.assertEqual(len(table), len(listed) + 2)


class Texts(Program):
    def score(self, reference, hypothesis, *more):
        for name, text in [("r", reference), ("h", hypothesis)]:
            with open(self.path(name), "wb") as f:
                f.write(text)
        status, out, err = run("eval", "-r", self.path("r"), "-y", self.path("h"), "--json", *more)
        self.assertEqual((status, err), (0, ""))
        return json.loads(out)

    def test_rates(self):
        rates = self.score(b"Mr. Smith's colour", b"mister smith's COLOR, too")
        self.assertEqual(rates["wer"], {"rate": 0.25, "errors": 1, "substitutions": 0,
                                        "deletions": 0, "insertions": 1, "reference": 4})
        self.assertEqual(self.score(b"a\r\nb", b"A b\n")["wer"]["errors"], 0)
        self.assertEqual(self.score(b"colour", b"color")["cer"]["errors"], 0)
        self.assertEqual(self.score(b"colour", b"color", "-l", "german")["cer"]["errors"], 1)
        self.assertIsNone(self.score(b"", b"word")["wer"]["rate"])
        self.assertEqual(self.score(b"\xff\xfe x", b"x")["cer"]["reference"] > 0, True)

    def test_plain_and_failures(self):
        self.score(b"red green", b"red")
        status, out, _ = run("eval", "-r", self.path("r"), "-y", self.path("h"))
        self.assertEqual(status, 0)
        self.assertIn("WER    50.00 %  1 errors in 2 words", out)
        status, out, _ = run("eval", "-r", self.path("r"), "-y", "-", stdin=b"red green")
        self.assertIn("WER     0.00 %", out)
        status, out, err = run("eval", "-r", self.path("r"), "-y", self.path("none"))
        self.assertEqual((status, out), (1, ""))
        self.assertIn("none: No such file", err)

    def test_inspect(self):
        file = "tests/data/formats/tiny/safetensors/openai.bin"
        facts = json.loads(run("inspect", file, "--json", "--tensors")[1])
        self.assertEqual((facts["format"], facts["layout"]), ("safetensors", "openai"))
        self.assertEqual(facts["bytes"], os.path.getsize(file))
        self.assertEqual(facts["tensor_count"], len(facts["tensors"]))
        self.assertIn("format      safetensors", run("inspect", file)[1])
        for bad in [CLIP, self.path("none")]:
            status, out, err = run("inspect", bad)
            self.assertEqual((status, out), (1, ""))
            self.assertTrue(err.startswith("vocis: "), err)


class Documents(WithModel):
    def test_plain_text(self):
        status, out, err = self.transcribe(CLIP)
        self.assertEqual((status, err), (0, ""))  # not a terminal: nothing but the text
        self.assertIn(SPEECH, without_marks(out))
        for line in out.rstrip("\n").split("\n"):
            self.assertEqual(line, line.strip())
        self.assertEqual(out, self.transcribe(CLIP, "-f", "txt")[1])
        self.assertEqual(out + out, self.transcribe(CLIP, CLIP)[1])
        self.assertRegex(self.transcribe(CLIP, "--verbose", "True")[1],
                         r"^\[00:00.000 --> 00:\d\d.\d\d\d\]  ")

    def test_every_format(self):
        status, out, err = self.transcribe(CLIP, "-f", "all", "-o", self.path("new/folder"))
        self.assertEqual((status, out, err), (0, "", ""))
        names = sorted(os.listdir(self.path("new/folder")))
        self.assertEqual(names, sorted("jfk." + f for f in FORMATS))
        texts = {}
        for name in names:
            with open(self.path("new/folder", name), encoding="utf-8", newline="") as f:
                texts[name[4:]] = f.read()
        document = json.loads(texts["json"])
        for key in ["text", "language", "language_probability", "task", "duration", "segments",
                    "settings", "timings", "peak_memory_bytes", "model", "source"]:
            self.assertIn(key, document)
        self.assertEqual(document["source"], CLIP)
        self.assertEqual(document["duration"], 11)
        self.assertEqual(document["settings"]["beam_size"], 1)
        self.assertGreater(document["peak_memory_bytes"], 1 << 20)
        lines = [s["text"].strip() for s in document["segments"]]
        self.assertEqual(texts["txt"], "".join(line + "\n" for line in lines))
        for s in document["segments"]:
            self.assertEqual(len(s["tokens"]), len(s["token_logprobs"]))
            self.assertLess(s["start"], s["end"])
            for key in ["id", "seek", "temperature", "avg_logprob", "compression_ratio",
                        "no_speech_prob"]:
                self.assertIn(key, s)

        def clock(seconds):
            ms = round(seconds * 1000)
            return f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02},{ms % 1000:03}"

        cues = "".join(f"{s['id'] + 1}\n{clock(s['start'])} --> {clock(s['end'])}\n{line}\n\n"
                       for s, line in zip(document["segments"], lines))
        self.assertEqual(texts["srt"], cues)
        self.assertTrue(texts["vtt"].startswith("WEBVTT\n\n00:00.000 --> "))
        self.assertTrue(texts["tsv"].startswith("start\tend\ttext\n0\t"))
        self.assertTrue(texts["csv"].startswith("start,end,text\n0,"))
        self.assertTrue(texts["lrc"].startswith("[00:00.00]"))

    def test_coverage(self):
        half = ["--clip-timestamps", "0,4", CLIP]
        status, out, err = self.transcribe("-f", "json", *half)
        self.assertEqual((status, err), (0, ""))
        document = json.loads(out)
        account = document["account"]
        self.assertEqual([a["start"] for a in account[1:]], [a["end"] for a in account[:-1]])
        self.assertEqual((account[0]["start"], account[-1]["end"]), (0, document["duration"]))
        self.assertEqual(account[-1]["cover"], "skipped")
        self.assertLess(document["coverage"]["ratio"], 0.6)
        self.assertGreater(document["coverage"]["skipped"], 3)
        status, out, err = self.transcribe("--require-coverage", "0.9", *half)
        self.assertEqual(status, 3)
        self.assertIn("have no text", err)
        self.assertIn("fellow", out)
        self.assertEqual(self.transcribe("--require-coverage", "0.99", CLIP)[0], 0)
        # the reference asks nobody
        document = json.loads(self.transcribe("-f", "json", "--chunking", "none", CLIP)[1])
        self.assertIsNone(document["coverage"])
        self.assertEqual(document["account"][0]["cover"], "text")
        self.assertLessEqual({a["cover"] for a in document["account"]}, {"text", "unknown"})

    def test_subtitles(self):
        def lines(text):
            return [line for line in text.splitlines()
                    if line and not line.isdigit() and " --> " not in line]

        plain = self.transcribe(CLIP, "-f", "srt")[1]
        status, out, err = self.transcribe(CLIP, "-f", "srt", "--max_line_width", "20",
                                           "--max_line_count", "2", "--max-words-per-line", "3")
        self.assertEqual(status, 0)
        self.assertIn("estimates", err)
        self.assertIn("--max-words-per-line has no effect", err)
        self.assertLessEqual(max(map(len, lines(out))), 20)
        self.assertEqual("".join(out.split("\n\n")[0].splitlines()[2:]).split(),
                         "".join(lines(out)[:2]).split())
        self.assertEqual(" ".join(lines(out)), " ".join(lines(plain)))
        err = self.transcribe(CLIP, "-f", "srt", "--max-line-count", "2")[2]
        self.assertIn("--max-line-count has no effect without --max-line-width", err)
        out = self.transcribe(CLIP, "-f", "srt", "--subtitle-style=broadcast")[1]
        self.assertLessEqual(max(map(len, lines(out))), 42)
        self.assertEqual(" ".join(lines(out)), " ".join(lines(plain)))
        # one rule of a style can be replaced
        out = self.transcribe(CLIP, "-f", "srt", "--subtitle-style=broadcast", "--max-line-width",
                              "16")[1]
        self.assertLessEqual(max(map(len, lines(out))), 16)
        out = self.transcribe(CLIP, "-f", "vtt", "--karaoke")[1]
        self.assertRegex(out, r"(<00:00:\d\d\.\d{3}><c>[^ <]+</c> ){9}")
        out = self.transcribe(CLIP, "-f", "lrc", "--karaoke", "True")[1]
        self.assertRegex(out, r"^\[00:00\.\d\d\] <00:00\.\d\d> And <")
        out = self.transcribe(CLIP, "-f", "srt", "--highlight_words", "True")[1]
        self.assertIn("<u>country</u>", out)
        self.assertEqual(self.transcribe(CLIP, "-f", "rttm"), (0, "", ""))

    def test_speakers(self):
        call = stereo(self.path("call.wav"), (0, 5, 1), (5, 11, 1))
        for how in (["--diarize"], ["--diarize", "channels"]):
            status, out, err = self.transcribe(*how, call)
            self.assertEqual((status, err), (0, ""))
            said = {1: "", 2: ""}
            for line in out.splitlines():
                self.assertRegex(line, r"^Speaker [12]: ")
                said[int(line[8])] += " " + without_marks(line[10:])
            self.assertIn("fellow americans", said[1])
            self.assertIn("what you can do for your country", said[2])
            self.assertNotIn("americans", said[2])
        status, out, err = self.transcribe("--diarize", "voices", "-f", "json", call)
        self.assertEqual({s["speaker"] for s in json.loads(out)["segments"]}, {0})
        status, out, err = self.transcribe("--diarize", "channels", CLIP)
        self.assertEqual((status, out), (1, ""))
        # Level is kept where one channel is silent or runs against the other.
        alone = self.transcribe(CLIP)[1]
        for name, right in (("silent", (0, 0, 1)), ("against", (0, 11, -1))):
            path = stereo(self.path(name + ".wav"), (0, 11, 1), right)
            self.assertEqual(self.transcribe(path)[1], alone)

    def test_one_document_on_standard_output(self):
        status, out, err = self.transcribe(CLIP, "--output_format=json")
        self.assertEqual((status, err), (0, ""))
        self.assertIn(SPEECH, without_marks(json.loads(out)["text"]))

    def test_names_never_collide(self):
        for folder in ["a", "b", "c"]:
            os.mkdir(self.path(folder))
            shutil.copy(CLIP, self.path(folder, "clip.wav"))
        shutil.copy(CLIP, self.path("clip-2.mp3.wav"))
        shutil.copy(CLIP, self.path("clip-2.wav"))
        inputs = [self.path(p) for p in ["a/clip.wav", "b/clip.wav", "clip-2.wav", "c/clip.wav",
                                         "clip-2.mp3.wav"]]
        status, _, err = self.transcribe(*inputs, "-f", "json", "-o", self.path("out"))
        self.assertEqual((status, err), (0, ""))
        sources = {}
        for name in os.listdir(self.path("out")):
            with open(self.path("out", name)) as f:
                sources[name] = json.load(f)["source"]
        self.assertEqual(sources, {"clip.json": inputs[0], "clip-3.json": inputs[1],
                                   "clip-2.json": inputs[2], "clip-4.json": inputs[3],
                                   "clip-2.mp3.json": inputs[4]})

    def test_current_folder_and_stdin(self):
        with open(CLIP, "rb") as f:
            status, out, _ = self.transcribe("-", "-f", "srt,txt", stdin=f.read(),
                                             cwd=self.folder)
        self.assertEqual((status, out), (0, ""))
        self.assertEqual(sorted(os.listdir(self.folder)), ["stdin.srt", "stdin.txt"])

    def test_an_input_is_never_overwritten(self):
        shutil.copy(CLIP, self.path("speech.txt"))
        status, _, err = self.transcribe("speech.txt", "-o", ".", cwd=self.folder)
        self.assertEqual(status, 1)
        self.assertIn("vocis: speech.txt: ./speech.txt is an input", err)
        self.assertEqual(os.path.getsize(self.path("speech.txt")), os.path.getsize(CLIP))

    def test_writing_fails(self):
        os.mkdir(self.path("clip"))
        os.mkdir(self.path("clip/jfk.txt"))  # a folder where the document should go
        status, _, err = self.transcribe(CLIP, "-f", "txt,srt", "-o", self.path("clip"))
        self.assertEqual(status, 1)
        self.assertIn("jfk.txt", err)
        self.assertEqual(sorted(os.listdir(self.path("clip"))), ["jfk.srt", "jfk.txt"])
        with open(self.path("file"), "w"):
            pass
        self.assertEqual(self.transcribe(CLIP, "-o", self.path("file/x"))[0], 1)
        for words in [[], ["-f", "json"]]:
            with open("/dev/full", "wb") as full:
                status, _, err = self.transcribe(CLIP, *words, stdout=full)
            self.assertEqual(status, 1)
            self.assertEqual(err, "vocis: standard output: No space left on device\n")
        reader, writer = os.pipe()
        os.close(reader)
        status, _, err = self.transcribe(CLIP, CLIP, stdout=writer)
        os.close(writer)
        self.assertEqual((status, err), (1, "vocis: standard output: Broken pipe\n"))

    def test_the_whisper_command_line(self):
        status, out, err = run(
            "transcribe", CLIP, "--model", os.path.join(MODELS, "tiny.en"), "--model_dir",
            self.folder, "--device", "cpu", "--output_dir", self.folder, "--output_format",
            "json", "--verbose", "False", "--task", "transcribe", "--language", "English",
            "--temperature", "0", "--best_of", "5", "--beam_size", "2", "--patience", "None",
            "--length_penalty", "None", "--suppress_tokens", "-1", "--initial_prompt", "None",
            "--carry_initial_prompt", "False", "--condition_on_previous_text", "False", "--fp16",
            "False", "--temperature_increment_on_fallback", "None",
            "--compression_ratio_threshold", "2.4", "--logprob_threshold", "-1.0",
            "--no_speech_threshold", "None", "--word_timestamps", "False",
            "--prepend_punctuations", "\"'“¿([{-", "--append_punctuations",
            "\"'.。,，!！?？:：”)]}、", "--highlight_words", "False", "--max_line_width", "None",
            "--max_line_count", "None", "--max_words_per_line", "None", "--threads", "0",
            "--clip_timestamps", "0", "--hallucination_silence_threshold", "None")
        self.assertEqual((status, out, err), (0, "", ""))
        with open(self.path("jfk.json")) as f:
            settings = json.load(f)["settings"]
        self.assertEqual(settings["beam_size"], 2)
        self.assertEqual(settings["patience"], 1)
        self.assertEqual(settings["temperature_increment_on_fallback"], 0)
        self.assertIsNone(settings["length_penalty"])
        self.assertIsNone(settings["no_speech_threshold"])
        self.assertIs(settings["condition_on_previous_text"], False)

    def test_words(self):
        status, out, err = run("transcribe", CLIP, "--model", os.path.join(MODELS, "tiny.en"),
                               "--word_timestamps", "True", "-f", "json", "-q",
                               "--append_punctuations", "")
        self.assertEqual((status, err), (0, ""))
        document = json.loads(out)
        words = [w for s in document["segments"] for w in s["words"]]
        self.assertEqual("".join(w["word"] for w in words),
                         "".join(s["text"] for s in document["segments"]))
        self.assertIn(",", [w["word"] for w in words])
        for before, word in zip(words, words[1:]):
            self.assertLessEqual(before["start"], before["end"])
            self.assertLessEqual(before["end"], word["start"])
        for segment in document["segments"]:
            self.assertEqual(segment["end"], segment["words"][-1]["end"])
        status, out, err = run("transcribe", CLIP, "--model", os.path.join(MODELS, "tiny.en"),
                               "-q", "--hallucination-silence-threshold", "2")
        self.assertEqual(status, 0)
        self.assertIn("without word_timestamps", err)

    def test_clips_and_prompts(self):
        out = self.transcribe(CLIP, "--clip-timestamps", "0,4", "-f", "json")[1]
        self.assertIn("my fellow americans", without_marks(json.loads(out)["text"]))
        self.assertNotIn("country", out)
        self.assertEqual(json.loads(out)["segments"][0]["seek"], 0)
        # a prefix is heard as said already: the text goes on behind it
        out = self.transcribe(CLIP, "--without-timestamps", "--prefix",
                              "And so, my fellow Americans,")[1]
        self.assertIn(SPEECH, without_marks(out))
        self.assertNotIn("fellow", out)
        out = self.transcribe(CLIP, "--without-timestamps", "--max-tokens", "5")[1]
        self.assertLess(len(out.split()), 7)

    def test_phrases_to_boost(self):
        plain = self.transcribe(CLIP)
        for lines in (b"", b"\xef\xbb\xbf# names\r\n\r\n  Kennedy\t1.5 \r\n \t\r\nAmericans\t",
                      b"the\nof the\n...\n" + "東京都\n".encode() * 5000, b"x" * 256):
            with open(self.path("phrases.txt"), "wb") as f:
                f.write(lines)
            self.assertEqual(self.transcribe(CLIP, "--boost", self.path("phrases.txt")), plain)
        done = self.transcribe(CLIP, "--boost", "-", stdin=b"fellow Americans\n")
        self.assertEqual(done, plain)

    def test_languages(self):
        base = ["--model", os.path.join(MODELS, "base"), "--beam-size", "1", "--no-fallback"]
        document = json.loads(run("transcribe", *base, CLIP, "-f", "json")[1])
        self.assertEqual(document["language"], "en")
        self.assertTrue(0.5 < document["language_probability"] <= 1)
        self.assertEqual([s["language"] for s in document["segments"]],
                         ["en"] * len(document["segments"]))
        same = json.loads(run("transcribe", *base, CLIP, "-f", "json", "--languages", "de, en")[1])
        self.assertEqual((same["language"], same["text"]), ("en", document["text"]))
        status, out, err = self.transcribe(CLIP, "--language", "de")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("English", err)
        for wrong, said in ((["--languages", "de,en", "-l", "en"], "not both"),
                            (["--languages", "de,germna"], "german"), (["--languages", ""], "all")):
            status, out, err = self.transcribe(CLIP, *wrong)
            self.assertEqual((status, out), (2, ""))
            self.assertIn(said, err)

    def test_nobody_has_no_language(self):
        with wave.open(self.path("nobody.wav"), "wb") as f:
            f.setnchannels(1)
            f.setsampwidth(2)
            f.setframerate(16000)
            f.writeframes(b"\0\0" * int(6.64 * 16000))
        status, out, err = run("transcribe", "--model", os.path.join(MODELS, "base"), "--chunking",
                               "vad", "-f", "json", self.path("nobody.wav"))
        self.assertEqual(status, 0)
        document = json.loads(out)
        self.assertEqual((document["text"], document["segments"], document["language"]),
                         ("", [], None))


class Inputs(WithModel):
    def test_a_failure_spoils_nothing(self):
        with open(self.path("noise.wav"), "wb") as f:
            f.write(b"this is no sound")
        missing = self.path("missing.wav")
        status, out, err = self.transcribe(self.path("noise.wav"), CLIP, missing)
        self.assertEqual(status, 1)
        self.assertIn(SPEECH, without_marks(out))
        lines = err.rstrip("\n").split("\n")
        self.assertEqual(len(lines), 2, err)
        self.assertTrue(lines[0].startswith(f"vocis: {self.path('noise.wav')}: "))
        self.assertTrue(lines[1].startswith(f"vocis: {missing}: "))
        status, out, err = self.transcribe(missing, CLIP, "--json-errors")
        self.assertEqual(status, 1)
        self.assertIn(SPEECH, without_marks(out))
        failure = json.loads(err)
        self.assertEqual(failure["file"], missing)
        self.assertEqual(set(failure), {"file", "status", "message"})

    def test_a_damaged_tail_is_a_warning(self):
        with open(CLIP, "rb") as f, open(self.path("cut.wav"), "wb") as cut:
            cut.write(f.read()[:200001])
        status, out, err = self.transcribe(self.path("cut.wav"))
        self.assertEqual(status, 0)
        self.assertIn("my fellow americans", without_marks(out))
        self.assertTrue(err.startswith(f"vocis: warning: {self.path('cut.wav')}: "), err)

    def test_reading_fails(self):
        status, out, err = self.transcribe("/proc/self/mem")  # a file that answers EIO
        self.assertEqual((status, out), (1, ""))
        self.assertIn("/proc/self/mem: reading it failed", err)

    def test_streams(self):
        with open(CLIP, "rb") as f:
            encoded = f.read()
        wanted = self.transcribe(CLIP)[1]
        self.assertEqual(self.transcribe("-", stdin=encoded)[:2], (0, wanted))
        with wave.open(CLIP) as w:
            raw = w.readframes(w.getnframes())
        self.assertEqual(self.transcribe("-", "--raw-rate", "16000", stdin=raw)[:2], (0, wanted))
        stereo = b"".join(raw[i:i + 2] + b"\0\0" for i in range(0, len(raw), 2))
        self.assertEqual(self.transcribe("-", "--raw-rate=16000", "--raw-channels=2",
                                         "--raw-format=s16le", "--channel=0", stdin=stereo)[:2],
                         (0, wanted))
        os.mkfifo(self.path("pipe"))
        feeder = subprocess.Popen(["sh", "-c", 'cat "$1" > "$2"', "sh", CLIP, self.path("pipe")])
        self.assertEqual(self.transcribe(self.path("pipe"))[:2], (0, wanted))
        feeder.wait()
        status, _, err = self.transcribe("-")
        self.assertEqual(status, 1)
        self.assertTrue(err.startswith("vocis: stdin: "), err)

    def test_names_beyond_ascii(self):
        for name in ["にっぽん.wav", "a b'\"$.wav", "-dash.wav"]:
            shutil.copy(CLIP, self.path(name))
            status, _, err = self.transcribe("-o", self.path("out"), "--", name, cwd=self.folder)
            self.assertEqual((status, err), (0, ""))
            self.assertIn(SPEECH, without_marks(open(self.path("out", name[:-4] + ".txt")).read()))
        model = self.path("\u3042 \u0444")  # a model's too
        os.symlink(os.path.join(MODELS, "tiny.en"), model)
        status, out, err = run("transcribe", CLIP, "--model", model, "--beam-size", "1", "-q")
        self.assertEqual((status, err), (0, ""))
        self.assertIn(SPEECH, without_marks(out))
        broken = os.fsencode(self.folder) + b"/\xff\n\x1b[31m.wav"
        status, _, err = self.transcribe(broken, "--json-errors")
        self.assertEqual(status, 1)
        self.assertIn("\ufffd", json.loads(err)["file"])
        status, _, err = self.transcribe(broken)
        self.assertEqual(err.count("\n"), 1)  # no line feed and no colour from a file's name
        self.assertNotIn("\x1b", err)

    def test_short_and_silent(self):
        for seconds in [0, 0.01, 3]:
            raw = bytes(2 * int(16000 * seconds)) or b"\0\0"
            status, out, _ = self.transcribe("-", "--raw-rate", "16000", stdin=raw)
            self.assertEqual(status, 0, seconds)
            self.assertLess(len(out), 200, seconds)


def in_terminal(words, environment, seconds=120):
    """Runs with standard error on a terminal: exit status, standard output, what was drawn."""
    master, slave = pty.openpty()
    process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=slave,
                               env=dict(os.environ, TERM="xterm", HF_HUB_OFFLINE="1",
                                        **environment))
    os.close(slave)
    drawn, end = b"", time.time() + seconds
    while time.time() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not data:
                break
            drawn += data
    out = process.stdout.read().decode()
    process.stdout.close()
    os.close(master)
    return process.wait(), out, drawn.decode()


class Terminal(WithModel):
    def test_bar_and_colours(self):
        plain = self.transcribe(CLIP)[1]
        words = ["transcribe", *self.quick, CLIP]
        status, out, drawn = in_terminal(words, {"NO_COLOR": "1"})
        self.assertEqual((status, out), (0, plain))
        self.assertRegex(drawn, r"#* *-+ +0% ")
        self.assertIn("x real time", drawn)
        self.assertNotRegex(drawn, r"\x1b\[\d+m")
        status, out, drawn = in_terminal(words, {"NO_COLOR": ""})
        self.assertRegex(drawn, r"\x1b\[36m")
        status, out, drawn = in_terminal(words + ["--quiet"], {})
        self.assertEqual((status, out, drawn), (0, plain, ""))
        status, out, drawn = in_terminal(["transcribe", *self.quick, self.path("none")], {})
        self.assertRegex(drawn, r"\x1b\[31mvocis:\x1b\[0m .*none")


class Signals(WithModel):
    def start(self, *words):
        """A recording long enough to be interrupted."""
        with wave.open(CLIP) as w:
            raw = w.readframes(w.getnframes())
        with wave.open(self.path("long.wav"), "wb") as w:
            w.setparams((1, 2, 16000, 0, "NONE", ""))
            w.writeframes(raw * 60)
        return subprocess.Popen([PROGRAM, "transcribe", *self.quick, self.path("long.wav"), *words],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process):
        begin = time.time()
        out, err = process.communicate(timeout=60)
        return process.returncode, out.decode(), err.decode(), time.time() - begin

    def test_interrupt_keeps_what_is_done(self):
        for number in [signal.SIGINT, signal.SIGTERM]:
            process = self.start()
            first = process.stdout.readline().decode()
            process.send_signal(number)
            status, _, err, seconds = self.finish(process)
            self.assertEqual((status, err), (130, ""))
            self.assertIn("fellow americans", without_marks(first))
            self.assertLess(seconds, 30)

    def test_documents_of_an_interrupted_run(self):
        process = self.start("-v", "-f", "json", "-o", self.path("out"), CLIP)
        process.stderr.readline()  # the first segment, with its times
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process)[0], 130)
        self.assertEqual(os.listdir(self.path("out")), ["long.json"])
        with open(self.path("out/long.json")) as f:
            document = json.load(f)
        self.assertGreater(len(document["segments"]), 0)
        self.assertLess(document["segments"][-1]["end"], document["duration"])

    def test_second_interrupt_stops_at_once(self):
        process = subprocess.Popen([PROGRAM, "transcribe", *self.quick, "-"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=20), 130)
        process.communicate()


class Resuming(WithModel):
    """--resume: what was done before the process died is not lost and not done again."""

    def setUp(self):
        super().setUp()
        with wave.open(CLIP) as w:
            raw = w.readframes(w.getnframes())
        with wave.open(self.path("long.wav"), "wb") as w:
            w.setparams((1, 2, 16000, 0, "NONE", ""))
            w.writeframes((raw + bytes(32000)) * 12)

    def documents(self, folder):
        """Names and contents, but for what no two runs have in common."""
        found = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as f:
                found[name] = f.read()
            if name.endswith(".json"):
                found[name] = json.loads(found[name])
                del found[name]["peak_memory_bytes"]
                for seconds in ["total", "mel", "cut", "encode", "decode"]:
                    del found[name]["timings"][seconds]
        return found

    def kill_again_and_again(self, kills, seconds, words, cwd=None):
        """Standard output of the run that is left alone; the journal only grows meanwhile."""
        chance, journal = random.Random(kills), b""
        path = os.path.join(cwd or self.path("out"), "long.vocis-journal")
        for i in range(kills + 1):
            process = subprocess.Popen([PROGRAM, "transcribe", *self.quick, "--resume", *words],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd)
            if i < kills:
                time.sleep(chance.uniform(0, seconds))
                process.kill()
            out, err = process.communicate(timeout=300)
            if process.returncode == 0:  # it was quicker
                return out.decode()
            self.assertEqual((process.returncode, err), (-signal.SIGKILL, b""))
            if os.path.exists(path):
                with open(path, "rb") as f:
                    now = f.read()
                if "vad" not in words:  # where neighbours finish in any order
                    self.assertEqual(os.path.commonprefix([now, journal]),
                                     min(now, journal, key=len))
                journal = now
        self.fail("the last run did not end")

    def test_killed_at_any_moment(self):
        for chunking in ["sequential", "vad"]:
            words = ["--chunking", chunking, "-f", "txt,srt,json", self.path("long.wav")]
            begin = time.time()
            self.assertEqual(self.transcribe("-o", self.path("plain"), *words), (0, "", ""))
            seconds = time.time() - begin
            self.kill_again_and_again(3, 0.7 * seconds, ["-o", self.path("out"), *words])
            # the same documents, no journal, nothing half written
            self.assertEqual(self.documents(self.path("out")), self.documents(self.path("plain")))
            shutil.rmtree(self.path("out"))

    def test_standard_output(self):
        begin = time.time()
        wanted = self.transcribe(self.path("long.wav"))
        seconds = time.time() - begin
        os.mkdir(self.path("here"))
        out = self.kill_again_and_again(3, 0.7 * seconds, [self.path("long.wav")],
                                        cwd=self.path("here"))
        self.assertEqual((0, out, ""), wanted)
        self.assertEqual(os.listdir(self.path("here")), [])

    def test_interrupt(self):
        process = subprocess.Popen([PROGRAM, "transcribe", *self.quick, "--resume", "-v", "-f",
                                    "json", "-o", self.path("out"), self.path("long.wav")],
                                   stderr=subprocess.PIPE)
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate()
        self.assertEqual(process.returncode, 130)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["long.json", "long.vocis-journal"])
        for folder in ["out", "plain"]:
            self.assertEqual(self.transcribe("--resume", "-f", "json", "-o", self.path(folder),
                                             self.path("long.wav")), (0, "", ""))
        self.assertEqual(self.documents(self.path("out")), self.documents(self.path("plain")))

    def test_inputs_that_are_done_wait_for_the_others(self):
        shutil.copy(CLIP, self.path("a.wav"))
        words = ["--resume", "-f", "json", "-o", self.path("out"), self.path("a.wav"),
                 self.path("b.wav")]
        status, _, err = self.transcribe(*words)
        self.assertEqual(status, 1)
        self.assertIn("b.wav", err)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["a.json", "a.vocis-journal"])
        shutil.copy(CLIP, self.path("b.wav"))
        self.assertEqual(self.transcribe(*words), (0, "", ""))
        encode = {}
        for name in ["a", "b"]:
            with open(self.path("out", name + ".json")) as f:
                encode[name] = json.load(f)["timings"]["encode"]
        self.assertEqual(encode["a"], 0)  # nothing was done again
        self.assertGreater(encode["b"], 0)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["a.json", "b.json"])

    def test_other_settings_begin_anew(self):
        words = ["--resume", "-o", self.path("out"), CLIP]
        self.assertEqual(self.transcribe(*words, self.path("none"))[0], 1)
        status, _, err = self.transcribe(*words, "--suppress-tokens", "")
        self.assertEqual(status, 0)
        self.assertRegex(err, r"^vocis: warning: .*jfk.wav: .*-journal is of another input.*\n$")
        self.assertEqual(self.transcribe("-o", self.path("plain"), "--suppress-tokens", "",
                                         CLIP)[0], 0)
        self.assertEqual(self.documents(self.path("out")), self.documents(self.path("plain")))

    def test_journals_that_cannot_be_used(self):
        words = ["--resume", "-o", self.path("out"), CLIP]
        path = self.path("out", "jfk.vocis-journal")
        os.mkdir(self.path("out"))
        with open(path, "w") as f:
            f.write("a letter to a friend")
        status, out, err = self.transcribe(*words)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("left as it is", err)
        with open(path) as f:
            self.assertEqual(f.read(), "a letter to a friend")
        os.remove(path)
        with open(path, "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            status, out, err = self.transcribe(*words)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("jfk.vocis-journal is in use by another process", err)
        self.assertEqual(self.transcribe(*words), (0, "", ""))

    def test_full_disk(self):
        """The journal does not fit, then a document does not, then all does; what was done until
        a failure is written, as far as it fits."""
        for blocks, left in [(1, ["jfk.txt"]), (4, ["jfk.txt"]), (99, ["jfk.json", "jfk.txt"])]:
            limited = ["sh", "-c", f"trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"", "sh"]
            done = subprocess.run([*limited, PROGRAM, "transcribe", *self.quick, "--resume", "-o",
                                   self.path("out"), "-f", "txt,json", CLIP],
                                  capture_output=True, text=True)
            documents = [n for n in os.listdir(self.path("out")) if n != "jfk.vocis-journal"]
            self.assertEqual(sorted(documents), left)
            if len(left) < 2:
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr,
                                 r"^(vocis: .*jfk.wav: cannot write .*: File too large\n)+$")
                self.assertIn("journal" if blocks == 1 else "jfk.json", done.stderr)
            else:
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["jfk.json", "jfk.txt"])


class Listening(WithModel):
    """Real speech in real time, through a pipe and through a device that plays a file."""

    def events(self, words, pcm=None):
        """All events of a run; pcm comes in pieces of 20 ms every 20 ms."""
        process = subprocess.Popen([PROGRAM, "listen", *self.quick[:4], "--json", *words],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        feeder = threading.Thread(target=self.feed, args=(process.stdin, pcm))
        feeder.start()
        out = process.stdout.read().decode()
        feeder.join()
        self.assertEqual((process.wait(), process.stderr.read()), (0, b""))
        process.stdout.close()
        process.stderr.close()
        return [json.loads(line) for line in out.splitlines()]

    @staticmethod
    def feed(pipe, pcm):
        begin = time.monotonic()
        for i in range(0, len(pcm or b""), 640):
            time.sleep(max(0, begin + i / 32000 - time.monotonic()))
            pipe.write(pcm[i:i + 640])
            pipe.flush()
        pipe.close()

    @staticmethod
    def pcm():
        with wave.open(CLIP) as w:
            return w.readframes(w.getnframes())

    def check(self, events):
        """What every run promises. Returns the text of the finals."""
        shown, last, texts = {}, 0, []
        for e in events:
            self.assertGreaterEqual(e["heard"], last)
            last = e["heard"]
            if e["event"] == "partial":
                self.assertTrue(e["stable"].startswith(shown.get(e["utterance"], "")), e)
                shown[e["utterance"]] = e["stable"]
            if e["event"] == "final":
                self.assertIn("text", e)
                texts.append(e["text"])
        names = [e["event"] for e in events]
        self.assertEqual(names.count("speech_start"), names.count("speech_end"))
        self.assertEqual((names[-1], names.count("end"), names.count("skipped")), ("end", 1, 0))
        return without_marks(" ".join(texts))

    def test_words_come_while_they_are_said(self):
        pcm = self.pcm() + bytes(32000)
        events = self.events(["--raw-rate", "16000", "--pause", "500", "-"], pcm)
        text = self.check(events)
        self.assertGreater(sum(e["event"] == "partial" and e["stable"] != "" for e in events), 0)
        whole = without_marks(self.transcribe(CLIP)[1]).split()
        with open(self.path("have.txt"), "w") as f:
            f.write(text)
        with open(self.path("want.txt"), "w") as f:
            f.write(" ".join(whole))
        status, out, _ = run("eval", "--reference", self.path("want.txt"), "--hypothesis",
                             self.path("have.txt"), "--json")
        self.assertEqual(status, 0)
        self.assertLessEqual(json.loads(out)["wer"]["errors"], 5, text)
        late = [f["heard"] - e["end"] - 0.5 for e in events if e["event"] == "speech_end"
                for f in events if f["event"] == "final" and f["utterance"] == e["utterance"]]
        late.sort()
        print(f"finals {1000 * late[len(late) // 2]:.0f} ms (median), {1000 * late[-1]:.0f} ms "
              "(most) after the pause was over", file=sys.stderr)
        self.assertLess(late[len(late) // 2], 2)  # other programs may be busy

    def test_a_device(self):
        events = self.events(["--device", f"file:{CLIP}", "--step", "0"])
        self.assertIn("country", self.check(events))
        self.assertEqual([e for e in events if e["event"] == "partial"], [])
        self.assertGreaterEqual(events[-1]["heard"], 10.9)

    def test_a_wav_on_a_pipe_and_nothing(self):
        with open(CLIP, "rb") as f:
            data = f.read()
        status, out, err = run("listen", *self.quick[:4], "--times", "-", stdin=data)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("country", without_marks(out))
        self.assertRegex(out, r"(?m)^\[00:00:0\d\.\d\d\]  ")
        status, out, err = run("listen", *self.quick[:4], "--raw-rate", "16000", "-", stdin=b"")
        self.assertEqual((status, out), (0, ""), err)

    def test_interrupt_finishes_what_was_said(self):
        process = subprocess.Popen([PROGRAM, "listen", *self.quick[:4], "--raw-rate", "16000",
                                    "--pause", "10000", "-"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(self.pcm())
        process.stdin.flush()
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (130, b""))
        self.assertIn("country", without_marks(out.decode()))

    def test_a_stream_in_little_memory(self):
        words = ["--stream", "--condition-on-previous-text", "False"]
        status, out, err = self.transcribe(*words, CLIP, "-", stdin=self.wav(20))
        self.assertEqual((status, err), (0, ""))
        self.assertGreaterEqual(without_marks(out.replace("\n", " ")).count("your country"), 36)
        for words in [["-f", "srt"], ["-o", self.path("out")], ["--chunking", "vad"]]:
            self.assertIn("--stream", self.usage("transcribe", "--stream", *words, CLIP))

    def wav(self, times):
        with wave.open(self.path("long.wav"), "wb") as w:
            w.setparams((1, 2, 16000, 0, "NONE", ""))
            w.writeframes(self.pcm() * times)
        with open(self.path("long.wav"), "rb") as f:
            return f.read()


class Converting(WithModel):
    def convert(self, *words):
        return run("convert", os.path.join(MODELS, "tiny.en"), *words)

    def test_what_is_written_is_read(self):
        for dtype, words in [("int8", []), ("int4", ["--group", "32", "--keep", "encoder.*"])]:
            out = self.path(dtype)
            self.assertEqual(self.convert(out, "--dtype", dtype, *words), (0, "", ""))
            facts = json.loads(run("inspect", out, "--json")[1])
            self.assertEqual((facts["format"], facts["layout"]), ("safetensors", "mlx"))
            self.assertEqual(facts["dtypes"]["affine"]["tensors"], 24 + 40 + 1
                             if dtype == "int8" else 40 + 1)
            text = run("transcribe", "--model", out, "--beam-size", "1", CLIP)[1]
            self.assertIn(SPEECH, without_marks(text))

    def test_places(self):
        out = self.path("new")
        self.assertEqual(self.convert(out)[0], 0)
        status, printed, err = self.convert(out)
        self.assertEqual((status, printed), (1, ""))
        self.assertIn("exists already", err)
        self.assertEqual(self.convert(out, "--dtype", "bf16", "--force"), (0, "", ""))
        status, _, err = self.convert(os.path.join(MODELS, "tiny.en"), "--force")
        self.assertEqual(status, 1)
        self.assertIn("model.bin", err)
        self.assertEqual(sorted(os.listdir(self.folder)), ["new"])
        status, _, err = run("convert", self.path("none"), self.path("other"))
        self.assertEqual(status, 1)
        self.assertTrue(err.startswith(f"vocis: {self.path('none')}: "), err)

    def test_calibration(self):
        out = self.path("new")
        status, printed, err = self.convert(out, "--dtype", "int4", "-c", CLIP, "-c",
                                            self.path("none.wav"))
        self.assertEqual((status, printed), (1, ""))
        self.assertIn("none.wav", err)
        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(self.convert(out, "--dtype", "int4", "--calibrate", CLIP), (0, "", ""))
        text = run("transcribe", "--model", out, "--beam-size", "1", CLIP)[1]
        self.assertIn(SPEECH, without_marks(text))

    def test_a_full_disk_leaves_nothing(self):
        limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 20000; exec \"$@\"", "sh"]  # 512 bytes each
        done = subprocess.run([*limited, PROGRAM, "convert", os.path.join(MODELS, "tiny.en"),
                               self.path("new")], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("File too large", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])


class Measuring(WithModel):
    def test_bench(self):
        status, out, err = run("bench", "--model", os.path.join(MODELS, "tiny.en"), "--runs", "1",
                               "--json")
        self.assertEqual((status, err), (0, ""))
        figures = json.loads(out)
        self.assertGreater(figures["peak_gflops"], 0)
        self.assertTrue(0 < figures["encode_share_of_peak"] < 1.5)
        self.assertEqual([(s["rows"], s["windows"]) for s in figures["decoder_steps"]],
                         [(1, 1), (5, 1), (4, 4), (8, 8), (16, 16)])
        self.assertGreater(figures["read_gbs"], 0)

    def test_every_arithmetic_and_chunking_hears_the_words(self):
        for compute in ["auto", "f32", "bf16", "int8", "int4"]:
            for chunking in [["sequential"], ["none"], ["vad", "--batch-size", "3"]]:
                words = ["--compute", compute, "--chunking", *chunking, CLIP]
                status, out, err = self.transcribe("--quiet", *words)
                self.assertEqual((status, err), (0, ""), words)
                self.assertIn(SPEECH, " ".join(out.split()), words)
        status, out, err = self.transcribe("--chunking", "vad", "--clip-timestamps", "1", CLIP)
        self.assertNotEqual(status, 0)
        self.assertIn("exclude each other", err)
        for wrong in [["--compute", "f8"], ["--chunking", "nowhere"], ["--batch-size", "0"]]:
            self.assertEqual(self.transcribe(*wrong, CLIP)[0], 2)

    def test_speculation_changes_nothing(self):
        tiny = os.path.join(MODELS, "tiny.en")
        greedy = ["--quiet", "--beam-size", "1", "--verbose", "True", CLIP]
        status, plain, err = self.transcribe(*greedy)
        self.assertEqual((status, err), (0, ""))
        for words in [["--speculate", "ngram"], ["--speculate", "auto"], ["--draft", tiny],
                      ["--speculate", "draft", "--draft", tiny, "--draft-compute", "int4"]]:
            self.assertEqual(self.transcribe(*words, *greedy), (0, plain, ""), words)
        for wrong in [["--speculate", "draft"], ["--speculate", "ngram", "--draft", tiny],
                      ["--draft-compute", "int8"], ["--speculate", "auto", "--beam-size", "5"],
                      ["--speculate", "auto", "--temperature", "1"]]:
            self.assertEqual(self.transcribe("--beam-size", "1", *wrong, CLIP)[0], 2, wrong)
        base = os.path.join(MODELS, "base")
        if os.path.exists(base):
            status, out, err = self.transcribe("--draft", base, *greedy)
            self.assertEqual((status, out), (1, ""))
            self.assertIn("another vocabulary", err)

    def test_eval_of_a_manifest(self):
        text = ("And so my fellow Americans ask not what your country can do for you, "
                "ask what you can do for your country")
        shutil.copy(CLIP, self.path("clip.wav"))
        with open(self.path("list.jsonl"), "w") as f:
            f.write(json.dumps({"audio": "clip.wav", "text": text}) + "\r\n\n")
            f.write(json.dumps({"audio": CLIP, "text": text}) + "\n")
        options = self.quick + ["--json"]
        status, out, err = run("eval", *options, "--verbose", self.path("list.jsonl"))
        self.assertEqual((status, err), (0, ""))
        rates = json.loads(out)
        self.assertEqual((rates["files"], rates["failed"]), (2, 0))
        self.assertEqual(rates["wer"]["reference"], 44)
        self.assertLessEqual(rates["wer"]["errors"], 2)
        self.assertEqual(len(rates["list"]), 2)
        self.assertAlmostEqual(rates["audio_seconds"], 22)
        with open(self.path("list.tsv"), "w") as f:
            f.write(f"clip.wav\t{text}\nnone.wav\tnothing\nno tab\n")
        status, out, err = run("eval", *options, self.path("list.tsv"))
        self.assertEqual(status, 1)
        rates = json.loads(out)
        self.assertEqual((rates["files"], rates["failed"]), (1, 2))
        self.assertIn("none.wav", err)
        self.assertIn("list.tsv:3: ", err)


if __name__ == "__main__":
    names = sys.argv[2:] or [n for n, c in list(globals().items())
                             if isinstance(c, type) and issubclass(c, Program)]
    suite = unittest.TestSuite()
    for chosen in names:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(globals()[chosen]))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.skipped else 0)
