package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Long slices are worked on in parts; every number must come out as if it had been alone.
func TestElementwiseParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	y0, x := random(rng, 300_001).Data, random(rng, 300_001).Data
	for name, f := range map[string]func(y, x []float32){
		"Add": Add, "Mul": Mul,
		"SiLU":     func(y, _ []float32) { SiLU(y) },
		"GELU":     func(y, _ []float32) { GELU(y) },
		"GELUTanh": func(y, _ []float32) { GELUTanh(y) },
		"Tanh":     func(y, _ []float32) { Tanh(y) },
	} {
		y := append([]float32(nil), y0...)
		f(y, x)
		for i := 0; i < len(y); i += 997 {
			one := []float32{y0[i]}
			f(one, x[i:i+1])
			if math.Abs(float64(one[0]-y[i])) > 1e-7 {
				t.Fatalf("%s: number %d is %g among many, %g alone", name, i, y[i], one[0])
			}
		}
	}
}

func TestElementwiseAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	y, x := random(rng, 4096).Data, random(rng, 4096).Data // one token's activations
	if n := allocations(2, func() { SiLU(y); Mul(y, x); Add(y, x) }); n > 0.1 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestSoftmax(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, c := range []struct{ x, want []float32 }{
		{[]float32{0, 0}, []float32{0.5, 0.5}},
		{[]float32{1000, 1000, inf}, []float32{0.5, 0.5, 0}},
		{[]float32{0, float32(math.Log(3))}, []float32{0.25, 0.75}},
		{[]float32{inf, inf}, []float32{0, 0}},
		{nil, nil},
	} {
		x := append([]float32(nil), c.x...)
		Softmax(x)
		for i := range x {
			if math.Abs(float64(x[i]-c.want[i])) > 1e-6 {
				t.Errorf("softmax of %v is %v, want %v", c.x, x, c.want)
				break
			}
		}
	}
}
