"""Turns vocabularies that packages carry in a format of their own into files that
tokenizers read.

    python tokenize_convert.py llama2 llama-tokenizer.js tokenizer.model
    python tokenize_convert.py xlmr e5-small-q4.bin tokenizer.json nmt_nfkc.bin
    python tokenize_convert.py spm-hf some.model tokenizer.json
"""

import base64
import json
import re
import struct
import sys
from pathlib import Path


def varint(n):
    out = b""
    while True:
        out += bytes([n & 0x7F | (0x80 if n > 0x7F else 0)])
        n >>= 7
        if not n:
            return out


def fields(data):
    """The fields of a protocol buffer message: (number, value)."""
    at = 0

    def read():
        nonlocal at
        n = shift = 0
        while True:
            b = data[at]
            at += 1
            n |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return n

    while at < len(data):
        tag = read()
        wire = tag & 7
        if wire == 0:
            yield tag >> 3, read()
        elif wire == 2:
            n = read()
            yield tag >> 3, data[at : at + n]
            at += n
        elif wire == 5:
            yield tag >> 3, struct.unpack_from("<f", data, at)[0]
            at += 4
        elif wire == 1:
            yield tag >> 3, struct.unpack_from("<d", data, at)[0]
            at += 8
        else:
            raise ValueError(f"wire type {wire}")


def read_spm(data):
    """Pieces (text, score, type), unknown id and charsmap of a SentencePiece model."""
    pieces, charsmap = [], b""
    for number, value in fields(data):
        if number == 1:
            f = dict(fields(value))
            pieces.append((f[1].decode(), f.get(2, 0.0), f.get(3, 1)))
        elif number == 3:
            charsmap = dict(fields(value)).get(2, b"")
    unk = next(i for i, (_, _, kind) in enumerate(pieces) if kind == 2)
    return {"pieces": pieces, "unk_id": unk, "charsmap": charsmap}


def message(*numbered):
    """A protocol buffer message of (number, int, float, bytes or str)."""
    out = b""
    for number, value in numbered:
        if isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def llama2(source, target):
    """Llama 2's vocabulary, kept in a script as base64 lines, as a SentencePiece model.

    Its BPE pieces have the scores 0, -1, -2, ... in the order of their ids.
    """
    text = Path(source).read_text()
    lines = base64.b64decode(re.search(r'llama_vocab_base64 = "([^"]+)"', text)[1]).decode().split("\n")
    out = b""
    for i, piece in enumerate(lines):
        kind = 2 if i == 0 else 3 if i < 3 else 6 if i < 259 else 1
        out += message((1, message((1, piece), (2, float(-(i - 259)) if i >= 259 else 0.0), (3, kind))))
    out += message((2, message((3, 2), (4, len(lines)), (35, 1))))  # BPE, vocabulary size, byte fallback
    out += message((3, message((1, "identity"), (3, 1), (4, 0), (5, 1))))  # dummy prefix, spaces kept and escaped
    Path(target).write_bytes(out)


def unigram_json(pieces, unk_id, charsmap, added, template=None):
    """A tokenizer.json of a unigram vocabulary, the way SentencePiece models are converted."""
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "added_tokens": [
            dict(id=i, content=t, single_word=False, lstrip=lstrip, rstrip=False, normalized=False, special=True)
            for i, t, lstrip in added
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            ],
        },
        "pre_tokenizer": space,
        "post_processor": template,
        "decoder": space,
        "model": {"type": "Unigram", "unk_id": unk_id, "vocab": pieces, "byte_fallback": False},
    }


def spm_hf(source, target):
    """A SentencePiece unigram model as a tokenizer.json."""
    m = read_spm(Path(source).read_bytes())
    added = [(i, t, False) for i, (t, _, kind) in enumerate(m["pieces"]) if kind in (2, 3)]
    file = unigram_json([[t, s] for t, s, _ in m["pieces"]], m["unk_id"], m["charsmap"], added)
    Path(target).write_text(json.dumps(file, ensure_ascii=False))


def xlmr(source, target, charsmap):
    """XLM-R's vocabulary, kept in an embedding model's file, as a tokenizer.json.

    The layout: 11 numbers, then pieces, bos, eos, pad and unk (i32), the size of
    the texts (u64), where each text starts (u32), scores (f32), texts. Its charsmap is
    SentencePiece's nmt_nfkc, which the SentencePiece package has as a file.
    """
    data = Path(source).read_bytes()
    assert data[:4] == b"E5S1"
    n, bos, eos, pad, unk = struct.unpack_from("<5i", data, 44)
    at = 44 + 20 + 8
    starts = struct.unpack_from(f"<{n + 1}I", data, at)
    scores = struct.unpack_from(f"<{n}f", data, at + 4 * (n + 1))
    texts = at + 4 * (n + 1) + 4 * n
    pieces = [[data[texts + a : texts + b].decode(), s] for a, b, s in zip(starts, starts[1:], scores)]
    names = {i: pieces[i][0] for i in (bos, pad, eos, unk)}
    assert names == {0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>"}, names
    added = [(i, t, False) for i, t in sorted(names.items())]
    if pieces[-1][0] == "<mask>":
        added.append((n - 1, "<mask>", True))
    special = {t: {"id": t, "ids": [i], "tokens": [t]} for i, t in ((bos, "<s>"), (eos, "</s>"))}
    around = [{"SpecialToken": {"id": t, "type_id": 0}} for t in ("<s>", "</s>")]
    template = {
        "type": "TemplateProcessing",
        "single": [around[0], {"Sequence": {"id": "A", "type_id": 0}}, around[1]],
        "pair": [around[0], {"Sequence": {"id": "A", "type_id": 0}}, around[1], {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": special,
    }
    file = unigram_json(pieces, unk, Path(charsmap).read_bytes(), added, template)
    Path(target).write_text(json.dumps(file, ensure_ascii=False))


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
