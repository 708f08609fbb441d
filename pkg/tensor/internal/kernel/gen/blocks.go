package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// format is a type whose numbers are widened a vector at a time: those of 16 bits as they are, the others from bytes or
// nibbles, of which each group has a scale and perhaps a minimum.
type format struct {
	name       string
	len, bytes int // of a block
	group      int // so many numbers share a scale; 0: there is none
	minimum    int // 1: a minimum is added, -1: subtracted

	// unpack says where a block's numbers are, and may put them there before. It uses vector registers 8…11.
	unpack func(f format, at func(disp int) Mem, room Mem) block
}

// block is where a block's numbers lie, as they are or unpacked to signed bytes, and its scales and minima, in F16 if there
// is one of them and else as float32.
type block struct{ numbers, scales, minima Mem }

var formats = []format{
	{"F16", 32, 64, 0, 0, inPlace},
	{"BF16", 32, 64, 0, 0, inPlace},
	{"Q80", 32, 34, 32, 0, inPlace},
	{"Q40", 32, 18, 32, 0, inPlace},
	{"Q41", 32, 20, 32, 1, inPlace},
	{"Q50", 32, 22, 32, 0, unpackQ5},
	{"Q51", 32, 24, 32, 1, unpackQ5},
	{"Q4K", 256, 144, 32, -1, unpackQ45K},
	{"Q5K", 256, 176, 32, -1, unpackQ45K},
	{"Q6K", 256, 210, 16, 0, unpackQ6K},
}

// room is how many bytes unpack may write: the numbers, and of a long block the scales and the minima after them.
func (f format) room() int {
	switch {
	case f.len > 32:
		return f.len + 8*f.len/f.group
	case f.name[1] == '5':
		return f.len
	}
	return 0
}

// in is where a long block's parts go.
func (f format) in(room Mem) block {
	return block{numbers: room, scales: room.Offset(f.len), minima: room.Offset(f.len + 4*f.len/f.group)}
}

// scale loads the scale, and the minimum if there is one, into d and m where a group begins with vector i of a block.
func (f format) scale(s isa, b block, i, d, m int) {
	if f.group == 0 || i*s.lanes%f.group > 0 {
		return
	}
	load := func(at Mem, to int) {
		if f.len == 32 {
			s.scale(at, to)
		} else {
			VBROADCASTSS(at.Offset(4*(i*s.lanes/f.group)), s.v(to))
		}
	}
	load(b.scales, d)
	if f.minimum != 0 {
		load(b.minima, m)
	}
}

// widen makes v the float32 numbers i·lanes… of a block. With fused, a minimum is added to the unrounded product; a plain
// Go loop rounds that first.
func (f format) widen(s isa, b block, i int, v, d, m VecPhysical, fused bool) {
	switch f.name {
	case "F16", "BF16":
		widen(s, f.name == "BF16", b.numbers.Offset(i*s.bytes()/2), v)
		return
	case "Q40", "Q41":
		n := 16 / s.lanes
		VPMOVZXBD(b.numbers.Offset(i%n*s.lanes), v)
		switch {
		case i >= n:
			VPSRLD(Imm(4), v, v)
		case !s.wide:
			VPAND(dwords("fifteen", 15), v, v)
		}
		switch {
		case s.wide:
			VPERMPS(Z15, v, v)
		case f.name == "Q40":
			VPSUBD(dwords("eight", 8), v, v)
			fallthrough
		default:
			VCVTDQ2PS(v, v)
		}
	default:
		VPMOVSXBD(b.numbers.Offset(i*s.lanes), v)
		VCVTDQ2PS(v, v)
	}
	switch {
	case f.minimum > 0 && fused:
		VFMADD213PS(m, d, v)
	case f.minimum > 0:
		VMULPS(d, v, v)
		VADDPS(m, v, v)
	case f.minimum < 0 && fused:
		VFMSUB213PS(m, d, v)
	case f.minimum < 0:
		VMULPS(d, v, v)
		VSUBPS(m, v, v)
	default:
		VMULPS(d, v, v)
	}
}

// dequant writes blocks as float32, rounded as the plain Go loop does it.
func dequant(f format) {
	s := avx2
	s.start("dequant"+f.name, "func(dst *float32, src *byte, blocks int)", "writes whole blocks.")
	dst, src, n := param("dst"), param("src"), param("blocks")
	room := AllocLocal(f.room())
	Label("dequant" + f.name + "_loop")
	b := f.unpack(f, bytesAt(src), room)
	for i := range f.len / s.lanes {
		f.scale(s, b, i, 4, 5)
		v := s.v(i % 4)
		f.widen(s, b, i, v, s.v(4), s.v(5), false)
		VMOVUPS(v, Mem{Base: dst, Disp: i * s.bytes()})
	}
	add(f.bytes, src)
	add(4*f.len, dst)
	DECQ(n)
	JG(LabelRef("dequant" + f.name + "_loop"))
	VZEROUPPER()
	RET()
}

// dot adds to y the products of rows of blocks with one, two, four or eight vectors x. A number is widened once for all
// x, and a number of x is loaded once for a few rows, as many as registers allow. It isn't NOSPLIT, since unpacked blocks
// of four rows need more stack than that may have.
func dot(s isa, f format, t int) {
	name := fmt.Sprintf("dot%d%s", t, f.name)
	function(name+s.name, 0, "func(y *float32, ldy int, x *float32, ldx int, w *byte, ldw, rows, blocks, next int)",
		fmt.Sprintf("computes y[i·ldy+r] += Σ x[i·ldx+j]·w[r, j] for %d vectors x and rows of the given number of blocks. Strides of x and y in numbers, of w in bytes; it prefetches w next bytes ahead.", t))
	d := dotBlocks{s: s, f: f, t: t, ldx: param("ldx"), ldw: param("ldw")}
	d.sums = s.lanes // eight with AVX2, sixteen with AVX-512
	d.v, d.x, d.d, d.m = 8, 10, 11, 13
	if s.wide {
		d.v, d.x, d.d, d.m = 8, 12, 24, 28
	}
	many := min(s.lanes/4, d.sums/t)
	d.room = AllocLocal(many * f.room())
	if s.wide && (f.name == "Q40" || f.name == "Q41") {
		nibbles(f.minimum, Z15)
	}
	d.gap = param("blocks")
	IMUL3Q(Imm(uint64(f.bytes)), d.gap, d.gap)
	NEGQ(d.gap)
	ADDQ(d.ldw, d.gap)
	l := label(name + s.name)
	SHLQ(Imm(2), d.ldx)
	SHLQ(Imm(2), argument("ldy"))
	Label(l("many"))
	CMPQ(argument("rows"), Imm(uint64(many)))
	JLT(LabelRef(l("one")))
	d.tile(many, l("many_loop"))
	JMP(LabelRef(l("many")))
	Label(l("one"))
	if many > 1 {
		CMPQ(argument("rows"), Imm(0))
		JLE(LabelRef(l("end")))
		d.tile(1, l("one_loop"))
		JMP(LabelRef(l("one")))
		Label(l("end"))
	}
	VZEROUPPER()
	RET()
}

// argument is where an argument lies, for those that are not in a register all the time.
func argument(name string) Mem {
	a, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return a.Addr
}

type dotBlocks struct {
	s    isa
	f    format
	t    int // vectors x
	sums int // how many registers for sums

	v, x, d, m int // the first register of each row's numbers, for x, of each row's scales and minima
	ldx, ldw   Register
	gap        Register // from the end of a row's blocks to the next row
	room       Mem      // for unpacked blocks
}

// sum is the register of a sum: 8…15 are for numbers, unpack and, with AVX-512, the table of nibbles.
func (d *dotBlocks) sum(i int) int { return i + i/8*8 }

// tile does some rows of w and moves y, w and rows on.
func (d *dotBlocks) tile(rows int, loop string) {
	s, f, t := d.s, d.f, d.t
	n := rows * t
	several := min(d.sums/n, 32/s.lanes) // sums of the same, so that additions don't wait for each other
	acc := func(u, row, j int) int { return d.sum((u*rows+row)*t + j) }
	for i := range several * n {
		s.zero(s.v(d.sum(i)))
	}
	w := param("w")
	wp := newRows(w, d.ldw, rows)
	ADDQ(argument("next"), w)
	next, turns := w, param("blocks") // blocks of a row that are still to be fetched
	xp, left := newRows(param("x"), d.ldx, t), param("blocks")
	Label(loop)
	blocks := make([]block, rows)
	// Memory is fetched ahead in the order in which it lies, though several rows are read at a time: as many blocks as
	// there are rows. Short ones go on beyond the end of a row before the next one is begun.
	together := rows
	if f.len > 32 {
		together = 1
	}
	for i := range rows / together {
		for disp := 0; disp < together*f.bytes; disp += 64 {
			PREFETCHT0(Mem{Base: next, Disp: disp})
		}
		add(together*f.bytes, next)
		SUBQ(U32(together), turns)
		same := fmt.Sprint(loop, "_same", i)
		JG(LabelRef(same))
		ADDQ(d.gap, next)
		ADDQ(argument("blocks"), turns)
		Label(same)
	}
	for row := range rows {
		blocks[row] = f.unpack(f, func(disp int) Mem { return wp.at(row, disp) }, d.room.Offset(row*f.room()))
	}
	// A long block goes through a loop of 32 numbers a turn.
	turn, number, group := f.len, GP64(), GP64()
	if f.len > 32 {
		turn = 32
		LEAQ(d.room, number)
		XORQ(group, group)
		for row := range rows {
			b := &blocks[row]
			b.numbers = Mem{Base: number, Disp: row * f.room()}
			b.scales, b.minima = b.scales.Idx(group, 4), b.minima.Idx(group, 4)
		}
		Label(loop + "_turn")
	}
	for i := range turn / s.lanes {
		for row := range rows {
			f.scale(s, blocks[row], i, d.d+row, d.m+row)
			f.widen(s, blocks[row], i, s.v(d.v+row), s.v(d.d+row), s.v(d.m+row), true)
		}
		for j := range t {
			from := Op(xp.at(j, i*s.bytes()))
			if rows > 1 {
				VMOVUPS(from, s.v(d.x))
				from = s.v(d.x)
			}
			for row := range rows {
				VFMADD231PS(from, s.v(d.v+row), s.v(acc(i%several, row, j)))
			}
		}
	}
	xp.advance(4 * turn)
	if f.len > 32 {
		add(32, number)
		add(32/f.group, group)
		CMPQ(group, Imm(uint64(f.len/f.group)))
		JLT(LabelRef(loop + "_turn"))
	}
	wp.advance(f.bytes)
	DECQ(left)
	JG(LabelRef(loop))
	for u := 1; u < several; u++ {
		for i := range n {
			VADDPS(s.v(d.sum(u*n+i)), s.v(d.sum(i)), s.v(d.sum(i)))
		}
	}
	d.store(rows, func(row, j int) int { return acc(0, row, j) })
	ADDQ(U32(4*rows), argument("y"))
	IMUL3Q(Imm(uint64(rows)), d.ldw, w)
	ADDQ(w, argument("w"))
	SUBQ(U32(rows), argument("rows"))
}

// store adds the sums of the lanes to y.
func (d *dotBlocks) store(rows int, sum func(row, j int) int) {
	s, t := d.s, d.t
	ldy := Load(Param("ldy"), GP64())
	y := newRows(Load(Param("y"), GP64()), ldy, t)
	four := func(of func(i int) int) VecPhysical { // the sums of the lanes of four registers
		for i := range 4 {
			if r := of(i); s.wide {
				VEXTRACTF64X4(Imm(1), zs[r], Y12)
				VADDPS(Y12, ys[r], ys[8+i])
			} else {
				VMOVAPS(ys[r], ys[8+i])
			}
		}
		avx2.hsum4(8, 9, 10, 11, 12)
		return X8
	}
	switch {
	case rows == 4:
		for j := range t {
			v := four(func(i int) int { return sum(i, j) })
			VADDPS(y.at(j, 0), v, v)
			VMOVUPS(v, y.at(j, 0))
		}
	case rows == 2 && t > 1:
		for j := 0; j < t; j += 2 {
			v := four(func(i int) int { return sum(i%2, j+i/2) })
			VMOVSD(y.at(j, 0), X9)
			VMOVHPS(y.at(j+1, 0), X9, X9)
			VADDPS(X9, v, v)
			VMOVSD(v, y.at(j, 0))
			VMOVHPS(v, y.at(j+1, 0))
		}
	case t >= 4:
		for j := 0; j < t; j += 4 {
			v := four(func(i int) int { return sum(0, j+i) })
			for i := range 4 {
				VPERMILPS(Imm(uint64(i)), v, X9)
				VADDSS(y.at(j+i, 0), X9, X9)
				VMOVSS(X9, y.at(j+i, 0))
			}
		}
	default:
		for i := range rows * t {
			v, at := sum(i%rows, i/rows), y.at(i/rows, i%rows*4)
			s.hsum(v, 8)
			VADDSS(at, xs[v], xs[v])
			VMOVSS(xs[v], at)
		}
	}
}

// localScales is room on the stack for a block's scales, and for minima if they are eight.
func localScales() block {
	room := AllocLocal(64)
	return block{scales: room, minima: room.Offset(32)}
}

// inPlace leaves numbers where they are: after a scale, and a minimum in Q4_1.
func inPlace(f format, at func(int) Mem, _ Mem) block {
	b := block{scales: at(0), minima: at(2)}
	switch {
	case f.group == 0:
		b.numbers = at(0)
	case f.minimum == 0:
		b.numbers = at(2)
	default:
		b.numbers = at(4)
	}
	return b
}

// unpackQ5: a scale and, in Q5_1, a minimum, then a word of fifth bits, bit j for number j, and 32 nibbles, the low ones
// first. Q5_0 counts from the middle of the range.
func unpackQ5(f format, at func(int) Mem, room Mem) block {
	b := inPlace(f, at, room)
	VPBROADCASTD(b.numbers, Y9) // byte j/8 for number j, then its bit alone
	VPSHUFB(words("spread", func(i int) uint32 { return uint32(i/2) * 0x01010101 }, 8), Y9, Y9)
	bits := words("bits", func(i int) uint32 { return []uint32{0x08040201, 0x80402010}[i%2] }, 8)
	VPAND(bits, Y9, Y9)
	VPCMPEQB(bits, Y9, Y9)
	VPAND(dwords("sixteens", 0x10101010), Y9, Y9)
	VMOVDQU(b.numbers.Offset(4), X8)
	VPSRLW(Imm(4), X8, X10)
	VINSERTI128(Imm(1), X10, Y8, Y8)
	VPAND(dwords("lownibbles", 0x0f0f0f0f), Y8, Y8)
	VPOR(Y9, Y8, Y8)
	if f.minimum == 0 {
		VPSUBB(dwords("sixteens", 0x10101010), Y8, Y8)
	}
	b.numbers = room
	VMOVDQU(Y8, room)
	return b
}

// unpackQ45K: eight groups of 32 with 6-bit scales and minima in 12 bytes: x = d·scale·q - m·min. Groups 2j and
// 2j+1 are the low and high nibbles of the same 32 bytes; Q5_K has the fifth bits of group j in bit j of 32 bytes more.
func unpackQ45K(f format, at func(int) Mem, room Mem) block {
	b := f.in(room)
	scalesK(at, b)
	five := f.name == "Q5K"
	qs := 16
	if five {
		VMOVDQU(at(16), Y11)
		qs = 48
	}
	for pair := range 4 {
		VMOVDQU(at(qs+32*pair), Y8)
		VPSRLW(Imm(4), Y8, Y9)
		for half, q := range []VecPhysical{Y8, Y9} {
			group := 2*pair + half
			VPAND(dwords("lownibbles", 0x0f0f0f0f), q, q)
			if five {
				shiftWords(4-group, Y11, Y10)
				VPAND(dwords("sixteens", 0x10101010), Y10, Y10)
				VPOR(Y10, q, q)
			}
			VMOVDQU(q, b.numbers.Offset(32*group))
		}
	}
	return b
}

// shiftWords moves the bits of words n to the left.
func shiftWords(n int, from, to VecPhysical) {
	switch {
	case n > 0:
		VPSLLW(Imm(uint64(n)), from, to)
	case n < 0:
		VPSRLW(Imm(uint64(-n)), from, to)
	default:
		VMOVDQA(from, to)
	}
}

// unpackQ6K: sixteen groups of 16 with 8-bit scales: x = d·scale·(q-32). Each half of 128 numbers is four rows of
// 32: row r has its low four bits in nibble r/2 of the bytes 32·(r%2)…, its high two in bits 2r of 32 bytes more.
func unpackQ6K(f format, at func(int) Mem, room Mem) block {
	b := f.in(room)
	scalesQ6K(at, b)
	for half := range 2 {
		VMOVDQU(at(128+32*half), Y11)
		for r := range 4 {
			sixBits(at(64*half+32*(r%2)), Y11, r, Y8, Y9)
			VPSUBB(dwords("thirtytwos", 0x20202020), Y8, Y8)
			VMOVDQU(Y8, b.numbers.Offset(128*half+32*r))
		}
	}
	return b
}

// sixBits makes q the 32 numbers of row r from their low bits at m and the register of high ones.
func sixBits(m Mem, high VecPhysical, r int, q, tmp VecPhysical) {
	VMOVDQU(m, q)
	if r >= 2 {
		VPSRLW(Imm(4), q, q)
	}
	VPAND(dwords("lownibbles", 0x0f0f0f0f), q, q)
	shiftWords(4-2*r, high, tmp)
	VPAND(dwords("highbits", 0x30303030), tmp, tmp)
	VPOR(tmp, q, q)
}

// scalesQ6K writes the sixteen scales times d. It uses registers 8 and 10.
func scalesQ6K(at func(int) Mem, b block) {
	avx2.scale(at(208), 10)
	for i := range 2 {
		VPMOVSXBD(at(192+8*i), Y8)
		VCVTDQ2PS(Y8, Y8)
		VMULPS(Y10, Y8, Y8)
		VMOVUPS(Y8, b.scales.Offset(32*i))
	}
}

// nibbles makes v the sixteen values of a nibble, for AVX-512's permutation, which ignores the bits above, to look them up.
func nibbles(variant int, v VecPhysical) {
	name := []string{"nibblesQ40", "nibblesQ41"}[variant]
	VMOVUPS(words(name, func(i int) uint32 { return math.Float32bits(float32(i - 8*(1-variant))) }, 16), v)
}

// dotQ4K is the matrix–vector product with Q4_K rows. A group's scale multiplies the group's sum, and its minimum the
// sum of x: Σ(s·q-m)x = s·Σqx - m·Σx.
func dotQ4K(s isa) {
	s.start("dotQ4K", "func(y, x *float32, w *byte, rows, blocks int, sums *float32)",
		"computes y[r] = Σ x[j]·w[r, j] over rows of the given number of blocks that follow each other; sums are those of each 32 numbers of x.")
	y, w, rows := param("y"), param("w"), param("rows")
	b := localScales()
	l := label("dotQ4K" + s.name)
	if s.wide {
		nibbles(1, Z31)
	}
	Label(l("row"))
	for i := range 4 {
		s.zero(s.v(i))
	}
	x, n, sums := param("x"), param("blocks"), param("sums")
	Label(l("loop"))
	for i := 0; i < 144; i += 64 {
		PREFETCHT0(Mem{Base: w, Disp: ahead + i})
	}
	scalesK(bytesAt(w), b) // scales in Y8, minima in Y9
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
			at := b.scales.Offset(4 * (2*pair + half))
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

// dwords is a table of the same 32-bit number.
func dwords(name string, v uint32) Mem { return words(name, func(int) uint32 { return v }, 16) }

// scalesK unpacks the eight 6-bit scales and minima of a Q4_K or Q5_K block, times d and m, into Y8 and Y9 and to
// where b has them. It uses Y10.
func scalesK(at func(int) Mem, b block) {
	// Bytes 0–3: scales 0–3, bytes 4–7: minima 0–3, each with two bits of number 4–7 above; bytes 8–11: the rest.
	u0, u1, u2, t := GP32(), GP32(), GP32(), GP32()
	MOVL(at(4), u0)
	MOVL(at(8), u1)
	MOVL(at(12), u2)
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
	avx2.scale(at(0), 10)
	VMULPS(Y10, Y8, Y8)
	avx2.scale(at(2), 10)
	VMULPS(Y10, Y9, Y9)
	VMOVUPS(Y8, b.scales)
	VMOVUPS(Y9, b.minima)
}
