package kernel

import "math"

// Add is y += x over len(y) numbers.
func Add(y, x []float32) {
	x = x[:len(y)]
	if level > Go && len(y) > 0 {
		vecAdd(y, x)
		return
	}
	for i := range y {
		y[i] += x[i]
	}
}

// Mul is y *= x, element by element.
func Mul(y, x []float32) {
	x = x[:len(y)]
	if level > Go && len(y) > 0 {
		vecMul(y, x)
		return
	}
	for i := range y {
		y[i] *= x[i]
	}
}

// Axpy is y += a·x.
func Axpy(y []float32, a float32, x []float32) {
	x = x[:len(y)]
	if level > Go && len(y) > 0 {
		vecAxpy(y, a, x)
		return
	}
	for i := range y {
		y[i] += a * x[i]
	}
}

// Scale is x *= a.
func Scale(x []float32, a float32) {
	if level > Go && len(x) > 0 {
		vecScale(x, a)
		return
	}
	for i := range x {
		x[i] *= a
	}
}

// Max is the largest of x, -Inf for none. NaN makes no promise.
func Max(x []float32) float32 {
	if level > Go && len(x) > 0 {
		return vecMax(x)
	}
	m := float32(math.Inf(-1))
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

// ExpSum is x = exp(x-shift), and the sum. The assembly's exp is within 2 units in the last place; it is 0
// where the exact one is below 2⁻¹²⁶, and does not grow beyond the largest numbers.
func ExpSum(x []float32, shift float32) float32 {
	if level > Go && len(x) > 0 {
		return vecExpSum(x, shift)
	}
	var sum float64
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - shift)))
		sum += float64(x[i])
	}
	return float32(sum)
}

// SiLU is x·sigmoid(x).
func SiLU(x []float32) {
	if level > Go && len(x) > 0 {
		vecSiLU(x)
		return
	}
	for i, v := range x {
		x[i] = float32(float64(v) / (1 + math.Exp(-float64(v))))
	}
}

// GELUTanh is 0.5x(1+tanh(√(2/π)(x+0.044715x³))).
func GELUTanh(x []float32) {
	if level > Go && len(x) > 0 {
		vecGELUTanh(x)
		return
	}
	for i, v := range x {
		f := float64(v)
		x[i] = float32(0.5 * f * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(f+0.044715*f*f*f))))
	}
}
