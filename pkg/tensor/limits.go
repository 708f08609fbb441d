package tensor

import (
	"time"

	"forwardpass/pkg/tensor/internal/kernel"
)

// MeasureRead is how many bytes a second this machine reads from memory with the given number of workers
// (at most Workers()): the best of forty passes over an eighth of size bytes, in turn. size should be ten times the last-level cache.
// It bounds decoding, which reads every weight once for a token.
func MeasureRead(size, workers int) float64 {
	b := make([]byte, size)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1 // every page is really there
	}
	const pieces = 8
	piece := len(b) / pieces / workers
	at := 0
	return best(5*pieces, func() float64 {
		from := at % pieces * workers * piece
		at++
		began := time.Now()
		// Each of exactly so many workers reads a stretch of its own.
		Parallel(workers, Func(func(w int) { kernel.Read(b[from+w*piece : from+(w+1)*piece]) }))
		return float64(workers*piece) / time.Since(began).Seconds()
	})
}

// MeasureFMA is how many float32 operations a second the current kernels' instructions reach on registers alone,
// a multiply–add counting as two: the best of twenty runs. It bounds prefill.
func MeasureFMA(workers int) float64 {
	const n = 500_000
	return best(20, func() float64 {
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

// best is the largest of n measurements: what others do on the machine only makes them smaller.
func best(n int, f func() float64) float64 {
	top := 0.0
	for range n {
		top = max(top, f())
	}
	return top
}

// Kernels names the instructions that the matrix kernels use: "avx512", "avx2", "neon" or "go". Two environment variables,
// set before the program starts, change what runs:
//
//	FORWARDPASS_KERNELS=go or avx2   asks for less than the processor has
//	FORWARDPASS_ACTIVATIONS=int8     rounds activations to int8 where they meet quantised weights
//
// All kernels compute float32 sums of the products of float32 activations with the dequantised weights, and differ in the order of
// additions and in where they take a minimum out of the sum. The second variable gives that up: in groups of 32, x is rounded to a 127th of the largest. docs/benchmarks.md
// says what that gains and what it changes.
func Kernels() string { return kernel.Current().String() }
