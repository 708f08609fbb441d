package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Every arm64 processor has NEON.
func detect() []Level { return []Level{Go, NEON} }

// panelWidth is the number of columns of C that one panel of B makes: four vectors.
func panelWidth() int { return 16 }

// gemmPanel computes a panel's columns of C (+)= A·B; n is the panel's width.
func gemmPanel(c *float32, ldc int, a *float32, lda int, b *float32, ldb, m, k, n int, add bool) {
	flag := 0
	if add {
		flag = 1
	}
	gemmNEON(c, ldc, a, lda, b, ldb, m, k, flag)
}

// fewRows is how many rows fewPanel takes.
func fewRows() int { return 3 }

// fewPanel computes C += A·B for two panels of columns, n of them.
func fewPanel(c *float32, ldc int, a *float32, lda int, b *float32, ldb, m, k, n int) {
	fewNEON(c, ldc, a, lda, b, ldb, m, k)
}

// packRows transposes a panel's width of rows; k is a multiple of half of that.
func packRows(dst, src *float32, ld, k int) { packNEON(dst, src, ld, k) }

// dotRows is Dots for one to four vectors x.
func dotRows(y *float32, ldy int, x *float32, ldx int, w *float32, ldw, t, rows, k int) {
	switch t {
	case 1:
		dots1NEON(y, ldy, x, ldx, w, ldw, rows, k)
	case 2:
		dots2NEON(y, ldy, x, ldx, w, ldw, rows, k)
	case 3:
		dots3NEON(y, ldy, x, ldx, w, ldw, rows, k)
	case 4:
		dots4NEON(y, ldy, x, ldx, w, ldw, rows, k)
	}
}

// fewKernel: more than one row of x goes the way over widened rows.
func fewKernel(typ Type, k int) bool { return false }

func dotFew(y *float32, ldy int, x *float32, ldx, t int, typ Type, w *byte, ldw, rows, k int) {}

// matVec computes y = W·x for the last row of x. There is a kernel for every type.
func matVec(y []float32, in *Input, typ Type, w []byte, rows int) bool {
	if level == Go {
		return false
	}
	k := in.k
	yp, xp, wp, n := &y[0], &in.x[(in.t-1)*in.ld], &w[0], k/blocks[typ].len
	switch typ {
	case F32:
		dotRows(yp, 0, xp, 0, (*float32)(unsafe.Pointer(wp)), k, 1, rows, k)
	case F16:
		dotF16NEON(yp, xp, wp, rows, k)
	case BF16:
		dotBF16NEON(yp, xp, wp, rows, k)
	case Q8_0:
		dotQ80NEON(yp, xp, wp, rows, n)
	case Q4_0:
		dotQ40NEON(yp, xp, wp, rows, n)
	case Q4_1:
		dotQ41NEON(yp, xp, wp, rows, n, in.sumOf32())
	case Q5_0:
		dotQ50NEON(yp, xp, wp, rows, n)
	case Q5_1:
		dotQ51NEON(yp, xp, wp, rows, n, in.sumOf32())
	case Q4_K:
		dotQ4KNEON(yp, xp, wp, rows, n, in.sumOf32())
	case Q5_K:
		dotQ5KNEON(yp, xp, wp, rows, n, in.sumOf32())
	case Q6_K:
		dotQ6KNEON(yp, xp, wp, rows, n)
	}
	return true
}

// widths is how many numbers the kernels of a type take at a time.
var widths = [...]int{F16: 1, BF16: 1, Q8_0: 32, Q4_0: 32, Q4_1: 32, Q5_0: 32, Q5_1: 32, Q4_K: 256, Q5_K: 256, Q6_K: 256}

// dequants write whole blocks, of widths numbers each, as float32.
var dequants = [...]func(dst *float32, src *byte, blocks int){
	F16:  dequantF16NEON,
	BF16: dequantBF16NEON,
	Q8_0: dequantQ80NEON,
	Q4_0: dequantQ40NEON,
	Q4_1: dequantQ41NEON,
	Q5_0: dequantQ50NEON,
	Q5_1: dequantQ51NEON,
	Q4_K: dequantQ4KNEON,
	Q5_K: dequantQ5KNEON,
	Q6_K: dequantQ6KNEON,
}

// groupSums writes the sum of each 32 numbers of x.
func groupSums(dst, x []float32) { sumsNEON(&dst[0], &x[0], len(dst)) }

// byteDots says whether the processor multiplies and adds four bytes in one instruction.
var byteDots = cpu.ARM64.HasASIMDDP

// quantizeRow leaves sums16 alone: these kernels take offsets off the weights before they multiply.
func quantizeRow(q []int8, scales, sums32, sums16, x []float32) {
	quantizeNEON(&q[0], &scales[0], &sums32[0], &x[0], len(x)/32)
}

// int8Rows computes y[r] = Σ x[j]·w[r, j] for row i of the rounded x.
func int8Rows(y []float32, in *Input, i int, typ Type, w []byte, rows int) {
	g, n := in.k/32, in.k/blocks[typ].len
	yp, wp, q, xs, sums := &y[0], &w[0], &in.q[i*in.k], &in.scales[i*g], &in.sums32[i*g]
	if byteDots {
		switch typ {
		case Q8_0:
			int8Q80SDOT(yp, wp, rows, n, q, xs, sums)
		case Q4_0:
			int8Q40SDOT(yp, wp, rows, n, q, xs, sums)
		case Q4_1:
			int8Q41SDOT(yp, wp, rows, n, q, xs, sums)
		case Q4_K:
			int8Q4KSDOT(yp, wp, rows, n, q, xs, sums)
		case Q6_K:
			int8Q6KSDOT(yp, wp, rows, n, q, xs, sums)
		}
		return
	}
	switch typ {
	case Q8_0:
		int8Q80NEON(yp, wp, rows, n, q, xs, sums)
	case Q4_0:
		int8Q40NEON(yp, wp, rows, n, q, xs, sums)
	case Q4_1:
		int8Q41NEON(yp, wp, rows, n, q, xs, sums)
	case Q4_K:
		int8Q4KNEON(yp, wp, rows, n, q, xs, sums)
	case Q6_K:
		int8Q6KNEON(yp, wp, rows, n, q, xs, sums)
	}
}

func vecAdd(y, x []float32)                        { addNEON(&y[0], &x[0], len(y)) }
func vecMul(y, x []float32)                        { mulNEON(&y[0], &x[0], len(y)) }
func vecAxpy(y []float32, a float32, x []float32)  { axpyNEON(&y[0], &x[0], len(y), a) }
func vecScale(x []float32, a float32)              { scaleNEON(&x[0], len(x), a) }
func vecMax(x []float32) float32                   { return maxNEON(&x[0], len(x)) }
func vecExpSum(x []float32, shift float32) float32 { return expSumNEON(&x[0], len(x), shift) }
func vecSiLU(x []float32)                          { siluNEON(&x[0], len(x)) }
func vecGELUTanh(x []float32)                      { geluTanhNEON(&x[0], len(x)) }

// Pause spins for a moment.
func Pause() { pause(8) }

func readAll(b []byte) {
	if level == Go {
		plainRead(b)
		return
	}
	readAllNEON(&b[0], len(b))
}

func fmaAll(n int) float64 {
	if level == Go {
		return plainFMA(n)
	}
	fmaAllNEON(n)
	return 24 * 4 * 2 * float64(n)
}
