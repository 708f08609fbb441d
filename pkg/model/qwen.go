package model

// qwen2 is Llama with biases on Q, K and V (arXiv:2407.10671).
func qwen2(b *builder) {
	decoder{act: "silu", qkvBias: true, slides: b.qwenSlides()}.build(b)
}

// qwen3 is Llama with an RMSNorm on each head's queries and keys (arXiv:2505.09388).
func qwen3(b *builder) {
	decoder{act: "silu", qkNorm: true, slides: b.qwenSlides()}.build(b)
}

// qwen3MoE is qwen3 with experts: softmax over all, then the best few.
func qwen3MoE(b *builder) {
	step := b.count("decoder_sparse_step", 1)
	dense := map[int]bool{}
	for _, l := range b.numbers("mlp_only_layers") {
		dense[int(l)] = true
	}
	inner := b.count("moe_intermediate_size", 0)
	normalize := b.bool("norm_topk_prob", false)
	b.alias("num_local_experts", "num_experts") // transformers 5
	experts, each := b.experts("num_experts", "num_experts_per_tok")
	decoder{act: "silu", qkNorm: true, slides: b.qwenSlides(), moe: func(i int, l *Layer, prefix string) bool {
		if dense[i] || (i+1)%step != 0 {
			return false
		}
		l.MoE = b.mixture(prefix, "gate", "experts", experts, each, inner)
		l.MoE.Normalize = normalize
		return true
	}}.build(b)
}

// qwenSlides reads Qwen's switch for the sliding window, which is off as a rule although sliding_window is set.
func (b *builder) qwenSlides() func(int) bool {
	if !b.bool("use_sliding_window", false) {
		b.used["sliding_window"], b.used["layer_types"] = true, true
		return nil
	}
	first := b.int("max_window_layers", 28)
	return func(layer int) bool { return layer >= first }
}
