package lesson_test

import (
	"context"
	"math"
	"testing"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/lesson"
	"forwardpass/pkg/model"
)

// TestMistakes: each mistake leaves prefill alone and shows at the first decode step.
func TestMistakes(t *testing.T) {
	right, err := lesson.Open("storyland")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := right.Tok.Encode("The cat chases the dog. The one who runs away is the")
	if err != nil {
		t.Fatal(err)
	}
	want, err := right.Logits(ids) // [T, V]
	if err != nil {
		t.Fatal(err)
	}
	for name, mistake := range map[string]lesson.Mistake{"mask": lesson.MaskWithoutOffset, "rotated": lesson.KeysRotatedTwice} {
		t.Run(name, func(t *testing.T) {
			lm, err := lesson.OpenWrong("storyland", mistake)
			if err != nil {
				t.Fatal(err)
			}
			const split = 8
			cache, err := lm.NewCache(kvcache.Options{BlockSize: 4})
			if err != nil {
				t.Fatal(err)
			}
			row := 0
			for _, new := range [][]int{ids[:split], ids[split : split+1], ids[split+1:]} {
				b := model.Batch{Seqs: []model.Sequence{{IDs: new, Cache: cache, Logits: model.All}}}
				if err := lm.Forward(context.Background(), &b); err != nil {
					t.Fatal(err)
				}
				for i := range new {
					var largest float64
					for j, v := range b.Logits.Row(i) {
						largest = max(largest, math.Abs(float64(v-want.Row(row)[j])))
					}
					if row < split && largest > 1e-4 || row >= split && largest < 0.1 {
						t.Errorf("position %d after a prefill of %d: difference %g", row, split, largest)
					}
					row++
				}
			}
		})
	}
}

func TestOpenWrongUnknown(t *testing.T) {
	if _, err := lesson.OpenWrong("no-such-model", lesson.MaskWithoutOffset); err == nil {
		t.Error("want an error")
	}
}
