package kernel

import "unsafe"

// Dequant writes the numbers stored in src as type t into dst; src holds exactly len(dst) of them.
func Dequant(dst []float32, t Type, src []byte) {
	n := len(dst)
	if n == 0 {
		return
	}
	src = src[:t.bytes(n)]
	if level > Go && t == F32 {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 4*n), src)
		return
	}
	if level > Go && n >= widths[t] {
		n -= n % widths[t]
		dequants[t](&dst[0], &src[0], n/widths[t])
		dst, src = dst[n:], src[t.bytes(n):]
	}
	plainDequant(dst, t, src)
}
