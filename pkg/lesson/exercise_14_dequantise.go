package lesson

import (
	"fmt"

	"forwardpass/pkg/tensor"
)

// realExercises are those of lesson 14.
func realExercises() map[string]exercise {
	block := func(scale uint16, q ...int8) []byte {
		b := make([]byte, 34)
		b[0], b[1] = byte(scale), byte(scale>>8)
		for i, v := range q {
			b[2+i] = byte(v)
		}
		return b
	}
	ramp := make([]int8, 32)
	for i := range ramp {
		ramp[i] = int8(8*i - 127)
	}
	blocks := [][]byte{
		block(0x3c00, 1, 2, 3),       // scale 1
		block(0x3800, 1, 2, 3),       // scale 0.5
		block(0x3c00, -1, -2, -128),  // negative ones: a byte is not an int8
		block(0xbc00, 100, -100),     // a negative scale
		block(0x2e66, ramp...),       // about 0.1
		block(0x0000, 5, 6, 7),       // scale 0
		block(0x1400, 127, -127, 64), // a small weight's block
	}
	return map[string]exercise{
		"dequantise": task("the first two bytes are the scale, an IEEE half-precision number with the low byte first (tensor.F16ToF32 reads one); each of the 32 bytes after them is a signed number, int8(b), to be multiplied by the scale",
			len(blocks), func(f func(block []byte) []float32, i int) error {
				want := make([]float32, 32)
				tensor.Dequantize(want, tensor.Q8_0, blocks[i])
				got := f(blocks[i])
				return equal(fmt.Sprintf("Dequantise(% x …)", blocks[i][:6]), floats(got), floats(want))
			}),
	}
}

// floats widens numbers for equal.
func floats(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
