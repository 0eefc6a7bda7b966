#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden values of the speaker encoder: what Resemblyzer's embed_utterance makes of
tests/data/audio/jfk.wav (as it is: preprocess_wav is left out), all of it and each of its windows.

    pip install resemblyzer && python tools/golden/speaker.py

Written with Resemblyzer 0.1.4, librosa 0.11, torch 2.15."""
import os
import sys
import wave

import numpy as np
from resemblyzer import VoiceEncoder
from resemblyzer import audio

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "data")


def main():
    with wave.open(os.path.join(HERE, "audio", "jfk.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    samples = samples.astype(np.float32) / 32768
    voice, parts, slices = VoiceEncoder("cpu", verbose=False).embed_utterance(samples, True)
    starts = np.array([s.start for s in slices], np.float32)
    # The mean of the windows first, then each window behind the sample that it begins at.
    rows = np.zeros((1 + len(parts), 257), np.float32)
    rows[0, 1:] = voice
    rows[1:, 0] = starts
    rows[1:, 1:] = parts
    os.makedirs(os.path.join(HERE, "ge2e"), exist_ok=True)
    np.save(os.path.join(HERE, "ge2e", "jfk_voices.npy"), rows)
    mel = audio.wav_to_mel_spectrogram(samples)[:50]
    np.save(os.path.join(HERE, "ge2e", "jfk_mel40.npy"), np.ascontiguousarray(mel))
    print(f"{len(parts)} windows")


if __name__ == "__main__":
    sys.exit(main())
