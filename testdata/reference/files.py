#!/usr/bin/env python3
"""Tiny models in the other file formats, and their golden values: testdata/golden/models/.

    files.py [FOLDER]

    gguf-llama.gguf       llama architecture with every block-of-32 and plain number format, storyland's tokenizer in its metadata, untied
    gguf-llama-k.gguf     the same architecture in Q4_K, Q5_K and Q6_K, tied, no tokenizer
    llama2c-v0.bin        llama2.c's first format, float32, tied
    llama2c-v0-untied.bin the same with a head of its own (a negative vocabulary size says so)
    llama2c-v1.bin        magic "ak42", version 1, float32, tied
    llama2c-v2.bin        version 2: norms in float32, matrices in int8 with a float32 scale for each group of 16, untied

Both formats store the rows of q and k for interleaved rotary pairs. The reference is a transformers Llama with the decoded weights
in half-split order; for GGUF, transformers' own reader must agree with it.
"""
import json
import os
import struct
import sys

import golden  # first: it sets the environment of the others

import gguf
import numpy as np
import torch
import transformers as tf

import quants

ADDED = 24


def half_split(w, heads):
    """Rows (2i, 2i+1) of each head, rotated together, become rows (i, i + D/2)."""
    return w.reshape(heads, -1, 2, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)


def llama(config, weights):
    """A transformers Llama of the weights: their names are GGUF's, q and k in interleaved order."""
    model = tf.LlamaForCausalLM._from_config(config, attn_implementation="eager").eval()
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
             "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj",
             "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    state = {}
    for name, w in weights.items():
        part = name.removesuffix(".weight").split(".")
        if part[-1] == "attn_q":
            w = half_split(w, config.num_attention_heads)
        if part[-1] == "attn_k":
            w = half_split(w, config.num_key_value_heads)
        prefix = f"model.layers.{part[1]}." if part[0] == "blk" else ""
        state[f"{prefix}{names[part[-1]]}.weight"] = torch.from_numpy(np.ascontiguousarray(w))
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


def shapes(c):
    """Every tensor by GGUF's name, in the order of the file."""
    kv = c.hidden_size // c.num_attention_heads * c.num_key_value_heads
    out = {"token_embd": (c.vocab_size, c.hidden_size)}
    for i in range(c.num_hidden_layers):
        out.update({f"blk.{i}.attn_norm": (c.hidden_size,), f"blk.{i}.attn_q": (c.hidden_size, c.hidden_size),
                    f"blk.{i}.attn_k": (kv, c.hidden_size), f"blk.{i}.attn_v": (kv, c.hidden_size),
                    f"blk.{i}.attn_output": (c.hidden_size, c.hidden_size), f"blk.{i}.ffn_norm": (c.hidden_size,),
                    f"blk.{i}.ffn_gate": (c.intermediate_size, c.hidden_size), f"blk.{i}.ffn_up": (c.intermediate_size, c.hidden_size),
                    f"blk.{i}.ffn_down": (c.hidden_size, c.intermediate_size)})
    out["output_norm"] = (c.hidden_size,)
    if not c.tie_word_embeddings:
        out["output"] = (c.vocab_size, c.hidden_size)
    return {name + ".weight": shape for name, shape in out.items()}


def draw(rng, name, shape, tied):
    w = rng.standard_normal(shape).astype(np.float32)
    if len(shape) == 1:
        return 1 + 0.25 * w
    if name.startswith("token_embd"):
        return w * np.float32(0.15 if tied else 0.5)
    return w * np.float32(1.2 * shape[-1] ** -0.5)


def record(folder, name, model, rng, seed, length, keep=lambda key: True):
    ids = [int(t) for t in rng.integers(3, model.config.vocab_size, length)]
    seen = {k: v for k, v in golden.stages(model, ids).items() if keep(k)}
    more, lead = golden.greedy(model, ids, ADDED)
    if lead < 0.002 or len(set(more)) < 5:
        return False
    tensors = {f"prompt/{k}": v for k, v in seen.items()}
    tensors.update({"prompt/ids": np.array(ids), "prompt/greedy": np.array(more)})
    golden.write(os.path.join(folder, name), tensors, {"script": "testdata/reference/files.py", "versions": {**golden.versions(), "gguf": "0.19.0"},
                                                       "seed": seed, "cases": {"prompt": {"tokens": length, "smallest_lead": lead}}})
    print(f"{name:<20} seed {seed:<3} lead {lead:.4f}", flush=True)
    return True


def until_kept(make):
    seed = 1
    while not make(seed, np.random.default_rng(seed)):
        seed += 1


def write_gguf(path, config, raw, kinds, tokenizer=None):
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("forwardpass " + os.path.basename(path))
    w.add_block_count(config.num_hidden_layers)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    w.add_rope_freq_base(config.rope_parameters["rope_theta"])
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    w.add_vocab_size(config.vocab_size)
    if tokenizer:
        special = {t["id"] for t in tokenizer["added_tokens"]}
        tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("gpt-2")
        w.add_token_list(tokens)
        w.add_token_types([int(gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL) for i in range(len(tokens))])
        w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])
        w.add_bos_token_id(0)
        w.add_eos_token_id(0)
        w.add_add_bos_token(False)
    for name, rows in raw.items():
        kind = gguf.GGMLQuantizationType[kinds(name)]
        plain = {"F32": np.float32, "F16": np.float16}.get(kind.name)
        w.add_tensor(name, rows.view(plain) if plain else rows, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def gguf_model(folder, name, config, kinds, length, tokenizer=None):
    def make(seed, rng):
        raw, weights = {}, {}
        for tensor, shape in shapes(config).items():
            kind = kinds(tensor)
            if kind in quants.HALVES:
                std = {"Q4_K": 190, "Q5_K": 430, "Q6_K": 680}[kind]  # of the values, in units of the scale
                size = 0.15 if tensor.startswith("token_embd") else 1.2 * shape[-1] ** -0.5
                rows = quants.random_blocks(rng, kind, *shape, size / std)
            else:
                w = draw(rng, tensor, shape, config.tie_word_embeddings)
                rows = quants.quants.quantize(w, quants.Type[kind]).view(np.uint8)
            raw[tensor] = rows
            weights[tensor] = quants.decode(rows.reshape(shape[0] if len(shape) > 1 else 1, -1), kind).reshape(shape)
        model = llama(config, weights)
        path = os.path.join(folder, name + ".gguf")
        write_gguf(path, config, raw, kinds, tokenizer)
        theirs = golden.load(folder, gguf_file=name + ".gguf")
        ids = torch.tensor([[1, 5, 9, 3, 60, 2]])
        assert (theirs(ids).logits - model(ids).logits).abs().max() < 1e-5, name
        return record(folder, name, model, rng, seed, length, lambda k: not k.startswith("attention"))
    until_kept(make)


def gguf_files(folder):
    with open(os.path.join(golden.HERE, "..", "storyland", "tokenizer.json")) as f:
        tokenizer = json.load(f)
    every = {"token_embd": "Q8_0", "output": "Q8_0", "attn_q": "Q4_0", "attn_k": "Q5_0", "attn_v": "Q5_1", "attn_output": "Q4_1",
             "ffn_gate": "F16", "ffn_up": "BF16", "ffn_down": "Q4_0"}
    config = tf.LlamaConfig(vocab_size=640, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                            num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=0)
    gguf_model(folder, "gguf-llama", config, lambda n: every.get(n.split(".")[-2], "F32"), 20, tokenizer)

    k = {"token_embd": "Q6_K", "attn_q": "Q4_K", "attn_k": "Q6_K", "attn_v": "Q6_K", "attn_output": "Q5_K", "ffn_gate": "Q4_K",
         "ffn_up": "Q5_K", "ffn_down": "Q6_K"}
    config = tf.LlamaConfig(vocab_size=64, hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
                            num_key_value_heads=1, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=True,
                            bos_token_id=None, eos_token_id=None, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    gguf_model(folder, "gguf-llama-k", config, lambda n: k.get(n.split(".")[-2], "F32"), 16)


# llama2.c

MATRICES = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_down", "ffn_up"]  # wq wk wv wo w1 w2 w3
GROUP = 16


def per_layer(weights, name):
    return [w for key, w in weights.items() if key.endswith(f".{name}.weight")]


def header(config, vocabulary):
    return struct.pack("<7i", config.hidden_size, config.intermediate_size, config.num_hidden_layers, config.num_attention_heads,
                       config.num_key_value_heads, vocabulary, config.max_position_embeddings)


def version0(config, weights):
    tied = config.tie_word_embeddings
    parts = [weights["token_embd.weight"], *per_layer(weights, "attn_norm"), *[w for m in MATRICES[:4] for w in per_layer(weights, m)],
             *per_layer(weights, "ffn_norm"), *[w for m in MATRICES[4:] for w in per_layer(weights, m)], weights["output_norm.weight"]]
    d = config.hidden_size // config.num_attention_heads
    angles = np.outer(np.arange(config.max_position_embeddings), 10000.0 ** (-np.arange(0, d, 2) / d))
    parts += [np.cos(angles), np.sin(angles)]  # tables that readers skip
    if not tied:
        parts.append(weights["output.weight"])
    return header(config, config.vocab_size if tied else -config.vocab_size) + b"".join(p.astype("<f4").tobytes() for p in parts)


def ak42(config, version, more=b""):
    head = struct.pack("<Ii", 0x616B3432, version) + header(config, config.vocab_size) + struct.pack("<B", config.tie_word_embeddings) + more
    return head.ljust(256, b"\0")


def norms(weights):
    return [*per_layer(weights, "attn_norm"), *per_layer(weights, "ffn_norm"), weights["output_norm.weight"]]


def matrices(config, weights):
    out = ["token_embd.weight"] + [f"blk.{i}.{m}.weight" for m in MATRICES for i in range(config.num_hidden_layers)]
    return out if config.tie_word_embeddings else out + ["output.weight"]


def version1(config, weights):
    parts = norms(weights) + [weights[name] for name in matrices(config, weights)]
    return ak42(config, 1) + b"".join(p.astype("<f4").tobytes() for p in parts)


def version2(config, weights):
    """Rounds the matrices in weights to what the file holds."""
    out = [ak42(config, 2, struct.pack("<i", GROUP))] + [p.astype("<f4").tobytes() for p in norms(weights)]
    for name in matrices(config, weights):
        groups = weights[name].reshape(-1, GROUP)
        scale = (np.abs(groups).max(1, keepdims=True) / np.float32(127)).astype(np.float32)
        q = np.rint(groups / scale).astype(np.int8)
        weights[name] = (q.astype(np.float32) * scale).reshape(weights[name].shape)
        out += [q.tobytes(), scale.astype("<f4").tobytes()]
    return b"".join(out)


def llama2c_files(folder):
    for name, tied, write in [("llama2c-v0", True, version0), ("llama2c-v0-untied", False, version0), ("llama2c-v1", True, version1),
                              ("llama2c-v2", False, version2)]:
        config = tf.LlamaConfig(vocab_size=48, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=tied,
                                bos_token_id=1, eos_token_id=2)

        def make(seed, rng):
            weights = {n: draw(rng, n, shape, tied) for n, shape in shapes(config).items()}
            with open(os.path.join(folder, name + ".bin"), "wb") as f:
                f.write(write(config, weights))
            return record(folder, name, llama(config, weights), rng, seed, 16, lambda k: not k.startswith("attention"))
        until_kept(make)


if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(golden.GOLDEN, "models")
    gguf_files(out)
    llama2c_files(out)
