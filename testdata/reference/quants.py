#!/usr/bin/env python3
"""Blocks of every GGUF number format and the values they stand for: testdata/golden/quants.{safetensors,json}.

    quants.py [OUT]

For each format, <type>/raw [4, bytes] uint8 and <type>/values [4, 512] float32, as the package gguf decodes them. Formats that the
package can encode hold a random matrix with a block of zeros, a block with one outlier and rows of different size; the K formats hold random blocks
with scales of reasonable size.
"""
import os
import sys

import golden  # first: it sets the environment of the others

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES


ENCODED = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
HALVES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}  # where a block of 256 keeps its float16 scales
ROWS, COLUMNS, SEED = 4, 512, 11


def matrix(rng, rows=ROWS, columns=COLUMNS):
    m = rng.standard_normal((rows, columns)).astype(np.float32)
    m *= np.array([1.0, 0.02, 30.0, 1.0], np.float32)[:rows, None]
    m[0, 32:64] = 0
    m[1, 70] = -5
    m[3, 256:288] = np.abs(m[3, 256:288])
    return m


def random_blocks(rng, kind, rows, columns, scale, signs=(1,)):
    """Random blocks of a K format with float16 scales around `scale`, and minima that centre the values on zero."""
    block, size = GGML_QUANT_SIZES[Type[kind]]
    raw = rng.integers(0, 256, (rows, columns // block, size), dtype=np.uint8)
    for at in HALVES[kind]:
        half = scale * rng.uniform(0.5, 1.0, raw.shape[:2]) * rng.choice(signs, raw.shape[:2])
        if at == 2:  # the second is the scale of the minima: 7.5 is the mean of four bits, 15.5 that of five
            half *= 7.5 if kind == "Q4_K" else 15.5
        raw[..., at:at + 2] = half.astype(np.float16)[..., None].view(np.uint8)
    return raw.reshape(rows, -1)


def decode(raw, kind):
    """The float32 values of rows of bytes."""
    raw = {"F32": lambda: raw.view(np.float32), "F16": lambda: raw.view(np.float16)}.get(kind, lambda: raw)()
    return quants.dequantize(raw, Type[kind]).astype(np.float32).reshape(len(raw), -1)


def main(stem):
    rng, tensors = np.random.default_rng(SEED), {}
    for kind in ENCODED:
        tensors[kind + "/raw"] = quants.quantize(matrix(rng), Type[kind]).view(np.uint8).reshape(ROWS, -1)
    for kind in HALVES:
        tensors[kind + "/raw"] = random_blocks(rng, kind, ROWS, COLUMNS, 0.01, signs=(1, 1, 1, -1))
    for name in list(tensors):
        kind = name.split("/")[0]
        values = decode(tensors[name], kind)
        assert np.isfinite(values).all(), kind
        tensors[kind + "/values"] = values
    golden.write(stem, tensors, {"script": "testdata/reference/quants.py", "versions": {**golden.versions(), "gguf": "0.19.0"}, "seed": SEED,
                                 "types": ENCODED + list(HALVES), "rows": ROWS, "columns": COLUMNS})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(golden.GOLDEN, "quants"))
