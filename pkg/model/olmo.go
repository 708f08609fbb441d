package model

import "forwardpass/pkg/block"

// olmo is Llama with a LayerNorm that has no parameters, and limits on q, k and v (arXiv:2402.00838).
func olmo(b *builder) {
	clip := float32(b.number("clip_qkv", 0))
	decoder{act: "silu",
		norm:   func(string, int) *block.Norm { return &block.Norm{Eps: 1e-5, Center: true} },
		finish: func(_ int, l *Layer) { l.Clip = clip },
	}.build(b)
}

// olmo2 normalises what attention and MLP return, not what they read, and all heads' queries and keys together
// (arXiv:2501.00656).
func olmo2(b *builder) {
	decoder{act: "silu", reordered: true}.build(b)
}
