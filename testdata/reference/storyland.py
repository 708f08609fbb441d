#!/usr/bin/env python3
"""Golden values of the storyland model: testdata/golden/storyland.{safetensors,json}.

    storyland.py [OUT]        OUT: another stem to write to
"""
import os
import sys

import golden  # first: it sets the environment of the others

import numpy as np
from tokenizers import Tokenizer


sys.path.insert(0, os.path.join(golden.HERE, "..", "storyland"))
import generate as grammar

MODEL = os.path.join(golden.HERE, "..", "storyland")
EOT = 0
PROMPTS = {
    "chases": "cat chases dog.",
    "chased": "dog chases cat.",
    "love": "I love",
    "datawhale": "I love datawhale",
    "roles": "The cat chases the dog. The one who runs away is the",
    "song": "The bird sings: la bo ki ta. The frog sings the same song: la bo",
    "count": "Ben has two apples. He finds three more. Now Ben has",
    "once": "Once upon a time there was a cat named",
    "story": None,  # 200 tokens of the grammar's own stories: long_text
}
LONG = "story"
SEED = 7


def long_text(tokenizer):
    """The first 200 tokens of stories from the grammar, the start token included."""
    g, text = grammar.Grammar(SEED), ""
    while len(tokenizer.encode(text).ids) < 200:
        text += (" " if text else "") + g.story()
    end = tokenizer.encode(text).offsets[199][1]
    return text[:end]


def training_batch(tokenizer):
    """Five stories: whole, and (for the last two) with the labels of their first half ignored."""
    g = grammar.Grammar(SEED + 1)
    sequences = [tokenizer.encode(g.story()).ids + [EOT] for _ in range(5)]
    labels = [list(s) for s in sequences]
    for y in labels[3:]:
        half = len(y) // 2
        y[:half] = [golden.IGNORED] * half
    return sequences, labels


def main(stem):
    tokenizer = Tokenizer.from_file(os.path.join(MODEL, "tokenizer.json"))
    model = golden.load(MODEL)
    tensors, cases = {}, {}
    for name, text in PROMPTS.items():
        text = long_text(tokenizer) if text is None else text
        ids = tokenizer.encode(text).ids
        found = golden.stages(model, ids)
        if name == LONG:  # its attention maps would be 5 MB
            found = {k: found[k] for k in ("final", "logits")}
        found["ids"] = np.array(ids)
        more, lead = golden.greedy(model, ids, 64, EOT)
        found["greedy"] = np.array(more)
        on, lead_on = golden.greedy(model, ids, 64)
        if lead_on > 0.005:  # a smaller lead could turn with the order of summation
            found["greedy_ignoring_eos"] = np.array(on)
        tensors.update({f"{name}/{k}": v for k, v in found.items()})
        cases[name] = {"prompt": text, "tokens": len(ids), "greedy_text": tokenizer.decode(more, skip_special_tokens=False),
                       "smallest_lead": lead}
    beam_prompts = [tensors[f"{case}/ids"].tolist() for case in ("roles", "love", "once")]
    once = beam_prompts[-1]
    golden.write(stem, tensors, {
        "script": "testdata/reference/storyland.py", "versions": golden.versions(), "grammar_seed": SEED,
        "note": "ids start with <|endoftext|> (0), which the tokenizer adds. greedy stops at it, keeps it as the last id, "
                "and has at most 64 ids; greedy_ignoring_eos has 64. "
                "The case story has no hidden states and attention weights.",
        "cases": cases,
        "losses": golden.losses(model, *training_batch(tokenizer)),
        "beams": [{"ids": ids, "results": golden.beams(model, ids, 24, EOT)} for ids in beam_prompts],
        "penalised": {"ids": once, "results": golden.penalised(model, once, 48)},
    })


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(golden.GOLDEN, "storyland"))
