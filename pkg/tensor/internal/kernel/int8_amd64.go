package kernel

import "golang.org/x/sys/cpu"

// byteDots says whether the processor multiplies and adds four bytes in one instruction.
var byteDots = cpu.X86.HasAVX512VNNI

func quantizeRow(q []int8, scales, sums32, sums16, x []float32) {
	quantizeAVX2(&q[0], &scales[0], &sums32[0], &sums16[0], &x[0], len(x)/32)
}

// int8Rows computes y[r] = Σ x[j]·w[r, j] for row i of the rounded x.
func int8Rows(y []float32, in *Input, i int, typ Type, w []byte, rows int) {
	g, n := in.k/32, in.k/blocks[typ].len
	yp, wp, q, xs, s32, s16 := &y[0], &w[0], &in.q[i*in.k], &in.scales[i*g], &in.sums32[i*g], &in.sums16[2*i*g]
	if level == AVX512 && byteDots {
		switch typ {
		case Q8_0:
			int8Q80VNNI(yp, wp, rows, n, q, xs, s32, halves())
		case Q4_0:
			int8Q40VNNI(yp, wp, rows, n, q, xs, s32, halves())
		case Q4_1:
			int8Q41VNNI(yp, wp, rows, n, q, xs, s32, halves())
		case Q4_K:
			int8Q4KVNNI(yp, wp, rows, n, q, xs, s32, halves())
		case Q6_K:
			int8Q6KVNNI(yp, wp, rows, n, q, xs, s16, halves())
		}
		return
	}
	switch typ {
	case Q8_0:
		int8Q80AVX2(yp, wp, rows, n, q, xs, s32, halves())
	case Q4_0:
		int8Q40AVX2(yp, wp, rows, n, q, xs, s32, halves())
	case Q4_1:
		int8Q41AVX2(yp, wp, rows, n, q, xs, s32, halves())
	case Q4_K:
		int8Q4KAVX2(yp, wp, rows, n, q, xs, s32, halves())
	case Q6_K:
		int8Q6KAVX2(yp, wp, rows, n, q, xs, s16, halves())
	}
}
