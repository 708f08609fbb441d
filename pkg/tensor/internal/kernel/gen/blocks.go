package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// format is a type whose numbers are widened a vector at a time. widen reads the block at w and calls emit with each
// vector of float32 numbers: i counts vectors from the start of the block. It may use vector registers 8…15, and what
// setup, run once, has put into 31; the products and sums it makes are those of the plain Go loop, in its order, so
// that they round alike.
type format struct {
	name       string
	len, bytes int
	setup      func(s isa)
	widen      func(s isa, w Register, emit func(i int, v VecPhysical))
}

var formats = []format{
	{"F16", 16, 32, nil, func(s isa, w Register, emit func(int, VecPhysical)) { widenHalf(s, w, false, emit) }},
	{"BF16", 16, 32, nil, func(s isa, w Register, emit func(int, VecPhysical)) { widenHalf(s, w, true, emit) }},
	{"Q80", 32, 34, nil, widenQ80},
	{"Q40", 32, 18, func(s isa) { nibbles(s, 0) }, func(s isa, w Register, emit func(int, VecPhysical)) { widenQ4(s, w, 0, emit) }},
	{"Q41", 32, 20, func(s isa) { nibbles(s, 1) }, func(s isa, w Register, emit func(int, VecPhysical)) { widenQ4(s, w, 1, emit) }},
	{"Q50", 32, 22, nil, func(s isa, w Register, emit func(int, VecPhysical)) { widenQ5(s, w, 0, emit) }},
	{"Q51", 32, 24, nil, func(s isa, w Register, emit func(int, VecPhysical)) { widenQ5(s, w, 1, emit) }},
	{"Q4K", 256, 144, nil, func(s isa, w Register, emit func(int, VecPhysical)) { widenQ45K(s, w, false, emit) }},
	{"Q5K", 256, 176, nil, func(s isa, w Register, emit func(int, VecPhysical)) { widenQ45K(s, w, true, emit) }},
	{"Q6K", 256, 210, nil, widenQ6K},
}

// dequant writes blocks as float32.
func dequant(f format) {
	s := avx2
	s.start("dequant"+f.name, "func(dst *float32, src *byte, blocks int)", "writes whole blocks.")
	dst, src, n := param("dst"), param("src"), param("blocks")
	scales = AllocLocal(128)
	if f.setup != nil {
		f.setup(s)
	}
	Label("dequant" + f.name + "_loop")
	f.widen(s, src, func(i int, v VecPhysical) { VMOVUPS(v, Mem{Base: dst, Disp: i * s.bytes()}) })
	add(f.bytes, src)
	add(4*f.len, dst)
	DECQ(n)
	JG(LabelRef("dequant" + f.name + "_loop"))
	VZEROUPPER()
	RET()
}

// dot adds to y the products of rows of blocks with one, two, four or eight vectors x: every number is widened once for
// all of them. Where there are few, each has several sums, so that additions don't wait for each other.
func dot(s isa, f format, t int) {
	name := fmt.Sprintf("dot%d%s", t, f.name)
	s.start(name, "func(y *float32, ldy int, x *float32, ldx int, w *byte, ldw, rows, blocks, next int)",
		fmt.Sprintf("computes y[i·ldy+r] += Σ x[i·ldx+j]·w[r, j] for %d vectors x and rows of the given number of blocks. Strides of x and y in numbers, of w in bytes; it prefetches w next bytes ahead.", t))
	y, ldx, w, rows, next := param("y"), param("ldx"), param("w"), param("rows"), param("next")
	scales = AllocLocal(128)
	l := label(name + s.name)
	SHLQ(Imm(2), ldx)
	sums := min(4, 8/t)
	if f.setup != nil {
		f.setup(s)
	}
	Label(l("row"))
	for i := range sums * t {
		s.zero(s.v(i))
	}
	xp, wp, n := newRows(param("x"), ldx, t), copyOf(w), param("blocks")
	Label(l("loop"))
	for i := 0; i < f.bytes; i += 64 {
		PREFETCHT0(Mem{Base: wp, Index: next, Scale: 1, Disp: i})
	}
	count := 0
	f.widen(s, wp, func(i int, v VecPhysical) {
		for j := range t {
			VFMADD231PS(xp.at(j, i*s.bytes()), v, s.v(count%sums*t+j))
		}
		count++
	})
	add(f.bytes, wp)
	xp.advance(4 * f.len)
	DECQ(n)
	JG(LabelRef(l("loop")))
	for i := sums * t / 2; i >= t; i /= 2 {
		for j := range i {
			VADDPS(s.v(i+j), s.v(j), s.v(j))
		}
	}
	ldy := param("ldy")
	SHLQ(Imm(2), ldy)
	yp := newRows(y, ldy, t)
	for j := 0; j < t; j += 4 {
		if t >= 4 {
			s.hsum4(j, j+1, j+2, j+3, 8)
		}
		for i := range min(4, t) {
			sum := xs[8+i]
			switch {
			case t < 4:
				s.hsum(i, 8)
				sum = xs[i]
			case i == 0:
				sum = xs[j]
			default:
				VPERMILPS(Imm(uint64(i)), xs[j], sum)
			}
			VADDSS(yp.at(j+i, 0), sum, sum)
			VMOVSS(sum, yp.at(j+i, 0))
		}
	}
	add(4, y)
	ADDQ(Load(Param("ldw"), GP64()), w)
	DECQ(rows)
	JNZ(LabelRef(l("row")))
	VZEROUPPER()
	RET()
}

// widenHalf: sixteen numbers of sixteen bits.
func widenHalf(s isa, w Register, bf bool, emit func(int, VecPhysical)) {
	for i := range 16 / s.lanes {
		widen(s, bf, Mem{Base: w, Disp: i * s.bytes() / 2}, 8+i)
		emit(i, s.v(8+i))
	}
}

// widenQ80: 32 signed bytes and an F16 scale.
func widenQ80(s isa, w Register, emit func(int, VecPhysical)) {
	s.scale(Mem{Base: w}, 8)
	for i := range 32 / s.lanes {
		v := s.v(9 + i%4)
		VPMOVSXBD(Mem{Base: w, Disp: 2 + i*s.lanes}, v)
		VCVTDQ2PS(v, v)
		VMULPS(s.v(8), v, v)
		emit(i, v)
	}
}

// nibbles puts the sixteen values of a nibble into register 31, for AVX-512's permutation to look them up; it ignores
// the bits above.
func nibbles(s isa, variant int) {
	if s.wide {
		name := []string{"nibblesQ40", "nibblesQ41"}[variant]
		VMOVUPS(words(name, func(i int) uint32 { return math.Float32bits(float32(i - 8*(1-variant))) }, 16), Z31)
	}
}

// widenQ4: 32 nibbles, the low ones first, with a scale and, in Q4_1, a minimum.
func widenQ4(s isa, w Register, variant int, emit func(int, VecPhysical)) {
	s.scale(Mem{Base: w}, 8)
	if variant == 1 {
		s.scale(Mem{Base: w, Disp: 2}, 9)
	}
	n := 16 / s.lanes
	for i := range n {
		low, high := s.v(10+2*i), s.v(11+2*i)
		VPMOVZXBD(Mem{Base: w, Disp: 2 + 2*variant + i*s.lanes}, low)
		VPSRLD(Imm(4), low, high)
		if !s.wide {
			VPAND(dwords("fifteen", 15), low, low)
		}
		for half, v := range []VecPhysical{low, high} {
			if s.wide {
				VPERMPS(Z31, v, v)
			} else {
				if variant == 0 {
					VPSUBD(dwords("eight", 8), v, v)
				}
				VCVTDQ2PS(v, v)
			}
			VMULPS(s.v(8), v, v)
			if variant == 1 {
				VADDPS(s.v(9), v, v)
			}
			emit(half*n+i, v)
		}
	}
}

// dotQ4K is the matrix–vector product with Q4_K rows. A group's scale multiplies the group's sum, and its minimum the
// sum of x: Σ(s·q-m)x = s·Σqx - m·Σx.
func dotQ4K(s isa) {
	s.start("dotQ4K", "func(y, x *float32, w *byte, rows, blocks int, sums *float32)",
		"computes y[r] = Σ x[j]·w[r, j] over rows of the given number of blocks that follow each other; sums are those of each 32 numbers of x.")
	y, w, rows := param("y"), param("w"), param("rows")
	scales = AllocLocal(128)
	l := label("dotQ4K" + s.name)
	nibbles(s, 1)
	Label(l("row"))
	for i := range 4 {
		s.zero(s.v(i))
	}
	x, n, sums := param("x"), param("blocks"), param("sums")
	Label(l("loop"))
	for i := 0; i < 144; i += 64 {
		PREFETCHT0(Mem{Base: w, Disp: ahead + i})
	}
	scalesK(w) // scales in Y8, minima in Y9
	VFNMADD231PS(Mem{Base: sums}, Y9, Y3)
	for pair := range 4 {
		lowSum, highSum := s.v(8), s.v(9)
		if s.wide {
			lowSum, highSum = s.v(8+2*pair), s.v(9+2*pair)
		}
		for i := range 32 / s.lanes {
			low, high := s.v(4+2*(i%2)), s.v(5+2*(i%2))
			VPMOVZXBD(Mem{Base: w, Disp: 16 + 32*pair + i*s.lanes}, low)
			VPSRLD(Imm(4), low, high)
			if s.wide {
				VPERMPS(Z31, low, low)
				VPERMPS(Z31, high, high)
			} else {
				VPAND(dwords("fifteen", 15), low, low)
				VCVTDQ2PS(low, low)
				VCVTDQ2PS(high, high)
			}
			lo, hi := Mem{Base: x, Disp: 256*pair + i*s.bytes()}, Mem{Base: x, Disp: 256*pair + 128 + i*s.bytes()}
			if i == 0 {
				VMULPS(lo, low, lowSum)
				VMULPS(hi, high, highSum)
			} else {
				VFMADD231PS(lo, low, lowSum)
				VFMADD231PS(hi, high, highSum)
			}
		}
		for half, sum := range []VecPhysical{lowSum, highSum} {
			at := scales.Offset(4 * (2*pair + half))
			if s.wide {
				VFMADD231PS_BCST(at, sum, s.v(half))
			} else {
				VBROADCASTSS(at, s.v(10))
				VFMADD231PS(s.v(10), sum, s.v(half))
			}
		}
	}
	add(144, w)
	add(1024, x)
	add(32, sums)
	DECQ(n)
	JNZ(LabelRef(l("loop")))
	s.sum4()
	VMOVSS(X0, Mem{Base: y})
	add(4, y)
	DECQ(rows)
	JNZ(LabelRef(l("row")))
	VZEROUPPER()
	RET()
}

// scales is where the scales of a block's groups lie as float32 on the stack, the minima 64 bytes on.
var scales Mem

func (s isa) and(m Mem, r VecPhysical) {
	if s.wide {
		VPANDD(m, r, r)
	} else {
		VPAND(m, r, r)
	}
}

func (s isa) or(m, r VecPhysical) {
	if s.wide {
		VPORD(m, r, r)
	} else {
		VPOR(m, r, r)
	}
}

// dwords is a table of the same 32-bit number.
func dwords(name string, v uint32) Mem { return words(name, func(int) uint32 { return v }, 16) }

// widenQ5: nibbles with a fifth bit from one word of bits, bit j for number j; scale d, and minimum m in Q5_1.
func widenQ5(s isa, w Register, variant int, emit func(int, VecPhysical)) {
	bits := 2 + 2*variant
	s.scale(Mem{Base: w}, 8)
	if variant == 1 {
		s.scale(Mem{Base: w, Disp: 2}, 9)
	}
	VPBROADCASTD(Mem{Base: w, Disp: bits}, s.v(10))
	n := 16 / s.lanes // vectors of low nibbles
	for i := range n {
		VPMOVZXBD(Mem{Base: w, Disp: bits + 4 + i*s.lanes}, s.v(11))
		for half := range 2 {
			v := s.v(12)
			if half == 0 {
				move(s, s.v(11), v)
				s.and(dwords("fifteen", 15), v)
			} else {
				VPSRLD(Imm(4), s.v(11), v)
			}
			first := half*16 + i*s.lanes // number of lane 0
			VPSRLVD(words("lanes", func(i int) uint32 { return uint32(i) }, 32).Offset(4*first), s.v(10), s.v(13))
			VPSLLD(Imm(4), s.v(13), s.v(13))
			s.and(dwords("sixteen", 16), s.v(13))
			s.or(s.v(13), v)
			if variant == 0 {
				VPSUBD(dwords("sixteen", 16), v, v)
			}
			VCVTDQ2PS(v, v)
			VMULPS(s.v(8), v, v)
			if variant == 1 {
				VADDPS(s.v(9), v, v)
			}
			emit(first/s.lanes, v)
		}
	}
}

// move copies a register.
func move(s isa, from, to VecPhysical) {
	if s.wide {
		VMOVDQA32(from, to)
	} else {
		VMOVDQA(from, to)
	}
}

// widenQ45K: eight groups of 32 with 6-bit scales and minima in 12 bytes: x = d·scale·q - m·min. Groups 2j and
// 2j+1 are the low and high nibbles of the same 32 bytes; Q5_K has the fifth bits of group j in bit j of 32 bytes more.
func widenQ45K(s isa, w Register, five bool, emit func(int, VecPhysical)) {
	qs := 16
	if five {
		qs = 48
	}
	scalesK(w)
	n := 32 / s.lanes
	for pair := range 4 {
		for half := range 2 {
			VBROADCASTSS(scales.Offset(4*(2*pair+half)), s.v(8+2*half))
			VBROADCASTSS(scales.Offset(32+4*(2*pair+half)), s.v(9+2*half))
		}
		for i := range n {
			VPMOVZXBD(Mem{Base: w, Disp: qs + 32*pair + i*s.lanes}, s.v(12))
			if five {
				VPMOVZXBD(Mem{Base: w, Disp: 16 + i*s.lanes}, s.v(15))
			}
			for half := range 2 {
				v := s.v(13 + half)
				if half == 0 {
					move(s, s.v(12), v)
					s.and(dwords("fifteen", 15), v)
				} else {
					VPSRLD(Imm(4), s.v(12), v)
				}
				if five {
					b := []VecPhysical{s.v(14), s.v(12)}[half] // one that is free here
					switch shift := 2*pair + half - 4; {       // bit j to bit 4
					case shift > 0:
						VPSRLD(Imm(uint64(shift)), s.v(15), b)
					case shift < 0:
						VPSLLD(Imm(uint64(-shift)), s.v(15), b)
					default:
						move(s, s.v(15), b)
					}
					s.and(dwords("sixteen", 16), b)
					s.or(b, v)
				}
				VCVTDQ2PS(v, v)
				VMULPS(s.v(8+2*half), v, v)
				VSUBPS(s.v(9+2*half), v, v)
				emit((2*pair+half)*n+i, v)
			}
		}
	}
}

// widenQ6K: sixteen groups of 16 with 8-bit scales: x = d·scale·(q-32). Each half of 128 numbers is four rows of
// 32: row r has its low four bits in nibble r/2 of the bytes 32·(r%2)…, its high two in bits 2r of 32 bytes more.
func widenQ6K(s isa, w Register, emit func(int, VecPhysical)) {
	avx2.scale(Mem{Base: w, Disp: 208}, 10)
	for i := range 2 {
		VPMOVSXBD(Mem{Base: w, Disp: 192 + 8*i}, Y8)
		VCVTDQ2PS(Y8, Y8)
		VMULPS(Y10, Y8, Y8)
		VMOVUPS(Y8, scales.Offset(32*i))
	}
	n := 16 / s.lanes
	for half := range 2 {
		for c := range 2 * n { // vectors of a row
			low := []VecPhysical{s.v(10), s.v(11)}
			high, v, b, d := s.v(12), s.v(13), s.v(8), s.v(9)
			for i := range low {
				VPMOVZXBD(Mem{Base: w, Disp: 64*half + 32*i + c*s.lanes}, low[i])
			}
			VPMOVZXBD(Mem{Base: w, Disp: 128 + 32*half + c*s.lanes}, high)
			for r := range 4 {
				switch r {
				case 0:
					VPSLLD(Imm(4), high, b)
				case 1:
					VPSLLD(Imm(2), high, b)
				case 2:
					move(s, high, b)
				case 3:
					VPSRLD(Imm(2), high, b)
				}
				s.and(dwords("fortyeight", 48), b)
				if r < 2 {
					move(s, low[r%2], v)
					s.and(dwords("fifteen", 15), v)
				} else {
					VPSRLD(Imm(4), low[r%2], v)
				}
				s.or(b, v)
				VPSUBD(dwords("thirtytwo", 32), v, v)
				VCVTDQ2PS(v, v)
				VBROADCASTSS(scales.Offset(4*(8*half+2*r+c/n)), d)
				VMULPS(d, v, v)
				emit((128*half+32*r)/s.lanes+c, v)
			}
		}
	}
}

// scalesK unpacks the eight 6-bit scales and minima of a Q4_K or Q5_K block, times d and m, into Y8 and Y9 and onto
// the stack. It uses Y10.
func scalesK(w Register) {
	// Bytes 0–3: scales 0–3, bytes 4–7: minima 0–3, each with two bits of number 4–7 above; bytes 8–11: the rest.
	u0, u1, u2, t := GP32(), GP32(), GP32(), GP32()
	MOVL(Mem{Base: w, Disp: 4}, u0)
	MOVL(Mem{Base: w, Disp: 8}, u1)
	MOVL(Mem{Base: w, Disp: 12}, u2)
	const six, four, two = 0x3f3f3f3f, 0x0f0f0f0f, 0x03030303
	high := func(from GPVirtual) { // t = the two high bits of numbers 4–7, from = numbers 0–3
		MOVL(from, t)
		SHRL(Imm(6), t)
		ANDL(U32(two), t)
		SHLL(Imm(4), t)
		ANDL(U32(six), from)
	}
	join := func(low, high GPVirtual, to int) {
		SHLQ(Imm(32), high.As64())
		ORQ(high.As64(), low.As64())
		VMOVQ(low.As64(), xs[to])
		VPMOVZXBD(xs[to], ys[to])
	}
	low := GP32()
	MOVL(u2, low)
	ANDL(U32(four), low)
	SHRL(Imm(4), u2)
	ANDL(U32(four), u2)
	high(u0)
	ORL(t, low)
	join(u0, low, 8)
	high(u1)
	ORL(t, u2)
	join(u1, u2, 9)
	VCVTDQ2PS(Y8, Y8)
	VCVTDQ2PS(Y9, Y9)
	avx2.scale(Mem{Base: w}, 10)
	VMULPS(Y10, Y8, Y8)
	avx2.scale(Mem{Base: w, Disp: 2}, 10)
	VMULPS(Y10, Y9, Y9)
	VMOVUPS(Y8, scales)
	VMOVUPS(Y9, scales.Offset(32))
}
