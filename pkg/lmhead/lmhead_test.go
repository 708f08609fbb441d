package lmhead

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/tensor"
)

func random(rng *rand.Rand, scale float64, shape ...int) *tensor.Tensor {
	t := tensor.New(shape...)
	for i := range t.Data {
		t.Data[i] = float32(scale * rng.NormFloat64())
	}
	return t
}

func TestLogits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	w, h := random(rng, 1, 30, 8), random(rng, 1, 4, 8)
	head, _ := tensor.FromFloats(w.Data, 30, 8)
	lg, err := Logits(h, tensor.Linear{W: head}, 0)
	if err != nil {
		t.Fatal(err)
	}
	capped, err := Logits(h, tensor.Linear{W: head}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		for j := range 30 {
			var want float64
			for k := range 8 {
				want += float64(h.Row(i)[k]) * float64(w.Row(j)[k])
			}
			if math.Abs(want-float64(lg.Row(i)[j])) > 1e-5 {
				t.Fatalf("position %d, token %d: want %g, got %g", i, j, want, lg.Row(i)[j])
			}
			if want = 2 * math.Tanh(want/2); math.Abs(want-float64(capped.Row(i)[j])) > 1e-5 {
				t.Fatalf("position %d, token %d, capped: want %g, got %g", i, j, want, capped.Row(i)[j])
			}
		}
	}
	if _, err := Logits(random(rng, 1, 1, 7), tensor.Linear{W: head}, 0); err == nil || !strings.HasPrefix(err.Error(), "lmhead: ") {
		t.Errorf("got %v", err)
	}
}

// TestSoftmax: probabilities sum to 1, don't see a shift of all logits, and survive logits of any size.
func TestSoftmax(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, scale := range []float64{0.1, 1, 30, 1e4, 1e30} {
		lg := random(rng, scale, 5, 100)
		p, lp := Softmax(lg), LogSoftmax(lg)
		shifted := lg.Clone()
		for i := range shifted.Data {
			shifted.Data[i] += 3
		}
		q := Softmax(shifted)
		for i := range 5 {
			var sum float64
			for j, v := range p.Row(i) {
				sum += float64(v)
				if !(v >= 0) || scale < 100 && math.Abs(math.Log(float64(v))-float64(lp.Row(i)[j])) > 1e-4*max(1, math.Abs(float64(lp.Row(i)[j]))) && v > 1e-30 {
					t.Fatalf("scale %g: p %g, log p %g", scale, v, lp.Row(i)[j])
				}
				if scale < 100 && math.Abs(float64(v-q.Row(i)[j])) > 1e-5 {
					t.Fatalf("scale %g: a shift changes %g to %g", scale, v, q.Row(i)[j])
				}
			}
			if math.Abs(sum-1) > 1e-5 {
				t.Errorf("scale %g: sum %g", scale, sum)
			}
		}
	}
}

// TestCrossEntropy on the notes' example shape, B·T = 8 positions of V = 50,000: equal logits cost ln V each.
func TestCrossEntropy(t *testing.T) {
	const v = 50_000
	lg := tensor.New(8, v)
	l, err := CrossEntropy(lg, []int{1, 2, 3, Ignore, 5, 6, 7, 49_999})
	if err != nil {
		t.Fatal(err)
	}
	if l.Counted != 7 || l.Each[3] != 0 || math.Abs(l.Mean-math.Log(v)) > 1e-9 || math.Abs(l.Perplexity()-v) > 1e-4 {
		t.Errorf("want ln %d = %.6f over 7 positions, got %+v", v, math.Log(v), l.Mean)
	}
	lg.Row(0)[1] = 100 // sure, and right
	lg.Row(1)[3] = 100 // sure, and wrong
	if l, err = CrossEntropy(lg, []int{1, 2, Ignore, Ignore, Ignore, Ignore, Ignore, Ignore}); err != nil {
		t.Fatal(err)
	}
	if !(l.Each[0] < 1e-6) || math.Abs(l.Each[1]-100) > 1e-6 {
		t.Errorf("want about 0 and 100, got %v", l.Each[:2])
	}
	for _, c := range []struct {
		labels []int
		want   string
	}{
		{make([]int, 7), "[7 -1]"},
		{[]int{0, 0, 0, 0, 0, 0, 0, v}, "label 7 is 50000"},
		{[]int{-5, 0, 0, 0, 0, 0, 0, 0}, "label 0 is -5"},
		{[]int{Ignore, Ignore, Ignore, Ignore, Ignore, Ignore, Ignore, Ignore}, "all 8 labels are ignored"},
	} {
		if _, err := CrossEntropy(lg, c.labels); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
	if got := Shift([]int{4, 5, 6}); !slices.Equal(got, []int{5, 6, Ignore}) {
		t.Errorf("Shift: %v", got)
	}
	if Shift(nil) != nil {
		t.Error("Shift of nothing")
	}
	for _, x := range []*tensor.Tensor{nil, tensor.New(), {Shape: []int{2, 3}}} {
		if Softmax(x) != nil || LogSoftmax(x) != nil {
			t.Errorf("probabilities of %+v", x)
		}
		if _, err := Logits(x, tensor.Linear{}, 0); err == nil {
			t.Errorf("logits of %+v: want an error", x)
		}
	}
}

// Logits are scores: they may be negative and sum to anything. Softmax makes probabilities of them.
func ExampleSoftmax() {
	logits, _ := tensor.From([]float32{2, 1, -1}, 1, 3)
	fmt.Printf("%.3f\n", Softmax(logits).Data)
	// Output: [0.705 0.259 0.035]
}
