package serve

import (
	"context"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/mat"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
)

// Cost says how long a step takes, in seconds, as a Runner without a model:
//
//	Step + Sequence·B + Seen·ΣS + max(Floor + Read·ΣS, Token·T + Row·rows + Pair·Σ(new × seen)) + Block·(blocks swapped)
//
// Where moving memory and arithmetic overlap, the slower counts (the roofline). Floor is the time that reading the weights takes: up
// to that, further tokens in a step cost nothing, which is why engines batch. [Fit] finds the numbers from measured steps,
// [Roofline] from what a machine can do. Blocks are counted as for a model, but hold nothing; a request gets as many tokens as it may
// have, made up from its prompt and seed.
type Cost struct {
	Step, Sequence, Seen float64
	Floor, Read          float64
	Token, Row, Pair     float64
	Block                float64

	Propose float64 // seconds for each token that a draft proposes
	Accept  float64 // probability that a proposal is right
	Context int     // the longest sequence; 0: 1<<20
	Vocab   int     // token ids are below it; 0: 32,000
}

// Seconds is the time of a step, without swapping.
func (c Cost) Seconds(n Counts) float64 {
	memory := c.Floor + c.Read*float64(n.Seen)
	compute := c.Token*float64(n.Tokens) + c.Row*float64(n.Rows) + c.Pair*float64(n.Pairs)
	return c.Step + c.Sequence*float64(n.Sequences) + c.Seen*float64(n.Seen) + max(memory, compute)
}

// Roofline is the least that a step of a model can cost on a machine. Between its memory and the host's, a block of size tokens
// moves at swap bytes a second.
func Roofline(w model.Work, m model.Machine, size int, swap float64) Cost {
	layers := float64(len(w.Windows))
	kv := layers * float64(w.CacheBytes) // of one token
	return Cost{
		Floor: float64(w.WeightBytes+w.HeadBytes) / m.Bandwidth,
		Read:  kv / m.Bandwidth,
		Token: float64(w.TokenFLOPs) / m.FLOPS,
		Row:   float64(w.HeadFLOPs) / m.FLOPS,
		Pair:  layers * float64(w.PairFLOPs) / m.FLOPS,
		Block: float64(size) * kv / swap,
	}
}

// Simulate makes a Runner of the cost.
func (c Cost) Simulate() Runner {
	if c.Context == 0 {
		c.Context = 1 << 20
	}
	if c.Vocab == 0 {
		c.Vocab = 32_000
	}
	return &simulated{cost: c}
}

type simulated struct {
	cost  Cost
	spent float64 // seconds in this step
}

func (r *simulated) newPool(o kvcache.Options) (*kvcache.Pool, error) {
	o.NewStorage = func(kvcache.Dims, int, kvcache.Type) (kvcache.Storage, error) { return nothing{}, nil }
	return kvcache.NewPool(kvcache.Dims{Layers: 1, KVHeads: 1, KDim: 1, VDim: 1}, o)
}

func (r *simulated) forward(ctx context.Context, b *model.Batch) error {
	r.spent += r.cost.Seconds(countsOf(b))
	for _, q := range b.Seqs {
		if q.Cache == nil {
			continue
		}
		if err := q.Cache.Reserve(len(q.IDs)); err != nil {
			return err
		}
		if err := q.Cache.Advance(q.IDs); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (r *simulated) moved(blocks int) { r.spent += r.cost.Block * float64(blocks) }
func (r *simulated) begin()           { r.spent = 0 }
func (r *simulated) elapsed() time.Duration {
	return time.Duration(math.Round(r.spent * float64(time.Second)))
}
func (r *simulated) context() int          { return r.cost.Context }
func (r *simulated) changes(int, int) bool { return false }

// nothing is the memory of blocks that only are counted.
type nothing struct{}

func (nothing) Grow(int) error                       { return nil }
func (nothing) Copy(int, int) error                  { return nil }
func (nothing) BlockBytes() int64                    { return 0 }
func (nothing) Close() error                         { return nil }
func (nothing) Save(int) (kvcache.BlockData, error)  { return kvcache.BlockData{}, nil }
func (nothing) Restore(int, kvcache.BlockData) error { return nil }

func (r *simulated) newGenerator(prompt []int, o generate.Options, _ *kvcache.Pool) (generator, error) {
	if len(prompt) == 0 {
		return nil, fmt.Errorf("serve: request: the prompt has no tokens")
	}
	if o.MaxNewTokens < 1 {
		return nil, fmt.Errorf("serve: request: a simulated one needs MaxNewTokens")
	}
	if len(prompt) > r.cost.Context {
		return nil, fmt.Errorf("serve: request: %d tokens are more than the %w of %d", len(prompt), model.ErrContext, r.cost.Context)
	}
	g := &imagined{r: r, opts: o, prompt: len(prompt), ids: append(make([]int, 0, len(prompt)+o.MaxNewTokens), prompt...), seed: o.Sampling.Seed}
	for _, id := range append([]int{int(o.Sampling.Stream)}, prompt...) {
		g.seed = g.mix(id)
	}
	if len(prompt) == r.cost.Context {
		g.end(generate.ReasonContext)
	}
	return g, nil
}

// imagined is a generator whose tokens are made up.
type imagined struct {
	r      *simulated
	opts   generate.Options
	ids    []int
	prompt int
	seed   uint64
	reason generate.Reason
}

// mix is a hash of the sequence and a place in it (splitmix64).
func (g *imagined) mix(place int) uint64 {
	x := g.seed + uint64(place)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func (g *imagined) token(place int) int        { return int(g.mix(place) % uint64(g.r.cost.Vocab)) }
func (g *imagined) end(reason generate.Reason) { g.reason = reason }
func (g *imagined) IDs() []int                 { return g.ids }
func (g *imagined) Done() bool                 { return g.reason != "" }
func (g *imagined) Free()                      {}
func (g *imagined) Cancel()                    { g.end(generate.ReasonCancelled) }
func (g *imagined) Fail()                      { g.end(generate.ReasonError) }

func (g *imagined) Push([]float32) error {
	id := g.token(len(g.ids))
	g.ids = append(g.ids, id)
	switch {
	case len(g.ids)-g.prompt >= g.opts.MaxNewTokens:
		g.end(generate.ReasonLength)
	case len(g.ids) >= g.r.cost.Context:
		g.end(generate.ReasonContext)
	}
	return g.opts.Stream(generate.Token{ID: id})
}

func (g *imagined) Result() *generate.Result {
	return &generate.Result{IDs: append([]int(nil), g.ids[g.prompt:]...), Reason: g.reason}
}

// Propose guesses right with the probability Accept.
func (g *imagined) Propose(_ context.Context, k int) ([]int, error) {
	d := g.opts.Draft
	if d == nil {
		return nil, nil
	}
	if n := d.Tokens; n > 0 {
		k = min(k, n)
	} else {
		k = min(k, 4)
	}
	out := make([]int, k)
	for i := range out {
		at := len(g.ids) + i
		out[i] = g.token(at)
		if float64(g.mix(-1-at)>>11)/(1<<53) >= g.r.cost.Accept {
			out[i] = -1
		}
	}
	g.r.spent += g.r.cost.Propose * float64(k)
	return out, nil
}

// Fit finds the cost that explains measured steps best: least squares of the relative error (large ones count in proportion
// only, as Huber has it: in those steps the machine was busy with something else), with no negative costs, scaled so that all steps together take
// the time that they took.
func Fit(steps []Step) (Cost, error) {
	var rows []Step
	for _, st := range steps {
		if st.Duration > 0 && st.Counts.Tokens > 0 {
			rows = append(rows, st)
		}
	}
	if len(rows) < features {
		return Cost{}, fmt.Errorf("serve: fit: want at least %d steps, got %d", features, len(rows))
	}
	x := make([][features]float64, len(rows)) // of each step, relative to its duration: the fit should give 1
	for i, st := range rows {
		n, d := st.Counts, st.Duration.Seconds()
		x[i] = [features]float64{1 / d, float64(n.Sequences) / d, float64(n.Tokens) / d, float64(n.Rows) / d, float64(n.Pairs) / d, float64(n.Seen) / d}
	}
	weights := make([]float64, len(rows))
	for i := range weights {
		weights[i] = 1
	}
	var found [features]float64
	for range 12 {
		var err error
		if found, err = nonNegative(x, weights); err != nil {
			return Cost{}, err
		}
		for i, f := range x {
			told := 0.0
			for j := range found {
				told += f[j] * found[j]
			}
			weights[i] = min(1, 0.3/math.Abs(told-1))
		}
	}
	c := Cost{Step: found[0], Sequence: found[1], Token: found[2], Row: found[3], Pair: found[4], Seen: found[5]}
	var measured, told float64
	for _, st := range rows {
		measured += st.Duration.Seconds()
		told += c.Seconds(st.Counts)
	}
	f := measured / told
	return Cost{Step: f * c.Step, Sequence: f * c.Sequence, Token: f * c.Token, Row: f * c.Row, Pair: f * c.Pair, Seen: f * c.Seen}, nil
}

// features is how many numbers Fit looks for.
const features = 6

// nonNegative solves x·c = 1 in the sense of weighted least squares with c ≥ 0. With so few numbers every choice of those that are
// not zero can be tried.
func nonNegative(x [][features]float64, weights []float64) (best [features]float64, err error) {
	var gram [features][features]float64 // xᵀWx
	var b [features]float64              // xᵀW1
	for i, f := range x {
		for j := range f {
			b[j] += weights[i] * f[j]
			for k := range f {
				gram[j][k] += weights[i] * f[j] * f[k]
			}
		}
	}
	var scale [features]float64 // so that seconds a step and seconds a pair are of one size
	for j := range scale {
		scale[j] = 1 / math.Sqrt(max(gram[j][j], math.SmallestNonzeroFloat64))
	}
	most := 0.0 // what the choice explains: bᵀc
	for choice := 1; choice < 1<<features; choice++ {
		var use []int
		for j := range features {
			if choice>>j&1 == 1 && gram[j][j] > 0 {
				use = append(use, j)
			}
		}
		if len(use) == 0 {
			continue
		}
		a, y := mat.NewSymDense(len(use), nil), mat.NewVecDense(len(use), nil)
		for p, j := range use {
			y.SetVec(p, b[j]*scale[j])
			for q, k := range use[:p+1] {
				a.SetSym(p, q, gram[j][k]*scale[j]*scale[k])
			}
			a.SetSym(p, p, 1+1e-9)
		}
		var chol mat.Cholesky
		var v mat.VecDense
		if !chol.Factorize(a) || chol.SolveVecTo(&v, y) != nil || mat.Min(&v) < 0 {
			continue
		}
		if explained := mat.Dot(&v, y); explained > most {
			most, best = explained, [features]float64{}
			for p, j := range use {
				best[j] = v.AtVec(p) * scale[j]
			}
		}
	}
	if most == 0 {
		return best, fmt.Errorf("serve: fit: the steps have no work in them")
	}
	return best, nil
}
