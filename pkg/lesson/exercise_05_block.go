package lesson

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// blockExercises are those of lesson 05.
func blockExercises() map[string]exercise {
	type input struct {
		x, w []float64
		eps  float64
	}
	ones := []float64{1, 1, 1, 1}
	inputs := []input{
		{[]float64{1, -1, 1, -1}, ones, 0},                 // its scale is 1 already
		{[]float64{3, 0, 0, 4}, ones, 0},                   // √(25/4), not √25
		{[]float64{2, 2, 2, 2}, ones, 0},                   // the mean is not subtracted
		{[]float64{1, 2, 3, 4}, []float64{1, 2, 0, -1}, 0}, // weights
		{[]float64{0, 0, 0, 0}, ones, 1e-5},                // ε keeps 0/0 away
		{[]float64{1e-3, 0, 0, 0}, ones, 1e-5},             // ε inside the root
	}
	rng := rand.New(rand.NewPCG(5, 1))
	for _, scale := range []float64{0.1, 50} {
		in := input{eps: 1e-5}
		for range 32 {
			in.x, in.w = append(in.x, scale*rng.NormFloat64()), append(in.w, 1+rng.NormFloat64())
		}
		inputs = append(inputs, in)
	}
	return map[string]exercise{
		"rmsnorm": task("the mean of the squares over all C numbers, plus eps, then one root of that; divide each number by it and multiply by its own weight. The mean itself is never subtracted",
			len(inputs), func(f func(x, weight []float64, eps float64) []float64, i int) error {
				in := inputs[i]
				x, w := slices.Clone(in.x), slices.Clone(in.w)
				got := f(x, w, in.eps)
				call := fmt.Sprintf("RMSNorm(%s, %s, %g)", brief(in.x, "numbers"), brief(in.w, "weights"), in.eps)
				if !slices.Equal(x, in.x) || !slices.Equal(w, in.w) {
					return fmt.Errorf("%s: your function changes its arguments; the residual path still needs x", call)
				}
				var squares float64
				for _, v := range in.x {
					squares += v * v
				}
				want := make([]float64, len(in.x))
				for j, v := range in.x {
					want[j] = v / math.Sqrt(squares/float64(len(in.x))+in.eps) * in.w[j]
				}
				return equal(call, got, want)
			}),
	}
}
