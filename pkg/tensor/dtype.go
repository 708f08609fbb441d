package tensor

import "fmt"

// DType is how a matrix stores its numbers: floating point, or blocks of small integers with scales
// (the layouts of GGUF, which ggml's ggml-common.h defines).
type DType uint8

const (
	F32  DType = iota // IEEE 754 single precision
	F16               // IEEE 754 half precision
	BF16              // the upper half of an F32
	Q8_0              // 32 int8 and an F16 scale: x = d·q
	Q4_0              // 32 nibbles and an F16 scale: x = d·(q-8)
	Q4_1              // 32 nibbles, F16 scale and minimum: x = d·q + m
	Q5_0              // 32 five-bit numbers and an F16 scale: x = d·(q-16)
	Q5_1              // 32 five-bit numbers, F16 scale and minimum: x = d·q + m
	Q4_K              // 256 nibbles in 8 groups with 6-bit scales and minima
	Q5_K              // 256 five-bit numbers in 8 groups with 6-bit scales and minima
	Q6_K              // 256 six-bit numbers in 16 groups with 8-bit scales
)

var dtypes = [...]struct {
	name         string
	block, bytes int
}{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2},
	Q8_0: {"Q8_0", 32, 34}, Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20},
	Q5_0: {"Q5_0", 32, 22}, Q5_1: {"Q5_1", 32, 24},
	Q4_K: {"Q4_K", 256, 144}, Q5_K: {"Q5_K", 256, 176}, Q6_K: {"Q6_K", 256, 210},
}

// Valid says whether d is one of the types above.
func (d DType) Valid() bool { return int(d) < len(dtypes) }

func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Block is the number of elements that are stored together, and the bytes they take.
func (d DType) Block() (elements, bytes int) { return dtypes[d].block, dtypes[d].bytes }

// Bytes is the size of n elements, n a multiple of the block.
func (d DType) Bytes(n int) int { return n / dtypes[d].block * dtypes[d].bytes }
