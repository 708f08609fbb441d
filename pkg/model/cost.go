package model

import (
	"errors"
	"fmt"
	"time"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/tensor"
)

// Work is what a model has to compute and to move for a token, as far as it matters: matrix products and attention.
// Norms, rotations and activations are a small part and not counted.
type Work struct {
	TokenFLOPs int64 // of all linear layers, for one token: 2 for each weight that it meets
	HeadFLOPs  int64 // of the LM head, for one row of logits
	PairFLOPs  int64 // of attention, for one query and one key in one layer: 2·H·(D + Dv)

	WeightBytes int64 // read once a step, whatever the number of tokens (of experts: those of one token)
	HeadBytes   int64
	CacheBytes  int64 // of one token in one layer
	Windows     []int // of each layer, 0: none
}

// Cost is the work of one or more forward passes.
type Cost struct {
	FLOPs     int64 // all of it
	Attention int64 // FLOPs of scores and weighted values: the part that grows with the square of the length
	Weights   int64 // bytes of weights read
	Cache     int64 // bytes of keys and values read and written
	Steps     int   // forward passes
}

// Bytes is all that is moved.
func (c Cost) Bytes() int64 { return c.Weights + c.Cache }

// Intensity is FLOPs for each byte moved: below a machine's own ratio a step waits for memory, above it for
// arithmetic (Williams et al. 2009, "Roofline").
func (c Cost) Intensity() float64 { return float64(c.FLOPs) / float64(max(c.Bytes(), 1)) }

// Add is the cost of both.
func (c Cost) Add(d Cost) Cost {
	return Cost{c.FLOPs + d.FLOPs, c.Attention + d.Attention, c.Weights + d.Weights, c.Cache + d.Cache, c.Steps + d.Steps}
}

// Work counts the model's own weights, in the types they are stored in.
func (m *Model) Work() Work {
	w := Work{Windows: m.Config.Windows}
	add := func(ls ...tensor.Linear) {
		for _, l := range ls {
			if l.W != nil {
				w.TokenFLOPs += 2 * int64(l.W.Rows) * int64(l.W.Cols)
				w.WeightBytes += int64(len(l.W.Data))
			}
		}
	}
	for i := range m.Layers {
		l := &m.Layers[i]
		add(l.Q, l.K, l.V, l.O, l.KVDown, l.KRope)
		if l.QDown != nil {
			add(*l.QDown)
		}
		if d := l.Latent; d != nil { // Absorb and Expand
			w.TokenFLOPs += 2 * int64(d.Heads) * int64(d.Rank) * int64(d.Nope+d.VDim)
			w.WeightBytes += 4 * int64(len(d.W.Data))
		}
		mlps := []tensor.Linear{}
		if l.MLP != nil {
			mlps = append(mlps, l.MLP.Up, l.MLP.Down)
			if l.MLP.Gate != nil {
				mlps = append(mlps, *l.MLP.Gate)
			}
		}
		if e := l.MoE; e != nil {
			add(e.Router)
			for j := range e.TopK { // experts are of one size
				mlps = append(mlps, *e.Experts[j].Gate, e.Experts[j].Up, e.Experts[j].Down)
			}
			if e.Shared != nil {
				mlps = append(mlps, *e.Shared.Gate, e.Shared.Up, e.Shared.Down)
			}
		}
		add(mlps...)
	}
	w.HeadFLOPs, w.HeadBytes = 2*int64(m.Head.W.Rows)*int64(m.Head.W.Cols), int64(len(m.Head.W.Data))
	w.PairFLOPs = pairFLOPs(m.Layers[0].Attention)
	d := m.CacheDims()
	w.CacheBytes = 4 * int64(d.KVHeads*(d.KDim+d.VDim))
	return w
}

func pairFLOPs(p attention.Params) int64 { return 2 * int64(p.Heads) * int64(p.KDim+p.VDim) }

// Work counts a Llama-shaped model of this size that need not exist: pre-norm blocks with a gated MLP, dense or with
// experts, elementBytes for each number of weights and cache (2 for FP16).
func (c Config) Work(elementBytes int) (Work, error) {
	if c.HiddenSize < 1 || c.IntermediateSize < 1 || c.NumLayers < 1 || c.NumHeads < 1 || c.NumKVHeads < 1 || c.VocabSize < 1 || elementBytes < 1 {
		return Work{}, errors.New("model: the cost of a model needs its sizes: HiddenSize, IntermediateSize, NumLayers, NumHeads, NumKVHeads, VocabSize and the bytes of a number")
	}
	d := c.HeadDim
	if d == 0 {
		d = c.HiddenSize / c.NumHeads
	}
	attn := c.HiddenSize * d * 2 * (c.NumHeads + c.NumKVHeads) // Q and O, K and V
	mlp := 3 * c.HiddenSize * c.IntermediateSize
	if c.NumExperts > 0 {
		mlp = mlp*c.ExpertsPerToken + c.HiddenSize*c.NumExperts
	}
	w := Work{Windows: c.Windows}
	if len(w.Windows) == 0 {
		w.Windows = make([]int, c.NumLayers)
	}
	if len(w.Windows) != c.NumLayers {
		return Work{}, fmt.Errorf("model: want a window for each of %d layers, got %d", c.NumLayers, len(w.Windows))
	}
	weights := int64(c.NumLayers) * int64(attn+mlp)
	head := int64(c.VocabSize) * int64(c.HiddenSize)
	w.TokenFLOPs, w.WeightBytes = 2*weights, weights*int64(elementBytes)
	w.HeadFLOPs, w.HeadBytes = 2*head, head*int64(elementBytes)
	w.PairFLOPs = pairFLOPs(attention.Params{Heads: c.NumHeads, KDim: d, VDim: d})
	w.CacheBytes = int64(2 * c.NumKVHeads * d * elementBytes)
	return w, nil
}

// Step is one forward pass over sequences of T new tokens after Start stored ones, each of which wants the logits
// of its last token.
func (w Work) Step(seqs ...Span) Cost {
	c := Cost{Weights: w.WeightBytes + w.HeadBytes, Steps: 1}
	for _, s := range seqs {
		for _, window := range w.Windows {
			pairs, read := pairs(s, window)
			c.Attention += pairs * w.PairFLOPs
			c.Cache += (read + int64(s.T)) * w.CacheBytes // what it sees once, and the new ones written
		}
		c.FLOPs += int64(s.T)*w.TokenFLOPs + w.HeadFLOPs
	}
	c.FLOPs += c.Attention
	return c
}

// pairs counts the keys that the span's queries see in a layer, and the tokens of which any is seen.
func pairs(s Span, window int) (pairs, tokens int64) {
	for i := range s.T {
		from, to := attention.Visible(s.Start+i, window)
		pairs += int64(to - from)
	}
	from, _ := attention.Visible(s.Start, window)
	return pairs, int64(s.Len() - from)
}

// Generate is the cost of generating n tokens after a prompt: prefill gives the first one, decode the others. With a
// cache each decode step runs one token, without one everything so far (chapter section 4; notes, point 2).
func (w Work) Generate(prompt, n int, cached bool) (prefill, decode Cost) {
	prefill = w.Step(Span{T: prompt})
	for i := 1; i < n; i++ {
		s := Span{T: 1, Start: prompt + i - 1}
		if !cached {
			s = Span{T: prompt + i}
		}
		decode = decode.Add(w.Step(s))
	}
	return prefill, decode
}

// Machine is what a computer can do, measured.
type Machine struct {
	FLOPS     float64 // multiplications and additions a second, in matrix products
	Bandwidth float64 // bytes a second, reading weights
}

// Ridge is the intensity at which arithmetic takes as long as moving: left of it a step is bound by memory,
// right of it by arithmetic.
func (m Machine) Ridge() float64 { return m.FLOPS / m.Bandwidth }

// Time is the least time that a cost takes: whichever of arithmetic and moving is longer, step by step.
func (m Machine) Time(c Cost) time.Duration {
	return time.Duration(1e9 * max(float64(c.FLOPs)/m.FLOPS, float64(c.Bytes())/m.Bandwidth))
}

// Measure times this machine's matrix product and its reading of a large matrix with the kernels that the models use, a
// few times each, and returns the best. It takes about a third of a second.
func Measure() (Machine, error) {
	best := func(x *tensor.Tensor, w *tensor.Matrix, rounds int) (time.Duration, error) {
		fastest := time.Duration(1 << 62)
		p := tensor.Linear{W: w}.To(&tensor.Tensor{})
		for range rounds {
			start := time.Now()
			if err := tensor.MatMuls(x, p); err != nil {
				return 0, err
			}
			fastest = min(fastest, time.Since(start))
		}
		return fastest, nil
	}
	const t, in, out, large = 256, 1024, 1024, 16 << 20
	w, err := tensor.FromFloats(make([]float32, large), large/in, in) // 64 MB: more than caches hold
	if err != nil {
		return Machine{}, err
	}
	for i := range w.Data {
		w.Data[i] = byte(i) & 0x3f // no page may be shared, no number denormal or huge
	}
	one, err := w.Slice(0, out)
	if err != nil {
		return Machine{}, err
	}
	product, err := best(tensor.New(t, in), one, 8)
	if err != nil {
		return Machine{}, err
	}
	read, err := best(tensor.New(1, in), w, 8)
	if err != nil {
		return Machine{}, err
	}
	return Machine{FLOPS: 2 * t * in * out / product.Seconds(), Bandwidth: 4 * large / read.Seconds()}, nil
}
