"""The differential run: ids of N random strings from every reference tokenizer,
for TestDifferential to compare with.

    python tokenize_diff.py VOCABS DIR [N [NAME...]]

Writes DIR/strings.bin and DIR/NAME.ids. A file is a sequence of records: a u32
count, then so many bytes of UTF-8, or u32 ids. The seed is fixed.
"""

import sys
import time
from array import array
from pathlib import Path

import tokenize_reference as reference
from tokenize_strings import noise

if __name__ == "__main__":
    vocabs, out = sys.argv[1], Path(sys.argv[2])
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 100_000
    out.mkdir(parents=True, exist_ok=True)
    strings = list(noise(n))
    with open(out / "strings.bin", "wb") as f:
        for s in strings:
            data = s.encode()
            f.write(array("I", [len(data)]).tobytes() + data)
    total = sum(len(s.encode()) for s in strings)
    print(f"{n} strings, {total} bytes")
    for name in sys.argv[4:] or reference.TOKENIZERS:
        start = time.perf_counter()
        ref = reference.load(name, vocabs)
        flat = array("I")
        for ids in ref.ids(strings):
            flat.append(len(ids))
            flat.extend(ids)
        (out / f"{name}.ids").write_bytes(flat.tobytes())
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
