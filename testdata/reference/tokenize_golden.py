"""Writes testdata/golden/tokenize: what the reference tokenizers make of the
curated strings.

    python tokenize_golden.py VOCABS [NAME...]

strings.json holds the strings; NAME.json, for each tokenizer, the ids, offsets
and tokens of every string. Tokens of vocabularies that are not the project's own
are given as a checksum. "decoded" has the strings that do not come back from
decoding as they were.
"""

import json
import sys
import zlib

import tokenize_reference as reference
from tokenize_strings import curated

OUT = reference.REPO / "testdata/golden/tokenize"


def write(path, fields):
    """JSON with one line an entry of a list, so that diffs can be read."""
    lines = []
    for key, value in fields.items():
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(v, ensure_ascii=True, separators=(",", ":")) for v in value)
            lines.append(f"{json.dumps(key)}:[\n{rows}\n]")
        else:
            lines.append(f"{json.dumps(key)}:{json.dumps(value)}")
    path.write_text("{" + ",\n".join(lines) + "}\n")


def golden(name, vocabs, strings):
    kind, file = reference.TOKENIZERS[name]
    ref = reference.load(name, vocabs)
    fields = {"script": "tokenize_golden.py", "versions": reference.versions(), "file": file}
    ids, offsets, tokens, decoded = [], [], [], {}
    for i, s in enumerate(strings):
        got, names, where = ref.encode(s)
        ids.append(got)
        offsets.append([x for pair in where for x in pair] if where is not None else None)
        tokens.append(names if file.startswith("testdata/") else zlib.crc32("\n".join(names).encode()))
        back = ref.decode(got)
        if back != s:
            decoded[str(i)] = back
    fields.update(ids=ids, tokens=tokens, decoded=decoded)
    if offsets[0] is not None:
        fields["offsets"] = offsets
    write(OUT / f"{name}.json", fields)
    print(f"{name}: {len(strings)} strings, {sum(map(len, ids))} tokens, {len(decoded)} decoded differently")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    strings = curated()
    write(OUT / "strings.json", {"script": "tokenize_golden.py", "strings": strings})
    for name in sys.argv[2:] or reference.TOKENIZERS:
        golden(name, sys.argv[1], strings)
