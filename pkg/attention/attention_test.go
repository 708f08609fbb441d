package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/tensor"
)

func random(rng *rand.Rand, shape ...int) *tensor.Tensor {
	t := tensor.New(shape...)
	for i := range t.Data {
		t.Data[i] = float32(rng.NormFloat64())
	}
	return t
}

// cut takes the keys and values of all S tokens apart into runs of random lengths, as a paged cache has them.
func cut(rng *rand.Rand, k, v *tensor.Tensor, t int) Seq {
	whole, _ := Keys(k, v)
	r := whole.Runs[0]
	s := Seq{Start: r.Len - t, T: t}
	for at := 0; at < r.Len; {
		n := min(1+rng.IntN(40), r.Len-at)
		s.Runs = append(s.Runs, kvcache.Run{Start: at, Len: n, K: r.K[at*r.StepK:], V: r.V[at*r.StepV:], HeadK: r.HeadK, HeadV: r.HeadV, StepK: r.StepK, StepV: r.StepV})
		at += n
	}
	return s
}

func differ(got, want *tensor.Tensor) float64 {
	var d float64
	for i, w := range want.Data {
		d = max(d, math.Abs(float64(got.Data[i]-w)))
		if math.IsNaN(float64(got.Data[i] - w)) {
			return math.NaN()
		}
	}
	return d
}

// TestFlash: the tiled form equals the formula within 1e-5 on ragged batches of every kind of shape.
func TestFlash(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	ws := &Workspace{}
	for i := range 300 {
		p := Params{KVHeads: 1 + rng.IntN(3), KDim: 1 + rng.IntN(40), VDim: 1 + rng.IntN(40)}
		p.Heads = p.KVHeads * (1 + rng.IntN(5))
		switch i % 4 {
		case 1:
			p.Window = 1 + rng.IntN(60)
		case 2:
			p.SoftCap = 1 + 5*rng.Float32()
		case 3:
			p.Sinks = random(rng, p.Heads).Data
		}
		if i%10 == 0 {
			p.Scale = 0.1 + rng.Float32()
		}
		var seqs []Seq
		var want []float32
		var q []float32
		for range 1 + rng.IntN(3) {
			n := 1 + rng.IntN(70)
			start := rng.IntN(200)
			switch rng.IntN(5) {
			case 0:
				n = 1
			case 1:
				n, start = 1, 1000+rng.IntN(3000) // long enough to be split over the keys
			}
			k, v := random(rng, start+n, p.KVHeads, p.KDim), random(rng, start+n, p.KVHeads, p.VDim)
			one := random(rng, n, p.Heads, p.KDim)
			s := cut(rng, k, v, n)
			out, weights, err := Naive(one, s, p)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkWeights(weights, s, p); err != nil {
				t.Fatalf("%+v: %v", p, err)
			}
			q, want, seqs = append(q, one.Data...), append(want, out.Data...), append(seqs, s)
		}
		rows := len(q) / (p.Heads * p.KDim)
		all, _ := tensor.From(q, rows, p.Heads, p.KDim)
		wanted, _ := tensor.From(want, rows, p.Heads, p.VDim)
		got := &tensor.Tensor{}
		if err := Flash(got, all, seqs, p, ws); err != nil {
			t.Fatal(err)
		}
		if d := differ(got, wanted); !(d <= 1e-5) {
			t.Fatalf("%d: %+v, %d sequences: differs by %g", i, p, len(seqs), d)
		}
	}
}

// checkWeights: each row sums to 1 (less with a sink) and is zero where the mask says so.
func checkWeights(w *tensor.Tensor, s Seq, p Params) error {
	for h := range p.Heads {
		for i := range s.T {
			row := w.Row(h*s.T + i)
			from, to := Visible(s.Start+i, p.Window)
			var sum float64
			for j, x := range row {
				if (j < from || j >= to) && x != 0 || x < 0 {
					return fmt.Errorf("head %d: token %d gives weight %g to position %d", h, s.Start+i, x, j)
				}
				sum += float64(x)
			}
			if p.Sinks == nil && math.Abs(sum-1) > 1e-5 || sum > 1+1e-5 {
				return fmt.Errorf("head %d: weights of token %d sum to %g", h, s.Start+i, sum)
			}
		}
	}
	return nil
}

// TestGrouped: GQA is MHA with each key/value head repeated for its group of neighbouring query heads.
func TestGrouped(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	p := Params{Heads: 6, KVHeads: 2, KDim: 8, VDim: 8}
	q, k, v := random(rng, 9, 6, 8), random(rng, 9, 2, 8), random(rng, 9, 2, 8)
	repeat := func(x *tensor.Tensor) *tensor.Tensor {
		y := tensor.New(9, 6, 8)
		for i := range 9 {
			for h := range 6 {
				copy(y.Data[(i*6+h)*8:][:8], x.Data[(i*2+h/3)*8:])
			}
		}
		return y
	}
	grouped, _ := Keys(k, v)
	full, _ := Keys(repeat(k), repeat(v))
	a, _, err := Naive(q, grouped, p)
	if err != nil {
		t.Fatal(err)
	}
	p.KVHeads = 6
	b, _, err := Naive(q, full, p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.Data, b.Data) {
		t.Error("grouped queries differ from repeated keys")
	}
}

// TestLatent: latent attention with the matrices moved equals making keys and values for every head.
func TestLatent(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	l := &Latent{Heads: 3, Nope: 6, Rope: 4, Rank: 10, VDim: 7}
	l.W = random(rng, l.Heads*(l.Nope+l.VDim), l.Rank)
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	const n = 11
	q, c, r := random(rng, n, l.Heads, l.Nope+l.Rope), random(rng, n, l.Rank), random(rng, n, l.Rope)
	// Expanded: keys [T, H, Nope+Rope] and values [T, H, VDim] for every head.
	k, v := tensor.New(n, l.Heads, l.Nope+l.Rope), tensor.New(n, l.Heads, l.VDim)
	up, _ := tensor.FromFloats(l.W.Data, l.W.Shape[0], l.Rank)
	kv, err := tensor.MatMul(c, up) // [T, H·(Nope+VDim)]
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		for h := range l.Heads {
			src := kv.Row(i)[h*(l.Nope+l.VDim):]
			dst := k.Data[(i*l.Heads+h)*(l.Nope+l.Rope):]
			copy(dst[:l.Nope], src)
			copy(dst[l.Nope:l.Nope+l.Rope], r.Row(i))
			copy(v.Data[(i*l.Heads+h)*l.VDim:][:l.VDim], src[l.Nope:])
		}
	}
	plain, _ := Keys(k, v)
	want, _, err := Naive(q, plain, Params{Heads: 3, KVHeads: 3, KDim: 10, VDim: 7})
	if err != nil {
		t.Fatal(err)
	}
	// Absorbed: one key [c, r] for all heads, the value is its front.
	keys := tensor.New(n, 1, l.Rank+l.Rope)
	for i := range n {
		copy(keys.Row(i), c.Row(i))
		copy(keys.Row(i)[l.Rank:], r.Row(i))
	}
	s := Seq{T: n, Runs: []kvcache.Run{{Len: n, K: keys.Data, StepK: 14, V: keys.Data, StepV: 14}}}
	absorbed, mixed, got := &tensor.Tensor{}, &tensor.Tensor{}, &tensor.Tensor{}
	if err := l.Absorb(absorbed, q); err != nil {
		t.Fatal(err)
	}
	if err := Flash(mixed, absorbed, []Seq{s}, l.Params(0), nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Expand(got, mixed); err != nil {
		t.Fatal(err)
	}
	if d := differ(got, want); !(d < 1e-4) {
		t.Errorf("differs by %g", d)
	}
}

// TestTraffic: the tiled form moves fewer bytes than the formula, and the more the longer the text.
func TestTraffic(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	p := Params{Heads: 4, KVHeads: 2, KDim: 16, VDim: 16}
	last := 0.0
	for _, n := range []int{128, 512, 1024} {
		ws, k, v := &Workspace{}, random(rng, n, 2, 16), random(rng, n, 2, 16)
		s, _ := Keys(k, v)
		if err := Flash(&tensor.Tensor{}, random(rng, n, 4, 16), []Seq{s}, p, ws); err != nil {
			t.Fatal(err)
		}
		r, w := ws.Traffic.Bytes()
		nr, nw := NaiveTraffic(n, n, p)
		if ratio := float64(nr+nw) / float64(r+w); ratio < 2 || ratio < last {
			t.Errorf("%d tokens: %d bytes against %d of the formula, ratio %.1f after %.1f", n, r+w, nr+nw, ratio, last)
		} else {
			last = ratio
		}
		if w != int64(4*n*4*16) {
			t.Errorf("%d tokens: want the output written once, %d bytes, got %d", n, 4*n*4*16, w)
		}
		ws.Traffic.Reset()
		if r, w := ws.Traffic.Bytes(); r+w != 0 {
			t.Error("Reset does not")
		}
	}
}

// TestDecodeAllocates nothing once its buffers have grown.
func TestDecodeAllocates(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	p := Params{Heads: 4, KVHeads: 2, KDim: 16, VDim: 16}
	k, v := random(rng, 2000, 2, 16), random(rng, 2000, 2, 16)
	seqs := []Seq{cut(rng, k, v, 1)}
	ws, dst, q := &Workspace{}, &tensor.Tensor{}, random(rng, 1, 4, 16)
	if n := testing.AllocsPerRun(20, func() {
		if err := Flash(dst, q, seqs, p, ws); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%g allocations a step", n)
	}
}

func TestErrors(t *testing.T) {
	k, v := tensor.New(5, 2, 4), tensor.New(5, 2, 4)
	s, err := Keys(k, v)
	if err != nil {
		t.Fatal(err)
	}
	ok := Params{Heads: 4, KVHeads: 2, KDim: 4, VDim: 4}
	gap := s
	gap.Start = 3
	for name, c := range map[string]struct {
		q    *tensor.Tensor
		s    Seq
		p    Params
		want string
	}{
		"heads":  {tensor.New(5, 4, 4), s, Params{Heads: 5, KVHeads: 2, KDim: 4, VDim: 4}, "multiple"},
		"zero":   {tensor.New(5, 4, 4), s, Params{}, "positive"},
		"window": {tensor.New(5, 4, 4), s, Params{Heads: 4, KVHeads: 2, KDim: 4, VDim: 4, Window: -1}, "window"},
		"sinks":  {tensor.New(5, 4, 4), s, Params{Heads: 4, KVHeads: 2, KDim: 4, VDim: 4, Sinks: make([]float32, 3)}, "sink for each of 4"},
		"shape":  {tensor.New(5, 4, 3), s, ok, "[5 4 3]"},
		"nil":    {nil, s, ok, "no tensor"},
		"gap":    {tensor.New(5, 4, 4), gap, ok, "break off at 5"},
		"start":  {tensor.New(5, 4, 4), Seq{Start: -1, T: 5, Runs: s.Runs}, ok, "at least 0, got -1"},
		"keys":   {tensor.New(5, 4, 8), s, Params{Heads: 4, KVHeads: 2, KDim: 8, VDim: 4}, "keys of 8"},
		"values": {tensor.New(5, 4, 4), s, Params{Heads: 4, KVHeads: 4, KDim: 4, VDim: 4}, "of 4 key/value heads"},
		"memory": {tensor.New(5, 4, 4), Seq{T: 5, Runs: []kvcache.Run{{Len: 5}}}, ok, "not in 0 and 0 numbers"},
		"beyond": {tensor.New(1, 4, 4), Seq{T: 1, Runs: []kvcache.Run{{Start: 1, Len: 5}}}, ok, "from position 1 on"},
		"short":  {&tensor.Tensor{Shape: []int{5, 4, 4}}, s, ok, "holds 80 numbers, got 0"},
	} {
		if _, _, err := Naive(c.q, c.s, c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("naive: %s: want %q, got %v", name, c.want, err)
		}
		if err := Flash(&tensor.Tensor{}, c.q, []Seq{c.s}, c.p, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("flash: %s: want %q, got %v", name, c.want, err)
		}
	}
	if _, err := Keys(k, tensor.New(4, 2, 4)); err == nil {
		t.Error("want an error for fewer values than keys")
	}
	if _, err := SplitHeads(tensor.New(2, 7), 2); err == nil {
		t.Error("want an error for 7 features in 2 heads")
	}
}

// The mask of two new tokens after three cached ones: the first may not look at the second.
func ExampleMask() {
	m := Mask(3, 2, 0)
	for i := range 2 {
		fmt.Println(m.Row(i))
	}
	// Output:
	// [0 0 0 0 -Inf]
	// [0 0 0 0 0]
}

func BenchmarkFlash(b *testing.B) {
	rng := rand.New(rand.NewPCG(8, 8))
	p := Params{Heads: 9, KVHeads: 3, KDim: 64, VDim: 64}
	for _, c := range []struct{ t, s int }{{512, 512}, {1, 512}, {1, 8192}} {
		k, v, q := random(rng, c.s, 3, 64), random(rng, c.s, 3, 64), random(rng, c.t, 9, 64)
		seqs := []Seq{cut(rng, k, v, c.t)}
		for _, form := range []string{"naive", "flash"} {
			b.Run(fmt.Sprintf("%s/T=%d/S=%d", form, c.t, c.s), func(b *testing.B) {
				ws, dst := &Workspace{}, &tensor.Tensor{}
				for b.Loop() {
					var err error
					if form == "naive" {
						_, _, err = Naive(q, seqs[0], p)
					} else {
						err = Flash(dst, q, seqs, p, ws)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
