package main

// limits are the two loops that show what the machine could do at best, reading memory, and multiplying and adding in
// registers, and the one that does nothing.
func limits(a *asm) {
	a.begin("readAllNEON", "p *byte, n int", "", "loads n bytes, a multiple of 256, and does nothing with them.")
	p, n := a.arg("p"), a.arg("n")
	a.label("loop")
	a.loadsNext(0, 16, p)
	a.code("SUBS $256, %v", n)
	a.code("BNE loop")
	a.code("RET")

	a.begin("fmaAllNEON", "n int", "", "makes 24·n independent fused multiply–adds of whole vectors.")
	n = a.arg("n")
	a.zero(0, 26)
	a.label("loop")
	for i := range 24 {
		a.op("fmla", i, 24, 25)
	}
	a.code("SUBS $1, %v", n)
	a.code("BNE loop")
	a.code("RET")

	a.begin("pause", "n int", "", "tells the core n times that this is a spinning loop.")
	n = a.arg("n")
	a.label("loop")
	a.code("YIELD")
	a.code("SUBS $1, %v", n)
	a.code("BNE loop")
	a.code("RET")
}
