package kernel

// Dequant writes the numbers stored in src as type t into dst; src holds exactly len(dst) of them.
func Dequant(dst []float32, t Type, src []byte) {
	n := len(dst)
	if n == 0 {
		return
	}
	src = src[:t.bytes(n)]
	if level > Go {
		done := dequantASM(dst, t, src)
		dst, src = dst[done:], src[t.bytes(done):]
	}
	plainDequant(dst, t, src)
}
