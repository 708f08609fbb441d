"""Worker of `go run ./docs/bench` for transformers on PyTorch; see worker.go for the protocol.
usage: torch_worker.py directory threads"""

import json
import os
import resource
import sys
import time

t0 = time.perf_counter()
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from transformers import AutoModelForCausalLM, DynamicCache

path, threads = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(threads)
m = AutoModelForCausalLM.from_pretrained(path, dtype="auto", attn_implementation="sdpa").eval()
version = f"transformers {transformers.__version__}, torch {torch.__version__}, {m.dtype}"
print(json.dumps({"version": version, "load_s": time.perf_counter() - t0}), flush=True)
with torch.inference_mode():
    for line in sys.stdin:
        r = json.loads(line)
        cache = DynamicCache(config=m.config)
        ids = torch.tensor([r["prompt"]])
        t = time.perf_counter()
        tok = m(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].argmax(-1, keepdim=True)
        out = [int(tok)]
        prefill = time.perf_counter() - t
        t = time.perf_counter()
        for _ in range(r["gen"]):
            tok = m(tok, past_key_values=cache, use_cache=True).logits[:, -1].argmax(-1, keepdim=True)
            out.append(int(tok))
        decode = time.perf_counter() - t
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"prefill_s": prefill, "decode_s": decode, "ids": out, "peak_bytes": peak}), flush=True)
