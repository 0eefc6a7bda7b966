# SPDX-License-Identifier: MIT
"""One peer, one run: ENGINE MODE MODEL AUDIO THREADS BEAM; prints the text. See bench/peers."""
import sys


def faster_whisper(mode, model, audio, threads, beam):
    from faster_whisper import BatchedInferencePipeline, WhisperModel
    compute, _, batch = mode.partition("-batch")
    whisper = WhisperModel(model, device="cpu", compute_type=compute, cpu_threads=threads)
    options = dict(language="en", beam_size=beam, temperature=0, compression_ratio_threshold=None,
                   log_prob_threshold=None)
    if batch:
        segments, _ = BatchedInferencePipeline(model=whisper).transcribe(audio,
                                                                        batch_size=int(batch),
                                                                         **options)
    else:
        segments, _ = whisper.transcribe(audio, **options)
    return "".join(s.text for s in segments)


def whisper_cpp(mode, model, audio, threads, beam):
    from pywhispercpp.model import Model
    options = dict(language="en", n_threads=threads, print_progress=False, print_realtime=False)
    if beam > 1:
        options.update(params_sampling_strategy=1,
                       beam_search={"beam_size": beam, "patience": -1.0})
    if mode == "greedy":
        options.update(temperature_inc=0.0)
    return " ".join(s.text for s in Model(model, **options).transcribe(audio))


def openai_whisper(mode, model, audio, threads, beam):
    import torch
    import whisper
    torch.set_num_threads(threads)
    result = whisper.load_model(model, device="cpu").transcribe(
        audio, fp16=False, language="en", temperature=0.0, beam_size=beam if beam > 1 else None)
    return result["text"]


if __name__ == "__main__":
    engine, mode, model, audio, threads, beam = sys.argv[1:7]
    run = {"faster-whisper": faster_whisper, "whisper.cpp": whisper_cpp,
           "openai-whisper": openai_whisper}
    print(run[engine](mode, model, audio, int(threads), int(beam)).strip())
