package model

import (
	"math"

	"forwardpass/pkg/rope"
)

// gemma is Llama with GeGLU, an RMSNorm of weight 1+w and embeddings times √C (arXiv:2403.08295).
func gemma(b *builder) {
	b.gemmaActivation()
	decoder{act: "gelu_pytorch_tanh", tied: true, norm: b.plusOne}.build(b)
	b.scaleEmbedding()
}

// gemma2 puts norms before and after each part, bends scores and logits by soft-caps, and gives every other
// layer a sliding window (arXiv:2408.00118).
func gemma2(b *builder) {
	b.gemmaActivation()
	scale, softCap := b.queryScale(), float32(b.number("attn_logit_softcapping", 50))
	decoder{act: "gelu_pytorch_tanh", tied: true, norm: b.plusOne, sandwich: true,
		slides: func(layer int) bool { return layer%2 == 0 },
		finish: func(_ int, l *Layer) { l.Attention.Scale, l.Attention.SoftCap = scale, softCap },
	}.build(b)
	b.scaleEmbedding()
	b.m.SoftCap = float32(b.number("final_logit_softcapping", 30))
}

// gemma3 has norms on queries and keys, five local layers for each global one, and another rotary base for the local
// ones (arXiv:2503.19786).
func gemma3(b *builder) {
	b.gemmaActivation()
	b.only("use_bidirectional_attention", false)
	scale := b.queryScale()
	softCap := float32(b.number("attn_logit_softcapping", 0))
	pattern := b.count("sliding_window_pattern", b.count("_sliding_window_pattern", 6))
	var global, local *rope.Table
	b.m.SoftCap = float32(b.number("final_logit_softcapping", 0))
	decoder{act: "gelu_pytorch_tanh", tied: true, norm: b.plusOne, sandwich: true, qkNorm: true,
		slides: func(layer int) bool { return (layer+1)%pattern != 0 },
		table: func(layer int) *rope.Table {
			c := &b.m.Config
			if global == nil {
				global, local = b.rotary("full_attention", c.HeadDim, 0), b.localRotary()
			}
			if c.Windows[layer] > 0 {
				return local
			}
			return global
		},
		finish: func(_ int, l *Layer) { l.Attention.Scale, l.Attention.SoftCap = scale, softCap },
	}.build(b)
	b.scaleEmbedding()
}

// localRotary is the table of Gemma 3's layers with a window.
func (b *builder) localRotary() *rope.Table {
	c := &b.m.Config
	if p, ok := b.raw["rope_parameters"].(map[string]any); ok && p["sliding_attention"] != nil {
		return b.rotary("sliding_attention", c.HeadDim, 0)
	}
	t, err := rope.New(rope.Config{HeadDim: c.HeadDim, Theta: b.number("rope_local_base_freq", 10_000), MaxPositions: c.MaxPositions})
	if err != nil {
		b.fail("rope_local_base_freq: %w", err)
	}
	return t
}

// gemmaActivation settles which of two keys names the activation: hidden_activation, where it is set.
func (b *builder) gemmaActivation() {
	if b.has("hidden_activation") {
		b.raw["hidden_act"] = b.raw["hidden_activation"]
	} else if b.raw["hidden_act"] == "gelu" {
		b.raw["hidden_act"] = "gelu_pytorch_tanh" // what the first Gemma files meant, and transformers computes
	}
}

// queryScale is 1/√query_pre_attn_scalar.
func (b *builder) queryScale() float32 {
	s := b.number("query_pre_attn_scalar", 256)
	if !(s > 0) {
		b.fail("query_pre_attn_scalar: want a positive number, got %v", s)
		return 1
	}
	return float32(1 / math.Sqrt(s))
}

func (b *builder) scaleEmbedding() {
	b.m.EmbedScale = float32(math.Sqrt(float64(b.m.Config.HiddenSize)))
}
