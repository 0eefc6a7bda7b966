#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Goldens of the log-mel spectrogram, from openai-whisper's own code.

    apt install python3-torch python3-numpy
    pip download --no-deps --no-binary :all: openai-whisper==20250625, unpack, then
    python3 tools/golden/mel.py UNPACKED/whisper [tests/data/audio]

Only the module `audio` of openai-whisper is loaded. Reads jfk.wav in the second folder and
writes there every 10th frame of log_mel_spectrogram for 80 and 128 bins, without padding and
(80 bins, the clip and 2 s after it) with 30 s of it, and the filter banks as rows (filter, bin,
weight) of all that is not zero.
"""
import importlib
import sys
import types
import wave

import numpy
import torch

STRIDE = 10


def load_audio_module(folder):
    """whisper.audio without whisper/__init__.py, which wants the whole package installed."""
    package = types.ModuleType("whisper")
    package.__path__ = [folder]
    sys.modules["whisper"] = package
    return importlib.import_module("whisper.audio")


def main():
    audio = load_audio_module(sys.argv[1])
    folder = sys.argv[2] if len(sys.argv) > 2 else "tests/data/audio"
    with wave.open(f"{folder}/jfk.wav") as clip:
        assert (clip.getframerate(), clip.getnchannels(), clip.getsampwidth()) == (16000, 1, 2)
        pcm = numpy.frombuffer(clip.readframes(clip.getnframes()), numpy.int16)
    samples = torch.from_numpy(pcm.astype(numpy.float32) / 32768.0)

    def save(name, values):
        numpy.save(f"{folder}/{name}.npy", numpy.ascontiguousarray(values, numpy.float32))

    for n_mels in (80, 128):
        save(f"jfk_mel{n_mels}", audio.log_mel_spectrogram(samples, n_mels).numpy()[:, ::STRIDE])
        filters = audio.mel_filters("cpu", n_mels).numpy()
        save(f"mel_filters_{n_mels}", [(m, b, filters[m, b]) for m, b in numpy.argwhere(filters)])
    padded = audio.log_mel_spectrogram(samples, 80, padding=480000).numpy()
    save("jfk_mel80_pad30s", padded[:, :1300:STRIDE])
    print("torch", torch.__version__, "numpy", numpy.__version__)


if __name__ == "__main__":
    main()
