package lesson

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"forwardpass/pkg/block"
	"forwardpass/pkg/tensor"
)

// variantsExercises are those of lesson 07.
func variantsExercises() map[string]exercise {
	type input struct {
		scores []float64
		k      int
	}
	inputs := []input{
		{[]float64{1, 3, 2, 0}, 2},
		{[]float64{0, 0, 0, 0}, 2},        // equal ones: the lower numbers
		{[]float64{-5, -1, -3}, 1},        // one expert gets the weight 1
		{[]float64{2, -1, 2, 2}, 3},       // best first, the lower number first among equals
		{[]float64{500, 499, -500}, 2},    // no overflow
		{[]float64{0.5, -0.5, 1, 1.5}, 4}, // all of them
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 3 {
		in := input{k: 4}
		for range 16 {
			in.scores = append(in.scores, float64(float32(2*rng.NormFloat64())))
		}
		inputs = append(inputs, in)
	}
	return map[string]exercise{
		"moe-route": task("softmax over all scores (subtract the largest first), sort the experts by it, the lower number first among equals, take k, and divide their weights by the sum of those k",
			len(inputs), func(f func(scores []float64, k int) ([]int, []float64), i int) error {
				in := inputs[i]
				given := slices.Clone(in.scores)
				experts, weights := f(given, in.k)
				call := fmt.Sprintf("Route(%s, %d)", brief(in.scores, "scores"), in.k)
				if !slices.Equal(given, in.scores) {
					return fmt.Errorf("%s: your function changes its argument", call)
				}
				logits := tensor.New(1, len(in.scores)) // [1, experts]
				for j, s := range in.scores {
					logits.Data[j] = float32(s)
				}
				moe := block.MoE{TopK: in.k, Normalize: true}
				var wantExperts []int
				var wantWeights []float64
				for _, p := range moe.Route(nil, logits, tensor.New()) {
					wantExperts, wantWeights = append(wantExperts, p.Expert), append(wantWeights, float64(p.Weight))
				}
				if err := same(call+": experts", experts, wantExperts); err != nil {
					return err
				}
				return equal(call+": weights", weights, wantWeights)
			}),
	}
}
