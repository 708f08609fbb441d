//go:build linux && cuda && cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/block"
	"forwardpass/pkg/cuda/internal/kernels"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/rope"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tensor"

	"gorgonia.org/cu"
)

// sizes of a report.
type sizes struct {
	c, inner     int // hidden size, MLP
	heads, kv, d int
	vocab        int
	prompt, seen int // tokens of a prefill; tokens that a decode step sees
	repeat       int // runs of which the median counts
}

var (
	miniature = sizes{c: 64, inner: 96, heads: 4, kv: 2, d: 16, vocab: 256, prompt: 12, seen: 40, repeat: 3}
	full      = sizes{c: 4096, inner: 14336, heads: 32, kv: 8, d: 128, vocab: 128_256, prompt: 512, seen: 8192, repeat: 20}
)

// Measure runs every kernel against its CPU stage, and prefill and decode of the model at path, on a device. On the stand-in
// it takes small sizes.
func Measure(path string, o Options) (*Report, error) {
	b, err := open(o)
	if err != nil {
		return nil, err
	}
	r := &Report{Date: time.Now().Format(time.DateOnly), Device: b.dev.info}
	s := full
	if b.dev.info.StandIn {
		s = miniature
	}
	m := &meter{gpu: b, cpu: model.NewCPU(), sizes: s, rng: rand.New(rand.NewPCG(1, 2))}
	err = errors.Join(m.kernels(), m.err)
	if cerr := b.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	r.Kernels = m.list
	if err := steps(r, path, o, s); err != nil {
		return nil, err
	}
	return r, nil
}

// meter runs stages on both backends.
type meter struct {
	sizes
	gpu  *Backend
	cpu  *model.CPU
	rng  *rand.Rand
	list []Kernel
	err  error
}

func (m *meter) random(shape ...int) *tensor.Tensor {
	x := tensor.New(shape...)
	for i := range x.Data {
		x.Data[i] = float32(m.rng.NormFloat64())
	}
	return x
}

// matrix is a random matrix [rows, cols] of a type with no blocks, or of Q8_0.
func (m *meter) matrix(t tensor.DType, rows, cols int) *tensor.Matrix {
	data := make([]byte, rows*t.Bytes(cols))
	for i := 0; i < len(data); i++ {
		data[i] = byte(m.rng.Uint32())
	}
	switch t {
	case tensor.F32: // ±[0.5, 1)
		for i := 3; i < len(data); i += 4 {
			data[i], data[i-1] = data[i]&0x80|0x3f, data[i-1]&0x7f
		}
	case tensor.BF16:
		for i := 1; i < len(data); i += 2 {
			data[i], data[i-1] = data[i]&0x80|0x3f, data[i-1]&0x7f
		}
	case tensor.Q8_0:
		for i := 0; i < len(data); i += 34 {
			data[i], data[i+1] = 0, 0x20
		}
	case tensor.Q4_0:
		for i := 0; i < len(data); i += 18 {
			data[i], data[i+1] = 0, 0x2c
		}
	}
	w, err := tensor.NewMatrix(t, rows, cols, data)
	if err != nil {
		m.err = err
	}
	return w
}

// stage measures one stage: f runs it on a backend, with tensors that start as xs.
func (m *meter) stage(k Kernel, f func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error), xs ...*tensor.Tensor) error {
	wrap := func(err error) error { return fmt.Errorf("cuda: measuring %s: %w", k.Stage, err) }
	host := make([]*tensor.Tensor, len(xs))
	for i, x := range xs {
		host[i] = x.Clone()
	}
	y, err := f(m.cpu, host)
	if err != nil {
		return wrap(err)
	}
	want := y.Clone()
	var times []float64
	for range min(m.repeat, 5) {
		start := time.Now()
		if _, err := f(m.cpu, host); err != nil {
			return wrap(err)
		}
		times = append(times, time.Since(start).Seconds())
	}
	k.CPU = median(times)

	var got *tensor.Tensor
	err = m.gpu.dev.do(func() error {
		there := make([]*tensor.Tensor, len(xs))
		for i, x := range xs {
			d := m.gpu.NewTensor()
			p, err := m.gpu.resize(d, x.Shape...)
			if err != nil {
				return err
			}
			if err := m.gpu.dev.upload(p, unsafe.Pointer(&x.Data[0]), 4*int64(len(x.Data))); err != nil {
				return err
			}
			there[i] = d
		}
		y, err := f(m.gpu, there)
		if err != nil {
			return err
		}
		if got, err = m.gpu.Read(y); err != nil {
			return err
		}
		k.Name, k.Threads, k.Blocks = m.gpu.dev.last, m.gpu.dev.lastThreads, m.gpu.dev.lastBlocks
		times = times[:0]
		for range m.repeat {
			const inner = 10 // launches between two looks at the clock
			start := time.Now()
			for range inner {
				if _, err := f(m.gpu, there); err != nil {
					return err
				}
			}
			if err := m.gpu.dev.wait(); err != nil {
				return err
			}
			times = append(times, time.Since(start).Seconds()/inner)
		}
		k.GPU = median(times)
		return m.occupancy(&k)
	})
	if err != nil {
		return wrap(err)
	}
	k.Largest = difference(got.Data, want.Data)
	m.list = append(m.list, k)
	return nil
}

// occupancy asks the driver how many blocks of a kernel a multiprocessor can hold; of the stand-in, it is worked out.
func (m *meter) occupancy(k *Kernel) error {
	d := m.gpu.dev.info
	defer func() { k.Occupancy = float64(k.PerSM*k.Threads) / float64(max(1, d.ThreadsPerSM)) }()
	if d.StandIn {
		k.Registers, k.Shared = kernels.Resources(k.Name)
		k.PerSM, k.Limit = d.Residency(k.Threads, k.Registers, k.Shared)
		return nil
	}
	fn, err := m.gpu.dev.function(k.Name)
	if err != nil {
		return err
	}
	for attribute, to := range map[cu.FunctionAttribute]*int{cu.NumRegs: &k.Registers, cu.SharedSizeBytes: &k.Shared} {
		if *to, err = fn.Attribute(attribute); err != nil {
			return fail("attributes of kernel "+k.Name, "", true, err)
		}
	}
	if k.PerSM, err = fn.MaxActiveBlocksPerMultiProcessor(k.Threads, 0); err != nil {
		return fail("occupancy of kernel "+k.Name, "", true, err)
	}
	_, k.Limit = d.Residency(k.Threads, k.Registers, k.Shared)
	return nil
}

// difference is the largest between two lists, as a part of the root mean square of want.
func difference(got, want []float32) float64 {
	var sum, worst float64
	for i, w := range want {
		sum += float64(w) * float64(w)
		worst = max(worst, math.Abs(float64(got[i]-w)))
	}
	return worst / math.Sqrt(sum/float64(len(want)))
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// kernels measures each of them.
func (m *meter) kernels() error {
	s := m.sizes
	step := func(t, start int) *model.Step {
		st := &model.Step{Seqs: []model.Span{{T: t, Start: start}}}
		for i := range t {
			st.IDs, st.Pos = append(st.IDs, (i*7)%s.vocab), append(st.Pos, start+i)
		}
		return st
	}
	prefill := step(s.prompt, 0)
	begin := func(st *model.Step) error { return m.gpu.dev.do(func() error { return m.gpu.begin(st) }) }
	if err := begin(prefill); err != nil {
		return err
	}
	t, c := float64(s.prompt), float64(s.c)
	table := m.matrix(tensor.BF16, s.vocab, s.c)
	rows := fmt.Sprintf("%d tokens × %d", s.prompt, s.c)
	if err := m.stage(Kernel{Stage: "embedding", Shape: fmt.Sprintf("%d ids", s.prompt), Bytes: t * c * 6}, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
		y := be.NewTensor()
		return y, be.Embed(y, table, prefill)
	}); err != nil {
		return err
	}
	norm := &block.Norm{Weight: m.random(s.c).Data, Eps: 1e-5}
	y := map[model.Backend]*tensor.Tensor{m.gpu: m.gpu.NewTensor(), m.cpu: m.cpu.NewTensor()}
	if err := m.stage(Kernel{Stage: "RMSNorm", Shape: rows, FLOPs: 4 * t * c, Bytes: 8 * t * c}, func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
		return y[be], be.Norm(y[be], x[0], norm)
	}, m.random(s.prompt, s.c)); err != nil {
		return err
	}
	turn, err := rope.New(rope.Config{HeadDim: s.d})
	if err != nil {
		return err
	}
	if err := m.stage(Kernel{Stage: "RoPE", Shape: fmt.Sprintf("%d tokens × %d heads × %d", s.prompt, s.heads, s.d), FLOPs: 3 * t * float64(s.heads*s.d), Bytes: 8 * t * float64(s.heads*s.d)},
		func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			return x[0], be.Rope(x[0], turn, 0, prefill)
		}, m.random(s.prompt, s.heads, s.d)); err != nil {
		return err
	}
	for _, typ := range []tensor.DType{tensor.F32, tensor.BF16, tensor.Q8_0, tensor.Q4_0} {
		w := m.matrix(typ, s.inner, s.c)
		for _, n := range []int{1, s.prompt} {
			phase := "prefill"
			if n == 1 {
				phase = "decode"
			}
			if err := m.stage(Kernel{Stage: fmt.Sprintf("linear %s, %s", typ, phase), Shape: fmt.Sprintf("%d tokens × %d → %d", n, s.c, s.inner),
				FLOPs: 2 * float64(n) * c * float64(s.inner), Bytes: float64(len(w.Data)) + 4*float64(n*(s.c+s.inner))},
				func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
					return y[be], be.Linear(x[0], tensor.Product{Dst: y[be], W: w})
				}, m.random(n, s.c)); err != nil {
				return err
			}
		}
	}
	if err := m.attention(); err != nil {
		return err
	}
	half := m.random(s.prompt, s.inner)
	if err := m.stage(Kernel{Stage: "activation (SiLU)", Shape: fmt.Sprintf("%d tokens × %d", s.prompt, s.inner), FLOPs: 4 * t * float64(s.inner), Bytes: 8 * t * float64(s.inner)},
		func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			if be == m.gpu {
				return x[0], m.gpu.activate(x[0], nil, block.SiLU)
			}
			block.SiLU.Apply(x[0].Data)
			return x[0], nil
		}, half); err != nil {
		return err
	}
	return m.stage(Kernel{Stage: "softmax", Shape: fmt.Sprintf("1 × %d", s.vocab), FLOPs: 4 * float64(s.vocab), Bytes: 8 * float64(s.vocab)},
		func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
			if be == m.gpu {
				return x[0], m.gpu.softmax(x[0])
			}
			tensor.Softmax(x[0].Data)
			return x[0], nil
		}, m.random(1, s.vocab))
}

// attention measures a prompt, and one token that sees many.
func (m *meter) attention() error {
	s := m.sizes
	l := &model.Layer{Attention: attention.Params{Heads: s.heads, KVHeads: s.kv, KDim: s.d, VDim: s.d}}
	for _, phase := range []string{"prefill", "decode"} {
		n, start := s.prompt, 0
		if phase == "decode" {
			n, start = 1, s.seen-1
		}
		steps := map[model.Backend]*model.Step{}
		for _, be := range []model.Backend{m.cpu, m.gpu} {
			pool, err := kvcache.NewPool(kvcache.Dims{Layers: 1, KVHeads: s.kv, KDim: s.d, VDim: s.d}, kvcache.Options{NewStorage: be.NewStorage})
			if err != nil {
				return err
			}
			defer pool.Close()
			cache := pool.NewCache()
			st := &model.Step{Seqs: []model.Span{{T: n, Start: start, Cache: cache}}}
			for i := range n {
				st.IDs, st.Pos = append(st.IDs, 0), append(st.Pos, start+i)
			}
			if err := m.history(be, cache, start); err != nil {
				return err
			}
			if err := cache.Reserve(n); err != nil {
				return err
			}
			steps[be] = st
		}
		if err := m.gpu.dev.do(func() error { return m.gpu.begin(steps[m.gpu]) }); err != nil {
			return err
		}
		pairs := 0
		for i := range n {
			pairs += start + i + 1
		}
		y := map[model.Backend]*tensor.Tensor{m.gpu: m.gpu.NewTensor(), m.cpu: m.cpu.NewTensor()}
		err := m.stage(Kernel{Stage: "attention, " + phase, Shape: fmt.Sprintf("%d tokens, %d heads on %d, seeing %d", n, s.heads, s.kv, start+n),
			FLOPs: 4 * float64(pairs*s.heads*s.d), Bytes: 4 * float64(2*(start+n)*s.kv*s.d+2*n*s.heads*s.d)},
			func(be model.Backend, x []*tensor.Tensor) (*tensor.Tensor, error) {
				if err := be.Store(0, x[1], x[2], steps[be]); err != nil {
					return nil, err
				}
				return y[be], be.Attend(y[be], &model.Attend{Layer: l, Q: x[0], K: x[1], V: x[2]}, steps[be])
			}, m.random(n, s.heads, s.d), m.random(n, s.kv, s.d), m.random(n, s.kv, s.d))
		if err != nil {
			return err
		}
	}
	return nil
}

// history fills a cache with n tokens whose numbers depend on the position only, the same on every backend.
func (m *meter) history(be model.Backend, c *kvcache.Cache, n int) error {
	if n == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(3, 4))
	kv := tensor.New(n, m.kv, m.d)
	for i := range kv.Data {
		kv.Data[i] = float32(rng.NormFloat64())
	}
	if err := c.Reserve(n); err != nil {
		return err
	}
	st := &model.Step{IDs: make([]int, n), Pos: positions(0, n), Seqs: []model.Span{{T: n, Cache: c}}}
	if be != m.gpu {
		if err := be.Store(0, kv, kv, st); err != nil {
			return err
		}
		return c.Advance(st.IDs)
	}
	if err := m.gpu.dev.do(func() error {
		if err := m.gpu.begin(st); err != nil {
			return err
		}
		d := m.gpu.NewTensor()
		p, err := m.gpu.resize(d, kv.Shape...)
		if err != nil {
			return err
		}
		if err := m.gpu.dev.upload(p, unsafe.Pointer(&kv.Data[0]), 4*int64(len(kv.Data))); err != nil {
			return err
		}
		return m.gpu.Store(0, d, d, st)
	}); err != nil {
		return err
	}
	return c.Advance(st.IDs)
}

// steps measures prefill, decode and the cache of a model.
func steps(r *Report, path string, o Options, s sizes) error {
	o.KeepLogits = true
	b, err := open(o)
	if err != nil {
		return err
	}
	m, err := model.OpenWith(path, model.Options{Backend: b})
	if err != nil {
		b.Close()
		return err
	}
	defer m.Close()
	pool, err := m.NewPool(kvcache.Options{BlockSize: 16})
	if err != nil {
		return err
	}
	defer pool.Close()
	work := m.Work()
	ctx := context.Background()
	prompt := make([]int, min(s.prompt, m.Config.MaxPositions/2))
	for i := range prompt {
		prompt[i] = (7*i + 1) % m.Config.VocabSize
	}
	var times []float64
	var cache *kvcache.Cache
	for i := range s.repeat + 1 { // the first one brings the weights
		if cache != nil {
			cache.Free()
		}
		cache = pool.NewCache()
		batch := model.Batch{Seqs: []model.Sequence{{IDs: prompt, Cache: cache}}}
		start := time.Now()
		if err := m.Forward(ctx, &batch); err != nil {
			return err
		}
		if i > 0 {
			times = append(times, time.Since(start).Seconds())
		}
	}
	cost := work.Step(model.Span{T: len(prompt)})
	r.Steps = append(r.Steps, Step{"prefill", len(prompt), len(prompt), median(times), float64(cost.FLOPs), float64(cost.Bytes())})
	growth := func() {
		stats, _ := StatsOf(b)
		r.Cache = append(r.Cache, Growth{cache.Len(), m.CacheDims().Bytes(1, cache.Len(), 4), cache.Bytes(), stats.Cache})
	}
	growth()
	times = times[:0]
	for range min(4*s.repeat, m.Config.MaxPositions-len(prompt)) {
		batch := model.Batch{Seqs: []model.Sequence{{IDs: []int{1}, Cache: cache}}}
		start := time.Now()
		if err := m.Forward(ctx, &batch); err != nil {
			return err
		}
		if _, err := b.Sample(batch.Logits, sample.Options{}, nil); err != nil {
			return err
		}
		times = append(times, time.Since(start).Seconds())
		growth()
	}
	cost = work.Step(model.Span{T: 1, Start: cache.Len() - 1})
	r.Steps = append(r.Steps, Step{"decode", 1, cache.Len(), median(times), float64(cost.FLOPs), float64(cost.Bytes())})
	return nil
}
