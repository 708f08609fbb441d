#!/usr/bin/env python3
"""Golden values for pkg/sample: what transformers' logits processors do to 1,000 random logit vectors.

    .forwardpass/reference/bin/python testdata/reference/sample_processors.py [testdata/golden/sample]

Writes processors.json (versions, the cases as sample.Options, the layout) and processors.bin, little endian:

    logits   float32 [N, V]     a tenth of the vectors has some -inf
    history  uint8   [N, H]     the tokens before the position
    then for each case
      kept   uint64  [N]        bit i: token i has a probability above 0
      sums   float32 [N, 3]     sum p*w1, sum p*w2 (w below) and the entropy: a fingerprint of all V probabilities
      probs  float32 [F, V]     the probabilities themselves for the first F vectors

Weights: w1[i] = i + 1, w2[i] = (7 i mod V) / V.
"""
import json
import sys

import numpy as np
import torch
import transformers
from transformers.generation import logits_process as lp

N, V, H, F, SEED = 1000, 61, 24, 40, 20240611
OUT = sys.argv[1] if len(sys.argv) > 1 else "testdata/golden/sample"

BIAS = {3: 2.5, 17: -4.0, 40: 0.75, 60: -100.0}
BAD = [[5], [9, 12], [2, 30, 31], [44]]

# A case is sample.Options in JSON; "steps" is the order in which this script applies the processors.
DEFAULT = "logit-bias repetition no-repeat-ngram bad-words temperature top-k top-p min-p typical".split()
VLLM = "bad-words logit-bias repetition no-repeat-ngram temperature min-p top-k top-p typical".split()
LLAMACPP = "logit-bias bad-words repetition no-repeat-ngram top-k typical top-p min-p temperature".split()
CASES = [
    {"Temperature": 1},
    {"Temperature": 0.7},
    {"Temperature": 2.5},
    {"Temperature": 1, "TopK": 1},
    {"Temperature": 1, "TopK": 7},
    {"Temperature": 1, "TopK": 200},
    {"Temperature": 1, "TopP": 0.1},
    {"Temperature": 1, "TopP": 0.5},
    {"Temperature": 1, "TopP": 0.9},
    {"Temperature": 1, "MinP": 0.05},
    {"Temperature": 1, "MinP": 0.3},
    {"Temperature": 1, "TypicalP": 0.2},
    {"Temperature": 1, "TypicalP": 0.9},
    {"Temperature": 1, "RepetitionPenalty": 1.3},
    {"Temperature": 1, "RepetitionPenalty": 0.8},
    {"Temperature": 1, "NoRepeatNGram": 1},
    {"Temperature": 1, "NoRepeatNGram": 2},
    {"Temperature": 1, "NoRepeatNGram": 3},
    {"Temperature": 1, "LogitBias": BIAS},
    {"Temperature": 1, "BadWords": BAD},
    # chains, in transformers' order
    {"Temperature": 0.8, "TopK": 40, "TopP": 0.95},
    {"Temperature": 2, "TopP": 0.8},
    {"Temperature": 0.6, "TopK": 20, "TopP": 0.95, "MinP": 0.02},
    {"Temperature": 1.4, "TopK": 30, "TypicalP": 0.8},
    {"Temperature": 0.9, "RepetitionPenalty": 1.2, "NoRepeatNGram": 2, "TopP": 0.9},
    {"Temperature": 1.2, "LogitBias": BIAS, "BadWords": BAD, "RepetitionPenalty": 1.1, "NoRepeatNGram": 2,
     "TopK": 25, "TopP": 0.97, "MinP": 0.01, "TypicalP": 0.95},
    # the same processors in the orders of vLLM and llama.cpp
    {"Temperature": 2, "TopP": 0.8, "MinP": 0.1, "TopK": 20, "Order": "VLLM"},
    {"Temperature": 1.2, "LogitBias": BIAS, "BadWords": BAD, "RepetitionPenalty": 1.1, "TopK": 25, "TopP": 0.97, "MinP": 0.01,
     "Order": "VLLM"},
    {"Temperature": 2, "TopP": 0.8, "Order": "LlamaCpp"},
    {"Temperature": 1.5, "LogitBias": BIAS, "BadWords": BAD, "RepetitionPenalty": 1.1, "TopK": 25, "TypicalP": 0.95,
     "TopP": 0.9, "MinP": 0.03, "Order": "LlamaCpp"},
    # greedy after penalties
    {"Temperature": 0, "RepetitionPenalty": 1.5, "NoRepeatNGram": 2, "LogitBias": BIAS},
]


def processor(step, o):
    """The processor of a step, or None when the options leave it off."""
    if step == "logit-bias" and o.get("LogitBias"):
        return lp.SequenceBiasLogitsProcessor({(i,): b for i, b in o["LogitBias"].items()})
    if step == "repetition" and o.get("RepetitionPenalty"):
        return lp.RepetitionPenaltyLogitsProcessor(o["RepetitionPenalty"])
    if step == "no-repeat-ngram" and o.get("NoRepeatNGram"):
        return lp.NoRepeatNGramLogitsProcessor(o["NoRepeatNGram"])
    if step == "bad-words" and o.get("BadWords"):
        return lp.NoBadWordsLogitsProcessor(o["BadWords"], eos_token_id=torch.tensor([V + 1]))
    if o["Temperature"] == 0:
        return None
    if step == "temperature":
        return lp.TemperatureLogitsWarper(float(o["Temperature"]))
    if step == "top-k" and o.get("TopK"):
        return lp.TopKLogitsWarper(o["TopK"])
    if step == "top-p" and o.get("TopP"):
        return lp.TopPLogitsWarper(o["TopP"])
    if step == "min-p" and o.get("MinP"):
        return lp.MinPLogitsWarper(o["MinP"])
    if step == "typical" and o.get("TypicalP"):
        return lp.TypicalLogitsWarper(o["TypicalP"])
    return None


def main():
    rng = np.random.default_rng(SEED)
    scale = rng.choice([0.3, 1.0, 2.5, 6.0], size=(N, 1))
    logits = (rng.standard_normal((N, V)) * scale + rng.standard_normal((N, 1)) * 3).astype(np.float32)
    hole = (rng.random((N, V)) < 0.2) & (np.arange(N)[:, None] % 10 == 9)
    logits[hole] = -np.inf
    for row in logits:
        finite = row[np.isfinite(row)]
        assert len(set(finite.tolist())) == len(finite), "ties have a rule of our own and are tested apart"
    history = rng.integers(0, 24, size=(N, H)).astype(np.uint8)
    history[::3, -1] = 9           # the bad word [9, 12] is one token from complete
    history[1::3, -2:] = [2, 30]   # and so is [2, 30, 31]

    w1 = np.arange(1, V + 1, dtype=np.float64)
    w2 = (7 * np.arange(V) % V) / V
    cases = []
    with open(f"{OUT}/processors.bin", "wb") as f:
        f.write(logits.astype("<f4").tobytes())
        f.write(history.tobytes())
        ids = torch.tensor(history.astype(np.int64))
        for o in CASES:
            steps = {"VLLM": VLLM, "LlamaCpp": LLAMACPP}.get(o.get("Order"), DEFAULT)
            scores = torch.tensor(logits)
            for s in steps:
                if p := processor(s, o):
                    scores = p(ids, scores)
            if o["Temperature"] == 0:
                probs = torch.nn.functional.one_hot(scores.argmax(-1), V).double()
                kept = probs > 0
            else:
                # The processors compute in float32 as they do in use; only the last softmax is in float64.
                probs = torch.softmax(scores.double(), -1)
                kept = scores > -torch.inf
            probs, kept = probs.numpy(), kept.numpy()
            entropy = -(probs * np.log(np.where(probs > 0, probs, 1))).sum(-1)
            bits = (kept.astype(np.uint64) << np.arange(V, dtype=np.uint64)).sum(-1, dtype=np.uint64)
            f.write(bits.astype("<u8").tobytes())
            f.write(np.stack([probs @ w1, probs @ w2, entropy], -1).astype("<f4").tobytes())
            f.write(probs[:F].astype("<f4").tobytes())
            cases.append({k: v for k, v in o.items()})
    with open(f"{OUT}/processors.json", "w") as f:
        json.dump({
            "script": "testdata/reference/sample_processors.py", "transformers": transformers.__version__,
            "torch": torch.__version__.split("+")[0], "numpy": np.__version__, "seed": SEED,
            "n": N, "vocab": V, "history": H, "full": F, "cases": cases,
        }, f, indent=1)
        f.write("\n")


main()
