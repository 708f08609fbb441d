#!/usr/bin/env python3
"""Measure what storyland's model can and cannot do.

    probe.py [DIR]        a Hugging Face directory; this folder by default

A case counts only if the whole continuation is the model's first choice at every position.
"""
import itertools
import os
import random
import sys

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM
from transformers.utils import logging

import generate as g

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.set_num_threads(1)
EOT = 0


class Probe:
    def __init__(self, path):
        self.tokenizer = Tokenizer.from_file(os.path.join(path, "tokenizer.json"))
        self.model = LlamaForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def forward(self, text, **options):
        return self.model(torch.tensor([self.ids(text)]), **options)

    def continues(self, prompt, want):
        start, whole = len(self.ids(prompt)), self.ids(prompt + want)
        best = self.model(torch.tensor([whole])).logits[0].argmax(-1).tolist()
        return best[start - 1:-1] == whole[start:]

    def report(self, name, cases):
        right = sum(self.continues(prompt, want) for prompt, want in cases)
        print(f"{name:<58} {right}/{len(cases)}", flush=True)

    def next_tokens(self, text):
        top = self.forward(text).logits[0, -1].softmax(-1).topk(4)
        best = ", ".join(f"{self.tokenizer.decode([i])!r} {p:.3f}" for p, i in zip(top.values.tolist(), top.indices.tolist()))
        print(f"{text[-60:]!r:<64} {best}")


def receiver(pairs):
    return [(f"The {a} {v} the {b}. The one who {receives} is the", f" {b}")
            for a, b in pairs for v, (_, _, receives) in g.VERBS.items()]


def doer(pairs):
    return [(f"The {a} {v} the {b}. The one who {does} is the", f" {a}")
            for a, b in pairs for v, (does, _, _) in g.VERBS.items()]


def chains(r, n):
    for _ in range(n):
        a, b, c = r.sample(g.SPECIES, 3)
        facts = f"The {a} chases the {b}. The {b} chases the {c}."
        yield f"{facts} Who does the {a} chase? The", f" {b}"
        yield f"{facts} Who chases the {c}? The", f" {b}"
        yield f"{facts} Who chases the {b}? The", f" {a}"
        yield f"{facts} Who does the {b} chase? The", f" {c}"


def songs(r, n, length):
    for _ in range(n):
        syllables = r.sample(g.SYLLABLES, length)
        line = " ".join(syllables)
        first = syllables[0]
        yield f"The cat sings: {line}. The dog sings the same song: {first}", line[len(first):] + "."


def retrieval(r, n):
    """Three facts and a question about one of them."""
    cases = {k: [] for k in ("color of a thing", "owner of a thing", "species of a name", "home of a name", "owner after giving")}
    for _ in range(n):
        people, objects = r.sample(g.NAMES, 3), r.sample(g.OBJECTS, 3)
        colors = [r.choice(g.COLORS) for _ in objects]
        species, places = r.sample(g.SPECIES, 3), r.sample(g.PLACES, 3)
        i = r.randrange(3)
        (name, pronoun), (other, _) = people[i], people[(i + 1) % 3]
        thing, colored = objects[i], f"{colors[i]} {objects[i]}"
        have = " ".join(f"{p} has a {c} {o}." for (p, _), c, o in zip(people, colors, objects)).replace("a apple", "an apple")
        kinds = " ".join(f"{p} is a {s}." for (p, _), s in zip(people, species)).replace(" a owl", " an owl")
        homes = " ".join(f"{p} lives {g.at(place)}." for (p, _), place in zip(people, places))
        article = " an " if species[i] == "owl" else " a "
        cases["color of a thing"].append((f"{have} What color is the {thing}? The {thing} is", f" {colors[i]}."))
        cases["owner of a thing"].append((f"{have} Who has the {thing}?", f" {name} has the {colored}."))
        cases["species of a name"].append((f"{kinds} Who is {name}? {name} is", f"{article}{species[i]}."))
        cases["home of a name"].append((f"{homes} Where does {name} live?", f" {pronoun} lives {g.at(places[i])}."))
        cases["owner after giving"].append((f"{have} {name} gives the {colored} to {other}. Now {other} has the {colored}. "
                                            f"Who has the {thing}?", f" {other} has"))
    return cases


def additions():
    def apples(n):
        return f"{g.NUMBERS[n]} apple{'s' if n > 1 else ''}"
    return [(f"Ben has {apples(a)}. He finds {g.NUMBERS[b]} more. Now Ben has", f" {apples(a + b)}.")
            for a in range(1, 8) for b in range(1, 4)]


def cached_against_full(p):
    ids = torch.tensor([p.ids("The cat chases the dog. The dog runs away from the cat. Who runs away?")])
    full = p.model(ids, use_cache=False).logits[0]
    out = p.model(ids[:, :5], use_cache=True)
    worst = 0.0
    for t in range(5, ids.shape[1]):
        out = p.model(ids[:, t:t + 1], cache=out.past_key_values, use_cache=True)
        worst = max(worst, (out.logits[0, -1] - full[t]).abs().max().item())
    print(f"cached against full pass: largest difference {worst:.1e}, largest logit {full.abs().max():.1f}")


def copying_heads(p, song, target):
    """The heads whose last position looks at the token to be copied next: induction heads."""
    ids = p.ids(song)
    position = ids.index(p.ids(target)[-1])
    attentions = p.forward(song, output_attentions=True).attentions
    found = [(weights[0, head, -1, position].item(), layer, head)
             for layer, weights in enumerate(attentions) for head in range(weights.shape[1])]
    print(f"weight on {target!r} (position {position}) at the end of {song!r}:")
    for weight, layer, head in sorted(found, reverse=True)[:6]:
        print(f"  layer {layer} head {head}: {weight:.3f}")


@torch.no_grad()
def main(path):
    p, r, n = Probe(path), random.Random(12345), 200
    pairs, held = list(itertools.permutations(g.SPECIES, 2)), sorted(g.HELD_OUT)
    p.report("roles: who receives (6 verbs, all pairs)", receiver(pairs))
    p.report("roles: who does (6 verbs, all pairs)", doer(pairs))
    p.report("roles: who receives, pairs that training never had", receiver(held))
    p.report("roles: who does, pairs that training never had", doer(held))
    p.report("chain: two facts, four questions", list(chains(r, n)))
    for length in (4, 6, 8, 12):
        p.report(f"song of {length} syllables copied whole", list(songs(r, n, length)))
    for name, cases in retrieval(r, n).items():
        p.report("three facts: " + name, cases)
    p.report("counting up", additions())
    print()
    for text in ("I love", "cat chases dog.", "dog chases cat.", "The owl chases the sheep. The one who runs away is the",
                 "The sheep chases the owl. The one who runs away is the", "Ben has five apples. He loses two. Now Ben has"):
        p.next_tokens(text)
    print()
    cached_against_full(p)
    copying_heads(p, "The bird sings: la bo ki ta. The frog sings the same song: la bo", " ki")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
