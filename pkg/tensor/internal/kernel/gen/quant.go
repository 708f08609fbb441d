package main

import (
	"fmt"
	"math"

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

// rowLoop is the frame of a matrix–vector kernel over quantised rows: body does one block, reading
// weights at w and activations at xp, and adds to vectors 0…3.
func rowLoop(s isa, name string, blockBytes, blockLen int, setup func(), body func(w, x Register, u int)) {
	s.start(name, "func(y, x *float32, w *byte, rows, blocks int)",
		"computes y[r] = Σ x[j]·w[r, j] over rows of the given number of blocks that follow each other.")
	y, x, w, rows, blocks := param("y"), param("x"), param("w"), param("rows"), param("blocks")
	l := label(name + s.name)
	if setup != nil {
		setup()
	}
	Label(l("row"))
	for i := range 4 {
		s.zero(s.v(i))
	}
	xp, n := copyOf(x), copyOf(blocks)
	SUBQ(Imm(2), n)
	JLT(LabelRef(l("rest")))
	Label(l("loop"))
	PREFETCHT0(Mem{Base: w, Disp: ahead})
	for u := range 2 {
		body(w, xp, u)
	}
	add(2*blockBytes, w)
	add(2*blockLen*4, xp)
	SUBQ(Imm(2), n)
	JGE(LabelRef(l("loop")))
	Label(l("rest"))
	add(2, n)
	JZ(LabelRef(l("sum")))
	body(w, xp, 0)
	add(blockBytes, w)
	Label(l("sum"))
	s.sum4()
	VMOVSS(X0, Mem{Base: y})
	add(4, y)
	DECQ(rows)
	JNZ(LabelRef(l("row")))
	VZEROUPPER()
	RET()
}

// dotQ80: 32 signed bytes and an F16 scale. Each block's sum is made first, then scaled.
func dotQ80(s isa) {
	rowLoop(s, "dotQ80", 34, 32, nil, func(w, x Register, u int) {
		wo, xo, r := 34*u, 128*u, 4+5*u
		n := 32 / s.lanes
		for i := range n {
			VPMOVSXBD(Mem{Base: w, Disp: wo + 2 + i*s.lanes}, s.v(r+i))
			VCVTDQ2PS(s.v(r+i), s.v(r+i))
		}
		VMULPS(Mem{Base: x, Disp: xo}, s.v(r), s.v(r))
		for i := 1; i < n; i++ {
			VFMADD231PS(Mem{Base: x, Disp: xo + i*s.bytes()}, s.v(r+i), s.v(r))
		}
		s.scale(Mem{Base: w, Disp: wo}, r+1)
		VFMADD231PS(s.v(r+1), s.v(r), s.v(u))
	})
}

// dotQ4: 32 nibbles, the low ones first, with a scale and, in Q4_1, a minimum. With AVX-512 the sixteen
// values that a nibble of this block can mean are one register, and the permutation looks them up.
func dotQ4(s isa, variant int) {
	name, bytes, skip := "dotQ40", 18, 2
	if variant == 1 {
		name, bytes, skip = "dotQ41", 20, 4
	}
	nibbles := words(fmt.Sprintf("nibbles%d%s", variant, s.name), func(i int) uint32 {
		return math.Float32bits(float32(i - 8*(1-variant)))
	}, 16)
	if s.wide {
		rowLoop(s, name, bytes, 32, func() { VMOVUPS(nibbles, Z31) }, func(w, x Register, u int) {
			wo, xo, r := bytes*u, 128*u, 4+5*u
			VPMOVZXBD(Mem{Base: w, Disp: wo + skip}, zs[r])
			s.scale(Mem{Base: w, Disp: wo}, r+1)
			if variant == 1 {
				s.scale(Mem{Base: w, Disp: wo + 2}, r+2)
				VFMADD231PS(Z31, zs[r+1], zs[r+2]) // d·q + m for q = 0…15
			} else {
				VMULPS(Z31, zs[r+1], zs[r+2]) // d·(q-8)
			}
			VPERMPS(zs[r+2], zs[r], zs[r+3])
			VPSRLD(Imm(4), zs[r], zs[r])
			VPERMPS(zs[r+2], zs[r], zs[r+4])
			VFMADD231PS(Mem{Base: x, Disp: xo}, zs[r+3], zs[2*u])
			VFMADD231PS(Mem{Base: x, Disp: xo + 64}, zs[r+4], zs[2*u+1])
		})
		return
	}
	fifteen := dwords("fifteen", 15)
	eight := constant("minus8", -8)
	rowLoop(s, name, bytes, 32, func() { VMOVDQU(fifteen, Y15); VMOVUPS(eight, Y14) }, func(w, x Register, u int) {
		wo, xo := bytes*u, 128*u
		VPMOVZXBD(Mem{Base: w, Disp: wo + skip}, Y4)
		VPMOVZXBD(Mem{Base: w, Disp: wo + skip + 8}, Y5)
		VPSRLD(Imm(4), Y4, Y6)
		VPSRLD(Imm(4), Y5, Y7)
		VPAND(Y15, Y4, Y4)
		VPAND(Y15, Y5, Y5)
		s.scale(Mem{Base: w, Disp: wo}, 8)
		if variant == 1 {
			s.scale(Mem{Base: w, Disp: wo + 2}, 9)
		} else {
			VMULPS(Y14, Y8, Y9)
		}
		for i := range 4 {
			VCVTDQ2PS(ys[4+i], ys[4+i])
			VFMADD213PS(Y9, Y8, ys[4+i])
			VFMADD231PS(Mem{Base: x, Disp: xo + 32*i}, ys[4+i], ys[i])
		}
	})
}

// dequantQ80 and dequantQ4 write whole blocks as float32, rounded as the plain loops do.
func dequantQ80() {
	s := avx2
	s.start("dequantQ80", "func(dst *float32, src *byte, blocks int)", "writes 32 numbers a block.")
	dst, src, n := param("dst"), param("src"), param("blocks")
	Label("dequantQ80_loop")
	s.scale(Mem{Base: src}, 4)
	for i := range 4 {
		VPMOVSXBD(Mem{Base: src, Disp: 2 + 8*i}, ys[i])
		VCVTDQ2PS(ys[i], ys[i])
		VMULPS(Y4, ys[i], ys[i])
		VMOVUPS(ys[i], Mem{Base: dst, Disp: 32 * i})
	}
	add(34, src)
	add(128, dst)
	DECQ(n)
	JG(LabelRef("dequantQ80_loop"))
	VZEROUPPER()
	RET()
}

func dequantQ4(variant int) {
	s := avx2
	name, bytes, skip := "dequantQ40", 18, 2
	if variant == 1 {
		name, bytes, skip = "dequantQ41", 20, 4
	}
	s.start(name, "func(dst *float32, src *byte, blocks int)", "writes 32 numbers a block.")
	dst, src, n := param("dst"), param("src"), param("blocks")
	fifteen := dwords("fifteen", 15)
	eight := dwords("eight", 8)
	VMOVDQU(fifteen, Y15)
	VMOVDQU(eight, Y14)
	Label(name + "_loop")
	s.scale(Mem{Base: src}, 8)
	if variant == 1 {
		s.scale(Mem{Base: src, Disp: 2}, 9)
	}
	VPMOVZXBD(Mem{Base: src, Disp: skip}, Y4)
	VPMOVZXBD(Mem{Base: src, Disp: skip + 8}, Y5)
	VPSRLD(Imm(4), Y4, Y6)
	VPSRLD(Imm(4), Y5, Y7)
	VPAND(Y15, Y4, Y4)
	VPAND(Y15, Y5, Y5)
	for i := range 4 {
		r := ys[4+i]
		if variant == 0 {
			VPSUBD(Y14, r, r)
		}
		VCVTDQ2PS(r, r)
		VMULPS(Y8, r, r)
		if variant == 1 {
			VADDPS(Y9, r, r)
		}
		VMOVUPS(r, Mem{Base: dst, Disp: 32 * i})
	}
	add(bytes, src)
	add(128, dst)
	DECQ(n)
	JG(LabelRef(name + "_loop"))
	VZEROUPPER()
	RET()
}
