package kernel

import "sync"

// Input is x [t, k] as the products of one group share it, with what some kernels want to know about it besides. The
// zero value is ready for Set; its memory is kept from call to call.
type Input struct {
	x    []float32 // row i begins at i·ld
	ld   int
	t, k int
	sums []float32 // of each 32 numbers, for one row
}

// Set makes the input x, t rows of k numbers at stride ld. quantized says whether any of the weights to come are in
// blocks of 32.
func (in *Input) Set(x []float32, ld, t, k int, quantized bool) {
	in.x, in.ld, in.t, in.k = x, ld, t, k
	if t != 1 || !quantized || level == Go || k < 32 {
		in.sums = in.sums[:0]
		return
	}
	groups := k / 32
	if cap(in.sums) < groups {
		in.sums = make([]float32, groups)
	}
	in.sums = in.sums[:groups]
	groupSums(in.sums, x)
}

// Drop forgets x.
func (in *Input) Drop() { in.x = nil }

func (in *Input) sums32() *float32 { return &in.sums[0] }

// Blocks says whether a type stores numbers in blocks of 32 whose sums Set is to make.
func (t Type) Blocks() bool { return blocks[t].len > 1 }

// halfTable is every F16 number as float32, made when it is first needed.
var halfTable = sync.OnceValue(func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for i := range t {
		t[i] = F16ToF32(uint16(i))
	}
	return t
})

func halves() *float32 { return &halfTable()[0] }
