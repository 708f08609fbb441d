package model

import (
	"fmt"
	"math"

	"forwardpass/pkg/block"
	"forwardpass/pkg/tensor"
)

// gpt2 has learned positions, LayerNorm before each part, a plain MLP with GELU, biases everywhere and a tied
// head (Radford et al. 2019). Its files keep weights as [in, out], and Q, K and V in one.
func gpt2(b *builder) {
	b.alias("n_embd", "hidden_size")
	b.alias("n_layer", "num_hidden_layers")
	b.alias("n_head", "num_attention_heads")
	b.alias("n_positions", "max_position_embeddings")
	scaled, byLayer := b.bool("scale_attn_weights", true), b.bool("scale_attn_by_inverse_layer_idx", false)
	b.only("reorder_and_upcast_attn", false)
	if !b.has("n_inner") {
		b.raw["intermediate_size"] = number(4 * b.count("hidden_size", 0))
	} else {
		b.raw["intermediate_size"] = b.raw["n_inner"]
	}
	c := b.common()
	c.NormEps = b.number("layer_norm_epsilon", 1e-5)
	act := b.activation("activation_function", "gelu_new")
	if b.file.Has("transformer.wte.weight") {
		b.prefix = "transformer."
	}
	b.m.Embedding = b.matrix("wte.weight", c.VocabSize, c.HiddenSize)
	b.m.Positions = b.matrix("wpe.weight", c.MaxPositions, c.HiddenSize)
	for i := range b.m.Layers {
		l, p := &b.m.Layers[i], fmt.Sprintf("h.%d.", i)
		l.Attention = c.params(i)
		l.Attention.Scale = 1
		if scaled {
			l.Attention.Scale = float32(1 / math.Sqrt(float64(c.HeadDim)))
		}
		if byLayer {
			l.Attention.Scale /= float32(i + 1)
		}
		l.AttnNorm, l.MLPNorm = b.layerNorm(p+"ln_1", c.HiddenSize), b.layerNorm(p+"ln_2", c.HiddenSize)
		qkv := b.conv(p+"attn.c_attn", 3*c.HiddenSize, c.HiddenSize)
		l.Q, l.K, l.V = b.rows(qkv, 0, c.HiddenSize), b.rows(qkv, c.HiddenSize, 2*c.HiddenSize), b.rows(qkv, 2*c.HiddenSize, 3*c.HiddenSize)
		l.O = b.conv(p+"attn.c_proj", c.HiddenSize, c.HiddenSize)
		l.MLP = &block.MLP{Up: b.conv(p+"mlp.c_fc", c.IntermediateSize, c.HiddenSize), Down: b.conv(p+"mlp.c_proj", c.HiddenSize, c.IntermediateSize), Act: act}
		if len(b.errs) > 0 {
			return
		}
	}
	b.m.FinalNorm = b.layerNorm("ln_f", c.HiddenSize)
	b.head(true)
}

// conv is a layer whose file holds [in, out], as GPT-2's do.
func (b *builder) conv(name string, out, in int) tensor.Linear {
	if b.gguf { // the converter has turned it
		return b.linear(name, out, in, true)
	}
	if len(b.errs) > 0 {
		return tensor.Linear{}
	}
	w, err := b.file.Transposed(b.name(name+".weight"), in, out)
	b.add(err)
	return tensor.Linear{W: w, Bias: b.vector(name+".bias", out)}
}
