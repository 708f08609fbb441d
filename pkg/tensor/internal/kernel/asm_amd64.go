package kernel

import "unsafe"

// tails are the lane masks of AVX2's masked loads: eight numbers from tails[8-n] select the first n lanes.
var tails = [16]uint32{0: ^uint32(0), 1: ^uint32(0), 2: ^uint32(0), 3: ^uint32(0), 4: ^uint32(0), 5: ^uint32(0), 6: ^uint32(0), 7: ^uint32(0)}

// panelWidth is the number of columns of C that one panel of B makes: two vectors.
func panelWidth() int {
	if level == AVX512 {
		return 32
	}
	return 16
}

// gemmPanel computes n columns of C (+)= A·B; without AVX-512 n is the panel's width.
func gemmPanel(c *float32, ldc int, a *float32, lda int, b *float32, ldb, m, k, n int, add bool) {
	flag := 0
	if add {
		flag = 1
	}
	if level == AVX512 {
		mask := uint32(1<<n - 1)
		gemmAVX512(c, ldc, a, lda, b, ldb, m, k, &mask, flag)
		return
	}
	gemmAVX2(c, ldc, a, lda, b, ldb, m, k, nil, flag)
}

// fewRows is how many rows fewPanel takes.
func fewRows() int {
	if level == AVX512 {
		return 6
	}
	return 3
}

// fewPanel computes n columns of C += A·B, at most two panels of them; without AVX-512 exactly two.
func fewPanel(c *float32, ldc int, a *float32, lda int, b *float32, ldb, m, k, n int) {
	if level == AVX512 {
		mask := ^uint64(0) >> (64 - n)
		fewAVX512(c, ldc, a, lda, b, ldb, m, k, &mask)
		return
	}
	fewAVX2(c, ldc, a, lda, b, ldb, m, k, nil)
}

// packRows transposes a panel's width of rows; k is a multiple of the vector.
func packRows(dst, src *float32, ld, k int) {
	lanes := panelWidth() / 2
	second := (*float32)(unsafe.Add(unsafe.Pointer(src), 4*lanes*ld))
	dst2 := (*float32)(unsafe.Add(unsafe.Pointer(dst), 4*lanes))
	if level == AVX512 {
		packAVX512(dst, src, ld, k)
		packAVX512(dst2, second, ld, k)
		return
	}
	packAVX2(dst, src, ld, k)
	packAVX2(dst2, second, ld, k)
}

// dotRows is Dots for one to four vectors x.
func dotRows(y *float32, ldy int, x *float32, ldx int, w *float32, ldw, t, rows, k int) {
	wb := (*byte)(unsafe.Pointer(w))
	if level == AVX512 {
		mask := uint32(1<<(k%16) - 1)
		switch t {
		case 1:
			dots1AVX512(y, ldy, x, ldx, wb, 4*ldw, rows, k, &mask)
		case 2:
			dots2AVX512(y, ldy, x, ldx, wb, 4*ldw, rows, k, &mask)
		case 3:
			dots3AVX512(y, ldy, x, ldx, wb, 4*ldw, rows, k, &mask)
		case 4:
			dots4AVX512(y, ldy, x, ldx, wb, 4*ldw, rows, k, &mask)
		}
		return
	}
	mask := &tails[8-k%8]
	switch t {
	case 1:
		dots1AVX2(y, ldy, x, ldx, wb, 4*ldw, rows, k, mask)
	case 2:
		dots2AVX2(y, ldy, x, ldx, wb, 4*ldw, rows, k, mask)
	case 3:
		dots3AVX2(y, ldy, x, ldx, wb, 4*ldw, rows, k, mask)
	case 4:
		dots4AVX2(y, ldy, x, ldx, wb, 4*ldw, rows, k, mask)
	}
}

// matVec computes y = W·x for the last row of x if there is a kernel for the type and shape.
func matVec(y []float32, in *Input, typ Type, w []byte, rows int) bool {
	if level == Go {
		return false
	}
	wide := level == AVX512
	k := in.k
	yp, xp, wp, stride := &y[0], &in.x[(in.t-1)*in.ld], &w[0], typ.bytes(k)
	switch {
	case typ == F32:
		dotRows(yp, 0, xp, 0, (*float32)(unsafe.Pointer(wp)), k, 1, rows, k)
	case typ == F16 && k%16 == 0:
		if wide {
			dotF16AVX512(yp, xp, wp, stride, rows, k)
		} else {
			dotF16AVX2(yp, xp, wp, stride, rows, k)
		}
	case typ == BF16 && k%16 == 0:
		if wide {
			dotBF16AVX512(yp, xp, wp, stride, rows, k)
		} else {
			dotBF16AVX2(yp, xp, wp, stride, rows, k)
		}
	case typ == Q8_0:
		if wide {
			dotQ80AVX512(yp, xp, wp, rows, k/32, halves())
		} else {
			dotQ80AVX2(yp, xp, wp, rows, k/32, halves())
		}
	case typ == Q4_0:
		if wide {
			dotQ40AVX512(yp, xp, wp, rows, k/32, halves())
		} else {
			dotQ40AVX2(yp, xp, wp, rows, k/32, halves())
		}
	case typ == Q4_1:
		if wide {
			dotQ41AVX512(yp, xp, wp, rows, k/32, halves())
		} else {
			dotQ41AVX2(yp, xp, wp, rows, k/32, halves())
		}
	case typ == Q4_K:
		if wide {
			dotQ4KAVX512(yp, xp, wp, rows, k/256, in.sumOf32())
		} else {
			dotQ4KAVX2(yp, xp, wp, rows, k/256, in.sumOf32())
		}
	case slowDots[typ][0] != nil:
		clear(y[:rows])
		slowDots[typ][level-AVX2](yp, 0, xp, 0, wp, stride, rows, k/widths[typ], ahead)
	default:
		return false
	}
	return true
}

// dotFunc computes y[i·ldy+r] += Σ x[i·ldx+j]·w[r, j] for a fixed number of vectors x.
type dotFunc func(y *float32, ldy int, x *float32, ldx int, w *byte, ldw, rows, blocks, next int)

// fewDots are those for two, four and eight vectors x, with AVX2 and with AVX-512.
var fewDots = [...][2][3]dotFunc{
	F16:  {{dot2F16AVX2, dot4F16AVX2, dot8F16AVX2}, {dot2F16AVX512, dot4F16AVX512, dot8F16AVX512}},
	BF16: {{dot2BF16AVX2, dot4BF16AVX2, dot8BF16AVX2}, {dot2BF16AVX512, dot4BF16AVX512, dot8BF16AVX512}},
	Q8_0: {{dot2Q80AVX2, dot4Q80AVX2, dot8Q80AVX2}, {dot2Q80AVX512, dot4Q80AVX512, dot8Q80AVX512}},
	Q4_0: {{dot2Q40AVX2, dot4Q40AVX2, dot8Q40AVX2}, {dot2Q40AVX512, dot4Q40AVX512, dot8Q40AVX512}},
	Q4_1: {{dot2Q41AVX2, dot4Q41AVX2, dot8Q41AVX2}, {dot2Q41AVX512, dot4Q41AVX512, dot8Q41AVX512}},
	Q5_0: {{dot2Q50AVX2, dot4Q50AVX2, dot8Q50AVX2}, {dot2Q50AVX512, dot4Q50AVX512, dot8Q50AVX512}},
	Q5_1: {{dot2Q51AVX2, dot4Q51AVX2, dot8Q51AVX2}, {dot2Q51AVX512, dot4Q51AVX512, dot8Q51AVX512}},
	Q4_K: {{dot2Q4KAVX2, dot4Q4KAVX2, dot8Q4KAVX2}, {dot2Q4KAVX512, dot4Q4KAVX512, dot8Q4KAVX512}},
	Q5_K: {{dot2Q5KAVX2, dot4Q5KAVX2, dot8Q5KAVX2}, {dot2Q5KAVX512, dot4Q5KAVX512, dot8Q5KAVX512}},
	Q6_K: {{dot2Q6KAVX2, dot4Q6KAVX2, dot8Q6KAVX2}, {dot2Q6KAVX512, dot4Q6KAVX512, dot8Q6KAVX512}},
}

// slowDots are those for one vector x, of the types that have no kernel of their own for it.
var slowDots = [Q6_K + 1][2]dotFunc{
	Q5_0: {dot1Q50AVX2, dot1Q50AVX512},
	Q5_1: {dot1Q51AVX2, dot1Q51AVX512},
	Q5_K: {dot1Q5KAVX2, dot1Q5KAVX512},
	Q6_K: {dot1Q6KAVX2, dot1Q6KAVX512},
}

// fewKernel says whether dotFew has a kernel for the type and shape.
func fewKernel(typ Type, k int) bool { return level > Go && typ != F32 && k%widths[typ] == 0 }

// ahead is how far the kernels for one vector prefetch, in bytes.
const ahead = 16 << 10

// dotFew adds to y the products of two, four or eight vectors x with rows of weights at a stride of ldw bytes.
func dotFew(y *float32, ldy int, x *float32, ldx, t int, typ Type, w *byte, ldw, rows, k int) {
	// The same numbers of later rows are prefetched, the next four at least: half as far as with one vector was best for
	// two, four and eight.
	next := max(4, ahead/2/typ.bytes(k)) * ldw
	fewDots[typ][level-AVX2][t/4](y, ldy, x, ldx, w, ldw, rows, k/widths[typ], next)
}

// widths is how many numbers the kernels for several vectors, and those that write float32, take at a time.
var widths = [...]int{F16: 32, BF16: 32, Q8_0: 32, Q4_0: 32, Q4_1: 32, Q5_0: 32, Q5_1: 32, Q4_K: 256, Q5_K: 256, Q6_K: 256}

// dequants write whole blocks, of widths numbers each, as float32.
var dequants = [...]func(dst *float32, src *byte, blocks int){
	F16:  dequantF16AVX2,
	BF16: dequantBF16AVX2,
	Q8_0: dequantQ80AVX2,
	Q4_0: dequantQ40AVX2,
	Q4_1: dequantQ41AVX2,
	Q5_0: dequantQ50AVX2,
	Q5_1: dequantQ51AVX2,
	Q4_K: dequantQ4KAVX2,
	Q5_K: dequantQ5KAVX2,
	Q6_K: dequantQ6KAVX2,
}

// Pause spins for a moment, kindly to the other thread of the core.
func Pause() { pause(8) }

func readAll(b []byte) {
	switch level {
	case AVX512:
		readAllAVX512(&b[0], len(b))
	case AVX2:
		readAllAVX2(&b[0], len(b))
	default:
		plainRead(b)
	}
}

func fmaAll(n int) float64 {
	switch level {
	case AVX512:
		fmaAllAVX512(n)
		return 12 * 16 * 2 * float64(n)
	case AVX2:
		fmaAllAVX2(n)
		return 12 * 8 * 2 * float64(n)
	}
	return plainFMA(n)
}

// groupSums writes the sum of each 32 numbers of x.
func groupSums(dst, x []float32) { sumsAVX2(&dst[0], &x[0], len(dst)) }
