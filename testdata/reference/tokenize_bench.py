"""Speed of encoding against Hugging Face tokenizers, both on one thread.

    python tokenize_bench.py VOCABS [ROUNDS]

English is the novel that comes with SentencePiece, Chinese the manual pages of
Debian's manpages-zh (fetched with apt-get download), code Go's own library.
Documents are about 4 KB. The two programs take turns, so that both see the same
machine; each round's figure is one pass over a text after a first, unmeasured
one. Prints the medians in MB/s and their ratio.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import Tokenizer  # noqa: E402

import tokenize_reference as reference  # noqa: E402

NAMES = ["gpt2", "llama3.1", "qwen3", "o200k", "gemma3", "minilm", "xlm-roberta"]


def documents(text, size=4000):
    """Whole lines, about size characters together."""
    out, part, n = [], [], 0
    for line in text.splitlines(keepends=True):
        part.append(line)
        n += len(line)
        if n >= size:
            out.append("".join(part))
            part, n = [], 0
    return out


def chinese(cache):
    if not cache.exists():
        with tempfile.TemporaryDirectory() as dir:
            subprocess.run(["apt-get", "download", "-qq", "manpages-zh"], cwd=dir, check=True, stderr=subprocess.DEVNULL)
            subprocess.run("dpkg -x manpages-zh*.deb x", cwd=dir, check=True, shell=True)
            pages = sorted(Path(dir).glob("x/usr/share/man/zh_CN/**/*.gz"))
            text = subprocess.run(["zcat", *pages], capture_output=True).stdout.decode("utf-8", "ignore")
        lines = (re.sub(r"\\f.", "", line) for line in text.splitlines() if not line.startswith((".", "'")))
        kept = [line for line in lines if sum(c > "\u2e80" for c in line) * 2 > len(line)]
        cache.write_text("\n".join(kept) + "\n")
    return cache.read_text()


def code():
    root = Path(subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip())
    files = sorted((root / "src/net/http").glob("*.go")) + sorted((root / "src/go").glob("*/*.go"))
    return "".join(f.read_text() for f in files)


def main():
    vocabs = Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    texts = {
        "english": documents((vocabs / "sentencepiece/botchan.txt").read_text() * 4)[:250],
        "chinese": documents(chinese(vocabs / "chinese.txt"))[:150],
        "code": documents(code())[:250],
    }
    sizes = {kind: sum(len(d.encode()) for d in docs) for kind, docs in texts.items()}
    print({kind: f"{n / 1e6:.2f} MB" for kind, n in sizes.items()})
    refs = {name: reference.load(name, vocabs).t for name in NAMES}
    ours, theirs = {}, {}
    with tempfile.TemporaryDirectory() as dir:
        for kind, docs in texts.items():
            (Path(dir) / f"{kind}.txt").write_text("\0".join(docs))
        env = os.environ | {"FORWARDPASS_BENCH": dir, "FORWARDPASS_VOCABS": str(vocabs), "GOMAXPROCS": "1"}
        test = Path(dir) / "tokenize.test"
        package = reference.REPO / "pkg/tokenize"
        subprocess.run(["go", "test", "-c", "-o", str(test), "."], cwd=package, check=True)
        for _ in range(rounds):
            out = subprocess.run([test, "-test.run=^$", "-test.bench=Encode", "-test.benchtime=3x"], cwd=package, env=env, check=True,
                                 capture_output=True, text=True).stdout
            for name, kind, mbs in re.findall(r"^BenchmarkEncode/(\S+)/(\w+)\s.* ([\d.]+) MB/s", out, re.M):
                ours.setdefault((name, kind), []).append(float(mbs))
            for name, t in refs.items():
                for kind, docs in texts.items():
                    t.encode_batch_fast(docs[:20])
                    start = time.perf_counter()
                    t.encode_batch_fast(docs)
                    theirs.setdefault((name, kind), []).append(sizes[kind] / 1e6 / (time.perf_counter() - start))
    print(f"{'':24}{'ours':>10}{'HF':>10}{'ratio':>8}   MB/s, medians of {rounds}")
    for key in ours:
        a, b = statistics.median(ours[key]), statistics.median(theirs[key])
        print(f"{' '.join(key):24}{a:10.1f}{b:10.1f}{a / b:8.2f}", flush=True)


if __name__ == "__main__":
    main()
