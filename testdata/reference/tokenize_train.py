"""Makes testdata/tokenizers: a corpus of the project's own sentences, and the small
vocabularies that the reference libraries learn from it.

    python tokenize_train.py

The Go trainers learn from the same corpus and are compared with bpe.json,
wordpiece.json and spbpe.json; every file is a vocabulary for the golden tests, too.
"""

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenize_convert import read_spm, unigram_json
from tokenize_reference import REPO
from tokenize_strings import CHINESE_JAPANESE_KOREAN, CODE, EMOJI, ENGLISH, NUMBERS, OTHER_SCRIPTS, URLS

OUT = REPO / "testdata/tokenizers"

# Rewriting rules of our own, for a compiled charsmap with every kind of rule:
# one to one, one to many, many to one, to nothing, to a space.
RULES = {
    "\u00bd": "1\u20442", "\u00bc": "1\u20444", "\ufb01": "fi", "\ufb03": "ffi", "\u2460": "1", "\u2461": "2", "\u33a1": "m2",
    "e\u0301": "\u00e9", "a\u030a": "\u00e5", "\u304b\u3099": "\u304c", "\u30cf\u309a": "\u30d1", "\u200b": "", "\ufeff": "",
    "\u3000": " ", "\u00a0": " ", "\t": " ", "\r": " ", "\n": " ", "\u2581": " ",
} | {chr(0xFF01 + i): chr(0x21 + i) for i in range(94)}


def corpus():
    with tempfile.NamedTemporaryFile() as f:
        subprocess.run([sys.executable, REPO / "testdata/storyland/generate.py", "7", "300", f.name], check=True)
        stories = Path(f.name).read_text().splitlines()
    curated = [
        line.replace("\\n", "\n").replace("\\t", "\t")
        for block in (ENGLISH, CHINESE_JAPANESE_KOREAN, OTHER_SCRIPTS, EMOJI, NUMBERS, CODE, URLS)
        for line in block.split("\n")
    ]
    return [line for text in stories + curated * 2 for line in text.split("\n") if line]


def bpe(lines):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(
        lines,
        trainers.BpeTrainer(
            vocab_size=900, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        ),
    )
    t.save(str(OUT / "bpe.json"))


def spbpe(lines):
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(
        lines,
        trainers.BpeTrainer(
            vocab_size=1400, min_frequency=2, show_progress=False,
            special_tokens=["<unk>"] + [f"<0x{b:02X}>" for b in range(256)],
        ),
    )
    model = json.loads(t.to_str())["model"]
    file = json.loads(Tokenizer(models.BPE()).to_str())
    file["model"] = model
    t = Tokenizer.from_str(json.dumps(file))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    t.add_special_tokens([AddedToken("<unk>", normalized=False)])
    t.add_tokens([AddedToken("<extra>", lstrip=True, rstrip=True, normalized=False), AddedToken("dog", single_word=True)])
    t.save(str(OUT / "spbpe.json"))


def wordpiece(lines):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(
        lines, trainers.WordPieceTrainer(vocab_size=1300, min_frequency=2, special_tokens=special, show_progress=False)
    )
    t.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)])
    t.save(str(OUT / "wordpiece.json"))
    names = sorted(t.get_vocab().items(), key=lambda item: item[1])
    (OUT / "vocab.txt").write_text("\n".join(name for name, _ in names) + "\n")


def sentencepiece_models(lines):
    with tempfile.TemporaryDirectory() as dir:
        (Path(dir) / "corpus.txt").write_text("\n".join(lines) + "\n")
        (Path(dir) / "rules.tsv").write_text(
            "".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in sorted(RULES.items()))
        )
        common = dict(input=f"{dir}/corpus.txt", normalization_rule_tsv=f"{dir}/rules.tsv", minloglevel=2, num_threads=1)
        sentencepiece.SentencePieceTrainer.train(
            model_prefix=f"{dir}/unigram", model_type="unigram", vocab_size=1100, character_coverage=0.999,
            user_defined_symbols=["<user>", "datawhale"], **common,
        )
        sentencepiece.SentencePieceTrainer.train(
            model_prefix=f"{dir}/bpe", model_type="bpe", vocab_size=1400, byte_fallback=True, remove_extra_whitespaces=False,
            user_defined_symbols=["<user>"], **common,
        )
        for name in ("unigram", "bpe"):
            (OUT / f"{name}.model").write_bytes(Path(f"{dir}/{name}.model").read_bytes())
    m = read_spm((OUT / "unigram.model").read_bytes())
    added = [(i, t, False) for i, (t, _, kind) in enumerate(m["pieces"]) if kind in (2, 3)]
    file = unigram_json([[t, s] for t, s, _ in m["pieces"]], m["unk_id"], m["charsmap"], added)
    (OUT / "unigram.json").write_text(json.dumps(file, ensure_ascii=True) + "\n")


def ranks():
    """bpe.json's vocabulary as tiktoken ranks."""
    from tokenize_reference import byte_names

    names = {byte_names(bytes([b])): b for b in range(256)}
    vocab = json.loads((OUT / "bpe.json").read_text())["model"]["vocab"]
    tokens = [t for t, _ in sorted(vocab.items(), key=lambda item: item[1]) if t != "<|endoftext|>"]
    rows = [f"{base64.b64encode(bytes(names[c] for c in t)).decode()} {i}" for i, t in enumerate(tokens)]
    (OUT / "ranks.tiktoken").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    lines = corpus()
    (OUT / "corpus.txt").write_text("\n".join(lines) + "\n")
    bpe(lines)
    wordpiece(lines)
    spbpe(lines)
    sentencepiece_models(lines)
    ranks()
    for f in sorted(OUT.iterdir()):
        print(f.name, f.stat().st_size)
