package kernel

import (
	"math"
	"os"
	"sync"
)

// Activations as float32 give the product of x with the dequantised weights. FORWARDPASS_ACTIVATIONS=int8 asks
// for x rounded to int8 in groups of 32 instead, as llama.cpp does it, where the weights are Q8_0, Q4_0, Q4_1, Q4_K
// or Q6_K and x has at most eight rows: every number of x then moves by up to 1/254 of the largest of its group.
var int8Activations = os.Getenv("FORWARDPASS_ACTIVATIONS") == "int8"

// UseInt8 switches the rounding of activations, for tests and comparisons; nothing else may be running.
func UseInt8(on bool) { int8Activations = on }

// Input is x [t, k] as the products of one group share it, with what some kernels want to know about it besides. The
// zero value is ready for Set; its memory is kept from call to call.
type Input struct {
	x    []float32 // row i begins at i·ld
	ld   int
	t, k int
	sums []float32 // of each 32 numbers of the last row, if their number is odd

	rounded      bool
	q            []int8    // [t, k] x in units of scales
	scales       []float32 // [t, k/32]
	sums32       []float32 // [t, k/32] of the rounded numbers
	sums16       []float32 // [t, k/16]
	approximated []float32 // [t, k] the rounded numbers, without assembly
}

// Set makes the input x, t rows of k numbers at stride ld. quantized says whether any of the weights to come are
// stored in blocks.
func (in *Input) Set(x []float32, ld, t, k int, quantized bool) {
	in.x, in.ld, in.t, in.k = x, ld, t, k
	in.sums, in.rounded = in.sums[:0], false
	if !quantized || k < 32 || k%32 != 0 || t > Few {
		return
	}
	if int8Activations && t <= small {
		in.round()
	}
	if level > Go && t%2 == 1 { // a row that is not one of two, four or eight
		in.sums = resize(in.sums, k/32)
		groupSums(in.sums, x[(t-1)*ld:])
	}
}

// round makes the int8 form of x.
func (in *Input) round() {
	in.rounded = true
	in.q = resize(in.q, in.t*in.k)
	in.scales = resize(in.scales, in.t*in.k/32)
	in.sums32, in.sums16 = resize(in.sums32, in.t*in.k/32), resize(in.sums16, in.t*in.k/16)
	for i := range in.t {
		x, g := in.x[i*in.ld:i*in.ld+in.k], in.k/32
		if level > Go {
			quantizeRow(in.q[i*in.k:], in.scales[i*g:], in.sums32[i*g:], in.sums16[2*i*g:], x)
		} else {
			plainQuantize(in.q[i*in.k:], in.scales[i*g:], x)
		}
	}
	if level > Go {
		return
	}
	in.approximated = resize(in.approximated, in.t*in.k)
	for i, q := range in.q {
		in.approximated[i] = float32(q) * in.scales[i/32]
	}
}

// plainQuantize rounds groups of 32 numbers to a 127th of the largest, halves to even.
func plainQuantize(q []int8, scales, x []float32) {
	for g := range len(x) / 32 {
		group := x[32*g : 32*g+32]
		var largest float32
		for _, v := range group {
			largest = max(largest, max(v, -v))
		}
		scales[g] = largest / 127
		var inverse float32
		if scales[g] != 0 {
			inverse = 1 / scales[g]
		}
		for i, v := range group {
			q[32*g+i] = int8(math.RoundToEven(float64(v * inverse)))
		}
	}
}

// matInt8 is MatMul with rounded activations.
func matInt8(y []float32, ldy int, in *Input, typ Type, w []byte, rows int) {
	k := in.k
	if level == Go {
		widenFew(y, ldy, in.approximated, k, in.t, typ, w, rows, k)
		return
	}
	// A few rows of weights serve all rows of x before the next ones are read.
	const block = 16
	bytes := typ.bytes(k)
	for r := 0; r < rows; r += block {
		n := min(block, rows-r)
		for i := range in.t {
			int8Rows(y[i*ldy+r:], in, i, typ, w[r*bytes:(r+n)*bytes], n)
		}
	}
}

func (t Type) int8Kernel() bool {
	return t == Q8_0 || t == Q4_0 || t == Q4_1 || t == Q4_K || t == Q6_K
}

// Drop forgets x.
func (in *Input) Drop() { in.x = nil }

func (in *Input) sumOf32() *float32 { return &in.sums[0] }

// Blocks says whether a type stores numbers in blocks, about which Set is to be told.
func (t Type) Blocks() bool { return blocks[t].len > 1 }

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// halfTable is every F16 number as float32, made when it is first needed.
var halfTable = sync.OnceValue(func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for i := range t {
		t[i] = F16ToF32(uint16(i))
	}
	return t
})

func halves() *float32 { return &halfTable()[0] }
