package main

// dotInt8 multiplies quantised weights with activations that were rounded to int8 in groups of 32. sdot says whether
// four products and their sum are one instruction, which came with ARMv8.2; without it two products, at most 2·128·127, just fit into
// 16 bits.
func dotInt8(a *asm, f format, sdot bool) {
	suffix := "NEON"
	if sdot {
		suffix = "SDOT"
	}
	a.begin("int8"+f.name+suffix, "y *float32, w *byte, rows, blocks int, q *int8, xs, sums *float32", "",
		"computes y[r] = Σ x[j]·w[r, j] for x in int8 with a scale xs and a sum for each 32.")
	w, q, xs, sums := a.arg("w"), a.arg("q"), a.arg("xs"), a.arg("sums")
	qp, xp, sp := a.reg(), a.reg(), a.reg()
	setup := func() {}
	if f.len > 32 {
		setup = func() { spreadTable(a) } // for the scales
	}
	blockRows(a, f, setup, func() {
		a.code("MOVD %v, %v", q, qp)
		a.code("MOVD %v, %v", xs, xp)
		a.code("MOVD %v, %v", sums, sp)
	}, func() {
		f.addMinima(a, sp)
		f.scaleX(a, xp)
		f.numbers(a, w, func(group, v int) {
			const x, pairs = 8, 9
			v = f.centred(a, v)
			first := group%f.perScale == 0
			a.loadNext('q', x, qp)
			switch {
			case sdot:
				if first {
					a.zero(product, 1)
				}
				a.op("sdot", product, x, v)
			default:
				a.op("smull", pairs, x, v)
				a.op("smlal2", pairs, x, v)
				if first {
					a.op("saddlp", product, pairs)
				} else {
					a.op("sadalp", product, pairs)
				}
			}
			if group%f.perScale == f.perScale-1 {
				a.op("scvtf", product, product)
				s, lane := f.scaleOf(group)
				a.byLane("fmla", group/f.perScale%2, product, s, lane)
			}
		})
	}, w)
}

// scaleX multiplies a block's scales with those of x.
func (f format) scaleX(a *asm, xs reg) {
	if f.len == 32 {
		a.loadNext('s', 12, xs)
		a.op("fmul.s", scale, scale, 12)
		return
	}
	a.loadPairNext(12, 13, xs)
	for i := range 2 {
		if f.perScale == 2 {
			s, _ := f.scaleOf(8 * i)
			a.op("fmul", s, s, 12+i)
			continue
		}
		for j, zip := range []string{"zip1", "zip2"} { // every scale of x serves two groups
			a.op(zip, 14, 12+i, 12+i)
			a.op("fmul", scale+2*i+j, scale+2*i+j, 14)
		}
	}
}

// quantize rounds groups of 32 numbers to int8 with a scale of a 127th of the largest.
func quantize(a *asm) {
	a.begin("quantizeNEON", "q *int8, xs, sums, x *float32, groups int", "",
		"rounds each 32 numbers of x to q·xs, halves to even, and writes the sums of the rounded numbers.")
	q, xs, sums, x, n := a.arg("q"), a.arg("xs"), a.arg("sums"), a.arg("x"), a.arg("groups")
	const largest, step, inverse, steps, one = 8, 16, 17, 18, 19
	constant := func(v int, name string) {
		a.code("FMOVS $(%s), F%d", name, v)
	}
	constant(steps, "127.0")
	constant(one, "1.0")
	a.label("loop")
	a.loadsNext(0, 8, x)
	for i := range 8 {
		a.op("fabs", largest+i, i)
	}
	a.tree("fmax", largest, 8)
	a.op("fmaxv", largest, largest)
	a.op("fdiv.s", step, largest, steps)
	a.storeNext('s', step, xs)
	a.op("fdiv.s", inverse, one, step)
	for i := range 8 {
		a.byLane("fmul", i, i, inverse, 0) // NaN in a group of zeros, which the conversion makes 0
		a.op("fcvtns", i, i)
		a.move(largest+i, i)
	}
	a.tree("add", largest, 8)
	a.op("addv", largest, largest)
	a.op("scvtf.s", largest, largest)
	a.op("fmul.s", largest, largest, step)
	a.storeNext('s', largest, sums)
	for i := range 2 { // sixteen numbers in four vectors to one of bytes
		v := 4 * i
		a.op("sqxtn.4h", v, v)
		a.op("sqxtn2.8h", v, v+1)
		a.op("sqxtn.4h", v+2, v+2)
		a.op("sqxtn2.8h", v+2, v+3)
		a.op("sqxtn.8b", v, v)
		a.op("sqxtn2", v, v+2)
		a.storeNext('q', v, q)
	}
	a.code("SUBS $1, %v", n)
	a.code("BNE loop")
	a.code("RET")
}

// tree combines n vectors, a power of two, into the first.
func (a *asm) tree(name string, v, n int) {
	for n /= 2; n > 0; n /= 2 {
		for i := range n {
			a.op(name, v+i, v+i, v+n+i)
		}
	}
}

// sums adds each 32 numbers of x.
func sums(a *asm) {
	a.begin("sumsNEON", "dst, x *float32, groups int", "", "writes the sum of each 32 numbers.")
	dst, x, n := a.arg("dst"), a.arg("x"), a.arg("groups")
	a.label("loop")
	a.loadsNext(0, 8, x)
	a.tree("fadd", 0, 8)
	a.total(0)
	a.storeNext('s', 0, dst)
	a.code("SUBS $1, %v", n)
	a.code("BNE loop")
	a.code("RET")
}
