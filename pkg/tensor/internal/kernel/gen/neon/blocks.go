package main

// format is a block type, seen as groups of sixteen signed bytes that share a scale and perhaps a minimum with the
// group before or after. Widening, multiplying with float32 and multiplying with int8 are all written on top of that.
type format struct {
	name       string
	len, bytes int
	middle     int  // of the range of the numbers, where there are minima
	perScale   int  // groups that share a scale: 1 or 2
	minimum    int  // 1 if minima are added, -1 if they are subtracted, 0 if there are none
	int8       bool // has a kernel for int8 activations

	constants func(a *asm)        // fills registers 20…23, once; where there are minima, 21 is the middle of the numbers' range
	scales    func(a *asm, w reg) // fills 24…27 for the block at w
	// numbers makes the groups of the block at w in their order and calls emit with the register of each. It may use
	// registers 5 and 12…19; 12 and 13 are free again in emit.
	numbers func(a *asm, w reg, emit func(group, v int))
}

// Registers of the kernels on formats: 0 and 1 sum the products, 2 the minima; 3 and 4 the products of one scale; 6…9
// are numbers as float32, 10…13 numbers of x; 19 is the middle of the range as float32; 28…31 spread bytes.
const (
	minima  = 2
	product = 3
	current = 5
	wide    = 6
	xv      = 10
	middle  = 19
	scale   = 24
	spread  = 28
)

var formats = []format{
	{"Q80", 32, 34, 0, 2, 0, true, func(*asm) {}, scale32(false), func(a *asm, w reg, emit func(int, int)) {
		a.load('q', 14, w, 2)
		a.load('q', 15, w, 18)
		emit(0, 14)
		emit(1, 15)
	}},
	{"Q40", 32, 18, 0, 2, 0, true, constants(15, 8), scale32(false), func(a *asm, w reg, emit func(int, int)) {
		a.load('q', 14, w, 2)
		nibbles(a, 14, func(half int) {
			a.op("sub.16b", current, current, 21)
			emit(half, current)
		})
	}},
	{"Q41", 32, 20, 8, 2, 1, true, constants(15, 8), scale32(true), func(a *asm, w reg, emit func(int, int)) {
		a.load('q', 14, w, 4)
		nibbles(a, 14, func(half int) { emit(half, current) })
	}},
	{"Q50", 32, 22, 0, 2, 0, false, constantsQ5, scale32(false), func(a *asm, w reg, emit func(int, int)) {
		numbersQ5(a, w, 2, func(half int) {
			a.op("sub.16b", current, current, 21)
			emit(half, current)
		})
	}},
	{"Q51", 32, 24, 16, 2, 1, false, constantsQ5, scale32(true), func(a *asm, w reg, emit func(int, int)) {
		numbersQ5(a, w, 4, func(half int) { emit(half, current) })
	}},
	{"Q4K", 256, 144, 8, 2, -1, true, constants(15, 8), scalesQ45K, func(a *asm, w reg, emit func(int, int)) {
		numbersQ45K(a, w, 16, func(group int) { emit(group, current) })
	}},
	{"Q5K", 256, 176, 16, 2, -1, false, constants(15, 16), scalesQ45K, func(a *asm, w reg, emit func(int, int)) {
		a.load('q', 16, w, 16)
		a.load('q', 17, w, 32)
		numbersQ45K(a, w, 48, func(group int) {
			a.shift(12, 16+group%2, 4-group/2) // bit j of the byte to bit 4
			a.op("and", 12, 12, 21)
			a.op("orr", current, current, 12)
			emit(group, current)
		})
	}},
	{"Q6K", 256, 210, 0, 1, 0, true, constants(15, 48, 32), scalesQ6K, numbersQ6K},
}

// constants fills registers with one byte each.
func constants(b ...int) func(a *asm) {
	return func(a *asm) {
		for i, b := range b {
			a.bytes(20+i, b)
		}
	}
}

// blockTables writes what spreadTable and constantsQ5 load.
func blockTables(a *asm) {
	var b [64]byte
	for i := range b {
		b[i] = 255 // no byte: zero
		if i%4 == 3 {
			b[i] = byte(i / 4)
		}
	}
	a.table("spread", b[:])
	var q5 [32]byte // eight times byte 0, eight times byte 1; bit i in byte i
	for i := range 16 {
		q5[i], q5[16+i] = byte(i/8), 1<<(i%8)
	}
	a.table("bits", q5[:])
}

// spreadTable loads what floats needs.
func spreadTable(a *asm) {
	p := a.address("spread")
	a.loadPair(spread, spread+1, p, 0)
	a.loadPair(spread+2, spread+3, p, 32)
}

// floats makes four vectors of float32 at to… of the sixteen signed bytes in v: each byte becomes the top of a
// 32-bit integer, which is then read as a multiple of 2⁻²⁴.
func floats(a *asm, to, v int) {
	for i := range 4 {
		a.op("tbl", to+i, v, spread+i)
	}
	for i := range 4 {
		a.op("scvtf.24", to+i, to+i)
	}
}

// f16 loads an F16 number as float32 into lane 0.
func f16(a *asm, v int, w reg, off int) {
	a.load('h', v, w, off)
	a.op("fcvt", v, v)
}

// scaleOf is the register and lane of the scale of a group; the minimum lies one register on.
func (f format) scaleOf(group int) (v, lane int) {
	n := group / f.perScale
	if f.minimum != 0 {
		return scale + n/4*2, n % 4
	}
	return scale + n/4, n % 4
}

// scale32 loads the scale of a block of 32 numbers, and the minimum if there is one.
func scale32(minimum bool) func(a *asm, w reg) {
	return func(a *asm, w reg) {
		f16(a, scale, w, 0)
		if minimum {
			f16(a, scale+1, w, 2)
		}
	}
}

// nibbles puts the low, then the high halves of the bytes in v into the current register.
func nibbles(a *asm, v int, f func(half int)) {
	a.op("and", current, v, 20)
	f(0)
	a.shift(current, v, -4)
	f(1)
}

func constantsQ5(a *asm) {
	constants(15, 16)(a)
	p := a.address("bits")
	a.loadPair(22, 23, p, 0)
}

// numbersQ5: nibbles with a fifth bit from one word of bits, bit j for number j.
func numbersQ5(a *asm, w reg, bits int, f func(half int)) {
	for half := range 2 {
		v := 16 + half
		a.load('h', v, w, bits+2*half)
		a.op("tbl", v, v, 22)
		a.op("cmtst", v, v, 23)
		a.op("and", v, v, 21)
	}
	a.load('q', 14, w, bits+4)
	nibbles(a, 14, func(half int) {
		a.op("orr", current, current, 16+half)
		f(half)
	})
}

// scalesQ45K unpacks eight 6-bit scales and minima from 12 bytes: bytes 0–3 have scales 0–3, bytes 4–7 minima 0–3, each
// with two bits of number 4–7 above; bytes 8–11 have the low halves of the other scales, and of the minima above.
// Registers 24 and 26 become the scales times d, 25 and 27 the minima times m.
func scalesQ45K(a *asm, w reg) {
	a.scope(func() {
		first, rest, high := a.reg(), a.reg(), a.reg()
		a.code("MOVD 4(%v), %v", w, first)
		a.code("MOVWU 12(%v), %v", w, rest)
		a.code("LSR $6, %v, %v", first, high)
		a.code("AND $0x0303030303030303, %v", high)
		a.code("AND $0x3f3f3f3f3f3f3f3f, %v", first)
		a.code("ORR %v<<28, %v", rest, rest)
		a.code("AND $0x0f0f0f0f0f0f0f0f, %v", rest)
		a.code("ORR %v<<4, %v", high, rest)
		a.insert(14, 0, first)
		a.insert(14, 1, rest)
	})
	floats(a, scale, 14)
	for i := range 2 {
		f16(a, 12+i, w, 2*i)
		a.byLane("fmul", scale+i, scale+i, 12+i, 0)
		a.byLane("fmul", scale+2+i, scale+2+i, 12+i, 0)
	}
}

// numbersQ45K: the low and the high halves of 32 bytes are 32 numbers each.
func numbersQ45K(a *asm, w reg, at int, f func(group int)) {
	for pair := range 4 {
		for i := range 2 {
			a.load('q', 14+i, w, at+32*pair+16*i)
		}
		for i := range 2 {
			a.op("and", current, 14+i, 20)
			f(4*pair + i)
		}
		for i := range 2 {
			a.shift(current, 14+i, -4)
			f(4*pair + 2 + i)
		}
	}
}

func scalesQ6K(a *asm, w reg) {
	a.load('q', 14, w, 192)
	floats(a, scale, 14)
	f16(a, 12, w, 208)
	for i := range 4 {
		a.byLane("fmul", scale+i, scale+i, 12, 0)
	}
}

// numbersQ6K: each half of 128 numbers is four rows of 32: row r has its low four bits in half r/2 of the bytes
// 32·(r%2)…, its high two in bits 2r of 32 bytes more.
func numbersQ6K(a *asm, w reg, emit func(int, int)) {
	for half := range 2 {
		for i := range 4 {
			a.load('q', 14+i, w, 64*half+16*i)
		}
		for i := range 2 {
			a.load('q', 18+i, w, 128+32*half+16*i)
		}
		for r := range 4 {
			for i := range 2 {
				if low := 14 + 2*(r%2) + i; r < 2 {
					a.op("and", current, low, 20)
				} else {
					a.shift(current, low, -4)
				}
				a.shift(12, 18+i, 4-2*r)
				a.op("and", 12, 12, 21)
				a.op("orr", current, current, 12)
				a.op("sub.16b", current, current, 22)
				emit(8*half+2*r+i, current)
			}
		}
	}
}

// dequant writes blocks as float32. All products before the last are exact, so that the results are plain Go's.
func dequant(a *asm, f format) {
	a.begin("dequant"+f.name+"NEON", "dst *float32, src *byte, blocks int", "", "writes whole blocks.")
	dst, src, n := a.arg("dst"), a.arg("src"), a.arg("blocks")
	spreadTable(a)
	f.constants(a)
	a.label("loop")
	f.scales(a, src)
	f.numbers(a, src, func(group, v int) {
		floats(a, wide, v)
		s, lane := f.scaleOf(group)
		if f.minimum != 0 && group%f.perScale == 0 {
			a.dup(xv, s+1, lane)
		}
		for i := range 4 {
			a.byLane("fmul", wide+i, wide+i, s, lane)
			switch f.minimum {
			case 1:
				a.op("fadd", wide+i, wide+i, xv)
			case -1:
				a.op("fsub", wide+i, wide+i, xv)
			}
		}
		a.storePairNext(wide, wide+1, dst)
		a.storePairNext(wide+2, wide+3, dst)
	})
	a.code("ADD $%d, %v", f.bytes, src)
	a.code("SUBS $1, %v", n)
	a.code("BNE loop")
	a.code("RET")
}

// blockRows is the frame of a matrix–vector product: setup loads what is the same for all blocks, row what is the
// same for a row, block adds the products of a block to registers 0…2.
func blockRows(a *asm, f format, setup, row, block func(), w reg) {
	y, rows, blocks, n := a.arg("y"), a.arg("rows"), a.arg("blocks"), a.reg()
	setup()
	f.constants(a)
	if f.minimum != 0 {
		a.code("FMOVS $(%d.0), F%d", f.middle, middle)
		a.dup(middle, middle, 0)
	}
	a.label("row")
	a.zero(0, 3)
	a.code("MOVD %v, %v", blocks, n)
	row()
	a.label("block")
	f.scales(a, w)
	block()
	a.code("ADD $%d, %v", f.bytes, w)
	a.code("SUBS $1, %v", n)
	a.code("BNE block")
	a.op("fadd", 0, 0, 1)
	if f.minimum != 0 {
		a.op("fadd", 0, 0, minima)
	}
	a.total(0)
	a.storeNext('s', 0, y)
	a.code("SUBS $1, %v", rows)
	a.code("BNE row")
	a.code("RET")
}

// addMinima adds the products of a block's minima with the sums of each 32 numbers of x. The minimum that is meant belongs
// to numbers counted from the middle c of their range: Σ(d·q+m)x = d·Σ(q-c)x + (m+c·d)·Σx. The two sums are then small, while Σqx and m·Σx
// would nearly cancel.
func (f format) addMinima(a *asm, sums reg) {
	op := map[int]string{1: "fmla", -1: "fmls"}[f.minimum]
	switch {
	case f.minimum == 0:
	case f.len == 32:
		a.op(op, scale+1, scale, middle)
		a.loadNext('s', 12, sums)
		a.op(op, minima, 12, scale+1)
	default:
		a.loadPairNext(12, 13, sums)
		for i := range 2 {
			a.op(op, scale+2*i+1, scale+2*i, middle)
			a.op(op, minima, 12+i, scale+2*i+1)
		}
	}
}

// centred is the register with the numbers in v counted from the middle of their range, where addMinima wants that.
func (f format) centred(a *asm, v int) int {
	if f.minimum == 0 {
		return v
	}
	a.op("sub.16b", current, v, 21)
	return current
}

// dot is the matrix–vector product. The products of one scale are summed first, then scaled.
func dot(a *asm, f format) {
	params, doc := "y, x *float32, w *byte, rows, blocks int", "computes y[r] = Σ x[j]·w[r, j] over rows of blocks that follow each other"
	if f.minimum != 0 {
		params, doc = params+", sums *float32", doc+"; sums are those of each 32 numbers of x"
	}
	a.begin("dot"+f.name+"NEON", params, "", doc+".")
	w, x := a.arg("w"), a.arg("x")
	xp := a.reg()
	var sums, sp reg
	if f.minimum != 0 {
		sums, sp = a.arg("sums"), a.reg()
	}
	blockRows(a, f, func() { spreadTable(a) }, func() {
		a.code("MOVD %v, %v", x, xp)
		if f.minimum != 0 {
			a.code("MOVD %v, %v", sums, sp)
		}
	}, func() {
		f.addMinima(a, sp)
		f.numbers(a, w, func(group, v int) {
			floats(a, wide, f.centred(a, v))
			a.loadsNext(xv, 4, xp)
			for i := range 4 {
				if to := product + i%2; i < 2 && group%f.perScale == 0 {
					a.op("fmul", to, wide+i, xv+i)
				} else {
					a.op("fmla", to, wide+i, xv+i)
				}
			}
			if group%f.perScale == f.perScale-1 {
				s, lane := f.scaleOf(group)
				a.byLane("fmla", 0, product, s, lane)
				a.byLane("fmla", 1, product+1, s, lane)
			}
		})
	}, w)
}
