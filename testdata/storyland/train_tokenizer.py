#!/usr/bin/env python3
"""Train storyland's byte-level BPE: 640 ids, of which 3 are special tokens and 256 are bytes. Encoding puts
<|endoftext|>, with which every training story starts, in front of the text.

    train_tokenizer.py TRAIN.txt OUT.json
"""
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

VOCABULARY = 640
STORIES = 20_000  # more of them changes no merge that matters
SPECIAL = ["<|endoftext|>", "<|user|>", "<|assistant|>"]


def train(path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    with open(path, encoding="utf-8") as f:
        tokenizer.train_from_iterator((line.rstrip("\n") for _, line in zip(range(STORIES), f)), trainer)
    start = SPECIAL[0]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start} $A", pair=f"{start} $A {start} $B", special_tokens=[(start, tokenizer.token_to_id(start))])
    return tokenizer


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: train_tokenizer.py TRAIN.txt OUT.json")
    train(sys.argv[1]).save(sys.argv[2])
