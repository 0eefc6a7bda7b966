# SPDX-License-Identifier: MIT
"""One peer, one run: ENGINE SETTINGS, where SETTINGS is a JSON object; prints the text.

Runs with the interpreter of the peer's own environment; see bench/peers. Times of segments and
conditioning on what was said before are as in vocis, fallback to other temperatures is off."""
import json
import sys


def faster_whisper(job):
    from faster_whisper import BatchedInferencePipeline, WhisperModel
    model = WhisperModel(job["model"], device="cpu", compute_type=job["arithmetic"],
                         cpu_threads=job["threads"])
    options = {"language": job["language"], "beam_size": job["beam"], "temperature": 0}
    if job["times"] is not None:
        options["without_timestamps"] = not job["times"]
    if job["batch"]:
        model = BatchedInferencePipeline(model=model)
        options["batch_size"] = job["batch"]
    segments, _ = model.transcribe(job["audio"], **options)
    return "".join(s.text for s in segments)


def whisper_cpp(job):
    from pywhispercpp.model import Model
    options = {"language": job["language"] or "auto", "n_threads": job["threads"],
               "temperature_inc": 0.0, "print_progress": False, "print_realtime": False,
               "no_timestamps": job["times"] is False}
    if job["beam"] > 1:
        beams = {"beam_size": job["beam"], "patience": -1.0}
        model = Model(job["model"], params_sampling_strategy=1, beam_search=beams, **options)
    else:
        model = Model(job["model"], **options)
    # the binding takes the spaces off that separate words of two segments
    return " ".join(s.text for s in model.transcribe(job["audio"]))


def openai_whisper(job):
    import torch
    import whisper
    torch.set_num_threads(job["threads"])
    model = whisper.load_model(job["model"], device="cpu")
    return model.transcribe(job["audio"], fp16=False, language=job["language"], temperature=0.0,
                            beam_size=job["beam"] if job["beam"] > 1 else None,
                            without_timestamps=job["times"] is False)["text"]


if __name__ == "__main__":
    engines = {"faster-whisper": faster_whisper, "whisper.cpp": whisper_cpp,
               "openai-whisper": openai_whisper}
    print(engines[sys.argv[1]](json.loads(sys.argv[2])).strip())
