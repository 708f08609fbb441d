package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// With int8 activations the result is the product of the dequantised weights with the rounded x, as near as
// float32 gets to it: every type with a kernel, 1…70 rows, 1…8 rows of x.
func TestInt8(t *testing.T) {
	defer UseInt8(false)
	UseInt8(true)
	for _, typ := range all {
		if !typ.int8Kernel() {
			continue
		}
		rng := rand.New(rand.NewPCG(7, uint64(typ)))
		for rows := 1; rows <= 70; rows++ {
			T, k := 1+rng.IntN(small), blocks[typ].len*(1+rng.IntN(3))
			ldx, ldy := k+rng.IntN(3), rows+rng.IntN(3)
			w, x := weights(rng, typ, rows*k), floats(rng, T*ldx)
			if rows%7 == 0 {
				clear(x[:32]) // a group of zeros
			}
			wide, rounded := make([]float32, rows*k), make([]float32, T*k)
			plainDequant(wide, typ, w)
			q, scales := make([]int8, k), make([]float32, k/32)
			for i := range T {
				plainQuantize(q, scales, x[i*ldx:i*ldx+k])
				for j := range q {
					rounded[i*k+j] = float32(q[j]) * scales[j/32]
					if d := math.Abs(float64(rounded[i*k+j] - x[i*ldx+j])); d > float64(scales[j/32])*0.501 {
						t.Fatalf("%g was rounded to %g in steps of %g", x[i*ldx+j], rounded[i*k+j], scales[j/32])
					}
				}
			}
			sums, abs := reference(rounded, k, wide, k, T, rows, k)
			// Where a minimum is taken out of the sum, its part and the rest may be larger than the sum of both.
			for i := range abs {
				abs[i] = 4*abs[i] + 1e-4
			}
			for _, v := range []bool{false, byteDots} {
				old := byteDots
				byteDots = v
				eachLevel(func() {
					y := guarded((T + 1) * ldy)
					matMul(y, ldy, x, ldx, T, typ, w, rows, k)
					verify(t, names[typ], y, ldy, T, rows, k, sums, abs, 0)
				})
				byteDots = old
			}
		}
	}
}
