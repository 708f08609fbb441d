package tensor

import "forwardpass/pkg/tensor/internal/kernel"

// Dequantize writes the numbers stored in src as type t into dst; src holds exactly len(dst) of them.
// The layouts of the block types are ggml's (ggml-common.h); DType says what each number means.
func Dequantize(dst []float32, t DType, src []byte) {
	kernel.Dequant(dst, kernel.Type(t), src)
}

// F16ToF32 widens an IEEE half-precision number.
func F16ToF32(h uint16) float32 { return kernel.F16ToF32(h) }
