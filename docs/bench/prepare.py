"""Makes the files that the benchmark compares on, all from one GGUF so that every engine has the same weights:
the same model as F32, F16, BF16 and Q8_0 GGUF (by llama.cpp) and, with --hf, as a Hugging Face directory in F32
and BF16 (by transformers). usage: prepare.py [--hf] model.gguf outdir"""

import os
import sys

hf = sys.argv[1] == "--hf"
source, out = sys.argv[-2], sys.argv[-1]
os.makedirs(out, exist_ok=True)

if hf:
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoModelForCausalLM

    g = AutoModelForCausalLM.from_pretrained(os.path.dirname(source) or ".", gguf_file=os.path.basename(source), dtype=torch.float32)
    config = type(g.config)(**{k: v for k, v in g.config.to_dict().items() if k != "quantization_config"})
    m = AutoModelForCausalLM.from_config(config, dtype=torch.float32)  # a fresh one: transformers doesn't save what it read from GGUF
    m.load_state_dict(g.state_dict())
    m.tie_weights()
    m.save_pretrained(os.path.join(out, "hf-f32"))
    m.to(torch.bfloat16).save_pretrained(os.path.join(out, "hf-bf16"))
else:
    import llama_cpp

    for name, ftype in [("f32", 0), ("f16", 1), ("bf16", 32), ("q8_0", 7)]:
        path = os.path.join(out, name + ".gguf")
        if os.path.exists(path):
            continue
        p = llama_cpp.llama_model_quantize_default_params()
        p.ftype, p.allow_requantize, p.nthread = ftype, True, 2
        tmp = path + ".part"
        if llama_cpp.llama_model_quantize(source.encode(), tmp.encode(), p) != 0:
            sys.exit("can't make " + path)
        os.rename(tmp, path)
