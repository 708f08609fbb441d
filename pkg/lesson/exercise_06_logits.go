package lesson

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// logitsExercises are those of lesson 06.
func logitsExercises() map[string]exercise {
	inputs := [][]float64{
		{0, 0}, // two equal tokens: -ln 2
		{1, 2, 3},
		{1001, 1002, 1003},    // the same differences: the same answer, and no overflow
		{-1000, 0, -2000},     // probabilities that round to 0 still have a logarithm
		{5},                   // the only token
		{3, math.Inf(-1), 3},  // a token that is ruled out
		{-800, -801, -802.25}, // every exp is 0 without the maximum
	}
	rng := rand.New(rand.NewPCG(6, 6))
	for _, scale := range []float64{1, 30} {
		logits := make([]float64, 40)
		for i := range logits {
			logits[i] = float64(float32(scale * rng.NormFloat64()))
		}
		inputs = append(inputs, logits)
	}
	return map[string]exercise{
		"log-softmax": task("find the largest logit m first; add up exp(l-m) over all logits; the answer for each is l - m - ln(sum). No exponent is above 0 then, and no probability is ever rounded",
			len(inputs), func(f func([]float64) []float64, i int) error {
				given := slices.Clone(inputs[i])
				got := f(given)
				call := fmt.Sprintf("LogSoftmax(%s)", brief(inputs[i], "logits"))
				if !slices.Equal(given, inputs[i]) {
					return fmt.Errorf("%s: your function changes its argument; the caller still needs it", call)
				}
				return equal(call, got, logSoftmax(inputs[i]))
			}),
	}
}

// logSoftmax is the formula in double precision; the lesson's own, lmhead.LogSoftmax, is the same in float32.
func logSoftmax(logits []float64) []float64 {
	m := slices.Max(logits)
	var sum float64
	for _, l := range logits {
		sum += math.Exp(l - m)
	}
	out := make([]float64, len(logits))
	for i, l := range logits {
		out[i] = l - m - math.Log(sum)
	}
	return out
}

// brief is a list of numbers as an error message shows it.
func brief(x []float64, what string) string {
	if len(x) > 6 {
		return fmt.Sprintf("%d %s", len(x), what)
	}
	return fmt.Sprint(x)
}
