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
    "small-bpe": ("hf", "testdata/tokenizers/bpe.json"),
    "small-spbpe": ("hf", "testdata/tokenizers/spbpe.json"),
    "small-wordpiece": ("hf", "testdata/tokenizers/wordpiece.json"),
    "small-vocab": ("bert", "testdata/tokenizers/vocab.txt"),
    "small-unigram": ("hf", "testdata/tokenizers/unigram.json"),
    "small-sp-unigram": ("sentencepiece", "testdata/tokenizers/unigram.model"),
    "small-sp-bpe": ("sentencepiece", "testdata/tokenizers/bpe.model"),
    "smollm2-gguf": ("gguf-smollm", "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
    "llama3.1": ("hf", "llama3.1/tokenizer.json"),
    "qwen3": ("hf", "qwen3/tokenizer.json"),
    "deepseek-v3": ("hf", "deepseek-v3/tokenizer.json"),
    "cl100k": ("hf", "cl100k/tokenizer.json"),
    "o200k": ("hf", "o200k/tokenizer.json"),
    "gemma3": ("hf", "gemma3/tokenizer.json"),
    "gpt2": ("gpt2", "gpt2/encoder.json"),
    "minilm": ("hf", "minilm/tokenizer.json"),
    "minilm-vocab": ("bert", "minilm/vocab.txt"),
    "r50k-ranks": ("tiktoken", "tiktoken/r50k_base.tiktoken"),
    "cl100k-ranks": ("tiktoken", "tiktoken/cl100k_base.tiktoken"),
    "o200k-ranks": ("tiktoken", "tiktoken/o200k_base.tiktoken"),
    "llama3-ranks": ("tiktoken", "llama3-ranks/tokenizer.model"),
    "llama4-ranks": ("tiktoken", "llama4-ranks/tokenizer.model"),
    "tekken": ("tekken", "mistral/tekken_240911.json"),
    "mistral-v1": ("sentencepiece", "mistral/tokenizer.model.v1"),
    "mistral-v3": ("sentencepiece", "mistral/mistral_instruct_tokenizer_240323.model.v3"),
    "botchan-bpe": ("sentencepiece", "sentencepiece/botchan_en_bpe_1000.model"),
    "botchan-unigram": ("sentencepiece", "sentencepiece/botchan_en_unigram_1000.model"),
    "kyoto-unigram": ("sentencepiece", "sentencepiece/kyoto_ja_unigram_8000.model"),
    "botchan-unigram-hf": ("hf", "botchan-unigram-hf/tokenizer.json"),
    "kyoto-unigram-hf": ("hf", "kyoto-unigram-hf/tokenizer.json"),
    "xlm-roberta": ("hf", "xlm-roberta/tokenizer.json"),
    "llama2": ("sentencepiece", "llama2/tokenizer.model"),
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

    def __init__(self, tokenizer, plain=False):
        self.t = tokenizer
        if plain:  # the library's wrapper trims offsets, the pipeline in the files doesn't
            from tokenizers import processors

            self.t.post_processor = processors.Sequence([])
        self.t.no_padding()
        self.t.no_truncation()

    def encode(self, text):
        e = self.t.encode(text)
        return e.ids, [self.t.id_to_token(i) for i in e.ids], byte_offsets(text, e.offsets)

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


class SentencePiece:
    """A SentencePiece model."""

    def __init__(self, path):
        import sentencepiece

        self.sp = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def encode(self, text):
        proto = self.sp.encode(text, return_type="proto")  # its offsets are in bytes
        ids = [p.id for p in proto.pieces]
        return ids, [self.sp.id_to_piece(i) for i in ids], [[p.begin, p.end] for p in proto.pieces]

    def ids(self, texts):
        return self.sp.encode(texts, num_threads=1)

    def encode_bytes(self, data):
        return self.sp.encode(data)

    def decode(self, ids):
        return self.sp.decode(ids)


class TikToken:
    """Ranks, with the expression and the special tokens that belong to them."""

    def __init__(self, encoding, shift=0, special=True):
        self.e, self.shift, self.special = encoding, shift, special

    def _ids(self, text):
        return self.e.encode(text, allowed_special="all") if self.special else self.e.encode_ordinary(text)

    def encode(self, text):
        ids = self._ids(text)
        tokens = [self.e.decode_single_token_bytes(i) for i in ids]
        specials = set(self.e._special_tokens.values())
        names = [t.decode() if i in specials else byte_names(t) for i, t in zip(ids, tokens)]
        return [i + self.shift for i in ids], names, token_offsets(text, tokens)

    def ids(self, texts):
        return [[i + self.shift for i in self._ids(t)] for t in texts]

    def encode_pieces(self, pieces):
        """Ids of pieces of bytes that have been cut already."""
        return [i + self.shift for p in pieces for i in self.e._core_bpe.encode_single_piece(p)]

    def decode(self, ids):
        specials = set(self.e._special_tokens.values())
        return self.e.decode([i - self.shift for i in ids if i - self.shift not in specials])


def byte_names(token):
    """Bytes in GPT-2's alphabet of printable characters."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    names = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    return "".join(names[b] for b in token)


def token_offsets(text, tokens):
    """Offsets in bytes of tokens that follow each other, widened to whole characters."""
    data = text.encode()
    starts = [i for i in range(len(data) + 1) if i == len(data) or data[i] & 0xC0 != 0x80]
    out, at = [], 0
    import bisect

    for t in tokens:
        a, b = at, at + len(t)
        at = b
        out.append([starts[bisect.bisect_right(starts, a) - 1], starts[bisect.bisect_left(starts, b)]])
    return out


def tiktoken_ranks(path):
    import tiktoken
    from tiktoken_ext import openai_public

    ranks = {}
    for line in Path(path).read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    # The expressions and special tokens of tiktoken itself, without its download.
    if len(ranks) in (50256, 100256, 199998):
        saved = openai_public.load_tiktoken_bpe
        openai_public.load_tiktoken_bpe = lambda *a, **k: ranks
        try:
            make = {50256: openai_public.r50k_base, 100256: openai_public.cl100k_base, 199998: openai_public.o200k_base}
            return TikToken(tiktoken.Encoding(**make[len(ranks)]()))
        finally:
            openai_public.load_tiktoken_bpe = saved
    if len(ranks) == 128000:
        pattern = (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
        names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
        special = dict(zip(names, (128000, 128001, 128006, 128007, 128009)))
    else:
        saved = openai_public.load_tiktoken_bpe
        openai_public.load_tiktoken_bpe = lambda *a, **k: {}
        pattern = openai_public.o200k_base()["pat_str"]
        openai_public.load_tiktoken_bpe = saved
        names = ["<|begin_of_text|>", "<|end_of_text|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"]
        special = {name: 200000 + i for i, name in enumerate(names)}
    return TikToken(tiktoken.Encoding("ranks", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special))


def tekken(path):
    """Mistral's tekken: special tokens take the first ids and are not read from text."""
    import tiktoken

    model = json.loads(Path(path).read_text())
    config = model["config"]
    n = config["default_num_special_tokens"]
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"] for t in model["vocab"][: config["default_vocab_size"] - n]}
    return TikToken(
        tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={}), shift=n, special=False
    )


def gpt2(path):
    """GPT-2's vocabulary and merges in Hugging Face tokenizers."""
    from tokenizers import AddedToken, ByteLevelBPETokenizer

    t = ByteLevelBPETokenizer(str(path), str(Path(path).with_name("vocab.bpe")))
    t.add_special_tokens([AddedToken("<|endoftext|>", normalized=False)])
    return HF(t._tokenizer, plain=True)


def bert(path):
    """BERT's uncased tokenizer around a vocab.txt."""
    from tokenizers import BertWordPieceTokenizer

    return HF(BertWordPieceTokenizer(str(path), lowercase=True)._tokenizer)


def load(name, vocabs):
    kind, file = TOKENIZERS[name]
    path = (REPO if file.startswith("testdata/") else Path(vocabs)) / file
    if kind == "hf":
        from tokenizers import Tokenizer

        return HF(Tokenizer.from_file(str(path)))
    make = {
        "gguf-smollm": gguf_smollm,
        "gpt2": gpt2,
        "bert": bert,
        "sentencepiece": SentencePiece,
        "tiktoken": tiktoken_ranks,
        "tekken": tekken,
    }
    return make[kind](path)
