package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// scale loads the F16 number at m as float32 into every lane of register i.
func (s isa) scale(m Mem, i int) {
	if s.wide {
		VPBROADCASTW(m, ys[i])
	} else {
		VPBROADCASTW(m, xs[i])
	}
	half := VecPhysical(xs[i])
	if s.wide {
		half = ys[i]
	}
	VCVTPH2PS(half, s.v(i))
}

// rowLoop is the frame of a matrix–vector kernel over rows of blocks of 32. Several rows go together, because every
// load of x then serves all of them; each step is done for one row after the other, since their sums don't wait for each
// other. half is the table of all F16 numbers as float32, so that a scale costs no shuffle and no conversion.
type rowLoop struct {
	s          isa
	blockBytes int
	w          rows
	x, half    Register
	number     GPVirtual
}

// emit writes the kernel around body, which does a block of each of some rows. Vector registers: 0…3 sum rows; the rest is the
// body's.
func (r *rowLoop) emit(name string, setup func(), body func(rows int)) {
	s := r.s
	s.start(name, "func(y, x *float32, w *byte, rows, blocks int, half *float32)",
		"computes y[r] = Σ x[j]·w[r, j] over rows of the given number of blocks that follow each other; half is the table of F16 numbers.")
	y, rows, w, stride := param("y"), param("rows"), param("w"), param("blocks")
	r.half, r.number = param("half"), GP64()
	l := label(name + s.name)
	if setup != nil {
		setup()
	}
	IMUL3Q(Imm(uint64(r.blockBytes)), stride, stride)
	next := GP64() // memory is fetched ahead in the order in which it lies, though several rows are read at a time
	LEAQ(Mem{Base: w, Disp: ahead}, next)
	tile := func(n int) {
		for i := range n {
			s.zero(s.v(i))
		}
		x, left := param("x"), param("blocks")
		r.x, r.w = x, newRows(w, stride, n)
		loop := l("loop" + string(rune('0'+n)))
		Label(loop)
		for i := 0; i < n*r.blockBytes; i += 64 {
			PREFETCHT0(Mem{Base: next, Disp: i})
		}
		add(n*r.blockBytes, next)
		body(n)
		r.w.advance(r.blockBytes)
		add(128, x)
		DECQ(left)
		JNZ(LabelRef(loop))
		if n == 4 {
			s.hsum4(0, 1, 2, 3, 8)
			VMOVUPS(X0, Mem{Base: y})
		} else {
			for i := range n {
				s.hsum(i, 8)
				VMOVSS(xs[i], Mem{Base: y, Disp: 4 * i})
			}
		}
		add(4*n, y)
		for range n {
			ADDQ(stride, w)
		}
		SUBQ(U32(n), rows)
	}
	const many = 4
	Label(l("many"))
	CMPQ(rows, Imm(uint64(many)))
	JLT(LabelRef(l("one")))
	tile(many)
	JMP(LabelRef(l("many")))
	Label(l("one"))
	TESTQ(rows, rows)
	JZ(LabelRef(l("end")))
	tile(1)
	JMP(LabelRef(l("one")))
	Label(l("end"))
	VZEROUPPER()
	RET()
}

// load puts vector i of the block of x into register to.
func (r *rowLoop) load(i, to int) {
	VMOVUPS(Mem{Base: r.x, Disp: i * r.s.bytes()}, r.s.v(to))
}

// scaled adds vector i times the F16 number at disp bytes of the row's block to the row's sum.
func (r *rowLoop) scaled(row, disp, i, tmp int) {
	s := r.s
	MOVWQZX(r.w.at(row, disp), r.number)
	at := Mem{Base: r.half, Index: r.number, Scale: 4}
	if s.wide {
		VFMADD231PS_BCST(at, s.v(i), s.v(row))
		return
	}
	VBROADCASTSS(at, s.v(tmp))
	VFMADD231PS(s.v(tmp), s.v(i), s.v(row))
}

// dotQ80: 32 signed bytes and an F16 scale. Each block's sum is made first, then scaled.
func dotQ80(s isa) {
	r := &rowLoop{s: s, blockBytes: 34}
	r.emit("dotQ80", nil, func(rows int) {
		for i := range 32 / s.lanes {
			r.load(i, 4)
			for row := range rows {
				q, sum := s.v(6), s.v(8+row)
				VPMOVSXBD(r.w.at(row, 2+i*s.lanes), q)
				VCVTDQ2PS(q, q)
				if i == 0 {
					VMULPS(s.v(4), q, sum)
				} else {
					VFMADD231PS(s.v(4), q, sum)
				}
			}
		}
		for row := range rows {
			r.scaled(row, 0, 8+row, 6)
		}
	})
}

// dotQ4: 32 nibbles, the low ones first, with a scale d and, in Q4_1, a minimum m whose products with the numbers of
// a block are one product with their sum: Σ(d·q+m)x = d·Σqx + m·Σx.
func dotQ4(s isa, variant int) {
	skip := 2 + 2*variant
	r := &rowLoop{s: s, blockBytes: skip + 16}
	setup := func() {
		if s.wide {
			nibbles(variant, Z31)
		} else {
			VMOVDQU(dwords("fifteen", 15), Y13)
		}
	}
	shifted := variant == 0 && !s.wide // d·(q-8): the block's sum begins at -8·Σx
	r.emit([]string{"dotQ40", "dotQ41"}[variant], setup, func(rows int) {
		n := 16 / s.lanes
		if variant == 1 || shifted { // the lanes of Σx
			r.load(0, 12)
			for i := 1; i < 2*n; i++ {
				VADDPS(Mem{Base: r.x, Disp: i * s.bytes()}, s.v(12), s.v(12))
			}
		}
		if shifted {
			VMULPS(constant("minus8", -8), s.v(12), s.v(12))
		}
		for i := range n {
			r.load(i, 4)
			r.load(n+i, 5)
			for row := range rows {
				low, high, sum := s.v(6), s.v(7), s.v(8+row)
				VPMOVZXBD(r.w.at(row, skip+i*s.lanes), low)
				VPSRLD(Imm(4), low, high)
				if s.wide {
					VPERMPS(Z31, low, low)
					VPERMPS(Z31, high, high)
				} else {
					VPAND(Y13, low, low)
					VCVTDQ2PS(low, low)
					VCVTDQ2PS(high, high)
				}
				switch {
				case i > 0:
					VFMADD231PS(s.v(4), low, sum)
				case shifted:
					VMOVAPS(s.v(12), sum)
					VFMADD231PS(s.v(4), low, sum)
				default:
					VMULPS(s.v(4), low, sum)
				}
				VFMADD231PS(s.v(5), high, sum)
			}
		}
		for row := range rows {
			r.scaled(row, 0, 8+row, 6)
			if variant == 1 {
				r.scaled(row, 2, 12, 6)
			}
		}
	})
}

// sums adds each 32 numbers of x.
func sums() {
	avx2.start("sums", "func(dst, x *float32, groups int)", "writes the sum of each 32 numbers.")
	dst, x, n := param("dst"), param("x"), param("groups")
	Label("sums_loop")
	for i := range 4 {
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, ys[i])
	}
	avx2.sum4()
	VMOVSS(X0, Mem{Base: dst})
	add(128, x)
	add(4, dst)
	DECQ(n)
	JNZ(LabelRef("sums_loop"))
	VZEROUPPER()
	RET()
}
