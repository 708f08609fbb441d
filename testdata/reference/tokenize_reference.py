"""The reference tokenizers: Hugging Face tokenizers, SentencePiece and tiktoken,
behind one interface, so that golden files and the differential run ask them alike.

Each reference has encode(text) -> (ids, tokens, offsets in bytes or None) and
decode(ids) -> text.
"""

import base64
import json
import struct
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]

# name: (kind, file). Files under testdata/ are the project's own; the others are
# relative to the folder that .ci/vocabs.sh fills.
TOKENIZERS = {
    "storyland": ("hf", "testdata/storyland/tokenizer.json"),
    "smollm2-gguf": ("gguf-smollm", "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
    "llama3.1": ("hf", "llama3.1/tokenizer.json"),
    "qwen3": ("hf", "qwen3/tokenizer.json"),
    "deepseek-v3": ("hf", "deepseek-v3/tokenizer.json"),
    "cl100k": ("hf", "cl100k/tokenizer.json"),
    "o200k": ("hf", "o200k/tokenizer.json"),
    "gemma3": ("hf", "gemma3/tokenizer.json"),
}


def versions():
    import sentencepiece, tiktoken, tokenizers

    return {
        "python": sys.version.split()[0],
        "sentencepiece": sentencepiece.__version__,
        "tiktoken": tiktoken.__version__,
        "tokenizers": tokenizers.__version__,
    }


def byte_offsets(text, offsets):
    """Turns offsets in characters into offsets in bytes."""
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [[at[a], at[b]] for a, b in offsets]


class HF:
    """Hugging Face tokenizers."""

    def __init__(self, tokenizer):
        self.t = tokenizer
        self.t.no_padding()
        self.t.no_truncation()

    def encode(self, text):
        e = self.t.encode(text)
        return e.ids, e.tokens, byte_offsets(text, e.offsets)

    def ids(self, texts):
        return [e.ids for e in self.t.encode_batch_fast(texts)]

    def decode(self, ids):
        return self.t.decode(ids)


def read_gguf(path):
    """The key/value pairs of a GGUF file."""
    data = memoryview(Path(path).read_bytes())
    assert bytes(data[:4]) == b"GGUF"
    keys = struct.unpack_from("<Q", data, 16)[0]
    at = 24
    scalars = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}

    def value(kind):
        nonlocal at
        if kind in scalars:
            v = struct.unpack_from(scalars[kind], data, at)[0]
            at += struct.calcsize(scalars[kind])
            return v
        if kind == 8:
            n = value(10)
            at += n
            return bytes(data[at - n : at]).decode()
        item, n = value(4), value(10)
        return [value(item) for _ in range(n)]

    meta = {}
    for _ in range(keys):
        key = value(8)
        meta[key] = value(value(4))
    return meta


def gguf_smollm(path):
    """The pipeline that SmolLM2 was trained with, around a GGUF file's vocabulary."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    meta = read_gguf(path)
    tokens = meta["tokenizer.ggml.tokens"]
    t = Tokenizer(
        models.BPE(
            vocab={s: i for i, s in enumerate(tokens)},
            merges=[tuple(m.split(" ")) for m in meta["tokenizer.ggml.merges"]],
        )
    )
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(
        [AddedToken(s, normalized=False) for s, kind in zip(tokens, meta["tokenizer.ggml.token_type"]) if kind == 3]
    )
    return HF(t)


def load(name, vocabs):
    kind, file = TOKENIZERS[name]
    path = (REPO if file.startswith("testdata/") else Path(vocabs)) / file
    if kind == "hf":
        from tokenizers import Tokenizer

        return HF(Tokenizer.from_file(str(path)))
    if kind == "gguf-smollm":
        return gguf_smollm(path)
    raise ValueError(kind)
