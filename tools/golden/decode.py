#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden results of decoding, from the reference's own classes.

    pip download --no-deps --no-binary :all: openai-whisper==20250625, unpack, then
    python3 tools/golden/decode.py UNPACKED/whisper/decoding.py > tests/data/decode/golden.json

Runs the decoding task of openai-whisper (greedy, sampling and beam decoders, ranker and logit
filters) over a toy language model whose logits are a hash of the whole token history; the same
toy is tests/decode/support_toy.c. Sampling draws from the reference's distribution with the
random numbers of src/decode/sample.c. Needs torch (any CPU build) and numpy.
"""
import hashlib
import importlib.util
import json
import random
import sys
import types

import numpy as np
import torch

GAMMA = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def mix_array(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed, sample, step):
    stream = mix((mix((seed + GAMMA) & MASK) + (sample + 1) * GAMMA) & MASK)
    return (mix((stream + (step + 1) * GAMMA) & MASK) >> 11) * 2.0**-53


class Toy:
    """Logits [n_vocab] after a token history; all arithmetic is exact or one float32 rounding."""

    def __init__(self, seed, n_vocab, scale, eot, eot_bias, eot_slope, special_begin, special_bias):
        self.seed, self.n_vocab, self.eot = seed, n_vocab, eot
        self.scale = np.float32(scale)
        self.eot_bias, self.eot_slope = np.float32(eot_bias), np.float32(eot_slope)
        self.special_begin, self.special_bias = special_begin, np.float32(special_bias)
        self.ids = np.arange(1, n_vocab + 1, dtype=np.uint64) * np.uint64(GAMMA)

    def logits(self, history):
        h = mix(self.seed)
        for token in history:
            h = mix(h ^ ((token + 1) * GAMMA & MASK))
        u = mix_array(self.ids + np.uint64(h)) >> np.uint64(40)
        x = u.astype(np.float32) * np.float32(2.0**-24)
        x = x * x
        x = x * x
        x = x * self.scale
        x[self.special_begin :] += self.special_bias
        x[self.eot] += self.eot_bias + self.eot_slope * np.float32(len(history))
        return x


class ToyInference:
    def __init__(self, toy):
        self.toy = toy

    def logits(self, tokens, audio_features):
        rows = [self.toy.logits(row) for row in tokens.tolist()]
        return torch.from_numpy(np.stack(rows))[:, None, :]

    def rearrange_kv_cache(self, source_indices):
        pass

    def cleanup_caching(self):
        pass


class CountedCategorical:
    """In place of torch's: inverse CDF with counter-based random numbers."""

    seed, step = 0, 0

    def __init__(self, logits):
        self.p = torch.softmax(logits.double(), dim=-1).numpy()

    def sample(self):
        cls = CountedCategorical
        tokens = []
        for sample, p in enumerate(self.p):
            cdf = np.cumsum(p)
            u = uniform(cls.seed, sample, cls.step) * cdf[-1]
            tokens.append(int(np.searchsorted(cdf, u, side="right")))
        cls.step += 1
        return torch.tensor(tokens)


def load_reference(path):
    """decoding.py with stand-ins for its siblings, which it needs for text and audio only."""
    package = types.ModuleType("whisper")
    package.__path__ = []
    sys.modules["whisper"] = package
    for name, values in {
        "audio": {"CHUNK_LENGTH": 30},
        "tokenizer": {"Tokenizer": object, "get_tokenizer": None},
        "utils": {"compression_ratio": lambda text: 0.0},
    }.items():
        module = types.ModuleType("whisper." + name)
        module.__dict__.update(values)
        sys.modules["whisper." + name] = module
    spec = importlib.util.spec_from_file_location("whisper.decoding", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["whisper.decoding"] = module
    spec.loader.exec_module(module)
    module.Categorical = CountedCategorical
    return module


def make_tokenizer(case):
    stamps = case["timestamps"] or {"begin": 0, "no_timestamps": None}
    blank = [t for t in case["suppress_first"] if t != case["lm"]["eot"]]
    return types.SimpleNamespace(
        eot=case["lm"]["eot"],
        no_speech=None,
        timestamp_begin=stamps["begin"],
        no_timestamps=stamps["no_timestamps"],
        encode=lambda text: blank,
        decode=lambda tokens: "",
    )


def run(ref, case):
    class Ranker(ref.MaximumLikelihoodRanker):
        def rank(self, tokens, sum_logprobs):
            # The reference divides by 0 for an empty sequence without a length penalty
            # (normally prevented by SuppressBlank); ours counts it as one token.
            if self.length_penalty is None:
                tokens = [[t if len(t) else torch.zeros(1) for t in s] for s in tokens]
            return super().rank(tokens, sum_logprobs)

    class Task(ref.DecodingTask):
        def __init__(self):
            lm = case["lm"]
            self.tokenizer = make_tokenizer(case)
            self.options = ref.DecodingOptions(language="en", temperature=case["temperature"])
            self.n_group = case["best_of"] if case["temperature"] > 0 else case["beam_size"]
            self.n_ctx, self.sample_len = case["max_length"], case["max_tokens"]
            self.initial_tokens = tuple(case["prompt"])
            self.sample_begin, self.sot_index = len(self.initial_tokens), 0
            self.inference = ToyInference(Toy(**lm))
            self.sequence_ranker = Ranker(case["length_penalty"])
            if case["temperature"] > 0 or case["greedy"]:
                self.decoder = ref.GreedyDecoder(case["temperature"], lm["eot"])
            else:
                self.decoder = ref.BeamSearchDecoder(
                    case["beam_size"], lm["eot"], self.inference, case["patience"]
                )
            self.logit_filters = []
            if case["suppress_first"]:
                self.logit_filters.append(ref.SuppressBlank(self.tokenizer, self.sample_begin))
            if case["suppress"]:
                self.logit_filters.append(ref.SuppressTokens(case["suppress"]))
            if case["timestamps"]:
                self.logit_filters.append(
                    ref.ApplyTimestampRules(
                        self.tokenizer, self.sample_begin, case["timestamps"]["max_initial"]
                    )
                )

        def _get_audio_features(self, mel):
            return mel

        def _detect_language(self, audio_features, tokens):
            return ["en"], None

        def _main_loop(self, audio_features, tokens):
            out = super()._main_loop(audio_features, tokens)
            self.final_tokens = out[0].tolist()
            return out

    CountedCategorical.seed, CountedCategorical.step = case["seed"], 0
    task = Task()
    result = task.run(torch.zeros(1, 1))[0]
    # Rows that had to be stepped: the prompt once, then each chosen token but eot and the last.
    fed = 1
    for row in task.final_tokens:
        chosen = row[task.sample_begin :] + [task.tokenizer.eot]
        fed += min(chosen.index(task.tokenizer.eot), len(chosen) - 2)
    return {
        "rows_stepped": fed if isinstance(task.decoder, ref.GreedyDecoder) else None,
        "tokens": result.tokens,
        "sum_logprob": result.avg_logprob * (len(result.tokens) + 1),
        "avg_logprob": result.avg_logprob,
    }


N_TEXT, N_SPECIAL, N_STAMPS = 90, 6, 40
EOT, NO_STAMPS, STAMPS = N_TEXT, N_TEXT + N_SPECIAL - 1, N_TEXT + N_SPECIAL


def make_case(rng, name, **over):
    lm = {
        "seed": rng.getrandbits(32),
        "n_vocab": N_TEXT + N_SPECIAL + N_STAMPS,
        "scale": rng.choice([4.0, 8.0, 14.0]),
        "eot": EOT,
        "eot_bias": rng.choice([-4.0, -1.0, 0.0, 1.5]),
        "eot_slope": rng.choice([0.0, 0.0625, 0.25, 0.5]),
        "special_begin": STAMPS,
        "special_bias": 0.0,
    }
    case = {
        "name": name,
        "lm": lm,
        "prompt": [rng.randrange(EOT) for _ in range(rng.randrange(6))] + [EOT + 1],
        "n_fed": 0,
        "max_length": 64,
        "max_tokens": 30,
        "temperature": 0.0,
        "greedy": False,
        "best_of": 1,
        "beam_size": 1,
        "patience": 1.0,
        "length_penalty": None,
        "seed": 0,
        "suppress": [],
        "suppress_first": [],
        "timestamps": None,
    }
    if rng.random() < 0.6:
        case["suppress"] = sorted(rng.sample(range(EOT), 12) + list(range(EOT + 1, NO_STAMPS)))
    if rng.random() < 0.6:
        case["suppress_first"] = [7, EOT]
    if rng.random() < 0.5:
        case["timestamps"] = {
            "begin": STAMPS,
            "no_timestamps": NO_STAMPS,
            "max_initial": rng.choice([None, 10, 25]),
        }
        lm["special_bias"] = rng.choice([-3.0, -1.0, 0.5])
    else:
        case["suppress"] = sorted(set(case["suppress"]) | set(range(STAMPS, lm["n_vocab"])))
    for key, value in over.items():
        lm.update(value) if key == "lm" else case.update({key: value})
    case["n_fed"] = rng.randrange(len(case["prompt"]))
    return case


def make_cases():
    rng = random.Random(20250625)
    penalty = [None, None, 0.0, 0.5, 1.0]
    cases = []

    def add(count, name, **over):
        for i in range(count):
            made = {k: v() if callable(v) else v for k, v in over.items()}
            cases.append(make_case(rng, f"{name}-{i}", **made))

    add(16, "greedy", greedy=True)
    for beam in range(1, 6):
        add(10, f"beam{beam}", beam_size=beam, length_penalty=lambda: rng.choice(penalty))
        add(5, f"beam{beam}-patience2", beam_size=beam, patience=2.0)
    for patience in (0.5, 0.7, 1.3, 3.0):
        add(3, f"beam5-patience{patience}", beam_size=5, patience=patience)
    add(4, "beam12", beam_size=12)
    add(
        12,
        "sample",
        temperature=lambda: rng.choice([0.2, 0.6, 1.0]),
        seed=lambda: rng.getrandbits(63),
    )
    add(
        16,
        "best-of",
        temperature=lambda: rng.choice([0.4, 0.8, 1.0]),
        best_of=lambda: rng.choice([2, 5, 8]),
        seed=lambda: rng.getrandbits(63),
        length_penalty=lambda: rng.choice(penalty),
    )
    never, at_once = {"eot_bias": -40.0, "eot_slope": 0.0}, {"eot_bias": 30.0, "eot_slope": 0.0}
    soon = {"eot_bias": -40.0, "eot_slope": 6.0}
    for name, how in {
        "greedy": {"greedy": True},
        "beam3": {"beam_size": 3},
        "beam5-patience2": {"beam_size": 5, "patience": 2.0},
        "best-of-4": {"temperature": 1.0, "best_of": 4, "seed": 11},
    }.items():
        add(2, f"token-limit-{name}", lm=never, max_tokens=12, **how)
        add(2, f"row-limit-{name}", lm=never, max_length=20, max_tokens=100, **how)
        add(2, f"one-token-{name}", max_tokens=1, **how)
        add(2, f"end-at-once-{name}", lm=at_once, suppress_first=[], timestamps=None, **how)
        add(2, f"end-together-{name}", lm=soon, **how)
        add(1, f"full-prompt-{name}", prompt=[3] * 16, max_length=16, **how)
    return cases


def make_filter_cases(ref):
    """Which ids ApplyTimestampRules forbids after random histories, as [begin, end) ranges."""
    rng = random.Random(1)
    cases = []
    for i in range(60):
        case = make_case(rng, f"filter-{i}")
        case["timestamps"] = {
            "begin": STAMPS,
            "no_timestamps": NO_STAMPS,
            "max_initial": rng.choice([None, 0, 10]),
        }
        case["lm"]["special_bias"] = rng.choice([-4.0, -1.0, 0.0, 2.0])
        chosen, low = [], STAMPS
        for _ in range(i % 8):
            stamp = rng.random() < 0.5
            token = rng.randrange(low, low + 4) if stamp else rng.randrange(EOT)
            low = token if stamp else low
            chosen.append(token)
        tokens = case["prompt"] + chosen
        logits = torch.from_numpy(Toy(**case["lm"]).logits(tokens))[None]
        rules = ref.ApplyTimestampRules(
            make_tokenizer(case), len(case["prompt"]), case["timestamps"]["max_initial"]
        )
        rules.apply(logits, torch.tensor([tokens]))
        gone = [-1] + [t for t in range(logits.shape[1]) if logits[0, t] == -np.inf]
        ranges = []
        for before, t in zip(gone, gone[1:]):
            if ranges and t == before + 1:
                ranges[-1][1] = t + 1
            else:
                ranges.append([t, t + 1])
        cases.append(
            {
                "lm": case["lm"],
                "timestamps": case["timestamps"],
                "prompt": case["prompt"],
                "chosen": chosen,
                "forbidden": ranges,
            }
        )
    return cases


def main():
    with open(sys.argv[1], "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    np.seterr(over="ignore")
    ref = load_reference(sys.argv[1])
    out = {
        "reference": "openai-whisper 20250625, whisper/decoding.py",
        "reference_sha256": digest,
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    cases = make_cases()
    for case in cases:
        case["result"] = run(ref, case)
    lines = [json.dumps({k: v})[1:-1] for k, v in out.items()]
    for key, rows in (("cases", cases), ("filters", make_filter_cases(ref))):
        body = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        lines.append(f'"{key}": [\n{body}\n]')
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
