package sample_test

import (
	"fmt"
	"math/rand/v2"

	"forwardpass/pkg/sample"
)

// Logits are scores; temperature and the filters decide what distribution they become.
func ExampleProbs() {
	logits := []float32{3, 2, 1, 0}
	for _, o := range []sample.Options{
		{},
		{Temperature: 1},
		{Temperature: 0.5},
		{Temperature: 2},
		{Temperature: 1, TopK: 2},
		{Temperature: 1, TopP: 0.9},
	} {
		p, err := sample.Probs(logits, o)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("T=%-3g k=%d p=%-3g  %.3f  entropy %.3f\n", o.Temperature, o.TopK, o.TopP, p, sample.Entropy(p))
	}
	// Output:
	// T=0   k=0 p=0    [1.000 0.000 0.000 0.000]  entropy 0.000
	// T=1   k=0 p=0    [0.644 0.237 0.087 0.032]  entropy 0.948
	// T=0.5 k=0 p=0    [0.865 0.117 0.016 0.002]  entropy 0.455
	// T=2   k=0 p=0    [0.455 0.276 0.167 0.102]  entropy 1.245
	// T=1   k=2 p=0    [0.731 0.269 0.000 0.000]  entropy 0.582
	// T=1   k=0 p=0.9  [0.665 0.245 0.090 0.000]  entropy 0.832
}

// The same two options in the orders of two engines: after a temperature of 2 the nucleus of 0.8 needs three tokens, before it
// two.
func ExamplePipeline_Steps() {
	for _, order := range []sample.Order{sample.Transformers, sample.LlamaCpp} {
		p, err := sample.NewPipeline(sample.Options{Temperature: 2, TopP: 0.8, Order: order})
		if err != nil {
			fmt.Println(err)
			return
		}
		steps, err := p.Steps([]float32{3, 2, 1, 0}, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p)
		for _, s := range steps {
			fmt.Printf("  %-11s kept %v dropped %v -> %.3f\n", s.Name, s.Kept, s.Dropped, s.After)
		}
	}
	// Output:
	// temperature T = 2 → top-p p = 0.8
	//   temperature kept [0 1 2 3] dropped [] -> [0.455 0.276 0.167 0.102]
	//   top-p       kept [0 1 2] dropped [3] -> [0.506 0.307 0.186 0.000]
	// top-p p = 0.8 → temperature T = 2
	//   top-p       kept [0 1] dropped [2 3] -> [0.731 0.269 0.000 0.000]
	//   temperature kept [0 1] dropped [] -> [0.622 0.378 0.000 0.000]
}

// A sampler remembers nothing but its random generator: the same seed, the same tokens.
func ExampleSampler_Next() {
	logits := []float32{1, 2, 3, 2, 1}
	for range 2 {
		s, err := sample.New(sample.Options{Temperature: 1, Seed: 42})
		if err != nil {
			fmt.Println(err)
			return
		}
		var ids []int
		for range 12 {
			id, err := s.Next(logits, ids)
			if err != nil {
				fmt.Println(err)
				return
			}
			ids = append(ids, id)
		}
		fmt.Println(ids)
	}
	// Output:
	// [2 2 1 2 3 1 1 3 0 2 3 2]
	// [2 2 1 2 3 1 1 3 0 2 3 2]
}

// A uniform number picks a token by the cumulative probabilities 0.5, 0.8, 1.
func ExampleChoose() {
	p := []float64{0.5, 0.3, 0.2}
	for _, u := range []float64{0, 0.49, 0.5, 0.79, 0.8, 0.99} {
		fmt.Print(sample.Choose(p, u), " ")
	}
	// Output: 0 0 1 1 2 2
}

// Sampled frequencies approach the probabilities.
func ExampleDraw() {
	p := []float64{0.5, 0.3, 0.2}
	rng := rand.New(rand.NewPCG(1, 1))
	count := make([]int, 3)
	for range 10000 {
		count[sample.Draw(p, rng)]++
	}
	fmt.Println(count)
	// Output: [5009 2952 2039]
}

func ExampleLogProbs() {
	logp, top, err := sample.LogProbs([]float32{3, 2, 1, 0}, 2, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.3f, best: token %d %.3f, token %d %.3f\n", logp, top[0].ID, top[0].LogProb, top[1].ID, top[1].LogProb)
	// Output: -2.440, best: token 0 -0.440, token 1 -1.440
}

// Entropy in nats; its exponential counts equally likely tokens.
func ExampleEntropy() {
	fmt.Printf("%.3f %.3f %.3f", sample.Entropy([]float64{1, 0}), sample.Entropy([]float64{0.5, 0.5}), sample.Entropy([]float64{0.9, 0.1}))
	// Output: 0.000 0.693 0.325
}
