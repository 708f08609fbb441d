//go:build linux || darwin

package kernel

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"
)

// fenced is memory between two pages that nobody may touch: who reads or writes a byte too many crashes.
type fenced []byte

func newFenced(t *testing.T) fenced {
	const size = 1 << 18
	page := syscall.Getpagesize()
	b, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(b) })
	for _, fence := range [][]byte{b[:page], b[size+page:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return fenced(b[page : size+page])
}

// bytes is a copy of src at one end of the memory.
func (f fenced) bytes(src []byte, first bool) []byte {
	b := f[len(f)-len(src):]
	if first {
		b = f[:len(src)]
	}
	copy(b, src)
	return b
}

func (f fenced) floats(src []float32, first bool) []float32 {
	b := f.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&src[0])), 4*len(src)), first)
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(src))
}

// No kernel reads or writes beside its operands.
func TestBounds(t *testing.T) {
	defer UseInt8(false)
	one, two, three := newFenced(t), newFenced(t), newFenced(t)
	rng := rand.New(rand.NewPCG(9, 9))
	for round := range 200 {
		first, m, n, long := rng.IntN(2) == 0, 1+rng.IntN(Few+6), 1+rng.IntN(40), 70
		if round%20 == 0 { // rows so long that a few of x are taken in parts
			m, n, long = 1+rng.IntN(12), 1+rng.IntN(12), 3000
		}
		for _, typ := range all {
			k := (1 + rng.IntN(long+blocks[typ].len)/blocks[typ].len) * blocks[typ].len
			w := one.bytes(weights(rng, typ, n*k), first)
			x, y := two.floats(floats(rng, m*k), first), three.floats(make([]float32, m*n), first)
			wide := make([]float32, n*k)
			plainDequant(wide, typ, w)
			sums, abs := reference(x, k, wide, k, m, n, k)
			eachLevel(func() {
				UseInt8(false)
				matMul(y, n, x, k, m, typ, w, n, k)
				verify(t, names[typ], y, n, m, n, k, sums, abs, 0)
				matMul(y, n, x, k, 1, typ, w, n, k)
				UseInt8(true)
				matMul(y, n, x, k, m, typ, w, n, k)
				Dequant(three.floats(wide[:k], first), typ, w[:typ.bytes(k)])
			})
		}
		k := 1 + rng.IntN(70)
		a, b, c := one.floats(floats(rng, m*k), first), two.floats(floats(rng, n*k), first), three.floats(make([]float32, m*n), first)
		eachLevel(func() {
			MulNT(c, n, a, k, b, k, m, n, k)
			MulNN(c, n, a, k, b, n, m, n, k)
		})
		y, x := one.floats(floats(rng, n), first), two.floats(floats(rng, n), first)
		eachLevel(func() {
			Add(y, x)
			Mul(y, x)
			Axpy(y, 2, x)
			Scale(y, 0.1)
			Max(y)
			ExpSum(y, 1)
			SiLU(y)
			GELUTanh(y)
			Dot(y, x)
		})
	}
}
