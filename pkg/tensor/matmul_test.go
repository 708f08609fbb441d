package tensor

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"forwardpass/pkg/tensor/internal/kernel"
)

func random(rng *rand.Rand, shape ...int) *Tensor {
	t := New(shape...)
	for i := range t.Data {
		t.Data[i] = rng.Float32()*2 - 1
	}
	return t
}

// dense is an F32 matrix of random numbers; other types take their bytes from it where they can.
func dense(t *testing.T, rng *rand.Rand, rows, cols int) *Matrix {
	t.Helper()
	m, err := FromFloats(random(rng, rows, cols).Data, rows, cols)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The types of kernel are numbered as those here.
func TestTypesMatchKernel(t *testing.T) {
	for a, b := range map[DType]kernel.Type{F32: kernel.F32, F16: kernel.F16, BF16: kernel.BF16, Q8_0: kernel.Q8_0, Q4_0: kernel.Q4_0,
		Q4_1: kernel.Q4_1, Q5_0: kernel.Q5_0, Q5_1: kernel.Q5_1, Q4_K: kernel.Q4_K, Q5_K: kernel.Q5_K, Q6_K: kernel.Q6_K} {
		if kernel.Type(a) != b {
			t.Errorf("%v is %d in kernel, want %d", a, b, a)
		}
	}
}

// A group of products with biases equals the products done one by one in float64, for one row of x and many.
func TestMatMulsGroup(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, T := range []int{1, 2, 5, 9, 40} {
		const in = 96
		x := random(rng, T, in)
		var ps []Product
		for i, rows := range []int{300, 7, 1, 64} {
			p := Product{Dst: &Tensor{}, W: dense(t, rng, rows, in)}
			if i%2 == 0 {
				p.Bias = random(rng, rows).Data
			}
			ps = append(ps, p)
		}
		if err := MatMuls(x, ps...); err != nil {
			t.Fatal(err)
		}
		for n, p := range ps {
			if p.Dst.Shape[0] != T || p.Dst.Shape[1] != p.W.Rows {
				t.Fatalf("T=%d, product %d: shape %v, want [%d %d]", T, n, p.Dst.Shape, T, p.W.Rows)
			}
			w := p.W.Floats()
			for i := range T {
				for o := range p.W.Rows {
					var want float64
					for k, v := range x.Row(i) {
						want += float64(v) * float64(w.Data[o*in+k])
					}
					if p.Bias != nil {
						want += float64(p.Bias[o])
					}
					if got := p.Dst.Data[i*p.W.Rows+o]; math.Abs(float64(got)-want) > 2e-5 {
						t.Fatalf("T=%d, product %d at (%d,%d): got %g, want %g", T, n, i, o, got, want)
					}
				}
			}
		}
	}
}

func TestMatMulsErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	x := random(rng, 2, 8)
	for want, p := range map[string]Product{
		"want 8 columns": {Dst: &Tensor{}, W: dense(t, rng, 4, 9)},
		"want 4 numbers": {Dst: &Tensor{}, W: dense(t, rng, 4, 8), Bias: make([]float32, 3)},
		"to write to":    {W: dense(t, rng, 4, 8)},
		"got none":       {Dst: &Tensor{}},
		"takes 128":      {Dst: &Tensor{}, W: &Matrix{Rows: 4, Cols: 8}},
		"unknown type":   {Dst: &Tensor{}, W: &Matrix{Type: 77, Rows: 4, Cols: 8}},
	} {
		if err := MatMuls(x, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
	for want, x := range map[string]*Tensor{
		"no tensor":         nil,
		"without axes":      New(),
		"negative":          {Shape: []int{-1, 8}},
		"holds 8 numbers":   {Shape: []int{1, 8}},
		"want 7 columns":    New(2, 7),
		"holds 16 numbers,": {Shape: []int{2, 8}, Data: make([]float32, 15)},
	} {
		_, err := MatMul(x, dense(t, rng, 4, 8))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

func TestMatMulsAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for _, T := range []int{1, 4, 24} {
		x := random(rng, T, 128)
		q, k, v := &Tensor{}, &Tensor{}, &Tensor{}
		wq, wk, wv := dense(t, rng, 512, 128), dense(t, rng, 256, 128), dense(t, rng, 256, 128)
		step := func() {
			if err := MatMuls(x, Product{Dst: q, W: wq}, Product{Dst: k, W: wk}, Product{Dst: v, W: wv}); err != nil {
				t.Fatal(err)
			}
		}
		if n := allocations(2, step); n > 0.1 {
			t.Errorf("T=%d: %v allocations a call, want 0", T, n)
		}
	}
}
