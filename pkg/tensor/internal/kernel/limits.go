package kernel

import "sync/atomic"

// Read loads every byte of b that makes whole kilobytes, as fast as it can, and uses none of them.
func Read(b []byte) {
	if n := len(b) &^ 1023; n > 0 {
		readAll(b[:n])
	}
}

// FMA makes multiply–adds on registers only and says how many floating-point operations that were.
func FMA(n int) (flops float64) { return fmaAll(n) }

// sink keeps the loops below from being optimised away.
var sink atomic.Uint32

// plainRead is Read in plain Go.
func plainRead(b []byte) {
	var s0, s1, s2, s3 byte
	for len(b) >= 32 {
		s0 ^= b[0]
		s1 ^= b[8]
		s2 ^= b[16]
		s3 ^= b[24]
		b = b[32:]
	}
	sink.Store(uint32(s0 ^ s1 ^ s2 ^ s3))
}

// plainFMA multiplies and adds on eight independent numbers.
func plainFMA(n int) float64 {
	var a, b, c, d, e, f, g, h float32
	x, y := float32(n)*1e-9, float32(1e-9)
	for range n {
		a, b, c, d = a*x+y, b*x+y, c*x+y, d*x+y
		e, f, g, h = e*x+y, f*x+y, g*x+y, h*x+y
	}
	sink.Store(uint32(a + b + c + d + e + f + g + h))
	return 16 * float64(n)
}
