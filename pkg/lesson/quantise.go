package lesson

import (
	"encoding/binary"
	"fmt"
	"math"

	"forwardpass/pkg/tensor"
)

// Quantised opens a model and stores the matrices of its layers as another type: Q8_0, Q4_0 or Q4_1. Embedding, head and
// norms stay as they are, as usual.
func Quantised(name string, t tensor.DType) (*LM, error) {
	lm, err := Open(name)
	if err != nil {
		return nil, err
	}
	for i := range lm.Layers {
		l := &lm.Layers[i]
		ws := []*tensor.Linear{&l.Q, &l.K, &l.V, &l.O}
		if l.MLP != nil {
			ws = append(ws, l.MLP.Gate, &l.MLP.Up, &l.MLP.Down)
		}
		for _, w := range ws {
			if w == nil || w.W == nil {
				continue
			}
			data, err := Quantise(w.W.Floats().Data, t)
			if err != nil {
				return nil, err
			}
			if w.W, err = tensor.NewMatrix(t, w.W.Rows, w.W.Cols, data); err != nil {
				return nil, err
			}
		}
	}
	return lm, nil
}

// Quantise stores numbers in blocks of 32 with a scale, rounding each to the nearest integer:
//
//	Q8_0  d = max|x|/127, q = x/d                      34 bytes
//	Q4_0  d = (the number of the largest size)/−8, q = x/d + 8    18 bytes
//	Q4_1  d = (max−min)/15, m = min, q = (x−m)/d       20 bytes
//
// as ggml does; tensor.Dequantize is the way back.
func Quantise(x []float32, t tensor.DType) ([]byte, error) {
	n, size := t.Block()
	if t != tensor.Q8_0 && t != tensor.Q4_0 && t != tensor.Q4_1 {
		return nil, fmt.Errorf("lesson: want to quantise to Q8_0, Q4_0 or Q4_1, got %v", t)
	}
	if len(x)%n != 0 {
		return nil, fmt.Errorf("lesson: want a multiple of %d numbers to quantise, got %d", n, len(x))
	}
	out := make([]byte, 0, len(x)/n*size)
	for ; len(x) > 0; x = x[n:] {
		lo, hi, far := x[0], x[0], x[0]
		for _, v := range x[:n] {
			lo, hi = min(lo, v), max(hi, v)
			if math.Abs(float64(v)) > math.Abs(float64(far)) {
				far = v
			}
		}
		var d, m float32
		switch t {
		case tensor.Q8_0:
			d = max(hi, -lo) / 127
		case tensor.Q4_0:
			d = far / -8
		case tensor.Q4_1:
			d, m = (hi-lo)/15, lo
		}
		q := func(v float32, offset, most float64) byte {
			if d == 0 {
				return byte(int(offset))
			}
			return byte(int(min(math.Round(float64((v-m)/d))+offset, most)))
		}
		out = binary.LittleEndian.AppendUint16(out, half(d))
		switch t {
		case tensor.Q8_0:
			for _, v := range x[:n] {
				out = append(out, q(v, 0, 127))
			}
			continue
		case tensor.Q4_1:
			out = binary.LittleEndian.AppendUint16(out, half(m))
		}
		offset := 0.0
		if t == tensor.Q4_0 {
			offset = 8
		}
		for i := range n / 2 { // the first half in the low four bits
			out = append(out, q(x[i], offset, 15)|q(x[i+n/2], offset, 15)<<4)
		}
	}
	return out, nil
}

// half is the nearest IEEE half-precision number, of numbers of ordinary size; smaller ones become 0.
func half(x float32) uint16 {
	bits := math.Float32bits(x)
	sign, exp, frac := uint16(bits>>16&0x8000), int(bits>>23&0xff)-127+15, bits&0x7fffff
	if exp <= 0 {
		return sign
	}
	h := uint32(exp)<<10 | frac>>13
	if rest := frac & 0x1fff; rest > 0x1000 || rest == 0x1000 && h&1 == 1 { // to nearest, ties to even
		h++
	}
	return sign | uint16(min(h, 0x7bff))
}
