package model_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"forwardpass/pkg/block"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/tensor"
)

// counter is a backend that counts what passes through it.
type counter struct {
	model.Backend
	flops, attention int64
}

func (c *counter) linear(x *tensor.Tensor, l tensor.Linear) {
	c.flops += 2 * int64(x.Rows()) * int64(l.W.Rows) * int64(l.W.Cols)
}

func (c *counter) Linear(x *tensor.Tensor, ps ...tensor.Product) error {
	for _, p := range ps {
		c.linear(x, tensor.Linear{W: p.W})
	}
	return c.Backend.Linear(x, ps...)
}

func (c *counter) mlp(x *tensor.Tensor, m *block.MLP) {
	c.linear(x, m.Up)
	c.linear(x, m.Down)
	if m.Gate != nil {
		c.linear(x, *m.Gate)
	}
}

func (c *counter) MLP(dst, x *tensor.Tensor, m *block.MLP) error {
	c.mlp(x, m)
	return c.Backend.MLP(dst, x, m)
}

func (c *counter) MoE(dst, x *tensor.Tensor, m *block.MoE, router func(*tensor.Tensor) error) error {
	c.linear(x, m.Router)
	if m.Shared != nil {
		c.mlp(x, m.Shared)
	}
	return c.Backend.MoE(dst, x, m, func(logits *tensor.Tensor) error {
		for _, p := range m.Route(nil, logits, &tensor.Tensor{}) {
			c.mlp(tensor.New(1, 1), &m.Experts[p.Expert])
		}
		return nil
	})
}

func (c *counter) Attend(dst *tensor.Tensor, a *model.Attend, s *model.Step) error {
	p := a.Layer.Attention
	for _, q := range s.Seqs {
		for t := q.Start; t < q.Len(); t++ {
			seen := t + 1
			if p.Window > 0 {
				seen = min(seen, p.Window)
			}
			c.attention += 2 * int64(p.Heads) * int64(p.KDim+p.VDim) * int64(seen)
		}
	}
	return c.Backend.Attend(dst, a, s)
}

func (c *counter) latent(x *tensor.Tensor, l *model.Layer, width int) {
	c.flops += 2 * int64(x.Shape[0]) * int64(l.Latent.Heads) * int64(l.Latent.Rank) * int64(width)
}

func (c *counter) Absorb(dst, q *tensor.Tensor, l *model.Layer) error {
	c.latent(q, l, l.Latent.Nope)
	return c.Backend.Absorb(dst, q, l)
}

func (c *counter) Expand(dst, x *tensor.Tensor, l *model.Layer) error {
	c.latent(x, l, l.Latent.VDim)
	return c.Backend.Expand(dst, x, l)
}

func (c *counter) Logits(dst, h *tensor.Tensor, head tensor.Linear, softCap float32) error {
	c.linear(h, head)
	return c.Backend.Logits(dst, h, head, softCap)
}

// TestCost: the counted work of prefill and decode is the formula's, to the last operation, for every family.
func TestCost(t *testing.T) {
	for _, path := range golden(t) {
		ids := prompt(t, path)
		ids = append(ids, ids...)[:18]
		if m := open(t, path); m.Layers[0].Rope != nil && m.Layers[0].Rope.Changes(1, len(ids)) {
			continue // a change of length makes it start again
		}
		count := &counter{Backend: model.NewCPU()}
		m, err := openOn(t, path, count)
		if err != nil {
			t.Fatal(err)
		}
		w := m.Work()
		cached, err := m.NewCache(kvcache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run := func(c *kvcache.Cache, ids []int) {
			b := model.Batch{Seqs: []model.Sequence{{IDs: ids, Cache: c}}}
			if err := m.Forward(context.Background(), &b); err != nil {
				t.Fatal(err)
			}
		}
		check := func(what string, want model.Cost) {
			if got := count.flops + count.attention; got != want.FLOPs || count.attention != want.Attention {
				t.Errorf("%s: %s: counted %d FLOPs, %d of them attention; the formula says %d and %d", path, what, got, count.attention, want.FLOPs, want.Attention)
			}
			count.flops, count.attention = 0, 0
		}
		prefill, decode := w.Generate(12, 6, true)
		_, again := w.Generate(12, 6, false)
		run(cached, ids[:12])
		check("prefill", prefill)
		for i := 12; i < 17; i++ {
			run(cached, ids[i:i+1])
		}
		check("decode", decode)
		for i := 13; i < 18; i++ {
			run(nil, ids[:i])
		}
		check("decode without a cache", again)
	}
}

func openOn(t testing.TB, path string, b model.Backend) (*model.Model, error) {
	m, err := model.OpenWith(file(path), model.Options{Backend: b})
	if err == nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, err
}

// notes is the model of the chapter's notes: 32 layers with 32 key/value heads of 128.
func notes(t testing.TB) model.Work {
	w, err := model.Config{HiddenSize: 4096, IntermediateSize: 11008, NumLayers: 32, NumHeads: 32, NumKVHeads: 32, HeadDim: 128, VocabSize: 50_000}.Work(2)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestGrowth fits the exponents of the notes, point 2: attention of prefill T², decode with a cache N·T, and without one
// N·(T+N)² (a cube in the length when N grows with T).
func TestGrowth(t *testing.T) {
	w := notes(t)
	exponent := func(a, b int64) float64 { return math.Log2(float64(b) / float64(a)) }
	for _, c := range []struct {
		name string
		want float64
		at   func(n int) int64
	}{
		{"prefill attention, T", 2, func(n int) int64 { p, _ := w.Generate(n, 1, true); return p.Attention }},
		{"cached decode attention, T at N = 8", 1, func(n int) int64 { _, d := w.Generate(n, 8, true); return d.Attention }},
		{"cached decode attention, N at T = 2²⁰", 1, func(n int) int64 { _, d := w.Generate(1<<20, n, true); return d.Attention }},
		{"uncached decode attention, T = N", 3, func(n int) int64 { _, d := w.Generate(n, n, false); return d.Attention }},
		{"uncached decode attention, T at N = 8", 2, func(n int) int64 { _, d := w.Generate(n, 8, false); return d.Attention }},
		{"cache bytes of a decode step, T", 1, func(n int) int64 { return w.Step(model.Span{T: 1, Start: n}).Cache }},
	} {
		if got := exponent(c.at(1024), c.at(2048)); math.Abs(got-c.want) > 0.02 {
			t.Errorf("%s: want exponent %g, got %.3f", c.name, c.want, got)
		}
	}
	prefill, decode := w.Generate(4096, 100, true)
	if prefill.Intensity() < 100 || decode.Intensity() > 2 {
		t.Errorf("want prefill far above and decode near one FLOP a byte, got %.1f and %.1f", prefill.Intensity(), decode.Intensity())
	}
	if _, err := (model.Config{}).Work(2); err == nil {
		t.Error("want an error for a model without sizes")
	}
}

// Prefill does the work of thousands of tokens for one reading of the weights; decode reads them all again for each.
func ExampleConfig_Work() {
	w, _ := model.Config{HiddenSize: 4096, IntermediateSize: 11008, NumLayers: 32, NumHeads: 32, NumKVHeads: 32, VocabSize: 50_000}.Work(2)
	prefill, decode := w.Step(model.Span{T: 2048}), w.Step(model.Span{T: 1, Start: 2048})
	fmt.Printf("prefill %6.1f TFLOP, %5.1f GB, %6.1f FLOP/byte\n", float64(prefill.FLOPs)/1e12, float64(prefill.Bytes())/1e9, prefill.Intensity())
	fmt.Printf("decode  %6.3f TFLOP, %5.1f GB, %6.1f FLOP/byte\n", float64(decode.FLOPs)/1e12, float64(decode.Bytes())/1e9, decode.Intensity())
	// Output:
	// prefill   27.6 TFLOP,  15.5 GB, 1781.3 FLOP/byte
	// decode   0.014 TFLOP,  14.4 GB,    1.0 FLOP/byte
}

func TestMeasure(t *testing.T) {
	m, err := model.Measure()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f GFLOP/s, %.1f GB/s, ridge at %.1f FLOP/byte", m.FLOPS/1e9, m.Bandwidth/1e9, m.Ridge())
	if !(m.FLOPS > 1e6) || !(m.Bandwidth > 1e6) || math.IsInf(m.FLOPS+m.Bandwidth, 0) {
		t.Errorf("got %+v", m)
	}
}
