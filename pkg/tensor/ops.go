package tensor

import (
	"math"

	"forwardpass/pkg/tensor/internal/kernel"
)

// Dot is the inner product of a and b over len(a) numbers; b must be at least as long.
func Dot(a, b []float32) float32 { return kernel.Dot(a, b) }

// Axpy adds a·x to y.
func Axpy(y []float32, a float32, x []float32) { kernel.Axpy(y, a, x) }

// Add adds x to y in place.
func Add(y, x []float32) { each(cheap, kernel.Add, y, x) }

// Mul multiplies y by x element by element, in place.
func Mul(y, x []float32) { each(cheap, kernel.Mul, y, x) }

// Scale multiplies x by a in place.
func Scale(x []float32, a float32) { kernel.Scale(x, a) }

// Max is the largest number of x, -Inf for none.
func Max(x []float32) float32 { return kernel.Max(x) }

// ExpSum replaces each x[i] by exp(x[i]-shift) and returns the sum: the numerator and denominator of softmax.
func ExpSum(x []float32, shift float32) float32 { return kernel.ExpSum(x, shift) }

// Softmax turns scores into weights that sum to 1, in place. The maximum is subtracted first, so that
// exp never overflows; a row of -Inf only becomes zeros.
func Softmax(x []float32) {
	m := Max(x)
	if math.IsInf(float64(m), -1) {
		clear(x)
		return
	}
	Scale(x, 1/ExpSum(x, m))
}

// SiLU replaces x by x·sigmoid(x) = x/(1+e⁻ˣ) (Elfwing et al. 2017).
func SiLU(x []float32) { each(vector, silu, x, nil) }

// GELU replaces x by x·Φ(x), Φ the normal distribution function (Hendrycks & Gimpel 2016).
func GELU(x []float32) { each(scalar, gelu, x, nil) }

// GELUTanh is GELU by its tanh approximation, 0.5x(1+tanh(√(2/π)(x+0.044715x³))), as GPT-2 and Gemma use it.
func GELUTanh(x []float32) { each(vector, geluTanh, x, nil) }

// Tanh replaces x by tanh(x).
func Tanh(x []float32) { each(scalar, tanh, x, nil) }

func silu(x, _ []float32)     { kernel.SiLU(x) }
func geluTanh(x, _ []float32) { kernel.GELUTanh(x) }

func gelu(x, _ []float32) {
	for i, v := range x {
		x[i] = float32(0.5 * float64(v) * (1 + math.Erf(float64(v)/math.Sqrt2)))
	}
}

func tanh(x, _ []float32) {
	for i, v := range x {
		x[i] = float32(math.Tanh(float64(v)))
	}
}

// How many numbers are worth another worker: about ten microseconds of work.
const (
	cheap  = 1 << 16 // one addition or multiplication each
	vector = 1 << 13 // a vectorised exponential
	scalar = 1 << 10 // a float64 function of the standard library
)

// elements is an element by element function on parts of one or two slices.
type elements struct {
	f    func(y, x []float32)
	y, x []float32
	step int
}

func (e *elements) Run(part int) {
	lo, hi := part*e.step, min((part+1)*e.step, len(e.y))
	if e.x == nil {
		e.f(e.y[lo:hi], nil)
		return
	}
	e.f(e.y[lo:hi], e.x[lo:hi])
}

// each does f in parts of at least `least` numbers, on as many workers as that is worth.
func each(least int, f func(y, x []float32), y, x []float32) {
	n := min(len(y)/least, 4*Workers())
	if n < 2 {
		f(y, x)
		return
	}
	step := (len(y)/n + 63) &^ 63
	Parallel((len(y)+step-1)/step, &elements{f, y, x[:min(len(x), len(y))], step})
}

// SoftCap bends x smoothly into (-limit, limit): limit·tanh(x/limit) (Gemma 2, arXiv:2408.00118, section 2).
func SoftCap(x []float32, limit float32) {
	Scale(x, 1/limit)
	Tanh(x)
	Scale(x, limit)
}
