#!/usr/bin/env python3
"""Tiny random-weight checkpoints of every family and their golden values: testdata/golden/models/.

    make_golden.py [NAME…]           make them all, or the ones named
    make_golden.py --check [NAME…]   make them elsewhere and compare: weights and ids exactly, floats to 1e-5

models/NAME/ is a Hugging Face directory, models/NAME.safetensors and NAME.json its golden values (names: golden.py).
Every weight is drawn anew, norms, biases and router biases included, so that a forgotten one shows. A seed is taken only if
nothing hangs by a thread, greedy decoding and expert choice keep a lead that rounding can't turn, and the text isn't one token repeated.
"""
import glob
import json
import os
import shutil
import sys
import tempfile

import golden  # first: it sets the environment of the others

import numpy as np
import torch
import transformers as tf
from safetensors.numpy import load_file, save_file


MODELS = os.path.join(golden.GOLDEN, "models")
PROMPT, ADDED = 28, 24  # tokens of the prompt, and of the greedy continuation
SMALL = dict(vocab_size=80, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=None)
FAMILIES = {}


def family(make):
    FAMILIES[make.__name__.strip("_").replace("_", "-")] = make
    return make


def rope(theta=10000.0, **scaling):
    return {"rope_type": "default", "rope_theta": theta, **scaling}


# A family is a function that returns its config and, if need be, options:
#   dtype     of the saved weights            shard      largest file, in bytes
#   short     also a prompt of that length    legacy     config.json rewritten with the keys of older checkpoints
#   rename    tensor names as elsewhere       beams      also beam search and penalties


@family
def llama():
    return tf.LlamaConfig(**SMALL), {}


@family
def llama_mqa_bias():
    return tf.LlamaConfig(**{**SMALL, "num_key_value_heads": 1}, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-3), {}


@family
def llama_tied_wide():
    """Four heads of 12 in a stream of 32."""
    return tf.LlamaConfig(**SMALL, head_dim=12, tie_word_embeddings=True, rope_parameters=rope(1e6)), {}


@family
def llama_linear():
    def legacy(c):
        c.pop("rope_parameters")
        c.update(rope_theta=5000.0, rope_scaling={"type": "linear", "factor": 4.0})
    return tf.LlamaConfig(**SMALL, rope_parameters=rope(5000.0, rope_type="linear", factor=4.0)), {"legacy": legacy}


@family
def llama_dynamic():
    """NTK scaling that starts at 16 tokens and grows with the text."""
    config = {**SMALL, "max_position_embeddings": 16}
    return tf.LlamaConfig(**config, rope_parameters=rope(rope_type="dynamic", factor=3.0)), {"short": 12}


@family
def llama_yarn():
    wide = {**SMALL, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 1024}
    return tf.LlamaConfig(**wide, rope_parameters=rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=256)), {}


@family
def llama_llama3():
    wide = {**SMALL, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 512}
    scaling = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)

    def legacy(c):
        c.pop("rope_parameters")
        c.update(rope_theta=10000.0, rope_scaling={"rope_type": "llama3", **scaling})
    return tf.LlamaConfig(**wide, rope_parameters=rope(rope_type="llama3", **scaling)), {"legacy": legacy, "dtype": torch.bfloat16}


@family
def llama_longrope():
    """Short factors up to 16 tokens, long ones after."""
    scaling = dict(short_factor=[1.0, 1.1, 1.3, 1.6], long_factor=[1.2, 2.0, 5.0, 9.0], factor=4.0, original_max_position_embeddings=16)
    return tf.LlamaConfig(**SMALL, rope_parameters=rope(rope_type="longrope", **scaling)), {"short": 12}


@family
def qwen2():
    return tf.Qwen2Config(**SMALL, tie_word_embeddings=True), {"dtype": torch.bfloat16}


@family
def qwen2_window():
    """Full attention in layer 0, a window of 8 from layer 1 on."""
    return tf.Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=8, max_window_layers=1), {}


@family
def qwen3():
    return tf.Qwen3Config(**SMALL, head_dim=16, rms_norm_eps=1e-4, rope_parameters=rope(1e6)), {"beams": True}


@family
def qwen3_moe():
    """Layer 1 is dense; the chosen experts' weights are normalised; two shards."""
    config = {**SMALL, "num_hidden_layers": 3}
    return tf.Qwen3MoeConfig(**config, head_dim=8, moe_intermediate_size=16, num_experts=6, num_experts_per_tok=2,
                             norm_topk_prob=True, mlp_only_layers=[1]), {"shard": 100_000}


@family
def qwen3_moe_raw():
    """The chosen experts' weights as the softmax gave them."""
    return tf.Qwen3MoeConfig(**SMALL, head_dim=8, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2,
                             norm_topk_prob=False), {"dtype": torch.float16}


@family
def mistral():
    return tf.MistralConfig(**SMALL, head_dim=8, sliding_window=8), {}


@family
def mixtral():
    return tf.MixtralConfig(**{**SMALL, "intermediate_size": 24}, num_local_experts=4, num_experts_per_tok=2,
                            rope_parameters=rope(1e6)), {"beams": True}


GPT2 = dict(vocab_size=80, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=None, eos_token_id=None)


@family
def gpt2():
    return tf.GPT2Config(**GPT2), {"beams": True}


@family
def gpt2_bare():
    """Names without the prefix and with the mask buffers, as in the first public files."""
    def rename(tensors):
        tensors = {k.removeprefix("transformer."): v for k, v in tensors.items() if k != "lm_head.weight"}
        for i in range(2):
            tensors[f"h.{i}.attn.bias"] = np.tril(np.ones((1, 1, 64, 64), np.float32))
        return tensors
    return tf.GPT2Config(**{**GPT2, "n_positions": 64, "n_inner": 40}, scale_attn_by_inverse_layer_idx=True), {"rename": rename}


NEOX = dict(vocab_size=80, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=64,
            bos_token_id=None, eos_token_id=None)


@family
def gpt_neox():
    def legacy(c):
        c.pop("rope_parameters")
        c.update(rotary_pct=0.25, rotary_emb_base=10000)
    return tf.GPTNeoXConfig(**NEOX, rope_parameters=rope(partial_rotary_factor=0.25)), {"legacy": legacy}


@family
def gpt_neox_sequential():
    return tf.GPTNeoXConfig(**NEOX, use_parallel_residual=False, rope_parameters=rope(partial_rotary_factor=0.5)), {}


PHI = {**SMALL, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2}


@family
def phi():
    def legacy(c):
        c.pop("rope_parameters")
        c.update(rope_theta=10000.0, rope_scaling=None, partial_rotary_factor=0.5)
    return tf.PhiConfig(**PHI, rope_parameters=rope(partial_rotary_factor=0.5)), {"legacy": legacy}


@family
def phi_qk_norm():
    return tf.PhiConfig(**{**PHI, "num_attention_heads": 4}, qk_layernorm=True, rope_parameters=rope(partial_rotary_factor=0.5)), {}


@family
def phi3():
    return tf.Phi3Config(**SMALL, original_max_position_embeddings=64, sliding_window=10), {}


@family
def phi3_longrope():
    """A quarter of every head is left unrotated; short factors up to 16 tokens, long ones after."""
    config = {**SMALL, "num_attention_heads": 2, "num_key_value_heads": 1}
    factors = dict(short_factor=[1.0, 1.0, 1.1, 1.2, 1.4, 1.7], long_factor=[1.1, 1.5, 2.5, 4.0, 6.0, 9.0])

    def legacy(c):
        c.pop("rope_parameters")
        c.update(rope_theta=10000.0, partial_rotary_factor=0.75, rope_scaling={"type": "longrope", **factors})
    return tf.Phi3Config(**config, original_max_position_embeddings=16, tie_word_embeddings=True,
                         rope_parameters=rope(rope_type="longrope", partial_rotary_factor=0.75, **factors)), {"legacy": legacy, "short": 12}


@family
def gemma():
    return tf.GemmaConfig(**{**SMALL, "num_key_value_heads": 1}, head_dim=12, rms_norm_eps=1e-3), {}


@family
def gemma2():
    """Caps small enough to show; windows in layers 0 and 2."""
    config = {**SMALL, "num_hidden_layers": 3}
    return tf.Gemma2Config(**config, head_dim=8, rms_norm_eps=1e-4, query_pre_attn_scalar=12, sliding_window=8,
                           attn_logit_softcapping=3.0, final_logit_softcapping=6.0), {}


@family
def gemma3():
    config = {**SMALL, "num_hidden_layers": 4}
    return tf.Gemma3TextConfig(
        **config, head_dim=8, rms_norm_eps=1e-4, query_pre_attn_scalar=6, sliding_window=8,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"sliding_attention": rope(), "full_attention": rope(1e6, rope_type="linear", factor=8.0)}), {"dtype": torch.bfloat16}


@family
def gemma3_legacy():
    """Layer types by pattern, two bases of RoPE as keys of their own."""
    config = {**SMALL, "num_hidden_layers": 3}

    def legacy(c):
        for key in ("rope_parameters", "layer_types", "_sliding_window_pattern"):
            c.pop(key, None)
        c.update(sliding_window_pattern=3, rope_theta=1e6, rope_local_base_freq=10000.0, rope_scaling=None)
    return tf.Gemma3TextConfig(
        **config, head_dim=12, query_pre_attn_scalar=12, sliding_window=8, sliding_window_pattern=3,
        rope_parameters={"sliding_attention": rope(), "full_attention": rope(1e6)}), {"legacy": legacy}


@family
def olmo():
    return tf.OlmoConfig(**SMALL, clip_qkv=0.9), {}


@family
def olmo2():
    return tf.Olmo2Config(**SMALL, rope_parameters=rope(500000.0)), {}


DEEPSEEK = {**SMALL, "num_key_value_heads": 4, "num_hidden_layers": 3, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 6,
            "kv_lora_rank": 12, "moe_intermediate_size": 12, "n_routed_experts": 8, "num_experts_per_tok": 2, "num_mtp_layers": 0}


@family
def deepseek_v3():
    """Compressed queries too; 8 experts in 4 groups of which 2 may be chosen; YaRN; layer 0 dense."""
    scaling = dict(factor=8.0, beta_fast=4, beta_slow=1, mscale=0.8, mscale_all_dim=1.1, original_max_position_embeddings=64)

    def legacy(c):
        c.pop("rope_parameters")
        c.update(rope_theta=1000.0, rope_scaling={"type": "yarn", **scaling}, num_nextn_predict_layers=0, ep_size=1,
                 moe_layer_freq=1, scoring_func="sigmoid", topk_method="noaux_tc")
    return tf.DeepseekV3Config(**{**DEEPSEEK, "max_position_embeddings": 512}, q_lora_rank=16, n_group=4, topk_group=2, n_shared_experts=1,
                               first_k_dense_replace=1, rope_parameters=rope(1000.0, rope_type="yarn", **scaling)), {"legacy": legacy}


@family
def deepseek_v3_plain():
    """Queries not compressed, one group, two shared experts, weights not normalised."""
    return tf.DeepseekV3Config(**DEEPSEEK, q_lora_rank=None, n_group=1, topk_group=1, n_shared_experts=2, first_k_dense_replace=2,
                               norm_topk_prob=False, routed_scaling_factor=1.5, attention_bias=True), {}


def fill(model, rng):
    """Draw every weight: matrices keep the size of what flows through them, norms lie around one, biases around zero."""
    one_plus = model.config.model_type.startswith("gemma")  # these norms multiply by 1 + weight
    state = dict(model.named_parameters())
    state.update({n: b for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")})
    for name, tensor in state.items():
        draw = torch.from_numpy(rng.standard_normal(tuple(tensor.shape)).astype(np.float32))
        if tensor.dim() == 1:
            norm = "norm" in name or "ln_" in name
            draw = draw * 0.25 + (1.0 if norm and name.endswith("weight") and not one_plus else 0.0)
        elif any(part in name for part in ("embed", "wte", "wpe")) and "embed_out" not in name:
            draw *= 0.15 if model.config.tie_word_embeddings else 0.5  # or a tied head only repeats its input
        elif name.endswith(("mlp.gate.weight", "router.weight")):
            draw *= 2 * tensor.shape[-1] ** -0.5
        else:
            draw *= 1.2 * tensor.shape[-1] ** -0.5
        tensor.data.copy_(draw.to(tensor.dtype))


def save(model, path, options):
    shutil.rmtree(path, ignore_errors=True)
    model.save_pretrained(path, max_shard_size=options.get("shard", 10**9))
    os.remove(os.path.join(path, "generation_config.json"))
    config_file = os.path.join(path, "config.json")
    with open(config_file) as f:
        config = json.load(f)
    if "legacy" in options:
        options["legacy"](config)
        config["torch_dtype"] = config.pop("dtype")
        config["transformers_version"] = "4.46.0"
    with open(config_file, "w") as f:
        f.write(json.dumps(config, indent=2) + "\n")
    if "rename" in options:
        file = os.path.join(path, "model.safetensors")
        save_file(options["rename"](load_file(file)), file, metadata={"format": "pt"})
    for file in glob.glob(os.path.join(path, "*")):
        os.chmod(file, 0o644)


def weights(path):
    out = {}
    for file in sorted(glob.glob(os.path.join(path, "*.safetensors"))):
        with golden.safetensors.safe_open(file, framework="pt") as f:
            out.update({k: f.get_tensor(k).float().numpy() for k in f.keys()})
    return out


def routing_lead(config, seen):
    """How far the last chosen expert (and group) leads the first one left out, over all layers and tokens."""
    lead = float("inf")
    for name, logits in seen.items():
        if not name.startswith("router."):
            continue
        layer, k = int(name.split(".")[1]), config.num_experts_per_tok
        score = logits.astype(np.float64)
        if config.model_type == "deepseek_v3":
            score = 1 / (1 + np.exp(-score)) + seen[f"bias.{layer}"]
            grouped = score.reshape(len(score), config.n_group, -1)
            if config.n_group > config.topk_group:
                group = np.sort(grouped, -1)[..., -2:].sum(-1)
                order = np.sort(group, -1)[:, ::-1]
                lead = min(lead, (order[:, config.topk_group - 1] - order[:, config.topk_group]).min())
                out = group < order[:, [config.topk_group - 1]]
                score = np.where(np.repeat(out, grouped.shape[-1], 1), -np.inf, score)
        order = np.sort(score, -1)[:, ::-1]
        lead = min(lead, (order[:, k - 1] - order[:, k]).min())
    return lead


def examine(model, seed, options):
    """All golden values of a model, and the smallest lead in them."""
    config, rng = model.config, np.random.default_rng(seed + 1000)
    prompt = [int(t) for t in rng.integers(0, config.vocab_size, PROMPT)]
    tensors, leads = {}, []
    facts = {"script": "testdata/reference/make_golden.py", "versions": golden.versions(), "seed": seed, "cases": {}}
    for case, ids in [("prompt", prompt)] + ([("short", prompt[:options["short"]])] if "short" in options else []):
        seen = golden.stages(model, ids)
        more, lead = golden.greedy(model, ids, ADDED)
        recomputed, full_lead = golden.greedy(model, ids, ADDED, use_cache=False)
        leads += [lead, full_lead, float(len(set(more)) >= 6)]
        tensors.update({f"{case}/{k}": v for k, v in seen.items()})
        tensors[f"{case}/ids"], tensors[f"{case}/greedy"] = np.array(ids), np.array(more)
        if recomputed != more:
            tensors[f"{case}/greedy_recomputed"] = np.array(recomputed)
        facts["cases"][case] = {"tokens": len(ids), "smallest_lead": lead, "cached_equals_recomputed": recomputed == more}
        whole = golden.stages(model, ids + more)
        for name, module in model.named_modules():
            if hasattr(module, "e_score_correction_bias"):
                whole["bias." + name.split(".layers.")[1].split(".")[0]] = module.e_score_correction_bias.numpy()
        leads.append(10 * routing_lead(config, whole))
    parts = [prompt, prompt[5:18], prompt[20:27]]
    labels = [list(prompt), list(parts[1]), [golden.IGNORED] * 3 + parts[2][3:]]
    facts["losses"] = golden.losses(model, parts, labels)
    if options.get("beams"):
        eos = tensors["prompt/greedy"].tolist()[6]
        facts["beams"] = {"ids": prompt, "results": golden.beams(model, prompt, 16, eos)}
        exact = golden.beams(golden.fresh(model).double(), prompt, 16, eos)
        if [b["sequences"] for b in exact] != [b["sequences"] for b in facts["beams"]["results"]]:
            leads.append(0.0)
        results = golden.penalised(model, prompt, ADDED)
        facts["penalised"] = {"ids": prompt, "results": results}
        leads += [r["smallest_lead"] for r in results]
    return tensors, facts, min(leads)


def make(name, folder):
    path = os.path.join(folder, name)
    for seed in range(1, 200):
        config, options = FAMILIES[name]()
        dtype = options.get("dtype", torch.float32)
        model = tf.AutoModelForCausalLM.from_config(config).eval()
        fill(model, np.random.default_rng(seed))
        save(model.to(dtype), path, options)
        model = golden.load(path)
        tensors, facts, lead = examine(model, seed, options)
        if lead > 0.002:
            break
    else:
        raise SystemExit(f"{name}: no seed keeps its lead")
    golden.write(os.path.join(folder, name), tensors, facts)
    size = sum(os.path.getsize(f) for f in glob.glob(path + "/*") + glob.glob(path + ".*"))
    print(f"{name:<22} seed {seed:<4} lead {lead:.4f}  {size / 1024:5.0f} KB  loss {facts['losses']['padded_mean']:.3f}"
          f"  cached {[c['cached_equals_recomputed'] for c in facts['cases'].values()]}", flush=True)


def same(name, old, new):
    """Stop at the first thing that differs between two makings of a model."""
    a, b = weights(os.path.join(old, name)), weights(os.path.join(new, name))
    assert a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a), f"{name}: weights differ"
    golden.same(os.path.join(old, name), os.path.join(new, name), 1e-5)


def main(args):
    check = "--check" in args
    names = [a for a in args if a != "--check"] or list(FAMILIES)
    with tempfile.TemporaryDirectory() as scratch:
        folder = scratch if check else MODELS
        os.makedirs(folder, exist_ok=True)
        for name in names:
            make(name, folder)
            if check:
                same(name, MODELS, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
