package lesson_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"forwardpass/pkg/lesson"
	"forwardpass/pkg/tensor"
)

// TestQuantise: every number comes back within half a step of its block, or a little more for the rounded scale.
func TestQuantise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	x := make([]float32, 64*32)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * math.Pow(2, float64(i/32%12-6)))
	}
	clear(x[64:96]) // a block of zeros
	for typ, steps := range map[tensor.DType]float64{tensor.Q8_0: 254, tensor.Q4_0: 16, tensor.Q4_1: 15} {
		data, err := lesson.Quantise(x, typ)
		if err != nil || len(data) != typ.Bytes(len(x)) {
			t.Fatalf("%v: %d bytes, %v", typ, len(data), err)
		}
		got := make([]float32, len(x))
		tensor.Dequantize(got, typ, data)
		for b := 0; b < len(x); b += 32 {
			lo, hi := 0.0, 0.0
			for _, v := range x[b : b+32] {
				lo, hi = min(lo, float64(v)), max(hi, float64(v))
			}
			span := hi - lo
			if typ != tensor.Q4_1 {
				span = 2 * max(hi, -lo)
			}
			limit := span / steps * 0.5
			if typ == tensor.Q4_0 {
				limit *= 2 // the largest number of the other sign has no 8
			}
			for i := b; i < b+32; i++ {
				if d := math.Abs(float64(got[i] - x[i])); d > limit*1.01+span/1000 {
					t.Fatalf("%v: number %d: %g came back as %g, step %g", typ, i, x[i], got[i], span/steps)
				}
			}
		}
	}
	if _, err := lesson.Quantise(x, tensor.Q6_K); err == nil {
		t.Error("Q6_K: want an error")
	}
	if _, err := lesson.Quantise(x[:31], tensor.Q8_0); err == nil {
		t.Error("31 numbers: want an error")
	}
}

// TestQuantised: fewer bits, larger differences, the same model.
func TestQuantised(t *testing.T) {
	lm, err := lesson.Open("storyland")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := lm.Tok.Encode("The cat chases the dog. The one who runs away is the")
	if err != nil {
		t.Fatal(err)
	}
	want, err := lm.Logits(ids)
	if err != nil {
		t.Fatal(err)
	}
	apart := map[tensor.DType]float64{}
	for _, typ := range []tensor.DType{tensor.Q8_0, tensor.Q4_1, tensor.Q4_0} {
		q, err := lesson.Quantised("storyland", typ)
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.Logits(ids)
		if err != nil {
			t.Fatal(err)
		}
		apart[typ] = lesson.Apart(got.Data, want.Data)
		if last := len(ids) - 1; lesson.Best(got.Row(last), 1)[0] != lesson.Best(want.Row(last), 1)[0] {
			t.Errorf("%v: another next token", typ)
		}
	}
	if !(0 < apart[tensor.Q8_0] && apart[tensor.Q8_0] < apart[tensor.Q4_1] && apart[tensor.Q4_1] < 12) {
		t.Errorf("differences of logits: %v", apart)
	}
	if _, err := lesson.Quantised("storyland", tensor.F16); err == nil {
		t.Error("F16: want an error")
	}
}
