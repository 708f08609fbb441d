package kernel

// laneMask selects the last n % lanes numbers in the form that the level's kernels take.
func laneMask(n int, bits *uint32) *uint32 {
	if level == AVX512 {
		*bits = 1<<(n%16) - 1
		return bits
	}
	return &tails[8-n%8]
}

func vecAdd(y, x []float32) {
	var bits uint32
	if m := laneMask(len(y), &bits); level == AVX512 {
		addAVX512(&y[0], &x[0], len(y), m)
	} else {
		addAVX2(&y[0], &x[0], len(y), m)
	}
}

func vecMul(y, x []float32) {
	var bits uint32
	if m := laneMask(len(y), &bits); level == AVX512 {
		mulAVX512(&y[0], &x[0], len(y), m)
	} else {
		mulAVX2(&y[0], &x[0], len(y), m)
	}
}

func vecAxpy(y []float32, a float32, x []float32) {
	var bits uint32
	if m := laneMask(len(y), &bits); level == AVX512 {
		axpyAVX512(&y[0], &x[0], len(y), m, a)
	} else {
		axpyAVX2(&y[0], &x[0], len(y), m, a)
	}
}

func vecScale(x []float32, a float32) {
	var bits uint32
	if m := laneMask(len(x), &bits); level == AVX512 {
		scaleAVX512(&x[0], len(x), m, a)
	} else {
		scaleAVX2(&x[0], len(x), m, a)
	}
}

func vecMax(x []float32) float32 {
	var bits uint32
	m := laneMask(len(x), &bits)
	if level == AVX512 {
		return maxAVX512(&x[0], len(x), m)
	}
	return maxAVX2(&x[0], len(x), m)
}

func vecExpSum(x []float32, shift float32) float32 {
	var bits uint32
	m := laneMask(len(x), &bits)
	if level == AVX512 {
		return expSumAVX512(&x[0], len(x), m, shift)
	}
	return expSumAVX2(&x[0], len(x), m, shift)
}

func vecSiLU(x []float32) {
	var bits uint32
	if m := laneMask(len(x), &bits); level == AVX512 {
		siluAVX512(&x[0], len(x), m)
	} else {
		siluAVX2(&x[0], len(x), m)
	}
}

func vecGELUTanh(x []float32) {
	var bits uint32
	if m := laneMask(len(x), &bits); level == AVX512 {
		geluTanhAVX512(&x[0], len(x), m)
	} else {
		geluTanhAVX2(&x[0], len(x), m)
	}
}
