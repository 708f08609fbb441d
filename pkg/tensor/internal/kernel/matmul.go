package kernel

import "unsafe"

// Few is the largest number of rows of x for which inner products with rows of weights beat packing them. Where weights
// aren't widened in registers, x is read again for every four rows of them, so that it has to be short too, or its rows
// very few: small, which is also the most that are rounded to int8.
const (
	small = 8
	Few   = 40
	short = 32 << 10 // numbers
)

// MatMul computes y = x·Wᵀ for rows of weights that follow each other in w: y is in.t rows at stride ldy, of
// which it writes the first `rows` columns.
//
//   - One row of x: the weights stream through once and are widened in registers.
//   - Up to Few: memory is read once for all rows of x, and each weight widened once for eight of them.
//   - More: panels of weights are transposed, and a tile of y stays in registers over a stretch of them.
//
// Plain Go widens a few rows of weights at a time for all rows of x, however many.
func MatMul(y []float32, ldy int, in *Input, typ Type, w []byte, rows int) {
	t, k := in.t, in.k
	if t == 0 || rows == 0 {
		return
	}
	if k == 0 {
		for i := range t {
			clear(y[i*ldy : i*ldy+rows])
		}
		return
	}
	// The assembly has no bounds checks: these are its.
	_, _, w = in.x[(t-1)*in.ld+k-1], y[(t-1)*ldy+rows-1], w[:rows*typ.bytes(k)]
	switch {
	case in.rounded && typ.int8Kernel():
		matInt8(y, ldy, in, typ, w, rows)
	case t == 1 && matVec(y, in, typ, w, rows):
	case t <= Few && fewKernel(typ, k):
		matFew(y, ldy, in, typ, w, rows)
	case level == Go || t <= small || t <= Few && t*k <= short:
		widenFew(y, ldy, in.x, in.ld, t, typ, w, rows, k)
	default:
		matMany(y, ldy, in.x, in.ld, t, typ, w, rows, k)
	}
}

// matFew multiplies eight, four or two rows of x at a time by rows of weights. Of both it takes as much at a time as stays
// in the first-level cache.
func matFew(y []float32, ldy int, in *Input, typ Type, w []byte, rows int) {
	t, k, bytes := in.t, in.k, typ.bytes(in.k)
	width := widths[typ]
	near := 20 << 10 // bytes of x, for a cache of 32 KB
	if level == AVX512 {
		near = 28 << 10 // and of 48 KB, as processors with AVX-512 now have it
	}
	parts := (4*k*min(t, 8) + near - 1) / near // of a row
	part := ((k+parts-1)/parts + width - 1) / width * width
	block := max(4, 12<<10/typ.bytes(part)/4*4) // the kernels take up to four rows of weights together
	for r := 0; r < rows; r += block {
		n := min(block, rows-r)
		wr := w[r*bytes : (r+n)*bytes]
		for i := range t {
			clear(y[i*ldy+r : i*ldy+r+n])
		}
		for k0 := 0; k0 < k; k0 += part {
			kc := min(part, k-k0)
			for i := 0; i+1 < t; {
				group := 8
				for group > t-i {
					group /= 2
				}
				dotFew(&y[i*ldy+r], ldy, &in.x[i*in.ld+k0], in.ld, group, typ, &wr[typ.bytes(k0)], bytes, n, kc)
				i += group
			}
		}
		if t%2 == 1 && !matVec(y[(t-1)*ldy+r:], in, typ, wr, n) {
			panic("kernel: a type with a kernel for two rows has none for one")
		}
	}
}

// widenFew widens a few rows of weights at a time and takes their inner products with every row of x.
func widenFew(y []float32, ldy int, x []float32, ldx, t int, typ Type, w []byte, rows, k int) {
	if f := asFloats(typ, w); f != nil {
		Dots(y, ldy, x, ldx, f, k, t, rows, k)
		return
	}
	s := getScratch()
	defer putScratch(s)
	const block = 4
	wide, bytes := s.rows(block, k), typ.bytes(k)
	for r := 0; r < rows; r += block {
		n := min(block, rows-r)
		Dequant(wide[:n*k], typ, w[r*bytes:(r+n)*bytes])
		Dots(y[r:], ldy, x, ldx, wide, k, t, n, k)
	}
}

// matMany is the blocked matrix–matrix product.
func matMany(y []float32, ldy int, x []float32, ldx, t int, typ Type, w []byte, rows, k int) {
	s := getScratch()
	defer putScratch(s)
	width, bytes := panelWidth(), typ.bytes(k)
	for k0, kc := 0, 0; k0 < k; k0 += kc {
		kc = stretch(k - k0)
		off, size := typ.bytes(k0), typ.bytes(kc)
		for r := 0; r < rows; r += width {
			n := min(width, rows-r)
			s.pack(typ, w[r*bytes+off:], bytes, size, n, kc)
			s.gemm(y[r:], ldy, x[k0:], ldx, s.panel[:], width, t, n, kc, k0 > 0)
		}
	}
}

// pack transposes n rows of kc weights, stride bytes apart, into the panel.
func (s *scratch) pack(typ Type, w []byte, stride, size, n, kc int) {
	width := panelWidth()
	lanes := width / 2
	pad := (kc + lanes - 1) / lanes * lanes
	if typ == F32 && n == width && pad == kc {
		_ = w[(n-1)*stride+size-1]
		packRows(&s.panel[0], (*float32)(unsafe.Pointer(&w[0])), stride/4, kc)
		return
	}
	for i := range n {
		row := s.tile[i*pad : i*pad+pad]
		Dequant(row[:kc], typ, w[i*stride:i*stride+size])
		clear(row[kc:])
	}
	clear(s.tile[n*pad : width*pad])
	packRows(&s.panel[0], &s.tile[0], pad, pad)
}

// packFloats is pack for n rows of k floats at stride ld.
func (s *scratch) packFloats(b []float32, ld, n, k int) {
	width := panelWidth()
	lanes := width / 2
	pad := (k + lanes - 1) / lanes * lanes
	if n == width && pad == k {
		_ = b[(n-1)*ld+k-1]
		packRows(&s.panel[0], &b[0], ld, k)
		return
	}
	for i := range n {
		row := s.tile[i*pad : i*pad+pad]
		copy(row, b[i*ld:i*ld+k])
		clear(row[k:])
	}
	clear(s.tile[n*pad : width*pad])
	packRows(&s.panel[0], &s.tile[0], pad, pad)
}

// gemm multiplies m rows of a by one panel of n ≤ width columns and stores or adds the result.
func (s *scratch) gemm(c []float32, ldc int, a []float32, lda int, b []float32, ldb, m, n, k int, add bool) {
	_, _, _ = c[(m-1)*ldc+n-1], a[(m-1)*lda+k-1], b[(k-1)*ldb+n-1]
	if level == AVX512 || n == panelWidth() {
		gemmPanel(&c[0], ldc, &a[0], lda, &b[0], ldb, m, k, n, add)
		return
	}
	// AVX2 and NEON write whole panels only: the panel is copied if it is somebody's rows, and so is the result.
	width := panelWidth()
	if ldb != width {
		for j := range k {
			row := s.panel[j*width : j*width+width]
			clear(row[copy(row, b[j*ldb:j*ldb+n]):])
		}
		b = s.panel[:]
	}
	out := s.narrow(m * width)
	gemmPanel(&out[0], width, &a[0], lda, &b[0], width, m, k, width, false)
	for i := range m {
		ci, o := c[i*ldc:i*ldc+n], out[i*width:i*width+n]
		if add {
			for j := range ci {
				ci[j] += o[j]
			}
		} else {
			copy(ci, o)
		}
	}
}

// MulNT computes C = A·Bᵀ on strided rows: a [m, k], b [n, k], c [m, n].
func MulNT(c []float32, ldc int, a []float32, lda int, b []float32, ldb, m, n, k int) {
	if m == 0 || n == 0 {
		return
	}
	if level == Go || m <= small || k == 0 {
		Dots(c, ldc, a, lda, b, ldb, m, n, k)
		return
	}
	s := getScratch()
	defer putScratch(s)
	width := panelWidth()
	for k0, kc := 0, 0; k0 < k; k0 += kc {
		kc = stretch(k - k0)
		for j := 0; j < n; j += width {
			w := min(width, n-j)
			s.packFloats(b[j*ldb+k0:], ldb, w, kc)
			s.gemm(c[j:], ldc, a[k0:], lda, s.panel[:], width, m, w, kc, k0 > 0)
		}
	}
}

// MulNN computes C += A·B on strided rows: a [m, k], b [k, n], c [m, n].
func MulNN(c []float32, ldc int, a []float32, lda int, b []float32, ldb, m, n, k int) {
	if m == 0 || n == 0 || k == 0 {
		return
	}
	if level == Go {
		plainGemm(c, ldc, a, lda, b, ldb, m, n, k)
		return
	}
	_, _, _ = c[(m-1)*ldc+n-1], a[(m-1)*lda+k-1], b[(k-1)*ldb+n-1]
	width, done := panelWidth(), 0
	if m <= fewRows() {
		for ; done < n && (level == AVX512 || n-done >= 2*width); done += 2 * width {
			fewPanel(&c[done], ldc, &a[0], lda, &b[done], ldb, m, k, min(2*width, n-done))
		}
		if done >= n {
			return
		}
	}
	s := getScratch()
	defer putScratch(s)
	for k0, kc := 0, 0; k0 < k; k0 += kc {
		kc = stretch(k - k0)
		for j := done; j < n; j += width {
			s.gemm(c[j:], ldc, a[k0:], lda, b[k0*ldb+j:], ldb, m, min(width, n-j), kc, true)
		}
	}
}

// Dots computes y[i·ldy+r] = Σ x[i·ldx+j]·w[r·ldw+j] for t vectors x and rows of w, without packing.
func Dots(y []float32, ldy int, x []float32, ldx int, w []float32, ldw, t, rows, k int) {
	if t == 0 || rows == 0 {
		return
	}
	if level == Go || k == 0 {
		plainDots(y, ldy, x, ldx, w, ldw, t, rows, k)
		return
	}
	_, _, _ = y[(t-1)*ldy+rows-1], x[(t-1)*ldx+k-1], w[(rows-1)*ldw+k-1]
	// Few enough rows of w to stay in the first-level cache while all of x passes by.
	block := rows
	if t > 4 {
		block = max(4, 4096/k/4*4)
	}
	for r := 0; r < rows; r += block {
		n := min(block, rows-r)
		for i := 0; i < t; i += 4 {
			dotRows(&y[i*ldy+r], ldy, &x[i*ldx], ldx, &w[r*ldw], ldw, min(4, t-i), n, k)
		}
	}
}

// Dot is the inner product over len(a) numbers.
func Dot(a, b []float32) float32 {
	if level == Go || len(a) == 0 {
		return plainDot(a, b)
	}
	_ = b[len(a)-1]
	var y float32
	dotRows(&y, 1, &a[0], 0, &b[0], 0, 1, 1, len(a))
	return y
}

// asFloats sees aligned F32 weights as numbers.
func asFloats(t Type, w []byte) []float32 {
	if t != F32 || uintptr(unsafe.Pointer(&w[0]))%4 != 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&w[0])), len(w)/4)
}
