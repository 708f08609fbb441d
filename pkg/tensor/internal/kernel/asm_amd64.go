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

// matVec computes y = W·x for one x if there is a kernel for the type and shape.
func matVec(y []float32, in *Input, typ Type, w []byte, rows int) bool {
	if level == Go {
		return false
	}
	wide := level == AVX512
	k := in.k
	yp, xp, wp, stride := &y[0], &in.x[0], &w[0], typ.bytes(k)
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
			dotQ80AVX512(yp, xp, wp, rows, k/32, in.sumOf32(), halves())
		} else {
			dotQ80AVX2(yp, xp, wp, rows, k/32, in.sumOf32(), halves())
		}
	case typ == Q4_0:
		if wide {
			dotQ40AVX512(yp, xp, wp, rows, k/32, in.sumOf32(), halves())
		} else {
			dotQ40AVX2(yp, xp, wp, rows, k/32, in.sumOf32(), halves())
		}
	case typ == Q4_1:
		if wide {
			dotQ41AVX512(yp, xp, wp, rows, k/32, in.sumOf32(), halves())
		} else {
			dotQ41AVX2(yp, xp, wp, rows, k/32, in.sumOf32(), halves())
		}
	case typ == Q5_0:
		if wide {
			dotQ50AVX512(yp, xp, wp, rows, k/32)
		} else {
			dotQ50AVX2(yp, xp, wp, rows, k/32)
		}
	case typ == Q5_1:
		if wide {
			dotQ51AVX512(yp, xp, wp, rows, k/32)
		} else {
			dotQ51AVX2(yp, xp, wp, rows, k/32)
		}
	case typ == Q4_K:
		if wide {
			dotQ4KAVX512(yp, xp, wp, rows, k/256, in.sumOf32(), halves())
		} else {
			dotQ4KAVX2(yp, xp, wp, rows, k/256, in.sumOf32(), halves())
		}
	case typ == Q5_K:
		if wide {
			dotQ5KAVX512(yp, xp, wp, rows, k/256)
		} else {
			dotQ5KAVX2(yp, xp, wp, rows, k/256)
		}
	case typ == Q6_K:
		if wide {
			dotQ6KAVX512(yp, xp, wp, rows, k/256)
		} else {
			dotQ6KAVX2(yp, xp, wp, rows, k/256)
		}
	default:
		return false
	}
	return true
}

// dequantASM widens as many numbers as the assembly can, and says how many.
func dequantASM(dst []float32, t Type, src []byte) int {
	n := len(dst)
	switch t {
	case F32:
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 4*n), src)
		return n
	case F16, BF16:
		if n &^= 7; n == 0 {
			return 0
		}
		if t == F16 {
			dequantF16AVX2(&dst[0], &src[0], n)
		} else {
			dequantBF16AVX2(&dst[0], &src[0], n)
		}
		return n
	case Q8_0:
		dequantQ80AVX2(&dst[0], &src[0], n/32)
	case Q4_0:
		dequantQ40AVX2(&dst[0], &src[0], n/32)
	case Q4_1:
		dequantQ41AVX2(&dst[0], &src[0], n/32)
	case Q5_0:
		dequantQ50AVX2(&dst[0], &src[0], n/32)
	case Q5_1:
		dequantQ51AVX2(&dst[0], &src[0], n/32)
	case Q4_K:
		dequantQ4KAVX2(&dst[0], &src[0], n/256)
	case Q5_K:
		dequantQ5KAVX2(&dst[0], &src[0], n/256)
	case Q6_K:
		dequantQ6KAVX2(&dst[0], &src[0], n/256)
	default:
		return 0
	}
	return n
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
