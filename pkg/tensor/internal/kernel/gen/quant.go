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

// rowLoop is the frame of a matrix–vector kernel over rows of blocks of 32. Two rows go together, because every
// load of x then serves twice: loads are what these kernels run out of first, shuffles second. half is the table of
// all F16 numbers as float32, so that a scale costs no shuffle and no conversion.
type rowLoop struct {
	s                isa
	w, stride        Register
	x, sums, half    Register
	number           GPVirtual
	blockBytes, more int // more is 1 if the type has minima
}

// Vector registers: 0 and 1 sum the rows, 2 and 3 their minima; 4…7 are x; the rest is the body's.
func (r *rowLoop) emit(name string, setup func(), body func(row int)) {
	s := r.s
	s.start(name, "func(y, x *float32, w *byte, rows, blocks int, sums, half *float32)",
		"computes y[r] = Σ x[j]·w[r, j] over rows of the given number of blocks that follow each other; sums are those of each 32 numbers of x.")
	y, rows := param("y"), param("rows")
	r.w, r.half, r.stride = param("w"), param("half"), param("blocks")
	r.number = GP64()
	l := label(name + s.name)
	if setup != nil {
		setup()
	}
	IMUL3Q(Imm(uint64(r.blockBytes)), r.stride, r.stride)
	next := GP64() // memory is fetched ahead in the order in which it lies, though two rows are read at a time
	LEAQ(Mem{Base: r.w, Disp: ahead}, next)
	tile := func(n int) {
		for i := range 4 {
			s.zero(s.v(i))
		}
		x, left := param("x"), param("blocks")
		r.x = x
		if r.more > 0 {
			r.sums = param("sums")
		}
		loop := l("loop" + string(rune('0'+n)))
		Label(loop)
		for i := 0; i < n*r.blockBytes; i += 64 {
			PREFETCHT0(Mem{Base: next, Disp: i})
		}
		add(n*r.blockBytes, next)
		for i := range 32 / s.lanes {
			VMOVUPS(Mem{Base: r.x, Disp: i * s.bytes()}, s.v(4+i))
		}
		for i := range n {
			body(i)
		}
		add(r.blockBytes, r.w)
		add(128, x)
		if r.more > 0 {
			add(4, r.sums)
		}
		DECQ(left)
		JNZ(LabelRef(loop))
		for i := range n {
			if r.more > 0 {
				VADDPS(s.v(2+i), s.v(i), s.v(i))
			}
			s.hsum(i, 8)
			VMOVSS(xs[i], Mem{Base: y, Disp: 4 * i})
		}
		add(4*n, y)
		if n > 1 {
			ADDQ(r.stride, r.w)
		}
		SUBQ(U32(n), rows)
	}
	CMPQ(rows, Imm(2))
	JLT(LabelRef(l("last")))
	Label(l("two"))
	tile(2)
	CMPQ(rows, Imm(2))
	JGE(LabelRef(l("two")))
	Label(l("last"))
	TESTQ(rows, rows)
	JZ(LabelRef(l("end")))
	tile(1)
	Label(l("end"))
	VZEROUPPER()
	RET()
}

// at is a place in the block of one of the two rows.
func (r *rowLoop) at(row, disp int) Mem {
	if row == 1 {
		return Mem{Base: r.w, Index: r.stride, Scale: 1, Disp: disp}
	}
	return Mem{Base: r.w, Disp: disp}
}

// scaled adds vector i times the F16 number at disp bytes of the row's block to the row's sum.
func (r *rowLoop) scaled(row, disp, i, tmp int) {
	s := r.s
	MOVWQZX(r.at(row, disp), r.number)
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
	r.emit("dotQ80", nil, func(row int) {
		sum, v := 8+4*row, 9+4*row
		for i := range 32 / s.lanes {
			q := v + i%2
			VPMOVSXBD(r.at(row, 2+i*s.lanes), s.v(q))
			VCVTDQ2PS(s.v(q), s.v(q))
			if i == 0 {
				VMULPS(s.v(4), s.v(q), s.v(sum))
			} else {
				VFMADD231PS(s.v(4+i), s.v(q), s.v(sum))
			}
		}
		r.scaled(row, 0, sum, 11+4*row)
	})
}

// dotQ4: 32 nibbles, the low ones first, with a scale d and, in Q4_1, a minimum m whose products with the numbers of
// a block are one product with their sum: Σ(d·q+m)x = d·Σqx + m·Σx.
func dotQ4(s isa, variant int) {
	r := &rowLoop{s: s, blockBytes: 18 + 2*variant, more: variant}
	if !s.wide {
		r.more = 1 // Q4_0 as q·d with the minimum -8·d: cheaper than subtracting
	}
	name := "dotQ40"
	if variant == 1 {
		name = "dotQ41"
	}
	r.emit(name, func() { nibbles(s, variant) }, func(row int) {
		sum, low, high := 8+4*row, 9+4*row, 10+4*row
		skip, n := 2+2*variant, 16/s.lanes
		for i := range n {
			VPMOVZXBD(r.at(row, skip+i*s.lanes), s.v(low))
			VPSRLD(Imm(4), s.v(low), s.v(high))
			if s.wide {
				VPERMPS(Z31, s.v(low), s.v(low))
				VPERMPS(Z31, s.v(high), s.v(high))
			} else {
				VPAND(dwords("fifteen", 15), s.v(low), s.v(low))
				VCVTDQ2PS(s.v(low), s.v(low))
				VCVTDQ2PS(s.v(high), s.v(high))
			}
			if i == 0 {
				VMULPS(s.v(4), s.v(low), s.v(sum))
			} else {
				VFMADD231PS(s.v(4+i), s.v(low), s.v(sum))
			}
			VFMADD231PS(s.v(4+n+i), s.v(high), s.v(sum))
		}
		r.scaled(row, 0, sum, low)
		switch {
		case variant == 0 && !s.wide:
			VMULSS(constant("minus8", -8), xs[low], xs[low]) // scaled has left d there
			VFMADD231SS(Mem{Base: r.sums}, xs[low], xs[2+row])
		case variant == 1:
			MOVWQZX(r.at(row, 2), r.number)
			VMOVSS(Mem{Base: r.half, Index: r.number, Scale: 4}, xs[low])
			VFMADD231SS(Mem{Base: r.sums}, xs[low], xs[2+row])
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
