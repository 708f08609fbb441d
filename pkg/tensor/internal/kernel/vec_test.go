package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Element by element functions against float64, for every length up to 70, unaligned, with the numbers
// around them untouched. ulps is the error allowed, relative to the exact result (and 1e-30 where that is 0).
func TestVectors(t *testing.T) {
	unary := func(f func(x []float32)) func(y, x []float32) { return func(y, _ []float32) { f(y) } }
	sigmoid := func(u float64) float64 { return 1 / (1 + math.Exp(-u)) }
	for _, c := range []struct {
		name   string
		got    func(y, x []float32)
		want   func(y, x float64) float64
		ulps   float64
		cancel float64 // a sum may lose this much of y as well
	}{
		{"Add", Add, func(y, x float64) float64 { return y + x }, 1, 0},
		{"Mul", Mul, func(y, x float64) float64 { return y * x }, 1, 0},
		{"Axpy", func(y, x []float32) { Axpy(y, 0.7, x) }, func(y, x float64) float64 { return y + float64(float32(0.7))*x }, 2, 1},
		{"Scale", unary(func(x []float32) { Scale(x, 0.7) }), func(y, _ float64) float64 { return y * float64(float32(0.7)) }, 1, 0},
		{"ExpSum", unary(func(x []float32) { ExpSum(x, 3) }), func(y, _ float64) float64 { return math.Exp(float64(float32(y) - 3)) }, 4, 0},
		{"SiLU", unary(SiLU), func(y, _ float64) float64 { return y * sigmoid(y) }, 6, 0},
		{"GELUTanh", unary(GELUTanh), func(y, _ float64) float64 {
			return y * sigmoid(2*math.Sqrt(2/math.Pi)*(y+0.044715*y*y*y))
		}, 60, 0}, // the argument of exp, up to 17 here, is rounded first
	} {
		rng := rand.New(rand.NewPCG(5, 5))
		for n := range 71 {
			y0, x := floats(rng, n+1), floats(rng, n+1)
			for i := range y0 {
				y0[i] *= 4
			}
			eachLevel(func() {
				y := append([]float32(nil), y0...)
				c.got(y[:n], x)
				for i, v := range y[:n] {
					want := c.want(float64(y0[i]), float64(x[i]))
					if d := math.Abs(float64(v) - want); !(d <= c.ulps/(1<<24)*(math.Abs(want)+c.cancel*math.Abs(float64(y0[i])))+1e-30) {
						t.Fatalf("%v %s of %d: number %d (%g, %g) is %g, want %g", level, c.name, n, i, y0[i], x[i], v, want)
					}
				}
				if y[n] != y0[n] {
					t.Fatalf("%v %s of %d wrote one more", level, c.name, n)
				}
			})
		}
	}
}

func TestReductions(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for n := 1; n <= 70; n++ {
		for range 5 {
			x := floats(rng, n)
			x[rng.IntN(n)] -= 2 // the largest is anywhere, and all may be negative
			if n == 1 || rng.IntN(3) == 0 {
				for i := range x {
					x[i] -= 3
				}
			}
			largest, sum := math.Inf(-1), 0.0
			for _, v := range x {
				largest = max(largest, float64(v))
				sum += math.Exp(float64(v - 0.5))
			}
			eachLevel(func() {
				if got := Max(x); float64(got) != largest {
					t.Fatalf("%v: largest of %d is %g, want %g", level, n, got, largest)
				}
				if got := ExpSum(append([]float32(nil), x...), 0.5); math.Abs(float64(got)-sum) > 1e-6*sum {
					t.Fatalf("%v: sum of %d exponentials is %g, want %g", level, n, got, sum)
				}
			})
		}
	}
}

// Masked scores are -Inf and must weigh exactly nothing; huge and undefined numbers keep their nature.
func TestExpLimits(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	eachLevel(func() {
		x := []float32{-inf, -200, -104, 0, 1, 80, nan}
		ExpSum(x, 0)
		if x[0] != 0 || x[1] != 0 || x[2] != 0 || x[3] != 1 || math.Abs(float64(x[4])-math.E) > 1e-6 || math.Abs(float64(x[5])/math.Exp(80)-1) > 1e-6 || x[6] == x[6] {
			t.Errorf("%v: exp of -Inf, -200, -104, 0, 1, 80, NaN: %v", level, x)
		}
		y := []float32{-200, 200, -inf, inf, nan}
		SiLU(y)
		if !(y[0] <= 0 && y[0] > -1e-30) || y[1] != 200 || y[3] != inf || y[4] == y[4] {
			t.Errorf("%v: SiLU of -200, 200, -Inf, Inf, NaN: %v", level, y)
		}
		z := []float32{-30, 30, 0}
		GELUTanh(z)
		if !(z[0] <= 0 && z[0] > -1e-30) || z[1] != 30 || z[2] != 0 {
			t.Errorf("%v: GELUTanh of -30, 30, 0: %v", level, z)
		}
	})
}
