package model

import (
	"encoding/json"
	"fmt"
	"strings"

	"forwardpass/pkg/checkpoint"
)

// fromGGUF puts the metadata of a GGUF (or llama2.c) file into the words of a config.json, and returns the translation
// of Hugging Face tensor names into the file's.
//
// llama.cpp's converter changes some weights: the query and key rows of the Llama architecture are reordered for the
// interleaved rotation, and Gemma's norms hold 1+w.
func fromGGUF(file *checkpoint.Checkpoint) (*config, func(string) string, error) {
	arch, _ := file.Meta["general.architecture"].(string)
	families := map[string]string{"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3moe": "qwen3_moe", "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3_text", "gpt2": "gpt2", "phi3": "phi3", "olmo2": "olmo2"}
	kind, ok := families[arch]
	if !ok {
		return nil, nil, fmt.Errorf("model: %s: architecture %q is not supported in GGUF files", file.Path, arch)
	}
	c := &config{file: file.Path, used: map[string]bool{}, raw: map[string]any{"model_type": kind}}
	get := func(key string) (any, bool) {
		v, ok := file.Meta[arch+"."+key]
		switch n := v.(type) {
		case int64:
			v = json.Number(fmt.Sprint(n))
		case float64:
			v = json.Number(fmt.Sprint(n))
		}
		return v, ok
	}
	for from, to := range map[string]string{
		"context_length": "max_position_embeddings", "embedding_length": "hidden_size", "block_count": "num_hidden_layers",
		"feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
		"attention.key_length": "head_dim", "attention.layer_norm_rms_epsilon": "rms_norm_eps", "attention.layer_norm_epsilon": "layer_norm_epsilon",
		"rope.freq_base": "rope_theta", "attention.sliding_window": "sliding_window", "attn_logit_softcapping": "attn_logit_softcapping",
		"final_logit_softcapping": "final_logit_softcapping", "expert_count": "num_experts", "expert_used_count": "num_experts_per_tok",
		"expert_feed_forward_length": "moe_intermediate_size", "vocab_size": "vocab_size",
	} {
		if v, ok := get(from); ok {
			c.raw[to] = v
		}
	}
	if tokens, ok := file.Meta["tokenizer.ggml.tokens"].([]string); ok {
		c.raw["vocab_size"] = number(len(tokens))
	}
	for key, to := range map[string]string{"tokenizer.ggml.bos_token_id": "bos_token_id", "tokenizer.ggml.eos_token_id": "eos_token_id"} {
		if id, ok := file.Meta[key].(int64); ok {
			c.raw[to] = number(int(id))
		}
	}
	if ids, ok := c.raw["eos_token_id"]; ok { // a chat model ends its turns with another token
		if eot, ok := file.Meta["tokenizer.ggml.eot_token_id"].(int64); ok && ids != number(int(eot)) {
			c.raw["eos_token_id"] = []any{ids, number(int(eot))}
		}
	}
	if dim, ok := get("rope.dimension_count"); ok {
		if head := c.headDim(); head > 0 {
			n, err := dim.(json.Number).Float64()
			if err == nil && int(n) != head {
				c.raw["partial_rotary_factor"] = number(n / float64(head))
			}
		}
	}
	if v, ok := get("attention.value_length"); ok && c.raw["head_dim"] != nil && v != c.raw["head_dim"] {
		return nil, nil, fmt.Errorf("model: %s: values of another length (%v) than keys (%v) are not supported", file.Path, v, c.raw["head_dim"])
	}
	if err := ggufScaling(c, get); err != nil {
		return nil, nil, err
	}
	c.raw["tie_word_embeddings"] = !file.Has("output.weight")
	switch kind {
	case "llama":
		c.raw["rope_pairing"] = "interleaved"
		if c.raw["num_experts"] != nil && c.raw["num_experts"] != number(0) {
			c.raw["model_type"], c.raw["num_local_experts"] = "mixtral", c.raw["num_experts"]
		}
		delete(c.raw, "num_experts")
		if c.raw["model_type"] == "llama" {
			delete(c.raw, "num_experts_per_tok")
		}
	case "qwen3_moe":
		c.raw["norm_topk_prob"] = true
	case "gemma2", "gemma3_text":
		if c.raw["head_dim"] == nil {
			c.raw["head_dim"] = number(256)
		}
		c.raw["query_pre_attn_scalar"] = c.raw["head_dim"]
	}
	if file.Has("rope_freqs.weight") {
		factors, err := file.Vector("rope_freqs.weight", -1)
		if err != nil {
			return nil, nil, fmt.Errorf("model: %w", err)
		}
		list := make([]any, len(factors))
		for i, f := range factors {
			list[i] = number(float64(f))
		}
		c.raw["rope_scaling"] = map[string]any{"rope_type": "factors", "short_factor": list}
	}
	return c, ggufName(kind), nil
}

// headDim is the head dimension as far as the metadata says.
func (c *config) headDim() int {
	n := func(key string) int {
		f, ok := c.raw[key].(json.Number)
		v, err := f.Int64()
		if !ok || err != nil {
			return 0
		}
		return int(v)
	}
	if d := n("head_dim"); d > 0 {
		return d
	}
	if h := n("num_attention_heads"); h > 0 {
		return n("hidden_size") / h
	}
	return 0
}

// ggufScaling reads the rotary scaling.
func ggufScaling(c *config, get func(string) (any, bool)) error {
	kind, ok := get("rope.scaling.type")
	if !ok || kind == "none" {
		return nil
	}
	s := map[string]any{"rope_type": kind}
	for from, to := range map[string]string{"rope.scaling.factor": "factor", "rope.scaling.original_context_length": "original_max_position_embeddings", "rope.scaling.attn_factor": "attention_factor"} {
		if v, ok := get(from); ok {
			s[to] = v
		}
	}
	if kind != "linear" && kind != "yarn" {
		return fmt.Errorf("model: %s: rotary scaling %v is not supported in GGUF files", c.file, kind)
	}
	c.raw["rope_scaling"] = s
	return nil
}

// ggufName translates tensor names.
func ggufName(kind string) func(string) string {
	pairs := []string{
		"model.embed_tokens.", "token_embd.", "model.norm.", "output_norm.", "lm_head.", "output.", "model.layers.", "blk.",
		"self_attn.q_proj.", "attn_q.", "self_attn.k_proj.", "attn_k.", "self_attn.v_proj.", "attn_v.", "self_attn.o_proj.", "attn_output.",
		"self_attn.qkv_proj.", "attn_qkv.", "mlp.gate_up_proj.", "ffn_up.",
		"self_attn.q_norm.", "attn_q_norm.", "self_attn.k_norm.", "attn_k_norm.", "input_layernorm.", "attn_norm.",
		"mlp.experts.gate_proj.", "ffn_gate_exps.", "mlp.experts.up_proj.", "ffn_up_exps.", "mlp.experts.down_proj.", "ffn_down_exps.",
		"block_sparse_moe.gate.", "ffn_gate_inp.", "mlp.gate.", "ffn_gate_inp.",
		"mlp.gate_proj.", "ffn_gate.", "mlp.up_proj.", "ffn_up.", "mlp.down_proj.", "ffn_down.",
		"pre_feedforward_layernorm.", "ffn_norm.", "post_feedforward_layernorm.", "post_ffw_norm.",
		// GPT-2
		"wte.", "token_embd.", "wpe.", "position_embd.", "h.", "blk.", "ln_1.", "attn_norm.", "ln_2.", "ffn_norm.", "ln_f.", "output_norm.",
		"attn.c_attn.", "attn_qkv.", "attn.c_proj.", "attn_output.", "mlp.c_fc.", "ffn_up.", "mlp.c_proj.", "ffn_down.",
	}
	post := "ffn_norm."
	switch kind {
	case "gemma2", "gemma3_text", "olmo2":
		post = "post_attention_norm."
	}
	return strings.NewReplacer(append([]string{"post_attention_layernorm.", post}, pairs...)...).Replace
}

// mixtralName is Mixtral's own name of an expert's or router's weight.
func mixtralName(name string) string {
	return strings.NewReplacer("mlp.", "block_sparse_moe.", "gate_proj", "w1", "up_proj", "w3", "down_proj", "w2").Replace(name)
}
