package attention

import (
	"fmt"

	"forwardpass/pkg/tensor"
)

// Latent is the part of multi-head latent attention that differs from MQA (DeepSeek-V2, arXiv:2405.04434,
// section 2.1). The cache keeps one vector c of Rank numbers a token, and one rotated key of Rope numbers that all heads
// share. Keys and values are linear in c, so their matrices can be moved to the other side of the products:
//
//	score = q·(W_UK c) = (W_UKᵀ q)·c        output = Σ w·(W_UV c) = W_UV (Σ w·c)
//
// What is left is MQA with one key/value head, keys [c, rotated] and values c: Absorb makes the queries for
// it, Expand turns its output into the heads' values.
type Latent struct {
	Heads, Nope, Rope, Rank, VDim int
	W                             *tensor.Tensor // [H·(Nope+VDim), Rank]: for each head W_UK, then W_UV (kv_b_proj)
}

// Check reports a matrix of another shape than the dimensions say.
func (l *Latent) Check() error {
	if l.Heads < 1 || l.Nope < 1 || l.Rope < 1 || l.Rank < 1 || l.VDim < 1 {
		return fmt.Errorf("attention: latent dimensions must be positive, got %d heads, nope %d, rope %d, rank %d, value %d", l.Heads, l.Nope, l.Rope, l.Rank, l.VDim)
	}
	return tensor.CheckShape("attention: kv_b", l.W, l.Heads*(l.Nope+l.VDim), l.Rank)
}

// Params is the MQA that is left: H query heads on one key/value head of Rank+Rope numbers. scale 0 is 1/√(Nope+Rope).
func (l *Latent) Params(scale float32) Params {
	if scale == 0 {
		scale = Params{KDim: l.Nope + l.Rope}.scale()
	}
	return Params{Heads: l.Heads, KVHeads: 1, KDim: l.Rank + l.Rope, VDim: l.Rank, Scale: scale}
}

// Absorb makes queries against the compressed keys: q [T, H, Nope+Rope], its last Rope numbers rotated → dst [T, H, Rank+Rope]
func (l *Latent) Absorb(dst, q *tensor.Tensor) error {
	if err := l.Check(); err != nil {
		return err
	}
	if dst == nil {
		return fmt.Errorf("attention: want a tensor to write to, got none")
	}
	if err := tensor.CheckShape("attention: q", q, -1, l.Heads, l.Nope+l.Rope); err != nil {
		return err
	}
	t, in, out := q.Shape[0], l.Nope+l.Rope, l.Rank+l.Rope
	clear(dst.Resize(t, l.Heads, out).Data)
	for h := range l.Heads {
		up := l.W.Data[h*(l.Nope+l.VDim)*l.Rank:]                                                             // W_UK [Nope, Rank]
		tensor.MulNN(dst.Data[h*out:], l.Heads*out, q.Data[h*in:], l.Heads*in, up, l.Rank, t, l.Rank, l.Nope) // [T, Rank]
		for i := range t {
			copy(dst.Data[(i*l.Heads+h)*out+l.Rank:][:l.Rope], q.Data[(i*l.Heads+h)*in+l.Nope:]) // [Rope]
		}
	}
	return nil
}

// Expand makes each head's values from sums of compressed vectors: x [T, H, Rank] → dst [T, H, VDim]
func (l *Latent) Expand(dst, x *tensor.Tensor) error {
	if err := l.Check(); err != nil {
		return err
	}
	if dst == nil {
		return fmt.Errorf("attention: want a tensor to write to, got none")
	}
	if err := tensor.CheckShape("attention: latent output", x, -1, l.Heads, l.Rank); err != nil {
		return err
	}
	t := x.Shape[0]
	dst.Resize(t, l.Heads, l.VDim)
	for h := range l.Heads {
		up := l.W.Data[(h*(l.Nope+l.VDim)+l.Nope)*l.Rank:]                                                                  // W_UV [VDim, Rank]
		tensor.MulNT(dst.Data[h*l.VDim:], l.Heads*l.VDim, x.Data[h*l.Rank:], l.Heads*l.Rank, up, l.Rank, t, l.VDim, l.Rank) // [T, VDim]
	}
	return nil
}
