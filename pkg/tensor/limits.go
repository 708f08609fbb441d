package tensor

import (
	"slices"
	"time"

	"forwardpass/pkg/tensor/internal/kernel"
)

// MeasureRead is how many bytes a second this machine reads from memory with the given number of workers
// (at most Workers()): the median of five passes over size bytes, which should be several times the last-level cache.
// It bounds decoding, which reads every weight once for a token.
func MeasureRead(size, workers int) float64 {
	b := make([]byte, size)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1 // every page is really there
	}
	parts := workers * 16
	n := len(b) / parts
	return median(func() float64 {
		began := time.Now()
		// Each worker of exactly so many reads one part after the other.
		Parallel(workers, Func(func(w int) {
			for p := w; p < parts; p += workers {
				kernel.Read(b[p*n : (p+1)*n])
			}
		}))
		return float64(parts*n) / time.Since(began).Seconds()
	})
}

// MeasureFMA is how many float32 operations a second the current kernels' instructions reach on registers alone,
// a multiply–add counting as two: the median of five runs. It bounds prefill.
func MeasureFMA(workers int) float64 {
	const n = 2_000_000
	return median(func() float64 {
		flops := make([]float64, workers)
		began := time.Now()
		Parallel(workers, Func(func(w int) { flops[w] = kernel.FMA(n) }))
		took := time.Since(began).Seconds()
		sum := 0.0
		for _, f := range flops {
			sum += f
		}
		return sum / took
	})
}

func median(f func() float64) float64 {
	runs := make([]float64, 5)
	for i := range runs {
		runs[i] = f()
	}
	slices.Sort(runs)
	return runs[len(runs)/2]
}

// Kernels names the instructions that the matrix kernels use: "avx512", "avx2" or "go". The environment
// variable FORWARDPASS_KERNELS, set to one of these before the program starts, asks for less than there is.
func Kernels() string { return kernel.Current().String() }
