// Package sample turns the logits of the last position into the next token.
//
// A language model ends in V raw scores, the logits l. They become a distribution by the softmax,
//
//	p_i = exp(l_i/T) / Σ_j exp(l_j/T)
//
// and a policy picks one token from it. The policy is a pipeline of small steps: some change logits (temperature,
// penalties, biases), some drop tokens (top-k, top-p, min-p, typical, bans). A step works on what the step before it left,
// so the order matters; it is written out in [Order], with the orders of three well-known engines as presets.
//
//	p, err := sample.Probs(logits, sample.Options{Temperature: 0.8, TopK: 40, TopP: 0.95}) // [V] -> [V]
//
// Chapter: 3.1 and 3.2. The zero [Options] is greedy decoding. The package uses the standard library only, so that the
// very same code runs in a page as WebAssembly. Letters: V vocabulary.
package sample

import (
	"errors"
	"math"
	"math/rand/v2"
)

// ErrNoToken says that every token of the vocabulary has been ruled out: all logits are −Inf, or bans and biases left none.
var ErrNoToken = errors.New("sample: no token is left to choose from")

// Probs returns the distribution [V] from which the next token is drawn, given logits [V] and no history. Tokens that a step
// dropped have probability 0. Greedy options give 1 for one token.
//
// What happens at the edges:
//   - a NaN logit is an error; a −Inf logit is a token with probability 0; all −Inf is [ErrNoToken];
//   - +Inf logits share the whole probability equally;
//   - equal logits are ranked by id: the lowest id wins, in arg-max, top-k, top-p and typical alike.
func Probs(logits []float32, opts Options) ([]float64, error) {
	p, err := NewPipeline(opts)
	if err != nil {
		return nil, err
	}
	return p.Probs(logits, nil)
}

// Choose returns the token that u picks from the distribution p [V] by inversion: the lowest id whose cumulative probability
// is more than u, for u uniform in [0, 1). It never returns a token of probability 0; p need not sum to 1. Without any
// positive probability the answer is −1.
func Choose(p []float64, u float64) int {
	total := 0.0
	for _, x := range p {
		total += x
	}
	last, sum := -1, 0.0
	for i, x := range p {
		if x <= 0 {
			continue
		}
		last = i
		if sum += x; sum > u*total {
			return i
		}
	}
	return last // rounding left u·total a hair above the sum
}

// Draw is [Choose] with the next number of rng.
func Draw(p []float64, rng *rand.Rand) int { return Choose(p, rng.Float64()) }

// Entropy returns −Σ p·ln p in nats: 0 for a certain token, ln V for a uniform distribution. exp of it is the number of
// equally likely tokens that would be as uncertain (the perplexity of the step).
func Entropy(p []float64) float64 {
	h := 0.0
	for _, x := range p {
		if x > 0 {
			h -= x * math.Log(x)
		}
	}
	return h
}
