package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// lanesOf is how the body of an element-wise kernel reads and writes: whole vectors in the loop, the first
// few lanes of one at the end.
type lanesOf struct {
	s    isa
	tail bool
}

func (l lanesOf) load(p Register, v VecPhysical) {
	switch {
	case !l.tail:
		VMOVUPS(Mem{Base: p}, v)
	case l.s.wide:
		VMOVUPS_Z(Mem{Base: p}, K1, v)
	default:
		VMASKMOVPS(Mem{Base: p}, Y15, v)
	}
}

func (l lanesOf) store(v VecPhysical, p Register) {
	switch {
	case !l.tail:
		VMOVUPS(v, Mem{Base: p})
	case l.s.wide:
		VMOVUPS(v, K1, Mem{Base: p})
	default:
		VMASKMOVPS(v, Y15, Mem{Base: p})
	}
}

// elementwise is a kernel over n numbers at each of the pointers. mask points at the lane mask of the last
// n % lanes. Vector registers up to 13 are the body's.
func elementwise(s isa, name, signature, doc string, pointers []string, setup func(), body func(l lanesOf, p []Register), finish func()) {
	s.start(name, signature, doc)
	var p []Register
	for _, name := range pointers {
		p = append(p, param(name))
	}
	n := param("n")
	if setup != nil {
		setup()
	}
	l := label(name + s.name)
	SUBQ(U32(s.lanes), n)
	JLT(LabelRef(l("tail")))
	Label(l("loop"))
	body(lanesOf{s, false}, p)
	for _, r := range p {
		add(s.bytes(), r)
	}
	SUBQ(U32(s.lanes), n)
	JGE(LabelRef(l("loop")))
	Label(l("tail"))
	add(s.lanes, n)
	JZ(LabelRef(l("end")))
	mask := param("mask")
	if s.wide {
		w := GP32()
		MOVL(Mem{Base: mask}, w)
		KMOVW(w, K1)
	} else {
		VMOVDQU(Mem{Base: mask}, Y15)
	}
	body(lanesOf{s, true}, p)
	Label(l("end"))
	if finish != nil {
		finish()
	}
	VZEROUPPER()
	RET()
}

// broadcast loads a float32 parameter into every lane of register i.
func (s isa) broadcast(name string, i int) {
	Load(Param(name), xs[i])
	VBROADCASTSS(xs[i], s.v(i))
}

// exp replaces vector register 0 by its exponential; 1…3 are overwritten, 12 and 13 hold the bounds that
// expBounds set. Range reduction to |r| ≤ ln 2/2 and Cephes' polynomial: the result is within 2 units in
// the last place. Below -87.3 (AVX2) or where the result is no longer a normal number (AVX-512) it is 0;
// NaN stays NaN.
func (s isa) exp() {
	x, f, p, keep := s.v(0), s.v(1), s.v(2), s.v(3)
	if !s.wide {
		VCMPPS(Imm(5), Y12, x, keep) // not less than the bound
	}
	VMAXPS(x, s.v(12), x) // in this order NaN wins
	VMINPS(x, s.v(13), x)
	VMULPS(constant("log2e", 1.44269504), x, f)
	if s.wide {
		VRNDSCALEPS(Imm(0), f, f)
	} else {
		VROUNDPS(Imm(0), f, f)
	}
	VFNMADD231PS(constant("ln2high", 0.693359375), f, x)
	VFNMADD231PS(constant("ln2low", -2.12194440e-4), f, x)
	VMOVUPS(constant("exp5", 1.9875691500e-4), p)
	VFMADD213PS(constant("exp4", 1.3981999507e-3), x, p)
	VFMADD213PS(constant("exp3", 8.3334519073e-3), x, p)
	VFMADD213PS(constant("exp2", 4.1665795894e-2), x, p)
	VFMADD213PS(constant("exp1", 1.6666665459e-1), x, p)
	VFMADD213PS(constant("exp0", 5.0000001201e-1), x, p)
	square := f
	if s.wide {
		square = s.v(3)
	} else {
		square = s.v(4)
	}
	VMULPS(x, x, square)
	VFMADD213PS(x, square, p)
	VADDPS(constant("one", 1), p, p)
	if s.wide {
		VSCALEFPS(f, p, x)
		return
	}
	VCVTPS2DQ(f, f)
	VPADDD(words("exponent", func(int) uint32 { return 127 }, 8), f, f)
	VPSLLD(Imm(23), f, f)
	VMULPS(f, p, x)
	VANDPS(keep, x, x)
}

func (s isa) expBounds() {
	if s.wide {
		VMOVUPS(constant("low5", -120), Z12)
		VMOVUPS(constant("high5", 89), Z13)
		return
	}
	VMOVUPS(constant("low2", -87.3), Y12)
	VMOVUPS(constant("high2", 88.02), Y13)
}

func vectors(s isa) {
	const two = "func(y, x *float32, n int, mask *uint32)"
	elementwise(s, "add", two, "is y += x.", []string{"y", "x"}, nil, func(l lanesOf, p []Register) {
		l.load(p[0], s.v(0))
		l.load(p[1], s.v(1))
		VADDPS(s.v(1), s.v(0), s.v(0))
		l.store(s.v(0), p[0])
	}, nil)
	elementwise(s, "mul", two, "is y *= x.", []string{"y", "x"}, nil, func(l lanesOf, p []Register) {
		l.load(p[0], s.v(0))
		l.load(p[1], s.v(1))
		VMULPS(s.v(1), s.v(0), s.v(0))
		l.store(s.v(0), p[0])
	}, nil)
	elementwise(s, "axpy", "func(y, x *float32, n int, mask *uint32, a float32)", "is y += a·x.", []string{"y", "x"},
		func() { s.broadcast("a", 11) }, func(l lanesOf, p []Register) {
			l.load(p[0], s.v(0))
			l.load(p[1], s.v(1))
			VFMADD231PS(s.v(1), s.v(11), s.v(0))
			l.store(s.v(0), p[0])
		}, nil)
	elementwise(s, "scale", "func(x *float32, n int, mask *uint32, a float32)", "is x *= a.", []string{"x"},
		func() { s.broadcast("a", 11) }, func(l lanesOf, p []Register) {
			l.load(p[0], s.v(0))
			VMULPS(s.v(11), s.v(0), s.v(0))
			l.store(s.v(0), p[0])
		}, nil)
	elementwise(s, "expSum", "func(x *float32, n int, mask *uint32, shift float32) float32", "is x = exp(x-shift), and the sum.", []string{"x"},
		func() {
			s.expBounds()
			s.broadcast("shift", 11)
			s.zero(s.v(10))
		}, func(l lanesOf, p []Register) {
			l.load(p[0], s.v(0))
			VSUBPS(s.v(11), s.v(0), s.v(0))
			s.exp()
			l.store(s.v(0), p[0])
			if l.tail && s.wide {
				VADDPS(Z0, Z10, K1, Z10)
				return
			}
			if l.tail {
				VANDPS(Y15, Y0, Y0)
			}
			VADDPS(s.v(0), s.v(10), s.v(10))
		}, func() {
			s.hsum(10, 0)
			Store(X10, ReturnIndex(0))
		})
	elementwise(s, "max", "func(x *float32, n int, mask *uint32) float32", "is the largest of x, of which the first has been looked at by the caller.", []string{"x"},
		func() {
			VBROADCASTSS(Mem{Base: param("x")}, s.v(10))
		}, func(l lanesOf, p []Register) {
			switch {
			case !l.tail:
				VMAXPS(Mem{Base: p[0]}, s.v(10), s.v(10))
			case s.wide:
				VMAXPS(Mem{Base: p[0]}, Z10, K1, Z10)
			default:
				l.load(p[0], Y0)
				VBLENDVPS(Y15, Y0, Y10, Y0)
				VMAXPS(Y0, Y10, Y10)
			}
		}, func() {
			if s.wide {
				VEXTRACTF64X4(Imm(1), Z10, Y0)
				VMAXPS(Y0, Y10, Y10)
			}
			VEXTRACTF128(Imm(1), Y10, X0)
			VMAXPS(X0, X10, X10)
			VPERMILPS(Imm(0x4e), X10, X0)
			VMAXPS(X0, X10, X10)
			VPERMILPS(Imm(0xb1), X10, X0)
			VMAXPS(X0, X10, X10)
			Store(X10, ReturnIndex(0))
		})
	// x/(1+exp(-u)) with u = x for SiLU, and u = 2√(2/π)(x+0.044715x³) for GELU's tanh form, which is x·sigmoid(u).
	sigmoid := func(name, doc string, u func()) {
		elementwise(s, name, "func(x *float32, n int, mask *uint32)", doc, []string{"x"},
			func() { s.expBounds() }, func(l lanesOf, p []Register) {
				l.load(p[0], s.v(5))
				u()
				s.exp()
				VADDPS(constant("one", 1), s.v(0), s.v(0))
				VDIVPS(s.v(0), s.v(5), s.v(0))
				l.store(s.v(0), p[0])
			}, nil)
	}
	sigmoid("silu", "is x·sigmoid(x).", func() {
		s.zero(s.v(0))
		VSUBPS(s.v(5), s.v(0), s.v(0))
	})
	sigmoid("geluTanh", "is GELU in its tanh form.", func() {
		VMULPS(s.v(5), s.v(5), s.v(0))
		VMULPS(constant("gelu3", -0.0713548162726), s.v(0), s.v(0)) // -2√(2/π)·0.044715
		VADDPS(constant("gelu1", -1.5957691216057308), s.v(0), s.v(0))
		VMULPS(s.v(5), s.v(0), s.v(0))
	})
}
