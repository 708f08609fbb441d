//go:build linux && cuda && cgo

package cuda

import (
	"forwardpass/pkg/model"
	"forwardpass/pkg/tensor"
)

// Absorb makes queries against the compressed keys of latent attention: q [T, H, Nope+Rope] → dst [T, H, Rank+Rope]
func (b *Backend) Absorb(dst, q *tensor.Tensor, l *model.Layer) error {
	d := l.Latent
	w, err := b.vector(d.W.Data)
	if err != nil {
		return err
	}
	t := q.Shape[0]
	if _, err := b.resize(dst, t, d.Heads, d.Rank+d.Rope); err != nil {
		return err
	}
	return b.dev.launch("absorb", dim{t, d.Heads, 1}, threads(4*(d.Rank+d.Rope)), 0, at(dst), at(q), w, d.Heads, d.Nope, d.Rope, d.Rank, d.VDim)
}

// Expand makes each head's values from sums of compressed vectors: x [T, H, Rank] → dst [T, H, VDim]
func (b *Backend) Expand(dst, x *tensor.Tensor, l *model.Layer) error {
	d := l.Latent
	w, err := b.vector(d.W.Data)
	if err != nil {
		return err
	}
	t := x.Shape[0]
	if _, err := b.resize(dst, t, d.Heads, d.VDim); err != nil {
		return err
	}
	return b.dev.launch("expand", dim{t, d.Heads, 1}, 256, 0, at(dst), at(x), w, d.Heads, d.Nope, d.Rank, d.VDim)
}
