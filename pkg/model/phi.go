package model

import (
	"fmt"

	"forwardpass/pkg/block"
)

// phi runs attention and MLP side by side on the same norm, with biases everywhere, the head included (Phi-1.5,
// arXiv:2309.05463; Phi-2).
func phi(b *builder) {
	if !b.has("partial_rotary_factor") && !b.has("rope_parameters") {
		b.raw["partial_rotary_factor"] = number(0.5)
	}
	qkNorm := b.bool("qk_layernorm", false)
	c := b.common()
	c.NormEps = b.number("layer_norm_eps", 1e-5)
	act := b.activation("hidden_act", "gelu_new")
	table := b.rotary("", c.HeadDim, 0)
	b.prefix = "model."
	b.m.Embedding = b.matrix("embed_tokens.weight", c.VocabSize, c.HiddenSize)
	for i := range b.m.Layers {
		l, p := &b.m.Layers[i], fmt.Sprintf("layers.%d.", i)
		l.Residual, l.Attention, l.Rope = block.Parallel, c.params(i), table
		l.AttnNorm = b.layerNorm(p+"input_layernorm", c.HiddenSize)
		l.Q = b.linear(p+"self_attn.q_proj", c.NumHeads*c.HeadDim, c.HiddenSize, true)
		l.K = b.linear(p+"self_attn.k_proj", c.NumKVHeads*c.HeadDim, c.HiddenSize, true)
		l.V = b.linear(p+"self_attn.v_proj", c.NumKVHeads*c.HeadDim, c.HiddenSize, true)
		if qkNorm {
			l.QNorm, l.KNorm = b.layerNorm(p+"self_attn.q_layernorm", c.HeadDim), b.layerNorm(p+"self_attn.k_layernorm", c.HeadDim)
		}
		l.O = b.linear(p+"self_attn.dense", c.HiddenSize, c.NumHeads*c.HeadDim, true)
		l.MLP = &block.MLP{
			Up:   b.linear(p+"mlp.fc1", c.IntermediateSize, c.HiddenSize, true),
			Down: b.linear(p+"mlp.fc2", c.HiddenSize, c.IntermediateSize, true),
			Act:  act,
		}
		if len(b.errs) > 0 {
			return
		}
	}
	b.m.FinalNorm = b.layerNorm("final_layernorm", c.HiddenSize)
	b.head(false)
	if !c.TieWordEmbeddings {
		b.prefix = ""
		b.m.Head.Bias = b.vector("lm_head.bias", c.VocabSize)
	}
}

// phi3 is Llama with fused weights, and longrope in its long variants (arXiv:2404.14219).
func phi3(b *builder) {
	c := b.common()
	b.windows(every)
	c.NormEps = b.number("rms_norm_eps", 1e-5)
	act := b.activation("hidden_act", "silu")
	table := b.rotary("", c.HeadDim, 0)
	q, kv := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	b.prefix = "model."
	b.m.Embedding = b.matrix("embed_tokens.weight", c.VocabSize, c.HiddenSize)
	for i := range b.m.Layers {
		l, p := &b.m.Layers[i], fmt.Sprintf("layers.%d.", i)
		l.Attention, l.Rope = c.params(i), table
		l.AttnNorm, l.MLPNorm = b.rms(p+"input_layernorm", c.HiddenSize), b.rms(p+"post_attention_layernorm", c.HiddenSize)
		qkv := b.linear(p+"self_attn.qkv_proj", q+2*kv, c.HiddenSize, false)
		l.Q, l.K, l.V = b.rows(qkv, 0, q), b.rows(qkv, q, q+kv), b.rows(qkv, q+kv, q+2*kv)
		l.O = b.linear(p+"self_attn.o_proj", c.HiddenSize, q, false)
		both := b.linear(p+"mlp.gate_up_proj", 2*c.IntermediateSize, c.HiddenSize, false)
		gate := b.rows(both, 0, c.IntermediateSize)
		l.MLP = &block.MLP{
			Gate: &gate,
			Up:   b.rows(both, c.IntermediateSize, 2*c.IntermediateSize),
			Down: b.linear(p+"mlp.down_proj", c.HiddenSize, c.IntermediateSize, false),
			Act:  act,
		}
		if len(b.errs) > 0 {
			return
		}
	}
	b.m.FinalNorm = b.rms("norm", c.HiddenSize)
	b.head(false)
}
