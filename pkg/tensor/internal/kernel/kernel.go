// Package kernel is where the arithmetic of tensor happens: matrix products over weights in their stored
// type, and the few vector functions around them. Every function has one to three bodies behind it:
// assembly for AVX-512 and for AVX2 with FMA, or for NEON on arm64, written by the generators in gen and gen/neon, and plain
// Go, which is also the definition that the assembly is tested against. Which one runs is decided once, when the program starts,
// from what the processor has; the environment variable FORWARDPASS_KERNELS=go or avx2 asks for less.
//
// All of them multiply and add in float32. They differ in the order of the additions, in fused multiply–adds, which round
// once instead of twice, and in where they take a minimum out of the sum: for a sum of k products the bodies agree within
// k·2⁻²⁴·Σ|xᵢwᵢ|, where for the types with a minimum (for AVX2, Q4_0 has one, -8·d) |xᵢwᵢ| is |xᵢ·d·qᵢ| + |xᵢ·m|.
// Activations rounded to int8 are another matter, and asked for separately: see Input.
package kernel

import "os"

//go:generate sh -c "cd gen && go run . -out ../kernels_amd64.s -stubs ../stubs_amd64.go -pkg kernel"
//go:generate sh -c "cd gen/neon && go run . -out ../../kernels_arm64.s -stubs ../../stubs_arm64.go"

// Type is how weights are stored; the numbers are those of tensor.DType.
type Type uint8

const (
	F32 Type = iota
	F16
	BF16
	Q8_0
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q4_K
	Q5_K
	Q6_K
)

var blocks = [...]struct{ len, bytes int }{
	F32: {1, 4}, F16: {1, 2}, BF16: {1, 2}, Q8_0: {32, 34}, Q4_0: {32, 18}, Q4_1: {32, 20},
	Q5_0: {32, 22}, Q5_1: {32, 24}, Q4_K: {256, 144}, Q5_K: {256, 176}, Q6_K: {256, 210},
}

// bytes is the size of n numbers.
func (t Type) bytes(n int) int { return n / blocks[t].len * blocks[t].bytes }

// Level is a set of instructions to use: plain Go, or one for which there is assembly.
type Level int

const (
	Go Level = iota
	AVX2
	AVX512
	NEON
)

func (l Level) String() string { return [...]string{"go", "avx2", "avx512", "neon"}[l] }

var (
	levels = detect() // what the processor has: Go first, the best one last
	level  = start(levels, os.Getenv("FORWARDPASS_KERNELS"))
)

// start is the level of the given name, or else the best.
func start(levels []Level, want string) Level {
	for _, l := range levels {
		if want == l.String() {
			return l
		}
	}
	return levels[len(levels)-1]
}

// Current is the level in use.
func Current() Level { return level }

// Use changes the level to l, or to the best if the processor doesn't have l, for tests and comparisons; nothing else may
// be running.
func Use(l Level) { level = start(levels, l.String()) }
