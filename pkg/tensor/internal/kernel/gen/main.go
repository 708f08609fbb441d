// Command kernelgen writes the assembly of the kernel package: run
//
//	go run . -out ../kernels_amd64.s -stubs ../stubs_amd64.go -pkg kernel
//
// in this folder (go generate in the parent does). It is a module of its own, so that the project does
// not depend on avo.
package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// isa is one of the two instruction sets that every kernel is written for.
type isa struct {
	name  string // suffix of the functions
	lanes int    // float32 numbers in a vector
	wide  bool   // AVX-512: opmasks, 32 registers
}

var (
	avx2   = isa{"AVX2", 8, false}
	avx512 = isa{"AVX512", 16, true}
)

var (
	xs = []VecPhysical{X0, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10, X11, X12, X13, X14, X15, X16, X17, X18, X19, X20, X21, X22, X23, X24, X25, X26, X27, X28, X29, X30, X31}
	ys = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15, Y16, Y17, Y18, Y19, Y20, Y21, Y22, Y23, Y24, Y25, Y26, Y27, Y28, Y29, Y30, Y31}
	zs = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}
)

// v is vector register i of the instruction set's width.
func (s isa) v(i int) VecPhysical {
	if s.wide {
		return zs[i]
	}
	return ys[i]
}

func (s isa) bytes() int { return 4 * s.lanes }

func (s isa) zero(r VecPhysical) {
	if s.wide {
		VPXORD(r, r, r)
	} else {
		VXORPS(r, r, r)
	}
}

// start opens a function whose name ends in the instruction set.
func (s isa) start(name, signature, doc string) {
	function(name+s.name, NOSPLIT, signature, doc)
}

// function opens a function that keeps none of its pointers.
func function(name string, attributes attr.Attribute, signature, doc string) {
	TEXT(name, attributes, signature)
	Pragma("noescape")
	Doc(name + " " + doc)
}

// bytesAt is where byte disp after a pointer is.
func bytesAt(base Register) func(disp int) Mem {
	return func(disp int) Mem { return Mem{Base: base, Disp: disp} }
}

func param(name string) Register { return Load(Param(name), GP64()) }

func copyOf(r Register) GPVirtual {
	c := GP64()
	MOVQ(r, c)
	return c
}

// label returns a generator of label names with a common prefix.
func label(prefix string) func(string) string {
	return func(s string) string { return prefix + "_" + s }
}

// constant is a full vector of one number, made at its first use.
func constant(name string, v float32) Mem {
	return words(name, func(int) uint32 { return math.Float32bits(v) }, 16)
}

// words is a table of n 32-bit numbers, made at its first use.
func words(name string, f func(i int) uint32, n int) Mem {
	if m, ok := tables[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	for i := range n {
		DATA(4*i, U32(f(i)))
	}
	tables[name] = m
	return m
}

var tables = map[string]Mem{}

// hsum adds the lanes of vector register i into lane 0 of its X form; tmp is another register's number.
func (s isa) hsum(i, tmp int) {
	if s.wide {
		VEXTRACTF64X4(Imm(1), zs[i], ys[tmp])
		VADDPS(ys[tmp], ys[i], ys[i])
	}
	if i < 16 && tmp < 16 {
		VEXTRACTF128(Imm(1), ys[i], xs[tmp])
	} else {
		VEXTRACTF32X4(Imm(1), ys[i], xs[tmp])
	}
	VADDPS(xs[tmp], xs[i], xs[i])
	VPERMILPS(Imm(0x4e), xs[i], xs[tmp]) // swap the halves
	VADDPS(xs[tmp], xs[i], xs[i])
	VPERMILPS(Imm(0xb1), xs[i], xs[tmp])
	VADDPS(xs[tmp], xs[i], xs[i])
}

// hsum4 adds the lanes of four vector registers, each below 16, into the four lanes of the X form of the first: pairs,
// then pairs of pairs. tmp is another register's number.
func (s isa) hsum4(a, b, c, d, tmp int) {
	if s.wide { // VHADDPS has no EVEX form
		for _, i := range []int{a, b, c, d} {
			VEXTRACTF64X4(Imm(1), zs[i], ys[tmp])
			VADDPS(ys[tmp], ys[i], ys[i])
		}
	}
	VHADDPS(ys[b], ys[a], ys[a])
	VHADDPS(ys[d], ys[c], ys[c])
	VHADDPS(ys[c], ys[a], ys[a])
	VEXTRACTF128(Imm(1), ys[a], xs[d])
	VADDPS(xs[d], xs[a], xs[a])
}

// slow are the formats without a matrix–vector kernel of their own.
var slow = map[string]bool{"Q50": true, "Q51": true, "Q5K": true, "Q6K": true}

func main() {
	ConstraintExpr("amd64")
	for _, s := range []isa{avx2, avx512} {
		gemm(s)
		pack(s)
		few(s)
		for t := 1; t <= 4; t++ {
			dots(s, t)
		}
		dotHalf(s, false)
		dotHalf(s, true)
		dotQ80(s)
		vectors(s)
		limits(s)
	}
	dotQ4(avx2, 0)
	dotQ4(avx2, 1)
	dotQ4(avx512, 0)
	dotQ4(avx512, 1)
	sums()
	for _, f := range formats {
		dequant(f)
		for _, s := range []isa{avx2, avx512} {
			if slow[f.name] {
				dot(s, f, 1)
			}
			for _, t := range []int{2, 4, 8} {
				dot(s, f, t)
			}
		}
	}
	dotQ4K(avx2)
	dotQ4K(avx512)
	int8Kernels(false)
	int8Kernels(true)
	quantize()
	pause()
	Generate()
}

// add moves a pointer or counter on.
func add(n int, r Op) { ADDQ(U32(n), r) }
