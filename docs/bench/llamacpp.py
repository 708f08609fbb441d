"""Worker of `go run ./docs/bench` for llama.cpp; see worker.go for the protocol. usage: llamacpp.py model.gguf threads"""

import json
import resource
import sys
import time

t0 = time.perf_counter()
import ctypes

import llama_cpp
import numpy as np

path, threads = sys.argv[1], int(sys.argv[2])
quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()
model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
p = llama_cpp.llama_context_default_params()
p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads, p.n_threads_batch = 8704, 512, 512, threads, threads
ctx = llama_cpp.llama_init_from_model(model, p)
vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
memory = llama_cpp.llama_get_memory(ctx)
batch = llama_cpp.llama_batch_init(512, 0, 1)


def forward(ids, pos, last):
    batch.n_tokens = len(ids)
    for i, t in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i] = t, pos + i, 1
        batch.seq_id[i][0] = 0
        batch.logits[i] = last and i == len(ids) - 1
    if llama_cpp.llama_decode(ctx, batch) != 0:
        raise RuntimeError("llama_decode failed")
    if last:
        p = llama_cpp.llama_get_logits_ith(ctx, -1)
        return int(np.ctypeslib.as_array(p, shape=(vocab,)).argmax())


print(json.dumps({"version": "llama-cpp-python " + llama_cpp.__version__, "load_s": time.perf_counter() - t0}), flush=True)
for line in sys.stdin:
    r = json.loads(line)
    llama_cpp.llama_memory_clear(memory, True)
    ids, n = r["prompt"], len(r["prompt"])
    t = time.perf_counter()
    for i in range(0, n, 512):
        tok = forward(ids[i : i + 512], i, i + 512 >= n)
    prefill = time.perf_counter() - t
    out = [tok]
    t = time.perf_counter()
    for i in range(r["gen"]):
        tok = forward([tok], n + i, True)
        out.append(tok)
    decode = time.perf_counter() - t
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"prefill_s": prefill, "decode_s": decode, "ids": out, "peak_bytes": peak}), flush=True)
