package model

import (
	"fmt"
	"math"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/block"
	"forwardpass/pkg/rope"
	"forwardpass/pkg/tensor"
)

// deepseekV3 has latent attention, and from some layer on experts chosen by groups, with one that all tokens
// pass (arXiv:2412.19437, section 2.1).
func deepseekV3(b *builder) {
	b.only("scoring_func", "sigmoid")
	b.only("topk_method", "noaux_tc")
	b.only("moe_layer_freq", 1.0)
	b.used["num_nextn_predict_layers"] = true // the extra layer that predicts a second token is not part of the forward pass
	b.used["qk_head_dim"], b.used["head_dim"], b.used["num_key_value_heads"] = true, true, true
	rank, nope, turned, value := b.count("kv_lora_rank", 0), b.count("qk_nope_head_dim", 0), b.count("qk_rope_head_dim", 0), b.count("v_head_dim", 0)
	low := b.int("q_lora_rank", 0)
	delete(b.raw, "head_dim")
	c := b.common()
	c.NumKVHeads, c.HeadDim = 1, rank+turned
	c.NormEps = b.number("rms_norm_eps", 1e-6)
	act := b.activation("hidden_act", "silu")
	bias := b.bool("attention_bias", false)
	firstDense := b.int("first_k_dense_replace", 0)
	n, k := b.experts("n_routed_experts", "num_experts_per_tok")
	shared, inner := b.int("n_shared_experts", 0), b.count("moe_intermediate_size", 0)
	groups, topGroups := b.count("n_group", 1), b.count("topk_group", 1)
	normalize, scale := b.bool("norm_topk_prob", true), float32(b.number("routed_scaling_factor", 1))
	if b.bool("rope_interleave", true) {
		b.raw["rope_pairing"] = "interleaved"
	}
	table := b.rotary("", turned, turned)
	attnScale := float32(1 / math.Sqrt(float64(nope+turned)))
	if table != nil {
		if s := table.Config().Scaling; s.Type == rope.YaRN && s.MScaleAllDim != 0 {
			m := s.Magnitude(s.MScaleAllDim)
			attnScale *= float32(m * m)
		}
	}
	small := func(name string, n int) *block.Norm { // the norms of the compressed vectors have an epsilon of their own
		return &block.Norm{Weight: b.vector(name+".weight", n), Eps: 1e-6}
	}
	b.prefix = "model."
	b.m.Embedding = b.matrix("embed_tokens.weight", c.VocabSize, c.HiddenSize)
	for i := range b.m.Layers {
		l, p := &b.m.Layers[i], fmt.Sprintf("layers.%d.", i)
		a := p + "self_attn."
		l.Rope = table
		l.Latent = &attention.Latent{Heads: c.NumHeads, Nope: nope, Rope: turned, Rank: rank, VDim: value}
		l.Attention = l.Latent.Params(attnScale)
		l.AttnNorm, l.MLPNorm = b.rms(p+"input_layernorm", c.HiddenSize), b.rms(p+"post_attention_layernorm", c.HiddenSize)
		heads := c.NumHeads * (nope + turned)
		if low > 0 {
			down := b.linear(a+"q_a_proj", low, c.HiddenSize, bias)
			l.QDown, l.QLora = &down, small(a+"q_a_layernorm", low)
			l.Q = b.linear(a+"q_b_proj", heads, low, false)
		} else {
			l.Q = b.linear(a+"q_proj", heads, c.HiddenSize, false)
		}
		both := b.linear(a+"kv_a_proj_with_mqa", rank+turned, c.HiddenSize, bias)
		l.KVDown, l.KRope = b.rows(both, 0, rank), b.rows(both, rank, rank+turned)
		l.KVLora = small(a+"kv_a_layernorm", rank)
		l.Latent.W = b.floats(a+"kv_b_proj.weight", c.NumHeads*(nope+value), rank)
		l.O = b.linear(a+"o_proj", c.HiddenSize, c.NumHeads*value, bias)
		if i < firstDense {
			l.MLP = b.gated(p+"mlp.", c.IntermediateSize, act, false)
		} else {
			l.MoE = b.mixture(p+"mlp.", "gate", "experts", n, k, inner)
			l.MoE.Sigmoid, l.MoE.Normalize, l.MoE.RoutedScale = true, normalize, scale
			l.MoE.Groups, l.MoE.TopGroups = groups, topGroups
			l.MoE.Correction = b.vector(p+"mlp.gate.e_score_correction_bias", n)
			if shared > 0 {
				l.MoE.Shared = b.gated(p+"mlp.shared_experts.", shared*inner, act, false)
			}
		}
		if len(b.errs) > 0 {
			return
		}
	}
	b.m.FinalNorm = b.rms("norm", c.HiddenSize)
	b.head(false)
}

// floats is a weight [rows, cols] as float32.
func (b *builder) floats(name string, rows, cols int) *tensor.Tensor {
	if len(b.errs) > 0 {
		return nil
	}
	t, err := b.file.Floats(b.name(name), rows, cols)
	b.add(err)
	return t
}
