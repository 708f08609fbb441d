package sample

import (
	"math"
	"math/rand/v2"
	"testing"
)

// random returns n logit vectors of v normal values; every fourth one has ties.
func random(n, v int) [][]float32 {
	rng := rand.New(rand.NewPCG(7, 7))
	out := make([][]float32, n)
	for i := range out {
		out[i] = make([]float32, v)
		for j := range out[i] {
			out[i][j] = float32(2 * rng.NormFloat64())
			if i%4 == 3 {
				out[i][j] = float32(math.Round(float64(out[i][j])))
			}
		}
	}
	return out
}

func mustProbs(t *testing.T, logits []float32, o Options) []float64 {
	t.Helper()
	p, err := Probs(logits, o)
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return p
}

// same says whether two distributions agree to 1e-9.
func same(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-9 {
			return false
		}
	}
	return len(a) == len(b)
}

// TestStrategySummary is the table of section 3.2.4: what each strategy changes, and its extreme or equivalent case.
func TestStrategySummary(t *testing.T) {
	const v = 50
	inf := math.Inf(1)
	equivalent := []struct {
		name string
		a, b Options
		ties bool // holds for equal logits too
	}{
		{"greedy = top-k with k = 1", Options{}, Options{Temperature: 1, TopK: 1}, true},
		{"greedy = T→0", Options{}, Options{Temperature: 1e-9}, false},
		{"greedy = smallest T there is", Options{}, Options{Temperature: math.SmallestNonzeroFloat64}, false},
		{"greedy = very small top-p", Options{}, Options{Temperature: 1, TopP: 1e-9}, true},
		{"greedy = min-p of 1", Options{}, Options{Temperature: 1, MinP: 1}, false},
		{"greedy with filters = greedy", Options{}, Options{TopK: 5, TopP: 0.5, MinP: 0.1, TypicalP: 0.2}, true},
		{"top-k of V changes nothing", Options{Temperature: 1}, Options{Temperature: 1, TopK: v}, true},
		{"top-k beyond V changes nothing", Options{Temperature: 1}, Options{Temperature: 1, TopK: 10 * v}, true},
		{"top-p of 1 changes nothing", Options{Temperature: 1}, Options{Temperature: 1, TopP: 1}, true},
		{"typical of 1 changes nothing", Options{Temperature: 1}, Options{Temperature: 1, TypicalP: 1}, true},
		{"top-k does not care for the temperature's place", Options{Temperature: 3, TopK: 4}, Options{Temperature: 3, TopK: 4, Order: LlamaCpp}, true},
		{"penalty of 1 changes nothing", Options{Temperature: 1}, Options{Temperature: 1, RepetitionPenalty: 1}, true},
	}
	for _, c := range equivalent {
		for i, l := range random(200, v) {
			if i%4 == 3 && !c.ties {
				continue
			}
			if !same(mustProbs(t, l, c.a), mustProbs(t, l, c.b)) {
				t.Errorf("%s: not for vector %d", c.name, i)
				break
			}
		}
	}
	for i, l := range random(200, v) {
		// T=1 is the softmax itself.
		one := mustProbs(t, l, Options{Temperature: 1})
		sum := 0.0
		for _, x := range l {
			sum += math.Exp(float64(x))
		}
		for id := range one {
			if math.Abs(one[id]-math.Exp(float64(l[id]))/sum) > 1e-12 {
				t.Fatalf("vector %d: T=1 changes p[%d]", i, id)
			}
		}
		// Entropy grows with T, from 0 (or ln of the number of ties) to ln V.
		last := -1.0
		for _, temp := range []float64{1e-9, 0.1, 0.5, 0.99, 1, 1.01, 2, 10, 1e9, inf} {
			h := Entropy(mustProbs(t, l, Options{Temperature: temp}))
			if h < last-1e-9 {
				t.Fatalf("vector %d: entropy falls from %g to %g at T=%g", i, last, h, temp)
			}
			last = h
		}
		if math.Abs(last-math.Log(v)) > 1e-12 {
			t.Fatalf("vector %d: entropy at T=∞ is %g, want ln %d", i, last, v)
		}
		// Top-k keeps exactly k, those with the largest logits; top-p the smallest set that reaches p.
		for _, k := range []int{1, 2, 7, v - 1, v, v + 1} {
			p := mustProbs(t, l, Options{Temperature: 1, TopK: k})
			if n := support(p); n != min(k, v) {
				t.Fatalf("vector %d: top-k %d keeps %d", i, k, n)
			}
		}
		for _, want := range []float64{0.01, 0.3, 0.5, 0.9, 0.999} {
			p := mustProbs(t, l, Options{Temperature: 1, TopP: want})
			mass, least, best := 0.0, inf, 0.0
			for id := range p {
				if p[id] > 0 {
					mass += one[id]
					least = min(least, one[id])
				} else {
					best = max(best, one[id])
				}
			}
			if mass < want-2e-7 || mass-least >= want || best > least {
				t.Fatalf("vector %d: top-p %g keeps %g, %g without the last, best one dropped %g, least kept %g", i, want, mass, mass-least, best, least)
			}
		}
	}
}

func support(p []float64) (n int) {
	for _, x := range p {
		if x > 0 {
			n++
		}
	}
	return n
}
