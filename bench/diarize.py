#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Diarization error rate of `vocis diarize` on mixtures of clips whose speakers are known.

Turns of different speakers, cut at the pauses of single-speaker clips, are put behind each other
with pauses of 0.2 to 1 s over a faint noise floor; in the set "overlap" some turns begin before the
one before has ended. No piece of sound is used twice in a mixture. Where somebody speaks follows
from the energy of the clean clips, not from a voice activity detector. The error rate is that of
NIST's md-eval: missed speech, false alarms and confused speakers, over the time of all speakers,
under the best one-to-one mapping of speakers, found by trying all of them. The sets "tune" and
"test" share no speaker.

    python3 bench/diarize.py --data ../shared/data --vocis build/release/cmake/program/vocis

Needs numpy and ffmpeg.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import wave

import numpy as np

RATE = 16000
STEP = RATE // 100  # frames of 10 ms

FILM = "Blaizzy__mlx-audio/examples/"
BIBLE = FILM + "bible-audiobook/audios/bible-akjv/"
PROMPTS = FILM + "voice_prompts/"
HIFI = "ggml-org__whisper.cpp/wer_testing/6097_5_mins/audio/"
BRAIN = "speechbrain__speechbrain/tests/samples/"
STEREO = "SYSTRAN__faster-whisper/tests/data/stereo_diarization.wav"

# Speaker: files, and the channel where it matters. af_heart, am_michael and en_* are synthetic.
SPEAKERS = {
    "tune": {
        "6097": [HIFI],
        "af_heart": [BIBLE + "af_heart/"],
        "en_man": [PROMPTS + "en_man.wav"],
        "1995": ["wenet-e2e__wenet/test/resources/librispeech-1995-1837-0001.wav"],
        "spk1": [BRAIN + "ASR/"],
        "kennedy": ["ggml-org__whisper.cpp/samples/jfk.wav"],
    },
    "test": {
        "am_michael": [BIBLE + "am_michael/"],
        "en_man_deep": [PROMPTS + "en_man_deep.wav"],
        "en_woman": [PROMPTS + "en_woman.wav"],
        "lj": [BRAIN + "TTS/LJ050-0131.wav"],
        "ls_test": ["ml-explore__mlx-examples/whisper/mlx_whisper/assets/ls_test.flac"],
        "quilter": ["OpenNMT__CTranslate2/tests/data/audio/mr_quilter.npy"],
        "left": [(STEREO, 0)],
        "right": [(STEREO, 1)],
    },
}


# ---- clips --------------------------------------------------------------------------------------

def decode(path, channel=None):
    """A file as mono float32 at 16 kHz."""
    if path.endswith(".npy"):
        return np.load(path).astype(np.float32).reshape(-1)
    pan = ["-af", f"pan=mono|c0=c{channel}"] if channel is not None else ["-ac", "1"]
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, *pan, "-ar", str(RATE),
                          "-f", "f32le", "-"], check=True, capture_output=True).stdout
    return np.frombuffer(raw, np.float32)


def loud_frames(samples):
    """True for each 10 ms that holds speech: within 35 dB of the clip's loud frames, pauses below
    0.2 s filled."""
    n = len(samples) // STEP
    power = (samples[:n * STEP].reshape(n, STEP).astype(np.float64) ** 2).mean(1)
    on = power > np.percentile(power, 95) * 10 ** -3.5
    filled = on.copy()
    last = None
    for i in np.flatnonzero(on):
        if last is not None and i - last <= 20:
            filled[last:i] = True
        last = i
    return filled


def runs(frames):
    """[begin, end) of each stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], frames.astype(np.int8), [0]))))
    return list(zip(edges[::2], edges[1::2]))


def cut_long(samples, a, b):
    """Parts of at most 4 s of frames [a, b), cut where it is quietest near the middle."""
    if b - a <= 400:
        return [(a, b)]
    power = (samples[a * STEP:b * STEP].reshape(b - a, STEP).astype(np.float64) ** 2).mean(1)
    smooth = np.convolve(power, np.ones(5), "same")
    first = (b - a) * 3 // 10
    at = a + first + int(np.argmin(smooth[first:b - a - first]))
    return cut_long(samples, a, at) + cut_long(samples, at, b)


def pieces_of(samples):
    """Turns of 1 to 7 s, each with the frames in which there is speech."""
    frames = loud_frames(samples)
    found, begin, end = [], None, None
    for a, b in runs(frames):
        if begin is not None and b - begin > 700:
            found.append((begin, end))
            begin = None
        if begin is None:
            begin = a
        end = b
        if end - begin >= 250:
            found.append((begin, end))
            begin = None
    if begin is not None:
        found.append((begin, end))
    cut = [part for a, b in found for part in cut_long(samples, a, b)]
    return [(samples[a * STEP:b * STEP], frames[a:b]) for a, b in cut if b - a >= 100]


def load_speakers(data, which):
    speakers = {}
    for name, files in SPEAKERS[which].items():
        pieces = []
        for entry in files:
            file, channel = entry if isinstance(entry, tuple) else (entry, None)
            path = os.path.join(data, file)
            names = ([os.path.join(path, f) for f in sorted(os.listdir(path)) if f.endswith("wav")]
                     if os.path.isdir(path) else [path])
            for one in names:
                pieces += pieces_of(decode(one, channel))
        speakers[name] = pieces
    return speakers


# ---- mixtures -----------------------------------------------------------------------------------

def make_mixture(speakers, names, rng, overlap):
    """Samples and bool[speakers, frames]."""
    turns = []
    left = {n: list(rng.permutation(len(speakers[n])))[:6] for n in names}
    who = None
    while any(left.values()):
        choice = [n for n in names if left[n] and n != who] or [n for n in names if left[n]]
        who = choice[rng.integers(len(choice))]
        turns.append((who, speakers[who][left[who].pop()]))
    gain = {n: 10 ** (rng.uniform(-6, 0) / 20) for n in names}
    out, at, placed = np.zeros(0, np.float32), 50, []
    for who, (sound, frames) in turns:
        if placed and overlap and rng.random() < 0.25:
            at -= int(rng.integers(30, 80))
        elif placed:
            at += int(rng.integers(20, 100))
        level = np.sqrt(np.mean(sound.astype(np.float64) ** 2))
        placed.append((who, at, sound * (gain[who] * 0.06 / level), frames))
        at += len(frames)
    total = max(a + len(f) for _, a, _, f in placed) + 50
    out = rng.normal(0, 10 ** (-60 / 20), total * STEP).astype(np.float32)
    truth = np.zeros((len(names), total), bool)
    for who, a, sound, frames in placed:
        out[a * STEP:a * STEP + len(sound)] += sound.astype(np.float32)
        truth[names.index(who), a:a + len(frames)] |= frames
    return np.clip(out, -1, 1), truth


def mixtures(speakers, count, n_speakers, seed, overlap):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        names = [str(n) for n in rng.choice(sorted(speakers), n_speakers, replace=False)]
        yield make_mixture(speakers, names, rng, overlap)


def write_wav(path, samples):
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((samples * 32767).astype("<i2").tobytes())


# ---- scoring ------------------------------------------------------------------------------------

def scored(truth, collar, with_overlap):
    """Frames that count: `collar` seconds around every boundary of the reference do not."""
    keep = np.ones(truth.shape[1], bool)
    width = int(round(collar * 100))
    for row in truth:
        for edge in np.flatnonzero(np.diff(row.astype(np.int8))) + 1:
            if width:
                keep[max(0, edge - width):edge + width] = False
    return keep if with_overlap else keep & (truth.sum(0) < 2)


def error_rate(truth, guess, collar, with_overlap):
    """Seconds: missed, false alarm, confusion, all speech; of the best mapping."""
    keep = scored(truth, collar, with_overlap)
    t, g = truth[:, keep], guess[:, keep]
    n, m = t.sum(0), g.sum(0)
    both = t.astype(np.int64) @ g.T.astype(np.int64)  # [speakers, guesses]
    if both.shape[0] > both.shape[1]:
        both = both.T
    right = max((sum(both[i, j] for i, j in enumerate(order))
                 for order in itertools.permutations(range(both.shape[1]), both.shape[0])),
                default=0)
    missed, alarm = np.maximum(n - m, 0).sum(), np.maximum(m - n, 0).sum()
    confused = np.minimum(n, m).sum() - right
    return np.array([missed, alarm, confused, n.sum()]) / 100


def read_rttm(text, frames):
    rows = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[0] != "SPEAKER":
            raise SystemExit(f"not a line of RTTM: {line}")
        start, length = float(fields[3]), float(fields[4])
        row = rows.setdefault(fields[7], np.zeros(frames, bool))
        row[int(round(start * 100)):int(round((start + length) * 100))] = True
    return np.array(list(rows.values())) if rows else np.zeros((1, frames), bool)


# ---- the measurement ----------------------------------------------------------------------------

def diarize(vocis, samples, frames, options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mixture.wav")
        write_wav(path, samples)
        done = subprocess.run([vocis, "diarize", "--quiet", *options, path], capture_output=True,
                              text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return read_rttm(done.stdout, frames)


def measure(name, work, guess_of):
    """One line of the table."""
    sums = {key: np.zeros(4) for key in ((0.25, False), (0.25, True), (0.0, True))}
    right_count = count = 0
    seconds = 0
    for samples, truth in work:
        guess = guess_of(samples, truth)
        guess = guess[guess.any(1)] if guess.any() else guess
        count += 1
        seconds += len(samples) / RATE
        right_count += len(guess) == len(truth)
        for key in sums:
            sums[key] += error_rate(truth, guess, *key)
    rates = {key: 100 * s[:3].sum() / s[3] for key, s in sums.items()}
    parts = 100 * sums[0.25, False][:3] / sums[0.25, False][3]
    print(f"{name:28} {seconds / 60:5.1f} min  {right_count:2}/{count}  "
          f"{rates[0.25, False]:5.1f} ({parts[0]:.1f} + {parts[1]:.1f} + {parts[2]:.1f})  "
          f"{rates[0.25, True]:5.1f}  {rates[0.0, True]:5.1f}", flush=True)
    return {"set": name, "der": rates[0.25, False], "der_overlap": rates[0.25, True],
            "der_no_collar": rates[0.0, True], "right_count": right_count, "count": count}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("VOCIS_TEST_DATA", "../shared/data"))
    parser.add_argument("--vocis", default="build/release/cmake/program/vocis")
    parser.add_argument("--set", choices=SPEAKERS, action="append", help="tune, test (both)")
    parser.add_argument("--count", type=int, default=15, help="mixtures of each kind (15)")
    parser.add_argument("--json", help="write the figures there too")
    args, options = parser.parse_known_args()
    print(f"{'':28} {'sound':>9}  right number of speakers\n{'':45}"
          f"DER, collar 0.25 s, no overlap (missed + false alarm + confusion)\n{'':45}"
          "with overlap, with overlap and no collar")
    lines = []
    for which in args.set or list(SPEAKERS):
        speakers = load_speakers(args.data, which)
        for n, overlap, known in itertools.product((2, 3), (False, True), (False, True)):
            more = [*options, "--num-speakers", str(n)] if known else options
            name = f"{which}, {n} speakers{', overlap' * overlap}{', told' * known}"
            work = mixtures(speakers, args.count, n, 1000 * n + overlap, overlap)
            lines.append(measure(name, work, lambda s, t, more=more: diarize(
                args.vocis, s, t.shape[1], more)))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(lines, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
