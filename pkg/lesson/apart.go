package lesson

import "math"

// Apart is the largest difference between the numbers of a and b, as far as both go.
func Apart[T float32 | float64](a, b []T) (largest float64) {
	for i := range min(len(a), len(b)) {
		largest = max(largest, math.Abs(float64(a[i])-float64(b[i])))
	}
	return largest
}
