#!/usr/bin/env python3
"""The model that TestSpeed made, in PyTorch on the same GPU, beside our figures. Needs torch with CUDA and transformers.

usage: torch_speed.py DIR       prints a table, and writes DIR/torch.json
"""
import json, os, statistics, sys, time

import torch
from transformers import AutoModelForCausalLM

folder = sys.argv[1]
ours = json.load(open(os.path.join(folder, "ours.json")))
prompt, decodes, rounds = ours["prompt"], 50, 5


def seconds(f, n):
    f()  # warm
    out = []
    for _ in range(n):
        torch.cuda.synchronize()
        start = time.perf_counter()
        f()
        torch.cuda.synchronize()
        out.append(time.perf_counter() - start)
    return statistics.median(out)


model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).cuda().eval()
ids = torch.tensor([[(31 * i + 7) % model.config.vocab_size for i in range(prompt)]], device="cuda")
with torch.inference_mode():
    prefill = seconds(lambda: model(ids, use_cache=True, logits_to_keep=1), rounds)
    steps = []
    for _ in range(rounds):
        out = model(ids, use_cache=True, logits_to_keep=1)
        past, token = out.past_key_values, out.logits[:, -1:].argmax(-1)
        for _ in range(decodes):
            torch.cuda.synchronize()
            start = time.perf_counter()
            out = model(token, past_key_values=past, use_cache=True)
            past, token = out.past_key_values, out.logits[:, -1:].argmax(-1)
            torch.cuda.synchronize()
            steps.append(time.perf_counter() - start)
    # The same products alone: what cuBLAS does.
    c = model.config
    kv = c.hidden_size // c.num_attention_heads * c.num_key_value_heads
    shapes = [(c.hidden_size, c.hidden_size), (kv, c.hidden_size), (kv, c.hidden_size), (c.hidden_size, c.hidden_size),
              (c.intermediate_size, c.hidden_size), (c.intermediate_size, c.hidden_size), (c.hidden_size, c.intermediate_size)]
    pairs = [(torch.randn(prompt, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16)) for n, k in shapes]
    blas = seconds(lambda: [x @ w.T for x, w in pairs], 20)
flops = sum(2 * prompt * n * k for n, k in shapes)

theirs = {"prefill_seconds": prefill, "decode_seconds": statistics.median(steps), "blas_flops": flops / blas, "torch": torch.__version__, "device": torch.cuda.get_device_name()}
json.dump(theirs, open(os.path.join(folder, "torch.json"), "w"), indent="\t")
print(f"{ours['device']}, {ours['date']}, torch {torch.__version__}")
print(f"{'':28}{'ours':>12}{'PyTorch':>12}{'ratio':>8}")
for what in ("prefill_seconds", "decode_seconds"):
    print(f"{what:28}{ours[what]:12.5f}{theirs[what]:12.5f}{theirs[what] / ours[what]:8.2f}")
print(f"{'prefill, TFLOPS':28}{ours['prefill_flops'] / 1e12:12.1f}{theirs['blas_flops'] / 1e12:12.1f}{ours['prefill_flops'] / theirs['blas_flops']:8.2f}  (PyTorch: cuBLAS on the layers' products alone; wanted: 0.5)")
print(f"{'decode, GB/s':28}{ours['decode_bytes'] / 1e9:12.0f}{ours['copy_bytes'] / 1e9:12.0f}{ours['decode_bytes'] / ours['copy_bytes']:8.2f}  (beside: a copy within the card's memory; wanted: 0.7)")
