package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// limits are the two loops that show what the machine could do at best: reading memory, and multiplying and
// adding in registers.
func limits(s isa) {
	s.start("readAll", "func(p *byte, n int)", "loads n bytes, a multiple of 1024, and does next to nothing with them.")
	p, n := param("p"), param("n")
	step := 8 * s.bytes()
	for i := range 8 {
		s.zero(s.v(i))
	}
	Label("readAll_loop" + s.name)
	for i := range 8 {
		if i*s.bytes()%64 == 0 {
			PREFETCHT0(Mem{Base: p, Disp: ahead + i*s.bytes()})
		}
		VADDPS(Mem{Base: p, Disp: i * s.bytes()}, s.v(i), s.v(i))
	}
	add(step, p)
	SUBQ(U32(step), n)
	JG(LabelRef("readAll_loop" + s.name))
	VZEROUPPER()
	RET()

	s.start("fmaAll", "func(n int)", "makes 12·n independent fused multiply–adds of whole vectors.")
	n = param("n")
	for i := range 14 {
		s.zero(s.v(i))
	}
	Label("fmaAll_loop" + s.name)
	for i := range 12 {
		VFMADD231PS(s.v(12), s.v(13), s.v(i))
	}
	DECQ(n)
	JG(LabelRef("fmaAll_loop" + s.name))
	VZEROUPPER()
	RET()
}
