package main

import (
	"encoding/binary"
	"math"
)

// elementwise is a kernel over n numbers at each of the pointers. body makes the result of its inputs in registers v…, which it
// may overwrite up to v+3, and leaves it in v; tail says that only lane 0 counts. unroll vectors go together.
type elementwise struct {
	name, params, result, doc string
	pointers                  []string
	setup                     func()
	unroll                    int
	readOnly                  bool
	body                      func(v int, tail bool)
	finish                    func()
}

func (e elementwise) write(a *asm) {
	a.begin(e.name+"NEON", e.params, e.result, e.doc)
	var p []reg
	for _, name := range e.pointers {
		p = append(p, a.arg(name))
	}
	out := p[0]
	if !e.readOnly {
		out = a.copyOf(p[0])
	}
	n := a.arg("n")
	if e.setup != nil {
		e.setup()
	}
	loop := func(name string, count int, size byte) {
		a.while(name, count, n, func() {
			for u := range max(1, count/4) {
				for i, p := range p {
					a.loadNext(size, 4*u+i, p)
				}
				e.body(4*u, size == 's')
				if !e.readOnly {
					a.storeNext(size, 4*u, out)
				}
			}
		})
	}
	if e.unroll > 1 {
		loop("Many", 4*e.unroll, 'q')
	}
	loop("Vector", 4, 'q')
	loop("Number", 1, 's')
	if e.finish != nil {
		e.finish()
	}
	a.code("RET")
}

// The constants of exp, in registers 16…28: Cephes' polynomial and its two parts of ln 2, and the bounds of x.
const (
	log2e = 16 + iota
	ln2high
	ln2low
	exp5
	exp4
	exp3
	exp2
	exp1
	exp0
	one
	low
	high
	exponent // the integer 127
)

var expConstants = []float32{1.44269504, 0.693359375, -2.12194440e-4, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
	4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1, -87.3, 88.02, math.Float32frombits(127)}

func loadConstants(a *asm, table string, v, n int) {
	p := a.address(table)
	for i := range n {
		a.broadcastNext(v+i, p)
	}
}

// exp replaces vector register v by its exponential; v+1…v+3 are overwritten. Range reduction to |r| ≤ ln 2/2 and
// a polynomial: the result is within 2 units in the last place. Below -87.3 it is 0; NaN stays NaN.
func exp(a *asm, v int) {
	x, f, p, t := v, v+1, v+2, v+3
	const below = 15
	a.op("fcmgt", below, low, x)
	a.op("fmax", x, x, low)
	a.op("fmin", x, x, high)
	a.op("fmul", f, x, log2e)
	a.op("frintn", f, f)
	a.op("fmls", x, f, ln2high)
	a.op("fmls", x, f, ln2low)
	a.move(p, exp4)
	a.op("fmla", p, x, exp5)
	for _, c := range []int{exp3, exp2, exp1, exp0} {
		a.move(t, c)
		a.op("fmla", t, p, x)
		p, t = t, p
	}
	a.op("fmul", t, x, x)
	a.op("fmla", x, p, t) // 1 + x + x²·p
	a.op("fadd", x, x, one)
	a.op("fcvtns", f, f)
	a.op("add", f, f, exponent)
	a.op("shl.23", f, f)
	a.op("fmul", x, x, f)
	a.op("bic", x, x, below)
}

// vectors writes the functions on vectors. Registers 29…31 hold what they add up, and their arguments.
func vectors(a *asm) {
	const last, sum, given = 29, 30, 31
	floatTable := func(name string, v []float32) {
		var b []byte
		for _, f := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		}
		a.table(name, b)
	}
	floatTable("exp", expConstants)
	floatTable("gelu", []float32{-0.0713548162726, -1.5957691216057308}) // -2√(2/π)·0.044715, -2√(2/π)
	expSetup := func() { loadConstants(a, "exp", log2e, len(expConstants)) }

	for _, op := range []struct{ name, instruction, doc string }{{"add", "fadd", "is y += x."}, {"mul", "fmul", "is y *= x."}} {
		elementwise{name: op.name, params: "y, x *float32, n int", doc: op.name + "NEON " + op.doc, pointers: []string{"y", "x"}, unroll: 4,
			body: func(v int, tail bool) { a.op(op.instruction, v, v, v+1) }}.write(a)
	}
	elementwise{name: "axpy", params: "y, x *float32, n int, a float32", doc: "is y += a·x.", pointers: []string{"y", "x"}, unroll: 4,
		setup: func() { a.floatArg("a", given) },
		body:  func(v int, tail bool) { a.op("fmla", v, v+1, given) }}.write(a)
	elementwise{name: "scale", params: "x *float32, n int, a float32", doc: "is x *= a.", pointers: []string{"x"}, unroll: 4,
		setup: func() { a.floatArg("a", given) },
		body:  func(v int, tail bool) { a.op("fmul", v, v, given) }}.write(a)
	elementwise{name: "max", params: "x *float32, n int", result: "float32", doc: "is the largest of x, of which there is one at least.", pointers: []string{"x"}, unroll: 4, readOnly: true,
		setup: func() {
			a.load('s', last, a.arg("x"), 0)
			a.dup(sum, last, 0)
		},
		body: func(v int, tail bool) {
			if tail {
				a.op("fmax.s", last, last, v)
			} else {
				a.op("fmax", sum, sum, v)
			}
		},
		finish: func() {
			a.op("fmaxv", sum, sum)
			a.op("fmax.s", sum, sum, last)
			a.floatResult(sum)
		}}.write(a)
	elementwise{name: "expSum", params: "x *float32, n int, shift float32", result: "float32", doc: "is x = exp(x-shift), and the sum.", pointers: []string{"x"}, unroll: 1,
		setup: func() {
			expSetup()
			a.floatArg("shift", given)
			a.zero(last, 2)
		},
		body: func(v int, tail bool) {
			a.op("fsub", v, v, given)
			exp(a, v)
			if tail {
				a.op("fadd.s", last, last, v)
			} else {
				a.op("fadd", sum, sum, v)
			}
		},
		finish: func() {
			a.total(sum)
			a.op("fadd.s", sum, sum, last)
			a.floatResult(sum)
		}}.write(a)
	// x/(1+exp(-u)) with u = x for SiLU, and u = 2√(2/π)(x+0.044715x³) for GELU's tanh form, which is x·sigmoid(u).
	sigmoid := func(name, doc string, setup func(), u func(to, x int)) {
		elementwise{name: name, params: "x *float32, n int", doc: doc, pointers: []string{"x"}, unroll: 1,
			setup: func() { expSetup(); setup() },
			body: func(v int, tail bool) {
				u(v+4, v)
				exp(a, v+4)
				a.op("fadd", v+4, v+4, one)
				a.op("fdiv", v, v, v+4)
			}}.write(a)
	}
	sigmoid("silu", "is x·sigmoid(x).", func() {}, func(to, x int) { a.op("fneg", to, x) })
	const gelu3, gelu1 = 30, 31
	sigmoid("geluTanh", "is GELU in its tanh form.", func() { loadConstants(a, "gelu", gelu3, 2) }, func(to, x int) {
		a.op("fmul", to, x, x)
		a.move(to+1, gelu1)
		a.op("fmla", to+1, to, gelu3)
		a.op("fmul", to, to+1, x)
	})
}
