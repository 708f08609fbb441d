package model

import (
	"fmt"

	"forwardpass/pkg/block"
	"forwardpass/pkg/tensor"
)

// experts reads how many experts there are and how many work on each token.
func (b *builder) experts(total, each string) (n, k int) {
	n, k = b.count(total, 0), b.count(each, 0)
	if n > 4096 {
		b.fail("%s: want 4096 at most, got %d", total, n)
		n = 1
	}
	b.m.Config.NumExperts, b.m.Config.ExpertsPerToken = n, k
	return n, k
}

// mixture is a router and its experts. Files hold the experts one by one (names of gate_proj, up_proj and
// down_proj, or Mixtral's w1, w3, w2), or stacked in one tensor (GGUF).
func (b *builder) mixture(prefix, router, experts string, n, k, inner int) *block.MoE {
	c := &b.m.Config
	m := &block.MoE{Router: b.linear(prefix+router, n, c.HiddenSize, false), TopK: k, Experts: make([]block.MLP, n)}
	act := b.activation("hidden_act", "silu")
	stacked := prefix + experts + "."
	if b.file.Has(b.name(stacked + "gate_proj.weight")) {
		gate, up := b.stack(stacked+"gate_proj.weight", n, inner, c.HiddenSize), b.stack(stacked+"up_proj.weight", n, inner, c.HiddenSize)
		down := b.stack(stacked+"down_proj.weight", n, c.HiddenSize, inner)
		for e := range m.Experts {
			if len(b.errs) > 0 {
				return m
			}
			m.Experts[e] = block.MLP{Gate: &gate[e], Up: up[e], Down: down[e], Act: act}
		}
		return m
	}
	for e := range m.Experts {
		m.Experts[e] = *b.gated(fmt.Sprintf("%s%s.%d.", prefix, experts, e), inner, act, false)
	}
	return m
}

// stack is one tensor [n, out, in] as n layers.
func (b *builder) stack(name string, n, out, in int) []tensor.Linear {
	layers := make([]tensor.Linear, n)
	if len(b.errs) > 0 {
		return layers
	}
	t, err := b.file.Tensor(b.name(name))
	if err == nil && (len(t.Shape) != 3 || t.Shape[0] != n || t.Shape[1] != out || t.Shape[2] != in) {
		err = fmt.Errorf("%s: tensor %s: want %v, got %v", t.File, t.Name, []int{n, out, in}, t.Shape)
	}
	if err != nil {
		b.add(err)
		return layers
	}
	size := len(t.Data) / n
	for e := range layers {
		w, err := tensor.NewMatrix(t.Type, out, in, t.Data[e*size:(e+1)*size])
		b.add(err)
		layers[e].W = w
	}
	return layers
}

// mixtral is Mistral with experts: softmax over the chosen few, which is the same as softmax over all, normalised
// (arXiv:2401.04088, section 2.1).
func mixtral(b *builder) {
	n, k := b.experts("num_local_experts", "num_experts_per_tok")
	names := b.names
	b.names = func(name string) string { return names(mixtralName(name)) }
	decoder{act: "silu", slides: every, moe: func(_ int, l *Layer, prefix string) bool {
		l.MoE = b.mixture(prefix, "gate", "experts", n, k, b.m.Config.IntermediateSize)
		l.MoE.Normalize = true
		return true
	}}.build(b)
}
