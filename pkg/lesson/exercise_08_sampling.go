package lesson

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"forwardpass/pkg/sample"
)

// samplingExercises are those of lesson 08.
func samplingExercises() map[string]exercise {
	type input struct {
		p    []float64
		mass float64
	}
	inputs := []input{
		{[]float64{0.5, 0.25, 0.125, 0.125}, 0.5}, // exactly reached: the second isn't needed
		{[]float64{0.5, 0.25, 0.125, 0.125}, 0.6}, // the token that crosses is kept
		{[]float64{0.1, 0.6, 0.3}, 0.85},          // not in order
		{[]float64{0.1, 0.6, 0.3}, 0.01},          // one is always kept
		{[]float64{0.1, 0.6, 0.3}, 1},             // all
		{[]float64{0.25, 0.25, 0.25, 0.25}, 0.5},  // equal ones: the lowest ids
	}
	rng := rand.New(rand.NewPCG(8, 8))
	for _, mass := range []float64{0.3, 0.8, 0.95} {
		logits := make([]float32, 50)
		for i := range logits {
			logits[i] = float32(2 * rng.NormFloat64())
		}
		p, _ := sample.Probs(logits, sample.Options{Temperature: 1}) // finite logits: no error
		inputs = append(inputs, input{p, mass})
	}
	want := func(in input) []float64 {
		out, sum := make([]float64, len(in.p)), 0.0
		for _, id := range Best(in.p, len(in.p)) {
			out[id] = in.p[id]
			if sum += in.p[id]; sum >= in.mass {
				break
			}
		}
		for i := range out {
			out[i] /= sum
		}
		return out
	}
	return map[string]exercise{
		"top-p": task("sort the ids by probability, the largest first; add up, and keep each token including the one with which the sum reaches the mass; then divide what is kept by the sum",
			len(inputs), func(f func(p []float64, mass float64) []float64, i int) error {
				in := inputs[i]
				given := slices.Clone(in.p)
				got := f(given, in.mass)
				call := fmt.Sprintf("TopP(%s, %g)", brief(in.p, "probabilities"), in.mass)
				if !slices.Equal(given, in.p) {
					return fmt.Errorf("%s: your function changes its argument; the caller still needs it", call)
				}
				if slices.ContainsFunc(got, math.IsNaN) {
					return fmt.Errorf("%s: got NaN: nothing was kept, so the sum to divide by is 0", call)
				}
				return equal(call, got, want(in))
			}),
	}
}
