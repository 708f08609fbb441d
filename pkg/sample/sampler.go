package sample

import "math/rand/v2"

// Sampler chooses the tokens of one sequence: a pipeline and a random generator of its own. Two sequences never share one, so
// that what a sequence gets does not depend on its neighbours in the batch.
type Sampler struct {
	*Pipeline
	rng *rand.Rand
}

// New checks the options and seeds the generator (PCG with Seed and Stream).
func New(opts Options) (*Sampler, error) {
	p, err := NewPipeline(opts)
	if err != nil {
		return nil, err
	}
	return &Sampler{Pipeline: p, rng: rand.New(rand.NewPCG(opts.Seed, opts.Stream))}, nil
}

// Next chooses a token, given logits [V] and the ids before this position. Greedy uses no random number, any other choice
// exactly one. Once it has seen the vocabulary's size it allocates nothing.
func (s *Sampler) Next(logits []float32, history []int) (int, error) {
	if err := s.apply(logits, history); err != nil {
		return 0, err
	}
	if s.opts.Temperature == 0 {
		return s.kept[0], nil
	}
	bound := s.softmax() * s.rng.Float64()
	sum := 0.0
	for _, id := range s.kept {
		if sum += s.weight[id]; sum > bound {
			return id, nil
		}
	}
	return s.last(), nil
}

// last is the highest token with any probability: where rounding leaves the bound a hair above the sum.
func (s *Sampler) last() int {
	for i := len(s.kept) - 1; i > 0; i-- {
		if s.weight[s.kept[i]] > 0 {
			return s.kept[i]
		}
	}
	return s.kept[0]
}

// Draw takes a token from the distribution p [V] with the sequence's own generator.
func (s *Sampler) Draw(p []float64) int { return Choose(p, s.rng.Float64()) }
