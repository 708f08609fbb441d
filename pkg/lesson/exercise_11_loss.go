package lesson

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// lossExercises are those of lesson 11.
func lossExercises() map[string]exercise {
	type text struct {
		logits [][]float32 // [T][V]
		ids    []int       // [T]
	}
	texts := []text{
		{[][]float32{{0, 0, 0, 0}, {0, 0, 0, 0}}, []int{1, 2}},         // knows nothing: ln 4
		{[][]float32{{0, 5, 0}, {0, 0, 5}, {9, 9, 9}}, []int{0, 1, 2}}, // sure and right
		{[][]float32{{0, 5, 0}, {0, 0, 5}, {9, 9, 9}}, []int{0, 2, 1}}, // sure and wrong
		{[][]float32{{1000, 0}, {0, 1000}, {0, 0}}, []int{0, 0, 0}},    // e^1000 is too large for a float
		{[][]float32{{-1000, -1001}, {3, 3}}, []int{1, 1}},             // and e^-1000 too small
	}
	rng := rand.New(rand.NewPCG(11, 0))
	for range 3 {
		in := text{}
		for range 6 {
			row := make([]float32, 20)
			for i := range row {
				row[i] = float32(3 * rng.NormFloat64())
			}
			in.logits, in.ids = append(in.logits, row), append(in.ids, rng.IntN(20))
		}
		texts = append(texts, in)
	}
	want := func(in text) float64 {
		sum := 0.0
		for t := range len(in.ids) - 1 {
			most, total := math.Inf(-1), 0.0
			for _, x := range in.logits[t] {
				most = max(most, float64(x))
			}
			for _, x := range in.logits[t] {
				total += math.Exp(float64(x) - most)
			}
			sum += most + math.Log(total) - float64(in.logits[t][in.ids[t+1]])
		}
		return sum / float64(len(in.ids)-1)
	}
	return map[string]exercise{
		"teacher-forced-loss": task("the logits at position t are scored on the token at t+1, so the last position has no label; −ln p(label) = max + ln Σ e^(x−max) − x[label], where subtracting the maximum keeps e^… within range; return the mean",
			len(texts), func(f func(logits [][]float32, ids []int) float64, i int) error {
				in := texts[i]
				return equal(fmt.Sprintf("case %d, %d positions of %d tokens: Loss", i+1, len(in.ids), len(in.logits[0])), []float64{f(in.logits, in.ids)}, []float64{want(in)})
			}),
	}
}
