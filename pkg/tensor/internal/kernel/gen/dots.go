package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// ahead is how far the matrix–vector kernels prefetch, in bytes: weights stream through once, and the
// hardware's own prefetcher stops at each page.
const ahead = 16384

// dots computes inner products of t vectors x with rows of w: y[i·ldy + r] = x[i]·w[r]. Four rows at a
// time share every load of x, t vectors share every load of w.
func dots(s isa, t int) {
	s.start(fmt.Sprintf("dots%d", t), "func(y *float32, ldy int, x *float32, ldx int, w *byte, ldw, rows, k int, tail *uint32)",
		fmt.Sprintf("computes y[i·ldy+r] = Σ x[i·ldx+j]·w[r·ldw+j] for %d vectors x, strides of x and y in numbers, of w in bytes. tail is the lane mask of the last k %% lanes numbers.", t))
	y, x, ldx, w, ldw, rows := param("y"), param("x"), param("ldx"), param("w"), param("ldw"), param("rows")
	l := label(fmt.Sprintf("dots%d%s", t, s.name))
	SHLQ(Imm(2), ldx)
	d := dotTile{s: s, t: t, y: y, x: x, ldx: ldx, w: w, ldw: ldw}
	if s.wide {
		m := GP32()
		MOVL(Mem{Base: param("tail")}, m)
		KMOVW(m, K1)
	}
	four := 4
	if !s.wide && t > 2 {
		four = 2 // sixteen registers hold 2 rows × 4 vectors
	}
	Label(l("four"))
	CMPQ(rows, Imm(uint64(four)))
	JLT(LabelRef(l("one")))
	d.tile(four)
	SUBQ(U32(four), rows)
	JMP(LabelRef(l("four")))
	Label(l("one"))
	TESTQ(rows, rows)
	JZ(LabelRef(l("end")))
	d.tile(1)
	DECQ(rows)
	JMP(LabelRef(l("one")))
	Label(l("end"))
	VZEROUPPER()
	RET()
}

type dotTile struct {
	s                 isa
	t                 int
	y, x, ldx, w, ldw Register
}

func (d dotTile) tile(rows int) {
	s, t := d.s, d.t
	l := label(fmt.Sprintf("dots%d%s_%d", t, s.name, rows))
	// With one vector x two steps are in flight, so that additions don't wait for each other.
	unroll := 1
	if t == 1 || (t == 2 && s.wide) {
		unroll = 2
	}
	acc := func(u, r, i int) VecPhysical { return s.v((u*rows+r)*t + i) }
	n := unroll * rows * t
	for i := range n {
		s.zero(s.v(i))
	}
	free := n
	wp, xp := newRows(d.w, d.ldw, rows), newRows(d.x, d.ldx, t)
	next := GP64() // memory is fetched ahead in the order in which it lies, though several rows are read at a time
	LEAQ(Mem{Base: d.w, Disp: ahead}, next)
	left := param("k")
	SUBQ(U32(s.lanes*unroll), left)
	JLT(LabelRef(l("rest")))
	step := func(u int) {
		disp := u * s.bytes()
		if t == 1 {
			v := s.v(free)
			VMOVUPS(xp.at(0, disp), v)
			for r := range rows {
				VFMADD231PS(wp.at(r, disp), v, acc(u, r, 0))
			}
			return
		}
		for r := range rows {
			VMOVUPS(wp.at(r, disp), s.v(free+r))
		}
		for i := range t {
			xv := s.v(free + rows)
			VMOVUPS(xp.at(i, disp), xv)
			for r := range rows {
				VFMADD231PS(s.v(free+r), xv, acc(u, r, i))
			}
		}
	}
	Label(l("loop"))
	for i := 0; i < rows*unroll*s.bytes(); i += 64 {
		PREFETCHT0(Mem{Base: next, Disp: i})
	}
	add(rows*unroll*s.bytes(), next)
	for u := range unroll {
		step(u)
	}
	advance := func(bytes int) { wp.advance(bytes); xp.advance(bytes) }
	advance(unroll * s.bytes())
	SUBQ(U32(s.lanes*unroll), left)
	JGE(LabelRef(l("loop")))
	Label(l("rest"))
	add(s.lanes*unroll, left)
	if unroll > 1 {
		CMPQ(left, Imm(uint64(s.lanes)))
		JLT(LabelRef(l("tail")))
		step(0)
		advance(s.bytes())
		SUBQ(U32(s.lanes), left)
		Label(l("tail"))
	}
	TESTQ(left, left)
	JZ(LabelRef(l("sum")))
	// The last numbers, fewer than a vector: lanes beyond them are read as zeros.
	mv := s.v(free + 1)
	if !s.wide {
		VMOVDQU(Mem{Base: param("tail")}, mv)
	}
	load := func(m Mem, v VecPhysical) {
		if s.wide {
			VMOVUPS_Z(m, K1, v)
		} else {
			VMASKMOVPS(m, mv, v)
		}
	}
	for r := range rows {
		load(wp.at(r, 0), s.v(free))
		for i := range t {
			load(xp.at(i, 0), s.v(free+2))
			VFMADD231PS(s.v(free), s.v(free+2), acc(0, r, i))
		}
	}
	Label(l("sum"))
	if unroll == 2 {
		for i := range rows * t {
			VADDPS(s.v(rows*t+i), s.v(i), s.v(i))
		}
	}
	yp, ldy := copyOf(d.y), param("ldy")
	SHLQ(Imm(2), ldy)
	for i := range t {
		if rows == 4 {
			s.hsum4(i, t+i, 2*t+i, 3*t+i, free)
			VMOVUPS(xs[i], Mem{Base: yp})
		} else {
			for r := range rows {
				s.hsum(r*t+i, free)
				VMOVSS(xs[r*t+i], Mem{Base: yp, Disp: 4 * r})
			}
		}
		if i < t-1 {
			ADDQ(ldy, yp)
		}
	}
	add(4*rows, d.y)
	for range rows {
		ADDQ(d.ldw, d.w)
	}
}

// rows are a few rows at a stride, three of them reached from one pointer.
type rows struct {
	from   []GPVirtual
	stride Register
}

func newRows(base, stride Register, n int) rows {
	r := rows{from: []GPVirtual{copyOf(base)}, stride: stride}
	if n > 3 {
		three := GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
		for i := 3; i < n; i += 3 {
			p := GP64()
			LEAQ(Mem{Base: r.from[len(r.from)-1], Index: three, Scale: 1}, p)
			r.from = append(r.from, p)
		}
	}
	return r
}

func (r rows) at(i, disp int) Mem {
	m := Mem{Base: r.from[i/3], Disp: disp}
	if i%3 > 0 {
		m.Index, m.Scale = r.stride, uint8(i%3)
	}
	return m
}

func (r rows) advance(bytes int) {
	for _, p := range r.from {
		add(bytes, p)
	}
}

// dotHalf is the matrix–vector product with 16-bit weights: F16 by the converter, BF16 by a shift.
func dotHalf(s isa, bf bool) {
	name := "dotF16"
	if bf {
		name = "dotBF16"
	}
	s.start(name, "func(y, x *float32, w *byte, ldw, rows, k int)",
		"computes y[r] = Σ x[j]·w[r·ldw+j]; k is a multiple of the vector, ldw in bytes.")
	y, x, w, ldw, rows, k := param("y"), param("x"), param("w"), param("ldw"), param("rows"), param("k")
	l := label(name + s.name)
	Label(l("row"))
	for i := range 4 {
		s.zero(s.v(i))
	}
	off, end := GP64(), copyOf(k)
	XORQ(off, off)
	SUBQ(U32(4*s.lanes), end)
	JLT(LabelRef(l("rest")))
	step := func(u int) {
		widen(s, bf, Mem{Base: w, Index: off, Scale: 2, Disp: u * s.bytes() / 2}, s.v(4+u))
		VFMADD231PS(Mem{Base: x, Index: off, Scale: 4, Disp: u * s.bytes()}, s.v(4+u), s.v(u))
	}
	Label(l("loop"))
	PREFETCHT0(Mem{Base: w, Index: off, Scale: 2, Disp: ahead})
	if s.wide {
		PREFETCHT0(Mem{Base: w, Index: off, Scale: 2, Disp: ahead + 64})
	}
	for u := range 4 {
		step(u)
	}
	add(4*s.lanes, off)
	CMPQ(off, end)
	JLE(LabelRef(l("loop")))
	Label(l("rest"))
	CMPQ(off, k)
	JGE(LabelRef(l("sum")))
	step(0)
	add(s.lanes, off)
	JMP(LabelRef(l("rest")))
	Label(l("sum"))
	s.sum4()
	VMOVSS(X0, Mem{Base: y})
	add(4, y)
	ADDQ(ldw, w)
	DECQ(rows)
	JNZ(LabelRef(l("row")))
	VZEROUPPER()
	RET()
}

// sum4 adds vectors 0…3 and their lanes into X0.
func (s isa) sum4() {
	VADDPS(s.v(1), s.v(0), s.v(0))
	VADDPS(s.v(3), s.v(2), s.v(2))
	VADDPS(s.v(2), s.v(0), s.v(0))
	s.hsum(0, 1)
}

// widen makes v a vector of 16-bit numbers as float32.
func widen(s isa, bf bool, m Mem, v VecPhysical) {
	if bf {
		VPMOVZXWD(m, v)
		VPSLLD(Imm(16), v, v)
		return
	}
	VCVTPH2PS(m, v)
}

func pause() {
	TEXT("pause", NOSPLIT, "func(n int)")
	Doc("pause tells the core n times that this is a spinning loop.")
	n := param("n")
	Label("pause_loop")
	PAUSE()
	DECQ(n)
	JG(LabelRef("pause_loop"))
	RET()
}
