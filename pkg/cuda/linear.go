//go:build linux && cuda && cgo

package cuda

import (
	"fmt"

	"forwardpass/pkg/block"
	"forwardpass/pkg/tensor"
)

const (
	gemvTokens = 8 // up to so many tokens, the products read the weights once for all of them
	gemvBlock  = 8 // rows of the weights that a block takes
	gemmTile   = 64
	tensorTile = 128
)

// Linear computes layers that share the input x [T, in].
func (b *Backend) Linear(x *tensor.Tensor, ps ...tensor.Product) error {
	t, in := x.Rows(), x.Dim(-1)
	for len(ps) > 0 {
		n := 1
		if t <= gemvTokens {
			n = min(len(ps), 3)
		}
		var layers [3]layer
		for i, p := range ps[:n] {
			l, err := b.layer(p, t, in)
			if err != nil {
				return err
			}
			if i > 0 && l.w.kind != layers[0].w.kind {
				n = i
				break
			}
			layers[i] = l
		}
		var err error
		if t <= gemvTokens {
			err = b.gemv(at(x), t, in, layers, n)
		} else {
			err = b.gemm(at(x), t, in, layers[0])
		}
		if err != nil {
			return err
		}
		ps = ps[n:]
	}
	return nil
}

// layer is a product with its places in device memory.
type layer struct {
	w       *weight
	bias, y ptr
}

func (b *Backend) layer(p tensor.Product, t, in int) (layer, error) {
	if p.W.Cols != in || p.Bias != nil && len(p.Bias) != p.W.Rows {
		return layer{}, fmt.Errorf("cuda: product of rows of %d numbers with a matrix [%d, %d] and %d biases", in, p.W.Rows, p.W.Cols, len(p.Bias))
	}
	w, err := b.weight(p.W)
	if err != nil {
		return layer{}, err
	}
	bias, err := b.vector(p.Bias)
	if err != nil {
		return layer{}, err
	}
	y, err := b.resize(p.Dst, t, p.W.Rows)
	return layer{w, bias, y}, err
}

// gemv is up to three layers of a few tokens in one launch.
func (b *Backend) gemv(x ptr, t, in int, layers [3]layer, n int) error {
	tokens := 1
	for tokens < t {
		tokens *= 2
	}
	args := []any{x, in, t, layers[0].w.ld}
	blocks := 0
	for i := range layers {
		if i >= n {
			args = append(args, ptr(0), ptr(0), ptr(0), ptr(0), ptr(0), 0)
			continue
		}
		l := layers[i]
		args = append(args, l.y, l.w.w, l.w.d, l.w.m, l.bias, l.w.rows)
		blocks += (l.w.rows + gemvBlock - 1) / gemvBlock
	}
	return b.dev.launch(fmt.Sprintf("gemv_%s_%d", layers[0].w.kind, tokens), dim{blocks, 1, 1}, 128, 0, args...)
}

// gemm is one layer of many tokens.
func (b *Backend) gemm(x ptr, t, in int, l layer) error {
	w := l.w
	if w.kind == "f16" || w.kind == "bf16" {
		grid := dim{(w.rows + tensorTile - 1) / tensorTile, (t + tensorTile - 1) / tensorTile, 1}
		return b.dev.launch(b.tensorKernel("tensor_", w.kind), grid, 256, 0, l.y, x, w.w, w.ld, l.bias, t, w.rows, in)
	}
	grid := dim{(w.rows + gemmTile - 1) / gemmTile, (t + gemmTile - 1) / gemmTile, 1}
	return b.dev.launch("gemm_"+w.kind, grid, 256, 0, l.y, x, w.w, w.d, w.m, w.ld, l.bias, t, w.rows, in)
}

// tensorKernel is the name of a kernel that uses the tensor cores.
func (b *Backend) tensorKernel(prefix, kind string) string {
	switch {
	case b.opts.Fast:
		return prefix + kind + "_1"
	case kind == "f16":
		return prefix + kind + "_2"
	}
	return prefix + kind + "_3"
}

// MLP works on each token alone: x [T, C] → dst [T, C]
func (b *Backend) MLP(dst, x *tensor.Tensor, m *block.MLP) error {
	if m.Gate == nil {
		if err := b.Linear(x, m.Up.To(b.up)); err != nil { // [T, I]
			return err
		}
		if err := b.activate(b.up, nil, m.Act); err != nil {
			return err
		}
		return b.Linear(b.up, m.Down.To(dst)) // [T, C]
	}
	if err := b.Linear(x, m.Gate.To(b.gate), m.Up.To(b.up)); err != nil { // [T, I] both
		return err
	}
	if err := b.activate(b.gate, b.up, m.Act); err != nil {
		return err
	}
	return b.Linear(b.gate, m.Down.To(dst)) // [T, C]
}

// activate is x = act(x), times y where there is one.
func (b *Backend) activate(x, y *tensor.Tensor, act block.Activation) error {
	if act > block.ReLU {
		return fmt.Errorf("cuda: activation %d is not supported", act)
	}
	var gate ptr
	if y != nil {
		gate = at(y)
	}
	return b.dev.launch("activation", each(size(x)), 256, 0, at(x), gate, int(act), size(x))
}
