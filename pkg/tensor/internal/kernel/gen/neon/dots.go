package main

import "fmt"

// dots computes inner products of t vectors x with rows of w: y[i·ldy + r] = x[i]·w[r]. Four rows at a time share every
// load of x, t vectors share every load of w.
func dots(a *asm, t int) {
	a.begin(fmt.Sprintf("dots%dNEON", t), "y *float32, ldy int, x *float32, ldx int, w *float32, ldw, rows, k int", "",
		fmt.Sprintf("computes y[i·ldy+r] = Σ x[i·ldx+j]·w[r·ldw+j] for vectors x, %d of them. Strides in numbers.", t))
	d := dotTile{asm: a, t: t, y: a.arg("y"), ldy: a.stride("ldy"), x: a.arg("x"), ldx: a.stride("ldx"), w: a.arg("w"), ldw: a.stride("ldw")}
	rows := a.arg("rows")
	a.label("four")
	a.code("SUBS $4, %v", rows)
	a.code("BLT rest")
	d.tile(4)
	a.code("B four")
	a.label("rest")
	a.code("ADDS $4, %v", rows)
	a.code("BEQ end")
	a.label("one")
	d.tile(1)
	a.code("SUBS $1, %v", rows)
	a.code("BNE one")
	a.label("end")
	a.code("RET")
}

type dotTile struct {
	*asm
	t                      int
	y, ldy, x, ldx, w, ldw reg
}

// tile does a few rows of w and moves w and y on.
func (d dotTile) tile(rows int) {
	t := d.t
	l := func(name string) string { return fmt.Sprint(name, rows) }
	// With few vectors x several steps are in flight, so that additions don't wait for each other.
	unroll := map[int]int{1: 4, 2: 2, 3: 1, 4: 1}[t]
	acc := func(u, r, i int) int { return (u*rows+r)*t + i }
	xv := unroll * rows * t // the vectors of x, then those of two rows of w
	d.scope(func() {
		d.zero(0, xv)
		var wp, xp []reg
		for range rows {
			wp = append(wp, d.copyOf(d.w))
			d.code("ADD %v, %v", d.ldw, d.w)
		}
		for i := range t {
			p := d.reg()
			if i == 0 {
				d.code("MOVD %v, %v", d.x, p)
			} else {
				d.code("ADD %v, %v, %v", d.ldx, xp[i-1], p)
			}
			xp = append(xp, p)
		}
		k := d.arg("k")
		// step does u vectors of every row, or a single number.
		step := func(u int, load func(v int, p reg)) {
			for i := range t {
				load(xv+u*i, xp[i])
			}
			for r := range rows {
				wv := xv + u*t + u*(r%2)
				load(wv, wp[r])
				for j := range u {
					for i := range t {
						d.op("fmla", acc(j, r, i), wv+j, xv+u*i+j)
					}
				}
			}
		}
		if unroll > 1 {
			d.while(l("many"), 4*unroll, k, func() { step(unroll, func(v int, p reg) { d.loadsNext(v, unroll, p) }) })
		}
		d.while(l("vector"), 4, k, func() { step(1, func(v int, p reg) { d.loadNext('q', v, p) }) })
		d.while(l("number"), 1, k, func() { step(1, func(v int, p reg) { d.loadNext('s', v, p) }) })
		for u := unroll / 2; u > 0; u /= 2 {
			for j := range u * rows * t {
				d.op("fadd", j, j, u*rows*t+j)
			}
		}
		y := d.copyOf(d.y)
		for i := range t {
			s := func(r int) int { return acc(0, r, i) }
			if rows == 4 { // four sums at once: pairs, then pairs of pairs
				d.op("faddp", s(0), s(0), s(1))
				d.op("faddp", s(2), s(2), s(3))
				d.op("faddp", s(0), s(0), s(2))
				d.store('q', s(0), y, 0)
			} else {
				d.total(s(0))
				d.store('s', s(0), y, 0)
			}
			if i < t-1 {
				d.code("ADD %v, %v", d.ldy, y)
			}
		}
		d.code("ADD $%d, %v", 4*rows, d.y)
	})
}

// half is a type of 16 bits and how the lower and upper four numbers of a vector become float32.
type half struct{ name, low, high string }

var halves = []half{{"F16", "fcvtl", "fcvtl2"}, {"BF16", "shll", "shll2"}}

// dotHalf is the matrix–vector product with 16-bit weights.
func dotHalf(a *asm, h half) {
	a.begin("dot"+h.name+"NEON", "y, x *float32, w *byte, rows, k int", "", "computes y[r] = Σ x[j]·w[r·k+j].")
	y, x, w, rows, k := a.arg("y"), a.arg("x"), a.arg("w"), a.arg("rows"), a.arg("k")
	xp, n := a.reg(), a.reg()
	a.label("row")
	a.zero(0, 4)
	a.code("MOVD %v, %v", x, xp)
	a.code("MOVD %v, %v", k, n)
	a.while("Sixteen", 16, n, func() {
		a.loadsNext(4, 2, w)
		a.loadsNext(8, 4, xp)
		for i := range 2 {
			a.op(h.low, 6, 4+i)
			a.op(h.high, 7, 4+i)
			a.op("fmla", 2*i, 6, 8+2*i)
			a.op("fmla", 2*i+1, 7, 9+2*i)
		}
	})
	step := func(weight, number byte) {
		a.loadNext(weight, 4, w)
		a.loadNext(number, 8, xp)
		a.op(h.low, 6, 4)
		a.op("fmla", 0, 6, 8)
	}
	a.while("Four", 4, n, func() { step('d', 'q') })
	a.while("One", 1, n, func() { step('h', 's') })
	a.op("fadd", 0, 0, 1)
	a.op("fadd", 2, 2, 3)
	a.op("fadd", 0, 0, 2)
	a.total(0)
	a.storeNext('s', 0, y)
	a.code("SUBS $1, %v", rows)
	a.code("BNE row")
	a.code("RET")
}

// dequantHalf widens 16-bit numbers.
func dequantHalf(a *asm, h half) {
	a.begin("dequant"+h.name+"NEON", "dst *float32, src *byte, n int", "", "widens n numbers.")
	dst, src, n := a.arg("dst"), a.arg("src"), a.arg("n")
	a.while("Eight", 8, n, func() {
		a.loadNext('q', 0, src)
		a.op(h.low, 1, 0)
		a.op(h.high, 2, 0)
		a.storePairNext(1, 2, dst)
	})
	a.while("One", 1, n, func() {
		a.loadNext('h', 0, src)
		a.op(h.low, 1, 0)
		a.storeNext('s', 1, dst)
	})
	a.code("RET")
}
