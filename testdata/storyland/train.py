#!/usr/bin/env python3
"""Train storyland's model: a Llama of 0.67 M parameters, from random weights, on one CPU core.

    train.py --train train.txt --validation val.txt --tokenizer tokenizer.json --out DIR

Writes a Hugging Face directory with the weights in bfloat16, and the loss curve as history.json.
"""
import argparse
import json
import math
import os
import random
import time

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

IGNORED = -100  # a label that the loss skips


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "validation", "tokenizer", "out"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--steps", type=int, default=6000)
    p.add_argument("--batch-tokens", type=int, default=3072, help="tokens in a batch, padding included")
    p.add_argument("--lr", type=float, default=3e-3, help="AdamW, for embeddings and norms")
    p.add_argument("--muon-lr", type=float, default=0.02, help="Muon, for the matrices inside the layers")
    p.add_argument("--threads", type=int, default=1)
    return p.parse_args()


def load(tokenizer, path, eot):
    with open(path, encoding="utf-8") as f:
        encoded = tokenizer.encode_batch([line.rstrip("\n") for line in f])
    return [e.ids + [eot] for e in encoded]


def batches(stories, rng, batch_tokens):
    """Lists of story numbers; stories of like length share a batch, so little is padding."""
    order = list(range(len(stories)))
    rng.shuffle(order)
    out = []
    for start in range(0, len(order), 4096):
        batch = []
        for i in sorted(order[start:start + 4096], key=lambda i: len(stories[i])):
            if batch and (len(batch) + 1) * max(len(stories[i]), len(stories[batch[-1]])) > batch_tokens:
                out.append(batch)
                batch = []
            batch.append(i)
        if batch:
            out.append(batch)
    rng.shuffle(out)
    return out


def pad(stories, batch, eot):
    length = max(len(stories[i]) for i in batch)
    x, y = torch.full((len(batch), length), eot), torch.full((len(batch), length), IGNORED)
    for row, i in enumerate(batch):
        x[row, :len(stories[i])] = y[row, :len(stories[i])] = torch.tensor(stories[i])
    return x, y  # [B, T] both


def loss_of(model, x, y):
    logits = model(input_ids=x, use_cache=False).logits[:, :-1].float()  # [B, T-1, V]
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y[:, 1:].reshape(-1), ignore_index=IGNORED)


@torch.no_grad()
def validate(model, stories, eot):
    model.eval()
    total = count = 0
    for batch in batches(stories[:600], random.Random(0), 6144):
        x, y = pad(stories, batch, eot)
        n = (y[:, 1:] != IGNORED).sum().item()
        total, count = total + loss_of(model, x, y).item() * n, count + n
    model.train()
    return total / count


def optimizers(model, lr, muon_lr):
    hidden = [p for name, p in model.named_parameters() if p.dim() == 2 and "layers." in name]
    inside = {id(p) for p in hidden}
    tables = [p for p in model.parameters() if p.dim() > 1 and id(p) not in inside]
    norms = [p for p in model.parameters() if p.dim() <= 1]
    adam = torch.optim.AdamW([dict(params=tables, weight_decay=0.0), dict(params=norms, weight_decay=0)],
                             lr=lr, betas=(0.9, 0.98), eps=1e-8, fused=True)
    return [adam, torch.optim.Muon(hidden, lr=muon_lr, weight_decay=0.01, momentum=0.95)]


def main(a):
    torch.manual_seed(0)
    torch.set_num_threads(a.threads)
    tokenizer = Tokenizer.from_file(a.tokenizer)
    eot = tokenizer.token_to_id("<|endoftext|>")
    stories, held = load(tokenizer, a.train, eot), load(tokenizer, a.validation, eot)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=128, intermediate_size=256, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=512, rms_norm_eps=1e-5,
        tie_word_embeddings=True, bos_token_id=eot, eos_token_id=eot, initializer_range=0.04,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0)))
    print("parameters", sum(p.numel() for p in model.parameters()), "training tokens", sum(map(len, stories)), flush=True)

    opts = optimizers(model, a.lr, a.muon_lr)
    base = [[g["lr"] for g in o.param_groups] for o in opts]
    rng, start, step, average, history = random.Random(1), time.time(), 0, 0.0, []
    while step < a.steps:
        for batch in batches(stories, rng, a.batch_tokens):
            if step == a.steps:
                break
            cosine = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / a.steps))
            for o, rates in zip(opts, base):  # 100 steps of warm-up, then down to a fiftieth
                for group, rate in zip(o.param_groups, rates):
                    group["lr"] = rate * min(1, (step + 1) / 100) * cosine
            loss = loss_of(model, *pad(stories, batch, eot))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for o in opts:
                o.step()
                o.zero_grad(set_to_none=True)
            step += 1
            average = loss.item() if step == 1 else 0.95 * average + 0.05 * loss.item()
            if step in (1, 10, 50) or step % 100 == 0:
                held_loss = validate(model, held, eot) if step % 200 == 0 else None
                history.append((step, round(time.time() - start), average, held_loss))
                print("step %d  %d s  training loss %.4f  validation loss %s" % history[-1], flush=True)

    print("final validation loss", validate(model, held, eot))
    os.makedirs(a.out, exist_ok=True)
    model.eval().to(torch.bfloat16).save_pretrained(a.out)
    tokenizer.save(os.path.join(a.out, "tokenizer.json"))
    with open(os.path.join(a.out, "history.json"), "w") as f:
        json.dump(history, f)


if __name__ == "__main__":
    main(arguments())
