#!/usr/bin/env python3
"""Make every golden file of this folder's own scripts again, elsewhere, and compare with what is committed.

    check.py        the tiny models, storyland, the number formats and the file formats (a minute); and SmolLM2, if its file is there
"""
import filecmp
import os
import tempfile

import golden  # first: it sets the environment of the others
import files
import make_golden
import quants
import smollm2
import storyland

with tempfile.TemporaryDirectory() as scratch:
    # storyland's residual stream reaches 5,702.
    for script, name, tolerance, roundings in [(storyland, "storyland", 1e-4, 16), (quants, "quants", 0.0, 0)]:
        script.main(os.path.join(scratch, name))
        golden.same(os.path.join(golden.GOLDEN, name), os.path.join(scratch, name), tolerance, roundings)
    files.gguf_files(scratch)
    files.llama2c_files(scratch)
    for name in sorted(os.listdir(scratch)):
        if name.endswith((".gguf", ".bin")):
            assert filecmp.cmp(os.path.join(scratch, name), os.path.join(make_golden.MODELS, name), shallow=False), f"{name} differs"
            stem = os.path.splitext(name)[0]
            golden.same(os.path.join(make_golden.MODELS, stem), os.path.join(scratch, stem), 1e-5)
    make_golden.main(["--check"])
    if os.path.exists(os.path.join(smollm2.FOLDER, smollm2.FILE)):
        smollm2.make(os.path.join(scratch, "smollm2"))
        golden.same(os.path.join(golden.GOLDEN, "smollm2"), os.path.join(scratch, "smollm2"), 1e-3)
