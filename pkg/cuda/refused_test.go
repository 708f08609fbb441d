//go:build linux && cuda && cgo

package cuda

import (
	"strings"
	"testing"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/block"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/tensor"
)

// TestRefused: what the kernels can't do is refused by name, before anything is computed.
func TestRefused(t *testing.T) {
	p := newPair(t)
	s := ragged(3)
	p.layout(s)
	f32, q8 := p.matrix(tensor.F32, 32, 32), p.matrix(tensor.Q8_0, 32, 32)
	mlp := func(w *tensor.Matrix) block.MLP {
		return block.MLP{Up: tensor.Linear{W: w}, Down: tensor.Linear{W: f32}}
	}
	biased := mlp(f32)
	biased.Up.Bias = p.floats(32)
	mixture := func(experts ...block.MLP) error {
		x, err := p.gpu.upload(p.random(3, 32))
		if err != nil {
			return err
		}
		m := &block.MoE{Router: tensor.Linear{W: p.matrix(tensor.F32, len(experts), 32)}, Experts: experts, TopK: 1}
		return p.gpu.MoE(p.gpu.NewTensor(), x, m, nil)
	}
	attend := func(kd, vd int) error {
		q := p.gpu.NewTensor()
		l := &model.Layer{Attention: attention.Params{Heads: 1, KVHeads: 1, KDim: kd, VDim: vd}}
		return p.gpu.Attend(p.gpu.NewTensor(), &model.Attend{Layer: l, Q: q, K: q, V: q}, s)
	}
	for _, c := range []struct {
		what string
		f    func() error
		want string
	}{
		{"int8 cache", func() error {
			_, err := p.gpu.NewStorage(kvcache.Dims{Layers: 1, KVHeads: 1, KDim: 1, VDim: 1}, 4, kvcache.Int8)
			return err
		}, "Int8"},
		{"long keys", func() error { return attend(600, 64) }, "600"},
		{"long values", func() error { return attend(64, 513) }, "513"},
		{"experts of two types", func() error { return mixture(mlp(f32), mlp(q8)) }, "expert 1"},
		{"experts with biases", func() error { return mixture(biased, mlp(f32)) }, "expert 0"},
		{"product of the wrong width", func() error {
			x, err := p.gpu.upload(p.random(3, 31))
			if err != nil {
				return err
			}
			return p.gpu.Linear(x, tensor.Product{Dst: p.gpu.NewTensor(), W: f32})
		}, "31"},
		{"norm of the wrong width", func() error {
			x, err := p.gpu.upload(p.random(3, 31))
			if err != nil {
				return err
			}
			return p.gpu.Norm(x, x, &block.Norm{Weight: p.floats(30)})
		}, "30"},
		{"position after the table", func() error { return p.gpu.AddPositions(p.gpu.NewTensor(), p.matrix(tensor.F32, 2, 8), s) }, "position 2"},
		{"a cache in host memory", func() error {
			pool, err := kvcache.NewPool(kvcache.Dims{Layers: 1, KVHeads: 1, KDim: 1, VDim: 1}, kvcache.Options{})
			if err != nil {
				return err
			}
			return p.gpu.begin(&model.Step{IDs: []int{0}, Pos: []int{0}, Seqs: []model.Span{{T: 1, Cache: pool.NewCache()}}})
		}, "not in this device's memory"},
	} {
		err := p.gpu.dev.do(c.f)
		if err == nil || !strings.HasPrefix(err.Error(), "cuda: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want an error with %q, got %v", c.what, c.want, err)
		}
	}
	if err := p.gpu.dev.do(p.gpu.dev.wait); err != nil {
		t.Errorf("the backend must work on after refusals: %v", err)
	}
}
