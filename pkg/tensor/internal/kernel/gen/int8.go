package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The kernels below multiply quantised weights with activations that were rounded to int8 in groups of 32. All
// of them work on 32-byte vectors; vnni says whether four products and their sum are one instruction.
type int8Kernel struct {
	vnni                 bool
	w, q, xs, half, sums Register // weights; x as int8, its scales, the F16 table, the sums of x (of 32, or of 16 for Q6_K)
	number               GPVirtual
	at                   func(disp int) Mem // of the block at w
	b                    block              // scales and minima of the K-quants
}

// dot adds to the eight 32-bit lanes of register acc the products of the unsigned bytes in u and the signed bytes in x.
func (k *int8Kernel) dot(u int, x Op, acc, tmp int) {
	if k.vnni {
		VPDPBUSD(x, ys[u], ys[acc])
		return
	}
	VPMADDUBSW(x, ys[u], ys[tmp])
	VPMADDWD(words("ones16", func(int) uint32 { return 1<<16 | 1 }, 8), ys[tmp], ys[tmp])
	VPADDD(ys[tmp], ys[acc], ys[acc])
}

func (k *int8Kernel) f16(disp, to int) {
	MOVWQZX(k.at(disp), k.number)
	VBROADCASTSS(Mem{Base: k.half, Index: k.number, Scale: 4}, ys[to])
}

// rows is the frame: body does the block at w with the activations at q, and adds to Y0 (and Y1, lane 0).
func (k *int8Kernel) rows(name string, blockLen, blockBytes, sumsPer int, body func()) {
	suffix := "AVX2"
	if k.vnni {
		suffix = "VNNI"
	}
	function(name+suffix, NOSPLIT, "func(y *float32, w *byte, rows, blocks int, q *int8, xs, sums, half *float32)",
		"computes y[r] = Σ x[j]·w[r, j] for x in int8 with a scale xs for each 32, and the sums of x.")
	y, rows := param("y"), param("rows")
	k.w = param("w")
	k.at = bytesAt(k.w)
	if blockLen == 32 { // the others convert their scales
		k.half = param("half")
	}
	k.number = GP64()
	next := GP64()
	LEAQ(Mem{Base: k.w, Disp: ahead}, next)
	k.b = localScales()
	l := label(name + suffix)
	Label(l("row"))
	avx2.zero(Y0)
	avx2.zero(Y1)
	q, xs, sums, n := param("q"), param("xs"), param("sums"), param("blocks")
	k.q, k.xs, k.sums = q, xs, sums
	Label(l("loop"))
	for i := 0; i < blockBytes; i += 64 {
		PREFETCHT0(Mem{Base: next, Disp: i})
	}
	add(blockBytes, next)
	body()
	add(blockBytes, k.w)
	add(blockLen, q)
	add(blockLen/8, xs)
	add(4*sumsPer, sums)
	DECQ(n)
	JNZ(LabelRef(l("loop")))
	VADDPS(Y1, Y0, Y0)
	avx2.hsum(0, 2)
	VMOVSS(X0, Mem{Base: y})
	add(4, y)
	DECQ(rows)
	JNZ(LabelRef(l("row")))
	VZEROUPPER()
	RET()
}

// weigh adds lanes acc, as float32, times the scale in register s and x's scale of the group, to Y0.
func (k *int8Kernel) weigh(acc, s, group, tmp int) {
	VCVTDQ2PS(ys[acc], ys[acc])
	VBROADCASTSS(Mem{Base: k.xs, Disp: 4 * group}, ys[tmp])
	VMULPS(ys[tmp], ys[s], ys[s])
	VFMADD231PS(ys[s], ys[acc], ys[0])
}

func int8Kernels(vnni bool) {
	k := &int8Kernel{vnni: vnni}
	k.rows("int8Q80", 32, 34, 1, func() {
		// Signed times signed: the sign of the weight moves to x.
		VMOVDQU(k.at(2), Y2)
		VMOVDQU(Mem{Base: k.q}, Y3)
		VPABSB(Y2, Y4)
		VPSIGNB(Y2, Y3, Y3)
		avx2.zero(Y5)
		k.dot(4, Y3, 5, 6)
		k.f16(0, 7)
		k.weigh(5, 7, 0, 8)
	})
	for variant := range 2 {
		k.rows([]string{"int8Q40", "int8Q41"}[variant], 32, 18+2*variant, 1, func() {
			VMOVDQU(k.at(2+2*variant), X2)
			VPSRLW(Imm(4), X2, X3)
			VINSERTI128(Imm(1), X3, Y2, Y2)
			VPAND(dwords("lownibbles", 0x0f0f0f0f), Y2, Y2)
			avx2.zero(Y5)
			k.dot(2, Mem{Base: k.q}, 5, 6)
			k.f16(0, 7)
			if variant == 0 { // d(q-8): the minimum is -8d
				VMULSS(constant("minus8", -8), X7, X9)
			} else {
				MOVWQZX(k.at(2), k.number)
				VMOVSS(Mem{Base: k.half, Index: k.number, Scale: 4}, X9)
			}
			VFMADD231SS(Mem{Base: k.sums}, X9, X1)
			k.weigh(5, 7, 0, 8)
		})
	}
	k.rows("int8Q4K", 256, 144, 8, func() {
		scalesK(k.at, k.b)
		VFNMADD231PS(Mem{Base: k.sums}, Y9, Y1)
		for pair := range 4 {
			VMOVDQU(k.at(16+32*pair), Y2)
			VPSRLW(Imm(4), Y2, Y3)
			VPAND(dwords("lownibbles", 0x0f0f0f0f), Y2, Y2)
			VPAND(dwords("lownibbles", 0x0f0f0f0f), Y3, Y3)
			for half := range 2 {
				avx2.zero(Y5)
				k.dot(2+half, Mem{Base: k.q, Disp: 64*pair + 32*half}, 5, 6)
				VBROADCASTSS(k.b.scales.Offset(4*(2*pair+half)), Y7)
				k.weigh(5, 7, 2*pair+half, 8)
			}
		}
	})
	k.rows("int8Q6K", 256, 210, 16, func() {
		// -32 of each scale meets the sums of 16 numbers of x.
		scalesQ6K(k.at, k.b)
		for i := range 2 {
			VMOVUPS(k.b.scales.Offset(32*i), Y8)
			VMULPS(constant("minus32", -32), Y8, Y8)
			VFMADD231PS(Mem{Base: k.sums, Disp: 32 * i}, Y8, Y1)
		}
		for half := range 2 {
			VMOVDQU(k.at(128+32*half), Y11) // high bits
			for r := range 4 {
				sixBits(k.at(64*half+32*(r%2)), Y11, r, Y2, Y3)
				avx2.zero(Y5)
				group := 4*half + r // of 32
				k.dot(2, Mem{Base: k.q, Disp: 32 * group}, 5, 6)
				// Lanes 0–3 are the first sixteen numbers, 4–7 the second.
				VBROADCASTSS(k.b.scales.Offset(8*group), X7)
				VBROADCASTSS(k.b.scales.Offset(8*group+4), X9)
				VINSERTF128(Imm(1), X9, Y7, Y7)
				k.weigh(5, 7, group, 8)
			}
		}
	})
}

// quantize rounds groups of 32 numbers to int8 with a scale of a 127th of the largest, and sums what the rounded ones mean.
func quantize() {
	avx2.start("quantize", "func(q *int8, xs, sums32, sums16, x *float32, groups int)",
		"rounds each 32 numbers of x to q·xs and writes the sums of the rounded numbers, of 32 and of 16.")
	q, xsp, sums32, sums16, x, n := param("q"), param("xs"), param("sums32"), param("sums16"), param("x"), param("groups")
	Label("quantize_loop")
	for i := range 4 {
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, ys[i])
		VANDPS(dwords("abs", 0x7fffffff), ys[i], ys[4+i])
	}
	VMAXPS(Y5, Y4, Y4)
	VMAXPS(Y7, Y6, Y6)
	VMAXPS(Y6, Y4, Y4)
	VEXTRACTF128(Imm(1), Y4, X5)
	VMAXPS(X5, X4, X4)
	VPERMILPS(Imm(0x4e), X4, X5)
	VMAXPS(X5, X4, X4)
	VPERMILPS(Imm(0xb1), X4, X5)
	VMAXPS(X5, X4, X4) // the largest, in every lane of X4
	VDIVPS(constant("steps", 127), X4, X5)
	VMOVSS(X5, Mem{Base: xsp})
	// 1/scale, and 0 for a group of zeros.
	VMOVUPS(constant("one", 1), X6)
	VDIVPS(X5, X6, X6)
	VXORPS(X7, X7, X7)
	VCMPPS(Imm(4), X7, X5, X7) // not equal
	VANDPS(X7, X6, X6)
	VBROADCASTSS(X6, Y6)
	for i := range 4 {
		VMULPS(Y6, ys[i], ys[i])
		VCVTPS2DQ(ys[i], ys[i])
	}
	VPACKSSDW(Y1, Y0, Y0)
	VPACKSSDW(Y3, Y2, Y2)
	VPACKSSWB(Y2, Y0, Y0)
	VMOVDQU(words("packorder", func(i int) uint32 { return [8]uint32{0, 4, 1, 5, 2, 6, 3, 7}[i] }, 8), Y1)
	VPERMD(Y0, Y1, Y0)
	VMOVDQU(Y0, Mem{Base: q})
	VMOVDQU(dwords("ones8", 0x01010101), Y1)
	VPMADDUBSW(Y0, Y1, Y1) // ones unsigned, q signed
	VPMADDWD(words("ones16", func(int) uint32 { return 1<<16 | 1 }, 8), Y1, Y1)
	VPHADDD(Y1, Y1, Y1)
	VPHADDD(Y1, Y1, Y1)
	VCVTDQ2PS(Y1, Y1)
	VEXTRACTF128(Imm(1), Y1, X2)
	VMULSS(X5, X1, X1)
	VMULSS(X5, X2, X2)
	VMOVSS(X1, Mem{Base: sums16})
	VMOVSS(X2, Mem{Base: sums16, Disp: 4})
	VADDSS(X2, X1, X1)
	VMOVSS(X1, Mem{Base: sums32})
	add(128, x)
	add(32, q)
	add(4, xsp)
	add(4, sums32)
	add(8, sums16)
	DECQ(n)
	JNZ(LabelRef("quantize_loop"))
	VZEROUPPER()
	RET()
}
