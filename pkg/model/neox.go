package model

import (
	"fmt"

	"forwardpass/pkg/block"
)

// gptNeoX runs attention and MLP side by side on two norms of the same stream, rotates a part of each head, and keeps
// Q, K and V of each head together in one matrix (Black et al. 2022, arXiv:2204.06745).
func gptNeoX(b *builder) {
	b.alias("rotary_emb_base", "rope_theta")
	b.alias("rotary_pct", "partial_rotary_factor")
	if !b.has("partial_rotary_factor") && !b.has("rope_parameters") {
		b.raw["partial_rotary_factor"] = number(0.25)
	}
	c := b.common()
	c.NormEps = b.number("layer_norm_eps", 1e-5)
	act := b.activation("hidden_act", "gelu")
	bias := b.bool("attention_bias", true)
	residual := block.PreNorm
	if b.bool("use_parallel_residual", true) {
		residual = block.Parallel
	}
	table := b.rotary("", c.HeadDim, 0)
	b.prefix = "gpt_neox."
	b.m.Embedding = b.matrix("embed_in.weight", c.VocabSize, c.HiddenSize)
	for i := range b.m.Layers {
		l, p := &b.m.Layers[i], fmt.Sprintf("layers.%d.", i)
		l.Residual, l.Attention, l.Rope = residual, c.params(i), table
		l.AttnNorm, l.MLPNorm = b.layerNorm(p+"input_layernorm", c.HiddenSize), b.layerNorm(p+"post_attention_layernorm", c.HiddenSize)
		qkv := b.linear(p+"attention.query_key_value", 3*c.HiddenSize, c.HiddenSize, bias) // [H, 3, D] rows
		part := func(j int) []int {
			rows := make([]int, 0, c.HiddenSize)
			for h := range c.NumHeads {
				for d := range c.HeadDim {
					rows = append(rows, (h*3+j)*c.HeadDim+d)
				}
			}
			return rows
		}
		l.Q, l.K, l.V = b.pick(qkv, part(0)), b.pick(qkv, part(1)), b.pick(qkv, part(2))
		l.O = b.linear(p+"attention.dense", c.HiddenSize, c.HiddenSize, bias)
		l.MLP = &block.MLP{
			Up:   b.linear(p+"mlp.dense_h_to_4h", c.IntermediateSize, c.HiddenSize, true),
			Down: b.linear(p+"mlp.dense_4h_to_h", c.HiddenSize, c.IntermediateSize, true),
			Act:  act,
		}
		if len(b.errs) > 0 {
			return
		}
	}
	b.m.FinalNorm = b.layerNorm("final_layer_norm", c.HiddenSize)
	b.prefix = ""
	c.TieWordEmbeddings = b.bool("tie_word_embeddings", false)
	b.m.Head.W = b.m.Embedding
	if !c.TieWordEmbeddings {
		b.m.Head = b.linear("embed_out", c.VocabSize, c.HiddenSize, false)
	}
}
