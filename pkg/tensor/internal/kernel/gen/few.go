package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// fewRows is how many rows of A the kernel below takes at most.
func (s isa) fewRows() int {
	if s.wide {
		return 6
	}
	return 3
}

// few is C += A·B for a few rows of A and four vectors of columns: attention's weights times values in a decode step.
// B streams through once, row by row, so that what matters is reading it in long stretches.
func few(s isa) {
	s.start("few", "func(c *float32, ldc int, a *float32, lda int, b *float32, ldb int, m, k int, mask *uint64)",
		"computes C += A·B for m ≤ 6 (AVX2: 3) rows and the columns of four vectors that mask selects (AVX2: all). Strides in numbers.")
	a, lda, b, ldb, c, m := param("a"), param("lda"), param("b"), param("ldb"), param("c"), param("m")
	SHLQ(Imm(2), lda)
	SHLQ(Imm(2), ldb)
	masks := []Register{K1, K2, K3, K4}
	if s.wide {
		w := GP64()
		MOVQ(Mem{Base: param("mask")}, w)
		for i, k := range masks {
			KMOVW(w.As32(), k)
			if i < 3 {
				SHRQ(Imm(16), w)
			}
		}
	}
	l := label("few" + s.name)
	for n := 1; n <= s.fewRows(); n++ {
		next := l(fmt.Sprint("not", n))
		if n < s.fewRows() {
			CMPQ(m, Imm(uint64(n)))
			JNE(LabelRef(next))
		}
		acc := func(row, v int) VecPhysical { return s.v(4*row + v) }
		for i := range 4 * n {
			s.zero(s.v(i))
		}
		ap := newRows(a, lda, n)
		left := param("k")
		loop := l(fmt.Sprint("loop", n))
		Label(loop)
		bv := func(i int) VecPhysical { return s.v(4*n + i) }
		if s.wide {
			av := s.v(4*n + 4)
			for i, k := range masks {
				PREFETCHT0(Mem{Base: b, Disp: ahead + 64*i})
				VMOVUPS_Z(Mem{Base: b, Disp: 64 * i}, k, bv(i))
			}
			for row := range n {
				VBROADCASTSS(ap.at(row, 0), av)
				for i := range 4 {
					VFMADD231PS(bv(i), av, acc(row, i))
				}
			}
		} else {
			PREFETCHT0(Mem{Base: b, Disp: ahead})
			PREFETCHT0(Mem{Base: b, Disp: ahead + 64})
			for row := range n {
				VBROADCASTSS(ap.at(row, 0), s.v(12+row))
			}
			for i := range 4 {
				VMOVUPS(Mem{Base: b, Disp: 32 * i}, Y15)
				for row := range n {
					VFMADD231PS(Y15, s.v(12+row), acc(row, i))
				}
			}
		}
		ADDQ(ldb, b)
		ap.advance(4)
		DECQ(left)
		JNZ(LabelRef(loop))
		ldc := param("ldc")
		SHLQ(Imm(2), ldc)
		for row := range n {
			for i := range 4 {
				at := Mem{Base: c, Disp: s.bytes() * i}
				if s.wide {
					VMOVUPS_Z(at, masks[i], bv(i))
					VADDPS(bv(i), acc(row, i), acc(row, i))
					VMOVUPS(acc(row, i), masks[i], at)
				} else {
					VADDPS(at, acc(row, i), acc(row, i))
					VMOVUPS(acc(row, i), at)
				}
			}
			if row < n-1 {
				ADDQ(ldc, c)
			}
		}
		VZEROUPPER()
		RET()
		if n < s.fewRows() {
			Label(next)
		}
	}
}
