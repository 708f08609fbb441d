package model

import (
	"fmt"

	"forwardpass/pkg/block"
	"forwardpass/pkg/rope"
)

// decoder is what Llama and its relatives have in common: pre-norm blocks with RMSNorm, rotary embeddings, grouped
// queries and a gated MLP. The fields say where a family differs.
type decoder struct {
	tied      bool   // tie_word_embeddings by default
	qkvBias   bool   // Qwen2
	qkNorm    bool   // Qwen3, Gemma 3: over each head
	act       string // activation by default
	norm      func(name string, n int) *block.Norm
	moe       func(layer int, l *Layer, prefix string) bool // fills l.MoE where the layer has experts
	reordered bool                                          // OLMo 2: norms after each part only, and over all heads' queries and keys together
	sandwich  bool                                          // Gemma 2 and 3: norms before and after each part
	slides    func(layer int) bool                          // which layers have the sliding window; nil: none
	table     func(layer int) *rope.Table                   // rotary table of each layer; nil: one for all
	finish    func(layer int, l *Layer)                     // last touches on a layer, or nil
}

// build makes the model.
func (d decoder) build(b *builder) {
	c := b.common()
	if d.slides != nil {
		b.windows(d.slides)
	}
	c.NormEps = b.number("rms_norm_eps", 1e-6)
	if d.norm == nil {
		d.norm = b.rms
	}
	act := b.activation("hidden_act", d.act)
	bias := b.bool("attention_bias", d.qkvBias)
	outBias := bias && !d.qkvBias // Qwen2 has none on the output
	mlpBias := b.bool("mlp_bias", false)
	if d.table == nil {
		table := b.rotary("", c.HeadDim, 0)
		d.table = func(int) *rope.Table { return table }
	}

	b.prefix = "model."
	b.m.Embedding = b.matrix("embed_tokens.weight", c.VocabSize, c.HiddenSize)
	for i := range b.m.Layers {
		l, p := &b.m.Layers[i], fmt.Sprintf("layers.%d.", i)
		l.Attention, l.Rope = c.params(i), d.table(i)
		a := p + "self_attn."
		l.Q = b.linear(a+"q_proj", c.NumHeads*c.HeadDim, c.HiddenSize, bias)
		l.K = b.linear(a+"k_proj", c.NumKVHeads*c.HeadDim, c.HiddenSize, bias)
		l.V = b.linear(a+"v_proj", c.NumKVHeads*c.HeadDim, c.HiddenSize, bias)
		l.O = b.linear(a+"o_proj", c.HiddenSize, c.NumHeads*c.HeadDim, outBias)
		if d.qkNorm {
			l.QNorm, l.KNorm = d.norm(a+"q_norm", c.HeadDim), d.norm(a+"k_norm", c.HeadDim)
		}
		switch {
		case d.reordered:
			l.NormAll = true
			l.QNorm, l.KNorm = d.norm(a+"q_norm", c.NumHeads*c.HeadDim), d.norm(a+"k_norm", c.NumKVHeads*c.HeadDim)
			l.AttnPost = d.norm(p+"post_attention_layernorm", c.HiddenSize)
			l.MLPPost = d.norm(p+"post_feedforward_layernorm", c.HiddenSize)
		case d.sandwich:
			l.AttnNorm = d.norm(p+"input_layernorm", c.HiddenSize)
			l.AttnPost = d.norm(p+"post_attention_layernorm", c.HiddenSize)
			l.MLPNorm = d.norm(p+"pre_feedforward_layernorm", c.HiddenSize)
			l.MLPPost = d.norm(p+"post_feedforward_layernorm", c.HiddenSize)
		default:
			l.AttnNorm = d.norm(p+"input_layernorm", c.HiddenSize)
			l.MLPNorm = d.norm(p+"post_attention_layernorm", c.HiddenSize)
		}
		if d.moe == nil || !d.moe(i, l, p+"mlp.") {
			l.MLP = b.gated(p+"mlp.", c.IntermediateSize, act, mlpBias)
		}
		if d.finish != nil {
			d.finish(i, l)
		}
		if len(b.errs) > 0 {
			return
		}
	}
	b.m.FinalNorm = d.norm("norm", c.HiddenSize)
	b.head(d.tied)
}

// gated is a gated MLP of the given inner size.
func (b *builder) gated(prefix string, inner int, act block.Activation, bias bool) *block.MLP {
	c := &b.m.Config
	gate := b.linear(prefix+"gate_proj", inner, c.HiddenSize, bias)
	return &block.MLP{
		Gate: &gate,
		Up:   b.linear(prefix+"up_proj", inner, c.HiddenSize, bias),
		Down: b.linear(prefix+"down_proj", c.HiddenSize, inner, bias),
		Act:  act,
	}
}

// every is the answer of families whose layers all have the sliding window, if the configuration has one.
func every(int) bool { return true }

// llama is Llama 1–3 (arXiv:2302.13971, arXiv:2407.21783).
func llama(b *builder) { decoder{act: "silu"}.build(b) }

// mistral is Llama with a sliding window (arXiv:2310.06825).
func mistral(b *builder) { decoder{act: "silu", slides: every}.build(b) }
