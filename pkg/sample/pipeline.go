package sample

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Pipeline applies the steps of its options to logits. It owns its scratch memory: one goroutine at a time.
type Pipeline struct {
	opts  Options
	steps []step
	bias  []biasEntry // LogitBias in order of ids

	x       []float64 // [V] logit of each token; counts only for those in kept
	kept    []int     // ids that are still in the race, ascending
	weight  []float64 // [V] scratch: probabilities, or the typical distance
	heap    []int     // scratch of keepBest
	count   []int     // [V] scratch of the penalties, all zero between steps
	checked int       // the V for which the options were found right
}

type biasEntry struct {
	id   int
	bias float64
}

// NewPipeline checks the options and prepares the steps that they switch on.
func NewPipeline(opts Options) (*Pipeline, error) {
	if err := opts.Validate(0); err != nil {
		return nil, err
	}
	p := &Pipeline{opts: opts, steps: opts.resolve()}
	for id, b := range opts.LogitBias {
		p.bias = append(p.bias, biasEntry{id, float64(b)})
	}
	slices.SortFunc(p.bias, func(a, b biasEntry) int { return a.id - b.id })
	return p, nil
}

// String shows the steps in order: "repetition penalty 1.2 → temperature T = 0.8 → top-k k = 40".
func (p *Pipeline) String() string {
	names := make([]string, len(p.steps))
	for i, s := range p.steps {
		names[i] = s.name + " " + s.setting(&p.opts)
	}
	return strings.Join(names, " → ")
}

// Probs returns the distribution [V] after all steps. history holds the token ids before this position, prompt first; only the
// penalties, no-repeat-ngram and bad-words look at it.
func (p *Pipeline) Probs(logits []float32, history []int) ([]float64, error) {
	if err := p.apply(logits, history); err != nil {
		return nil, err
	}
	return p.probs(make([]float64, len(logits))), nil
}

// Scores writes the logits after all steps into dst [V]; those of tokens that are out are −Inf. Beam search adds them up.
func (p *Pipeline) Scores(dst []float64, logits []float32, history []int) error {
	if err := p.apply(logits, history); err != nil {
		return err
	}
	if len(dst) != len(logits) {
		return fmt.Errorf("sample: scores: want room for %d logits, got %d", len(logits), len(dst))
	}
	for i := range dst {
		dst[i] = math.Inf(-1)
	}
	for _, id := range p.kept {
		dst[id] = p.x[id]
	}
	return nil
}

// Step is what one step of the pipeline did.
type Step struct {
	Name    string    // as in Order, or "greedy"
	Setting string    // "k = 40"
	Kept    []int     // ids with a chance after the step, ascending
	Dropped []int     // ids that this step took out, ascending
	Before  []float64 // [V] distribution before the step
	After   []float64 // [V] distribution after it
	Entropy float64   // of After, in nats
}

// Steps applies the steps one by one and reports each. Steps that are switched off are not in the list; temperature (or
// greedy) always is.
func (p *Pipeline) Steps(logits []float32, history []int) ([]Step, error) {
	if err := p.load(logits); err != nil {
		return nil, err
	}
	before := p.probs(make([]float64, len(logits)))
	out := make([]Step, 0, len(p.steps))
	for _, s := range p.steps {
		alive := slices.Clone(p.kept)
		if err := s.run(p, history); err != nil {
			return nil, err
		}
		r := Step{Name: s.name, Setting: s.setting(&p.opts), Kept: slices.Clone(p.kept), Before: before, After: p.probs(make([]float64, len(logits)))}
		for _, id := range alive {
			if _, still := slices.BinarySearch(p.kept, id); !still {
				r.Dropped = append(r.Dropped, id)
			}
		}
		r.Entropy = Entropy(r.After)
		out = append(out, r)
		before = r.After
	}
	return out, nil
}

func (p *Pipeline) apply(logits []float32, history []int) error {
	if err := p.load(logits); err != nil {
		return err
	}
	for _, s := range p.steps {
		if err := s.run(p, history); err != nil {
			return err
		}
	}
	return nil
}

// load copies logits into the scratch and sorts out the special values.
func (p *Pipeline) load(logits []float32) error {
	v := len(logits)
	if v == 0 {
		return fmt.Errorf("sample: logits are empty")
	}
	if p.checked != v {
		if err := p.opts.Validate(v); err != nil {
			return err
		}
		p.checked = v
		p.x = make([]float64, v)
		p.weight = make([]float64, v)
		p.count = make([]int, v)
		p.kept = make([]int, 0, v)
		p.heap = make([]int, 0, v)
	}
	p.kept = p.kept[:0]
	for i, l := range logits {
		if l != l {
			return fmt.Errorf("sample: logit of token %d is NaN", i)
		}
		p.x[i] = float64(l)
		p.kept = append(p.kept, i)
	}
	return p.settle()
}

// settle takes tokens at −Inf out of the race and lets those at +Inf win it: they become 0, all others go.
func (p *Pipeline) settle() error {
	if max := p.max(); math.IsInf(max, 1) {
		n := 0
		for _, id := range p.kept {
			if math.IsInf(p.x[id], 1) {
				p.x[id] = 0
				p.kept[n] = id
				n++
			}
		}
		p.kept = p.kept[:n]
		return nil
	}
	n := 0
	for _, id := range p.kept {
		if !math.IsInf(p.x[id], -1) {
			p.kept[n] = id
			n++
		}
	}
	p.kept = p.kept[:n]
	if n == 0 {
		return ErrNoToken
	}
	return nil
}

// max returns the largest logit that is left.
func (p *Pipeline) max() float64 {
	max := math.Inf(-1)
	for _, id := range p.kept {
		if p.x[id] > max {
			max = p.x[id]
		}
	}
	return max
}

// softmax fills weight for the tokens that are left with exp(x − max) and returns the sum: the maximum is subtracted so that
// nothing overflows.
func (p *Pipeline) softmax() (sum float64) {
	max := p.max()
	for _, id := range p.kept {
		w := math.Exp(p.x[id] - max)
		p.weight[id] = w
		sum += w
	}
	return sum
}

// probs writes the distribution of the tokens that are left into out [V], which must be zero.
func (p *Pipeline) probs(out []float64) []float64 {
	sum := p.softmax()
	for _, id := range p.kept {
		out[id] = p.weight[id] / sum
	}
	return out
}
