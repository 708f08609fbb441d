//go:build linux && cuda && cgo

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/block"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/rope"
	"forwardpass/pkg/tensor"
)

// pair is the GPU beside the CPU: every operation runs on both.
type pair struct {
	*testing.T
	gpu *Backend
	cpu *model.CPU
	rng *rand.Rand
}

func newPair(t *testing.T) *pair {
	return &pair{t, gpu(t, Options{Sync: true}), model.NewCPU(), rand.New(rand.NewPCG(1, uint64(len(t.Name()))))}
}

func (p *pair) random(shape ...int) *tensor.Tensor {
	x := tensor.New(shape...)
	for i := range x.Data {
		x.Data[i] = float32(p.rng.NormFloat64())
	}
	return x
}

// plain is the matrix as a backend is to see it: the CPU gets the numbers that a quantised one stands for, so that what it does
// with quantised weights for speed is no part of the comparison.
func (p *pair) plain(be model.Backend, w *tensor.Matrix) *tensor.Matrix {
	if n, _ := w.Type.Block(); be == p.gpu || n == 1 {
		return w
	}
	m, err := tensor.FromFloats(w.Floats().Data, w.Rows, w.Cols)
	if err != nil {
		p.Fatal(err)
	}
	return m
}

func (p *pair) floats(n int) []float32 { return p.random(n).Data }

// both runs an operation on each backend, with tensors of its own that start as the given ones.
func (p *pair) both(what string, tol float64, f func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error), xs ...*tensor.Tensor) {
	p.Helper()
	var host []*tensor.Tensor
	for _, x := range xs {
		host = append(host, x.Clone())
	}
	want, err := f(p.cpu, host)
	if err != nil {
		p.Fatalf("%s: cpu: %v", what, err)
	}
	var got *tensor.Tensor
	if err := p.gpu.dev.do(func() error {
		var there []*tensor.Tensor
		for _, x := range xs {
			d, err := p.gpu.upload(x)
			if err != nil {
				return err
			}
			there = append(there, d)
		}
		y, err := f(p.gpu, there)
		if err != nil {
			return err
		}
		if y.Device == nil {
			got = y
			return nil
		}
		got, err = p.gpu.Read(y)
		return err
	}); err != nil {
		p.Fatalf("%s: %v", what, err)
	}
	if !slices.Equal(got.Shape, want.Shape) {
		p.Fatalf("%s: want shape %v, got %v", what, want.Shape, got.Shape)
	}
	var sum float64
	for _, w := range want.Data {
		sum += float64(w) * float64(w)
	}
	rms := math.Sqrt(sum / float64(max(1, len(want.Data)))) // what a difference is measured by
	worst, at := 0.0, 0
	for i, w := range want.Data {
		d := math.Abs(float64(got.Data[i]-w)) / max(rms, 1e-6)
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		if d > worst {
			worst, at = d, i
		}
	}
	if !(worst <= tol) {
		p.Errorf("%s: number %d: want %g, got %g (difference %.1e, tolerance %.0e)", what, at, want.Data[at], got.Data[at], worst, tol)
	}
}

// upload makes a tensor of the backend with the numbers of x.
func (b *Backend) upload(x *tensor.Tensor) (*tensor.Tensor, error) {
	d := b.NewTensor()
	p, err := b.resize(d, x.Shape...)
	if err != nil || len(x.Data) == 0 {
		return d, err
	}
	return d, b.dev.upload(p, unsafe.Pointer(&x.Data[0]), 4*int64(len(x.Data)))
}

// layout gives the GPU a step's ids, positions and rows as Begin does.
func (p *pair) layout(s *model.Step) {
	p.Helper()
	if err := p.gpu.dev.do(func() error { return p.gpu.begin(s) }); err != nil {
		p.Fatal(err)
	}
}

// matrix is a random matrix stored as type t.
func (p *pair) matrix(t tensor.DType, rows, cols int) *tensor.Matrix {
	p.Helper()
	data := make([]byte, rows*t.Bytes(cols))
	half := func(at int, exponent uint16) { // ±(1+m/1024)·2^(exponent-15)
		h := uint16(p.rng.Uint32())&0x83ff | exponent<<10
		data[at], data[at+1] = byte(h), byte(h>>8)
	}
	n, size := t.Block()
	for i := range data {
		data[i] = byte(p.rng.Uint32())
	}
	switch t {
	case tensor.F32:
		for i, f := range p.floats(rows * cols) {
			bits := math.Float32bits(f)
			data[4*i], data[4*i+1], data[4*i+2], data[4*i+3] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
		}
	case tensor.F16:
		for i := range rows * cols {
			half(2*i, uint16(10+p.rng.IntN(6)))
		}
	case tensor.BF16:
		for i, f := range p.floats(rows * cols) {
			bits := math.Float32bits(f)
			data[2*i], data[2*i+1] = byte(bits>>16), byte(bits>>24)
		}
	default:
		for i := range rows * cols / n {
			switch t {
			case tensor.Q4_1, tensor.Q5_1, tensor.Q4_K, tensor.Q5_K:
				half(i*size, 9)
				half(i*size+2, 10)
			case tensor.Q6_K:
				half(i*size+size-2, 4)
			default:
				half(i*size, 9)
			}
		}
	}
	m, err := tensor.NewMatrix(t, rows, cols, data)
	if err != nil {
		p.Fatal(err)
	}
	return m
}

// ragged is a step of sequences without caches, with so many new tokens each.
func ragged(tokens ...int) *model.Step {
	s := &model.Step{}
	for i, n := range tokens {
		s.Seqs = append(s.Seqs, model.Span{Row: len(s.IDs), T: n, Start: 3 * i})
		for j := range n {
			s.IDs, s.Pos = append(s.IDs, (7*i+3*j)%5), append(s.Pos, 3*i+j)
		}
	}
	return s
}

var types = []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K}

func TestLinear(t *testing.T) {
	p := newPair(t)
	for _, typ := range types {
		sizes := [][2]int{{7, 64}, {130, 320}, {1, 32}} // out, in
		n, _ := typ.Block()
		if n == 1 {
			sizes = append(sizes, [2]int{66, 5}, [2]int{9, 300}, [2]int{12, 33}, [2]int{300, 70})
		} else if n == 256 {
			sizes = [][2]int{{33, 512}}
		}
		for _, size := range sizes {
			out, in := size[0], size[1]
			w, bias := p.matrix(typ, out, in), p.floats(out)
			counts := []int{1, 2, 3, 5, 8, 9, 70}
			if typ == tensor.F16 && size == sizes[len(sizes)-1] { // several of the larger tiles
				counts = append(counts, 140)
			}
			for _, tokens := range counts {
				p.both(fmt.Sprintf("%s [%d, %d], %d tokens", typ, out, in, tokens), 1e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
					y := be.NewTensor()
					return y, be.Linear(x[0], tensor.Product{Dst: y, W: p.plain(be, w), Bias: bias})
				}, p.random(tokens, in))
			}
		}
	}
}

// TestFast: with activations rounded to 16 bits, the difference is what the rounding makes, not more.
func TestFast(t *testing.T) {
	p := newPair(t)
	p.gpu.opts.Fast = true
	for typ, tol := range map[tensor.DType]float64{tensor.F16: 4e-3, tensor.BF16: 3e-2} {
		w := p.matrix(typ, 200, 300)
		for _, tokens := range []int{9, 130} {
			p.both(fmt.Sprintf("%s, %d tokens", typ, tokens), tol, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
				y := be.NewTensor()
				return y, be.Linear(x[0], tensor.Product{Dst: y, W: w})
			}, p.random(tokens, 300))
		}
	}
}

// TestLinearGroup: several layers of one input, some of other types and sizes.
func TestLinearGroup(t *testing.T) {
	p := newPair(t)
	in := 96
	for _, tokens := range []int{1, 6, 20} {
		for pick := range 5 {
			var layers []tensor.Linear
			for i, out := range []int{40, 3, 17, 9, 8} {
				typ := tensor.F32
				if i == pick {
					typ = tensor.Q8_0
				}
				l := tensor.Linear{W: p.matrix(typ, out, in)}
				if i%2 == 0 {
					l.Bias = p.floats(out)
				}
				layers = append(layers, l)
			}
			x := p.random(tokens, in)
			for i := range layers {
				p.both(fmt.Sprintf("layer %d of %d tokens, other type at %d", i, tokens, pick), 1e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
					var ps []tensor.Product
					for _, l := range layers {
						ps = append(ps, tensor.Product{Dst: be.NewTensor(), W: p.plain(be, l.W), Bias: l.Bias})
					}
					return ps[i].Dst, be.Linear(x[0], ps...)
				}, x)
			}
		}
	}
}

func TestEmbed(t *testing.T) {
	p := newPair(t)
	s := ragged(4, 2)
	p.layout(s)
	for _, typ := range types {
		cols := 256
		if n, _ := typ.Block(); n == 1 {
			cols = 41
		}
		table := p.matrix(typ, 11, cols)
		p.both(typ.String(), 1e-6, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			y := be.NewTensor()
			return y, be.Embed(y, table, s)
		})
		p.both(typ.String()+" positions", 1e-6, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			return x[0], be.AddPositions(x[0], table, s)
		}, p.random(6, cols))
	}
}

func TestElements(t *testing.T) {
	p := newPair(t)
	for _, n := range []int{1, 255, 257, 5000} {
		x, y := p.random(n, 3), p.random(n, 3)
		p.both("scale", 0, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			return x[0], be.Scale(x[0], 1.7)
		}, x)
		p.both("clamp", 0, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			return x[0], be.Clamp(x[0], 0.6)
		}, x)
		p.both("add", 0, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			return x[0], be.Add(x[0], x[1])
		}, x, y)
		p.both("concat", 0, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			z := be.NewTensor()
			return z, be.Concat(z, x[0], x[1])
		}, x, p.random(n, 5))
	}
	s := ragged(9)
	s.Rows = []int{8, 0, 3}
	p.layout(s)
	p.both("gather", 0, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
		y := be.NewTensor()
		return y, be.Gather(y, x[0], s.Rows)
	}, p.random(9, 333))
	head := tensor.Linear{W: p.matrix(tensor.F32, 50, 24)}
	for _, softCap := range []float32{0, 3} {
		p.both("logits", 1e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			y := &tensor.Tensor{}
			return y, be.Logits(y, x[0], head, softCap)
		}, p.random(3, 24))
	}
}

func TestNorm(t *testing.T) {
	p := newPair(t)
	for _, c := range []int{1, 5, 32, 33, 128, 1000, 4100} {
		for _, center := range []bool{false, true} {
			for i, n := range []*block.Norm{{}, {Weight: p.floats(c)}, {Weight: p.floats(c), Bias: p.floats(c)}} {
				n.Eps, n.Center = 1e-3, center
				p.both(fmt.Sprintf("width %d, center %v, form %d", c, center, i), 1e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
					y := be.NewTensor()
					return y, be.Norm(y, x[0], n)
				}, p.random(3, 2, c))
				p.both("in place", 1e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
					return x[0], be.Norm(x[0], x[0], n)
				}, p.random(2, c))
			}
		}
	}
}

func TestRope(t *testing.T) {
	p := newPair(t)
	short, long := []float64{1, 1.5, 2, 3}, []float64{2, 3, 4, 5}
	for _, c := range []rope.Config{
		{HeadDim: 16}, {HeadDim: 16, Interleaved: true}, {HeadDim: 16, Dim: 6}, {HeadDim: 16, Dim: 10, Interleaved: true},
		{HeadDim: 8, MaxPositions: 4, Scaling: rope.Scaling{Type: rope.Dynamic, Factor: 2}},
		{HeadDim: 8, MaxPositions: 16, Scaling: rope.Scaling{Type: rope.LongRoPE, OriginalMax: 8, ShortFactor: short, LongFactor: long}},
		{HeadDim: 8, MaxPositions: 64, Scaling: rope.Scaling{Type: rope.YaRN, Factor: 4, OriginalMax: 16}},
	} {
		table, err := rope.New(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*model.Step{ragged(5), ragged(1, 7, 2)} {
			p.layout(s)
			for _, offset := range []int{0, 3} {
				p.both(fmt.Sprintf("%+v from %d on", c, offset), 1e-6, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
					return x[0], be.Rope(x[0], table, offset, s)
				}, p.random(len(s.IDs), 3, c.HeadDim+offset))
			}
		}
	}
	table, err := rope.New(rope.Config{HeadDim: 8})
	if err != nil {
		t.Fatal(err)
	}
	for _, far := range []int{300, 1000} { // the table on the device has to grow
		s := &model.Step{IDs: []int{0}, Pos: []int{far}, Seqs: []model.Span{{T: 1, Start: far}}}
		p.layout(s)
		p.both(fmt.Sprintf("position %d", far), 1e-6, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			return x[0], be.Rope(x[0], table, 0, s)
		}, p.random(1, 2, 8))
	}
}

func TestMLP(t *testing.T) {
	p := newPair(t)
	for act := block.SiLU; act <= block.ReLU; act++ {
		for _, gated := range []bool{false, true} {
			m := &block.MLP{Up: tensor.Linear{W: p.matrix(tensor.F32, 40, 24), Bias: p.floats(40)}, Down: tensor.Linear{W: p.matrix(tensor.F32, 24, 40)}, Act: act}
			if gated {
				m.Gate = &tensor.Linear{W: p.matrix(tensor.F32, 40, 24)}
			}
			for _, tokens := range []int{1, 12} {
				p.both(fmt.Sprintf("%v, gated %v, %d tokens", act, gated, tokens), 2e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
					y := be.NewTensor()
					return y, be.MLP(y, x[0], m)
				}, p.random(tokens, 24))
			}
		}
	}
}

func TestMoE(t *testing.T) {
	p := newPair(t)
	for _, typ := range types {
		c, inner := 64, 96
		if n, _ := typ.Block(); n == 256 {
			c, inner = 256, 256
		}
		expert := func() block.MLP {
			return block.MLP{Gate: &tensor.Linear{W: p.matrix(typ, inner, c)}, Up: tensor.Linear{W: p.matrix(typ, inner, c)}, Down: tensor.Linear{W: p.matrix(typ, c, inner)}}
		}
		shared := expert()
		experts := make([]block.MLP, 12)
		for i := range experts {
			experts[i] = expert()
		}
		plain := make([]block.MLP, 4)
		for i := range plain {
			plain[i] = block.MLP{Up: experts[i].Up, Down: experts[i].Down, Act: block.GELU}
		}
		forms := []*block.MoE{
			{Experts: experts, TopK: 2, Normalize: true},
			{Experts: experts, TopK: 3},
			{Experts: experts, TopK: 4, Sigmoid: true, Normalize: true, Correction: p.floats(12), Groups: 4, TopGroups: 2, RoutedScale: 2.5, Shared: &shared},
			{Experts: experts, TopK: 1, Sigmoid: true, Groups: 12, TopGroups: 3},
			{Experts: plain, TopK: 4},
		}
		if typ != tensor.F32 {
			forms = forms[:1]
		}
		counts := []int{1, 3, 9, 70}
		if typ != tensor.F32 {
			counts = []int{2, 20}
		}
		for i, m := range forms {
			m.Router = tensor.Linear{W: p.matrix(tensor.F32, len(m.Experts), c)}
			for _, tokens := range counts {
				var logits [2]*tensor.Tensor
				n := 0
				p.both(fmt.Sprintf("%s, form %d, %d tokens", typ, i, tokens), 1e-4, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
					y := be.NewTensor()
					return y, be.MoE(y, x[0], p.mixture(be, m), func(l *tensor.Tensor) error {
						logits[n] = l.Clone()
						n++
						return nil
					})
				}, p.random(tokens, c))
				if !slices.Equal(logits[0].Shape, logits[1].Shape) {
					t.Errorf("router logits: want %v, got %v", logits[0].Shape, logits[1].Shape)
				}
			}
		}
	}
}

// mixture is plain for every expert.
func (p *pair) mixture(be model.Backend, m *block.MoE) *block.MoE {
	if be == p.gpu {
		return m
	}
	mlp := func(e block.MLP) block.MLP {
		e.Up.W, e.Down.W = p.plain(be, e.Up.W), p.plain(be, e.Down.W)
		if e.Gate != nil {
			e.Gate = &tensor.Linear{W: p.plain(be, e.Gate.W), Bias: e.Gate.Bias}
		}
		return e
	}
	c := *m
	c.Experts = nil
	for _, e := range m.Experts {
		c.Experts = append(c.Experts, mlp(e))
	}
	if m.Shared != nil {
		shared := mlp(*m.Shared)
		c.Shared = &shared
	}
	return &c
}

// TestRouteTies: of equal scores the lower expert wins, in the choice and among groups.
func TestRouteTies(t *testing.T) {
	p := newPair(t)
	zero := make([]float32, 40*32)
	w, err := tensor.FromFloats(zero, 40, 32)
	if err != nil {
		t.Fatal(err)
	}
	experts := make([]block.MLP, 40)
	for i := range experts {
		experts[i] = block.MLP{Up: tensor.Linear{W: p.matrix(tensor.F32, 32, 32)}, Down: tensor.Linear{W: p.matrix(tensor.F32, 32, 32)}}
	}
	for _, m := range []*block.MoE{{TopK: 5}, {TopK: 6, Groups: 8, TopGroups: 3}} {
		m.Experts, m.Router = experts, tensor.Linear{W: w}
		p.both("ties", 1e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			y := be.NewTensor()
			return y, be.MoE(y, x[0], m, nil)
		}, p.random(2, 32))
	}
}

func TestLatent(t *testing.T) {
	p := newPair(t)
	for _, d := range []attention.Latent{{Heads: 2, Nope: 5, Rope: 4, Rank: 12, VDim: 7}, {Heads: 3, Nope: 16, Rope: 8, Rank: 70, VDim: 33}} {
		d.W = p.random(d.Heads*(d.Nope+d.VDim), d.Rank)
		l := &model.Layer{Latent: &d}
		p.both("absorb", 1e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			y := be.NewTensor()
			return y, be.Absorb(y, x[0], l)
		}, p.random(4, d.Heads, d.Nope+d.Rope))
		p.both("expand", 1e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			y := be.NewTensor()
			return y, be.Expand(y, x[0], l)
		}, p.random(4, d.Heads, d.Rank))
	}
}

// TestAttend: sequences with and without history, in caches of several block sizes, whole and split over the keys.
func TestAttend(t *testing.T) {
	p := newPair(t)
	type shape struct {
		heads, kv, kd, vd int
		latent            bool
	}
	for _, sh := range []shape{
		{4, 2, 8, 8, false}, {6, 1, 12, 10, false}, {3, 3, 33, 5, false}, {2, 1, 64, 64, false}, {8, 2, 80, 80, false},
		{2, 2, 128, 128, false}, {9, 3, 65, 130, false}, {2, 1, 256, 256, false}, {40, 1, 16, 16, false}, {5, 1, 24, 20, true}, {2, 1, 576, 512, true},
	} {
		for _, form := range []attention.Params{{}, {Window: 5}, {Window: 40, SoftCap: 4}, {Scale: 0.3, Sinks: p.floats(sh.heads)}} {
			form.Heads, form.KVHeads, form.KDim, form.VDim = sh.heads, sh.kv, sh.kd, sh.vd
			splits := []int{256, 8}
			if sh.kd >= 128 {
				splits = splits[1:]
			}
			for _, splitKeys := range splits {
				p.gpu.splitKeys, p.gpu.fewBlocks = splitKeys, 0
				if splitKeys < 256 {
					p.gpu.fewBlocks = 1000
				}
				p.attend(fmt.Sprintf("%d heads on %d, %d/%d numbers, %+v, split %d", sh.heads, sh.kv, sh.kd, sh.vd, form, splitKeys), form, sh.latent)
			}
		}
	}
}

// attend runs a ragged step of four sequences in the second layer of a cache of three.
func (p *pair) attend(what string, form attention.Params, latent bool) {
	p.Helper()
	l := &model.Layer{Attention: form}
	starts, news, sizes := []int{0, 70, 0, 9}, []int{3, 1, 40, 6}, []int{4, 16, 0, 100} // block size 0: no cache
	if form.KDim >= 256 {
		starts, news = []int{0, 37, 0, 9}, []int{2, 1, 3, 1}
	}
	decode := form.KDim%16 == 0 && form.Window == 5 // all sequences with one new token
	if decode {
		news = []int{1, 1, 1, 1}
	}
	dims := kvcache.Dims{Layers: 3, KVHeads: form.KVHeads, KDim: form.KDim, VDim: form.VDim}
	if latent {
		dims.VDim = 0
	}
	rows := 0
	for _, n := range news {
		rows += n
	}
	q, k, v := p.random(rows, form.Heads, form.KDim), p.random(rows, form.KVHeads, form.KDim), p.random(rows, form.KVHeads, form.VDim)
	oldK, oldV := make([]*tensor.Tensor, len(starts)), make([]*tensor.Tensor, len(starts))
	for i, n := range starts {
		oldK[i], oldV[i] = p.random(n, form.KVHeads, form.KDim), p.random(n, form.KVHeads, form.VDim)
	}
	var caches []*kvcache.Cache
	for _, w := range []bool{false, true} { // the output, then the weights
		p.both(what, 2e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			s := &model.Step{}
			for i, n := range news {
				var c *kvcache.Cache
				if sizes[i] > 0 {
					pool, err := kvcache.NewPool(dims, kvcache.Options{BlockSize: sizes[i], Windows: []int{0, form.Window, 0}, NewStorage: p.storage(be)})
					if err != nil {
						return nil, err
					}
					c = pool.NewCache()
					caches = append(caches, c)
					if err := p.fill(be, c, oldK[i], oldV[i], latent); err != nil {
						return nil, err
					}
					if err := p.outside(be, func() error { return c.Reserve(n) }); err != nil {
						return nil, err
					}
				}
				span := model.Span{Row: len(s.IDs), T: n, Start: starts[i], Cache: c}
				for j := range n {
					s.IDs, s.Pos = append(s.IDs, 0), append(s.Pos, span.Start+j)
				}
				s.Seqs = append(s.Seqs, span)
			}
			a := &model.Attend{Index: 1, Layer: l, Q: x[0], K: x[1], V: x[2]}
			if latent {
				a.V = nil
			}
			if be == p.gpu {
				if err := p.gpu.begin(s); err != nil {
					return nil, err
				}
			}
			var weights []float32
			if w {
				a.Weights = func(seq int, m *tensor.Tensor) error {
					if want := []int{form.Heads, s.Seqs[seq].T, s.Seqs[seq].Len()}; !slices.Equal(m.Shape, want) {
						p.Errorf("%s: weights of sequence %d: want %v, got %v", what, seq, want, m.Shape)
					}
					weights = append(weights, m.Data...)
					return nil
				}
			}
			if err := be.Store(1, a.K, a.V, s); err != nil {
				return nil, err
			}
			y := be.NewTensor()
			if err := be.Attend(y, a, s); err != nil || !w {
				return y, err
			}
			return tensor.From(weights, len(weights))
		}, q, k, v)
	}
	if p.gpu.fewBlocks > 0 && p.gpu.parts.Shape == nil {
		p.Error("no step was split over the keys")
	}
	for _, c := range caches {
		if err := c.Pool().Close(); err != nil {
			p.Error(err)
		}
	}
}

// storage is the backend's cache memory; the device's work is between enter and leave already.
func (p *pair) storage(be model.Backend) func(kvcache.Dims, int, kvcache.Type) (kvcache.Storage, error) {
	return be.NewStorage
}

// outside runs f as if no step were running.
func (p *pair) outside(be model.Backend, f func() error) error {
	if be == p.gpu {
		p.gpu.dev.leave()
		defer p.gpu.dev.enter()
	}
	return f()
}

// fill stores a history in layer 1 of a cache, and another one in layers 0 and 2.
func (p *pair) fill(be model.Backend, c *kvcache.Cache, k, v *tensor.Tensor, latent bool) error {
	n := k.Shape[0]
	if n == 0 {
		return nil
	}
	if err := p.outside(be, func() error { return c.Reserve(n) }); err != nil {
		return err
	}
	s := &model.Step{Seqs: []model.Span{{T: n, Cache: c}}}
	for i := range n {
		s.IDs, s.Pos = append(s.IDs, 0), append(s.Pos, i)
	}
	q, w := tensor.New(k.Shape...), tensor.New(v.Shape...)
	for i := range q.Data {
		q.Data[i] = 5
	}
	for i := range w.Data {
		w.Data[i] = 7
	}
	if be == p.gpu {
		if err := p.gpu.begin(s); err != nil {
			return err
		}
		for _, x := range []**tensor.Tensor{&k, &v, &q, &w} {
			var err error
			if *x, err = p.gpu.upload(*x); err != nil {
				return err
			}
		}
	}
	if latent {
		v, w = nil, nil
	}
	if err := be.Store(1, k, v, s); err != nil {
		return err
	}
	for _, layer := range []int{0, 2} { // other numbers, which layer 1 must not see
		if err := be.Store(layer, q, w, s); err != nil {
			return err
		}
	}
	return c.Advance(s.IDs)
}

func TestSoftmax(t *testing.T) {
	p := newPair(t)
	for _, c := range []int{1, 31, 256, 5000} {
		x := p.random(3, c)
		for i := range x.Row(1) {
			x.Row(1)[i] -= 300 // exp of these is 0, unless the maximum is taken off first
		}
		p.both(fmt.Sprintf("width %d", c), 1e-5, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			if be == p.gpu {
				return x[0], p.gpu.softmax(x[0])
			}
			for i := range x[0].Rows() {
				tensor.Softmax(x[0].Row(i))
			}
			return x[0], nil
		}, x)
	}
}
