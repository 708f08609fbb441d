package kernel

import (
	"encoding/binary"
	"math"
)

// plainDot is the inner product in plain Go: four sums, so that additions don't wait for each other.
func plainDot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i := range a {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// plainDots is y[i·ldy+r] = Σ x[i·ldx+j]·w[r·ldw+j] for t vectors x and rows of w. Two vectors share each load of w. Every
// sum is made in plainDot's order, so that it doesn't depend on how many vectors come together.
func plainDots(y []float32, ldy int, x []float32, ldx int, w []float32, ldw, t, rows, k int) {
	for r := range rows {
		wr := w[r*ldw : r*ldw+k]
		i := 0
		for ; i+2 <= t; i += 2 {
			y[i*ldy+r], y[(i+1)*ldy+r] = plainDot2(x[i*ldx:i*ldx+k], x[(i+1)*ldx:(i+1)*ldx+k], wr)
		}
		if i < t {
			y[i*ldy+r] = plainDot(x[i*ldx:i*ldx+k], wr)
		}
	}
}

// plainDot2 is plainDot of a with w and of b with w.
func plainDot2(a, b, w []float32) (float32, float32) {
	a, b = a[:len(w)], b[:len(w)]
	var a0, a1, a2, a3, b0, b1, b2, b3 float32
	for len(w) >= 4 && len(a) >= 4 && len(b) >= 4 {
		a0 += a[0] * w[0]
		b0 += b[0] * w[0]
		a1 += a[1] * w[1]
		b1 += b[1] * w[1]
		a2 += a[2] * w[2]
		b2 += b[2] * w[2]
		a3 += a[3] * w[3]
		b3 += b[3] * w[3]
		a, b, w = a[4:], b[4:], w[4:]
	}
	for i, v := range w {
		a0 += a[i] * v
		b0 += b[i] * v
	}
	return a0 + a1 + a2 + a3, b0 + b1 + b2 + b3
}

// plainGemm is C += A·B.
func plainGemm(c []float32, ldc int, a []float32, lda int, b []float32, ldb, m, n, k int) {
	for i := range m {
		ci := c[i*ldc : i*ldc+n]
		for j := range k {
			v, bj := a[i*lda+j], b[j*ldb:j*ldb+n]
			for l := range ci {
				ci[l] += v * bj[l]
			}
		}
	}
}

// plainDequant writes the numbers stored in src as type t into dst.
func plainDequant(dst []float32, t Type, src []byte) {
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case F16:
		table := halfTable()
		for i := range dst {
			dst[i] = table[binary.LittleEndian.Uint16(src[2*i:])]
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	default:
		n, bytes := blocks[t].len, blocks[t].bytes
		for len(dst) >= n {
			dequantBlock(dst[:n], t, src[:bytes])
			dst, src = dst[n:], src[bytes:]
		}
	}
}

// dequantBlock is one block of a quantised type; the layouts are ggml's.
func dequantBlock(dst []float32, t Type, b []byte) {
	half := func(i int) float32 { return F16ToF32(binary.LittleEndian.Uint16(b[i:])) }
	switch t {
	case Q8_0:
		d := half(0)
		for i, q := range b[2:] {
			dst[i] = d * float32(int8(q))
		}
	case Q4_0:
		d := half(0)
		for i, q := range b[2:] {
			dst[i], dst[i+16] = d*float32(int(q&15)-8), d*float32(int(q>>4)-8)
		}
	case Q4_1:
		d, m := half(0), half(2)
		for i, q := range b[4:] {
			dst[i], dst[i+16] = d*float32(q&15)+m, d*float32(q>>4)+m
		}
	case Q5_0:
		d, high := half(0), binary.LittleEndian.Uint32(b[2:])
		for i, q := range b[6:] {
			lo, hi := uint32(q&15)|(high>>i&1)<<4, uint32(q>>4)|(high>>(i+16)&1)<<4
			dst[i], dst[i+16] = d*float32(int(lo)-16), d*float32(int(hi)-16)
		}
	case Q5_1:
		d, m, high := half(0), half(2), binary.LittleEndian.Uint32(b[4:])
		for i, q := range b[8:] {
			lo, hi := uint32(q&15)|(high>>i&1)<<4, uint32(q>>4)|(high>>(i+16)&1)<<4
			dst[i], dst[i+16] = d*float32(lo)+m, d*float32(hi)+m
		}
	case Q4_K:
		d, m := half(0), half(2)
		for j := range 8 {
			sc, mn := scaleMinK(j, b[4:16])
			qs := b[16+j/2*32:]
			for i := range 32 {
				q := qs[i] >> (j % 2 * 4) & 15
				dst[j*32+i] = d*float32(sc)*float32(q) - m*float32(mn)
			}
		}
	case Q5_K:
		d, m := half(0), half(2)
		for j := range 8 {
			sc, mn := scaleMinK(j, b[4:16])
			qs := b[48+j/2*32:]
			for i := range 32 {
				q := qs[i]>>(j%2*4)&15 | b[16+i]>>j&1<<4
				dst[j*32+i] = d*float32(sc)*float32(q) - m*float32(mn)
			}
		}
	case Q6_K:
		d := half(208)
		for j := range 16 { // groups of 16 numbers
			n, g := j/8, j%8 // half of 128 numbers, group in it
			sc := float32(int8(b[192+j]))
			for i := range 16 {
				l := g%2*16 + i // 0…31
				row := g / 2    // 0…3: which 32 of the 128
				ql := b[n*64+row%2*32+l] >> (row / 2 * 4) & 15
				qh := b[128+n*32+l] >> (row * 2) & 3
				dst[j*16+i] = d * sc * float32(int(ql|qh<<4)-32)
			}
		}
	}
}

// scaleMinK unpacks the 6-bit scale and minimum of group j of a Q4_K or Q5_K block.
func scaleMinK(j int, s []byte) (scale, min byte) {
	if j < 4 {
		return s[j] & 63, s[j+4] & 63
	}
	return s[j+4]&15 | s[j-4]>>6<<4, s[j+4]>>4 | s[j]>>6<<4
}

// F16ToF32 widens an IEEE half-precision number.
func F16ToF32(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exp {
	case 0: // zero or subnormal: frac · 2⁻²⁴
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
