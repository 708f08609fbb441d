package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

var all = []Type{F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K}

var names = [...]string{"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}

// FORWARDPASS_SHAPES=n tries one small shape in n, and the highest level alone: for a processor that is imitated and slow.
var (
	oneIn, _ = strconv.Atoi(os.Getenv("FORWARDPASS_SHAPES"))
	lot      = rand.New(rand.NewPCG(9, 9))
)

// passOver draws whether a shape of products of k numbers is left out.
func passOver(k int) bool { return oneIn > 1 && k < 600 && lot.IntN(oneIn) > 0 }

// eachLevel calls f at every level that this machine has.
func eachLevel(f func()) {
	defer Use(level)
	run := levels
	if oneIn > 1 {
		run = levels[len(levels)-1:]
	}
	for _, l := range run {
		Use(l)
		f()
	}
}

// weights makes n numbers of type t: random bits with moderate scales, at an odd address.
func weights(rng *rand.Rand, t Type, n int) []byte {
	buf := make([]byte, t.bytes(n)+1)
	b := buf[1:]
	switch t {
	case F32:
		for i := range n {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(rng.Float32()*2-1))
		}
	case BF16:
		for i := range n {
			binary.LittleEndian.PutUint16(b[2*i:], uint16(math.Float32bits(rng.Float32()*2-1)>>16))
		}
	case F16:
		for i := range n {
			binary.LittleEndian.PutUint16(b[2*i:], randomHalf(rng))
		}
	default:
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		for o := 0; o < len(b); o += blocks[t].bytes {
			for _, at := range map[Type][]int{Q8_0: {0}, Q4_0: {0}, Q4_1: {0, 2}, Q5_0: {0}, Q5_1: {0, 2}, Q4_K: {0, 2}, Q5_K: {0, 2}, Q6_K: {208}}[t] {
				binary.LittleEndian.PutUint16(b[o+at:], randomHalf(rng))
			}
		}
	}
	return b
}

// randomHalf is an F16 number of either sign with an exponent of -15 (subnormal) to -1.
func randomHalf(rng *rand.Rand) uint16 {
	return uint16(rng.IntN(2)<<15 | rng.IntN(15)<<10 | rng.IntN(1024))
}

func floats(rng *rand.Rand, n int) []float32 {
	f := make([]float32, n+1)[1:] // not on a vector boundary
	for i := range f {
		f[i] = rng.Float32()*2 - 1
	}
	return f
}

// exact is Σ x·w and Σ |x·w| in float64.
func exact(x, w []float32) (sum, abs float64) {
	for i, v := range x {
		p := float64(v) * float64(w[i])
		sum += p
		abs += math.Abs(p)
	}
	return
}

// closeTo fails if got is not within (k+4)·2⁻²⁴·Σ|xᵢwᵢ| of the exact sum: the bound that the package states,
// with room for the rounding of the weight itself.
func closeTo(t *testing.T, got float32, sum, abs float64, k int, what string, args ...int) {
	if d := math.Abs(float64(got) - sum); !(d <= float64(k+4)/(1<<24)*abs+1e-30) {
		t.Helper()
		t.Fatalf("%v %s at %v: got %g, want %g: off by %g, allowed %g", level, what, args, got, sum, d, float64(k+4)/(1<<24)*abs)
	}
}

const guard = 12345

// guarded is a matrix of n numbers that nobody may write, and the check that nobody did.
func guarded(n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = guard
	}
	return f
}

// reference is every exact sum of x·wᵀ, and the sums of absolute values: they are made once for all levels.
func reference(x []float32, ldx int, w []float32, ldw, T, rows, k int) (sums, abs []float64) {
	sums, abs = make([]float64, T*rows), make([]float64, T*rows)
	for i := range T {
		for r := range rows {
			sums[i*rows+r], abs[i*rows+r] = exact(x[i*ldx:i*ldx+k], w[r*ldw:r*ldw+k])
		}
	}
	return sums, abs
}

// verify compares y [T, rows] at stride ldy with the reference, and what lies around it with the guard.
func verify(t *testing.T, what string, y []float32, ldy, T, rows, k int, sums, abs []float64, base float64) {
	t.Helper()
	for i, v := range y {
		row, col := i/ldy, i%ldy
		if row < T && col < rows {
			n := row*rows + col
			closeTo(t, v, sums[n]+base, abs[n]+math.Abs(base), k, what, T, rows, k, row, col)
		} else if v != guard {
			t.Fatalf("%v %s: T=%d rows=%d k=%d: wrote at row %d, column %d", level, what, T, rows, k, row, col)
		}
	}
}

var input Input

func matMul(y []float32, ldy int, x []float32, ldx, t int, typ Type, w []byte, rows, k int) {
	input.Set(x, ldx, t, k, typ.Blocks())
	MatMul(y, ldy, &input, typ, w, rows)
}

func checkMatMul(t *testing.T, rng *rand.Rand, typ Type, T, rows, k int) {
	t.Helper()
	if passOver(k) {
		return
	}
	ldx, ldy := k+rng.IntN(3), rows+rng.IntN(3)
	w, x := weights(rng, typ, rows*k), floats(rng, T*ldx)
	wide := make([]float32, rows*k)
	plainDequant(wide, typ, w)
	sums, abs := reference(x, ldx, wide, k, T, rows, k)
	eachLevel(func() {
		y := guarded((T + 1) * ldy)
		matMul(y, ldy, x, ldx, T, typ, w, rows, k)
		verify(t, names[typ], y, ldy, T, rows, k, sums, abs, 0)
	})
}

// Every pair of dimensions 1…70 with the third drawn at random; the types that come in blocks take 1…5 of them a row.
func TestMatMulShapes(t *testing.T) {
	for _, typ := range all {
		rng := rand.New(rand.NewPCG(1, uint64(typ)))
		block := blocks[typ].len
		for rows := 1; rows <= 70; rows++ {
			if block > 1 {
				for n := 1; n <= 5*32/block+1; n++ {
					checkMatMul(t, rng, typ, 1, rows, n*block)
					checkMatMul(t, rng, typ, 2+rng.IntN(16), rows, n*block)
				}
				continue
			}
			for k := 1; k <= 70; k++ {
				checkMatMul(t, rng, typ, 1, rows, k)
				checkMatMul(t, rng, typ, 2+rng.IntN(16), rows, k)
			}
		}
		for T := 1; T <= 70; T++ {
			checkMatMul(t, rng, typ, T, 1+rng.IntN(70), (1+rng.IntN(70+block)/block)*block)
			checkMatMul(t, rng, typ, T, 33, (40/block+1)*block)
		}
		// Rows of one stretch and of several, with a short rest and a long one; more than one panel; few rows of x in parts.
		for _, k := range []int{600, 640, 656, 768, 1300, 2816} {
			k = (k + block - 1) / block * block
			checkMatMul(t, rng, typ, Few+1+rng.IntN(3), 67, k)
			checkMatMul(t, rng, typ, 2+rng.IntN(Few-1), 35, k)
		}
	}
}

// Every (m, n) with random k, and every k with random m and n, at random strides.
func TestMulShapes(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for m := 1; m <= 70; m++ {
		for n := 1; n <= 70; n++ {
			checkMul(t, rng, m, n, 1+rng.IntN(30))
		}
	}
	for k := 1; k <= 70; k++ {
		for m := 1; m <= 70; m += 5 {
			checkMul(t, rng, m, 1+rng.IntN(40), k)
		}
	}
	for _, k := range []int{600, 641, 800, 1400} {
		checkMul(t, rng, 20, 40, k)
		checkMul(t, rng, 3, 64, k)
	}
}

func checkMul(t *testing.T, rng *rand.Rand, m, n, k int) {
	t.Helper()
	if passOver(k) {
		return
	}
	lda, ldb, ldc, ldt := k+rng.IntN(4), k+rng.IntN(4), n+rng.IntN(4), n+rng.IntN(4)
	a, b, bt := floats(rng, m*lda), floats(rng, n*ldb), floats(rng, k*ldt)
	for j := range k { // the same B transposed, for A·B
		for i := range n {
			bt[j*ldt+i] = b[i*ldb+j]
		}
	}
	sums, abs := reference(a, lda, b, ldb, m, n, k)
	eachLevel(func() {
		c := guarded((m + 1) * ldc)
		MulNT(c, ldc, a, lda, b, ldb, m, n, k)
		verify(t, "MulNT", c, ldc, m, n, k, sums, abs, 0)
		for i := range m {
			for j := range n {
				c[i*ldc+j] = 3
			}
		}
		MulNN(c, ldc, a, lda, bt, ldt, m, n, k)
		verify(t, "MulNN", c, ldc, m, n, k, sums, abs, 3)
	})
}

// Widening is the same to the last bit at every level.
func TestDequant(t *testing.T) {
	for _, typ := range all {
		rng := rand.New(rand.NewPCG(3, uint64(typ)))
		for n := blocks[typ].len; n <= 40*blocks[typ].len; n += blocks[typ].len {
			w := weights(rng, typ, n)
			want := make([]float32, n)
			plainDequant(want, typ, w)
			eachLevel(func() {
				got := guarded(n + 1)
				Dequant(got[:n], typ, w)
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						t.Fatalf("%v %s of %d numbers: number %d is %g, want %g", level, names[typ], n, i, got[i], want[i])
					}
				}
				if got[n] != guard {
					t.Fatalf("%v %s of %d numbers wrote one more", level, names[typ], n)
				}
			})
		}
	}
}

func TestDot(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for n := range 200 {
		a, b := floats(rng, n), floats(rng, n+1)
		sum, abs := exact(a, b[:n])
		eachLevel(func() { closeTo(t, Dot(a, b), sum, abs, n, "dot of", n) })
	}
}

// In plain Go a row's product is the same to the last bit, alone or among others.
func TestPlainIgnoresBatch(t *testing.T) {
	defer Use(level)
	Use(Go)
	rng := rand.New(rand.NewPCG(8, 8))
	const rows, k, T = 9, 96, 11
	for _, typ := range []Type{F32, BF16, Q8_0, Q4_1} {
		w, x := weights(rng, typ, rows*k), floats(rng, T*k)
		all, one := make([]float32, T*rows), make([]float32, rows)
		matMul(all, rows, x, k, T, typ, w, rows, k)
		for i := range T {
			matMul(one, rows, x[i*k:], k, 1, typ, w, rows, k)
			for r := range rows {
				if one[r] != all[i*rows+r] {
					t.Fatalf("%s: row %d, column %d is %v among %d rows, %v alone", names[typ], i, r, all[i*rows+r], T, one[r])
				}
			}
		}
	}
}

func TestStart(t *testing.T) {
	t.Logf("this processor: %v, VNNI %v", levels[len(levels)-1], byteDots)
	x86, old, arm, none := []Level{Go, AVX2, AVX512}, []Level{Go, AVX2}, []Level{Go, NEON}, []Level{Go}
	for _, c := range []struct {
		levels []Level
		env    string
		want   Level
	}{
		{x86, "", AVX512}, {x86, "go", Go}, {x86, "avx2", AVX2}, {x86, "avx512", AVX512}, {x86, "neon", AVX512},
		{old, "avx512", AVX2}, {old, "nonsense", AVX2}, {none, "avx2", Go}, {none, "", Go},
		{arm, "", NEON}, {arm, "go", Go}, {arm, "neon", NEON}, {arm, "avx2", NEON},
	} {
		if got := start(c.levels, c.env); got != c.want {
			t.Errorf("levels %v, environment %q: got %v, want %v", c.levels, c.env, got, c.want)
		}
	}
}
