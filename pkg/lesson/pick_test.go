package lesson_test

import (
	"slices"
	"testing"

	"forwardpass/pkg/lesson"
	"forwardpass/pkg/tensor"
)

func TestBestAndAt(t *testing.T) {
	p := []float64{0.1, 0.4, 0.1, 0.4}
	for n, want := range map[int][]int{0: {}, 1: {1}, 3: {1, 3, 0}, 9: {1, 3, 0, 2}} {
		if got := lesson.Best(p, n); !slices.Equal(got, want) {
			t.Errorf("best %d of %v: want %v, got %v", n, p, want, got)
		}
	}
	if got := lesson.At([]string{"a", "b", "c"}, []int{2, 0}); !slices.Equal(got, []string{"c", "a"}) {
		t.Errorf("want c a, got %v", got)
	}
}

func TestVocabularyAndScale(t *testing.T) {
	lm, err := lesson.Open("storyland")
	if err != nil {
		t.Fatal(err)
	}
	defer lm.Close()
	v := lm.Vocabulary()
	if len(v) != 640 || v[0] != "<|endoftext|>" || !slices.Contains(v, "·datawhale") {
		t.Errorf("want 640 tokens with <|endoftext|> first and ·datawhale, got %d, %q first", len(v), v[0])
	}
	x, err := tensor.From([]float32{3, -3, 0, 2}, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := lesson.Scale(x); got[0] != 3 || got[1]*got[1]-2 > 1e-12 || 2-got[1]*got[1] > 1e-12 {
		t.Errorf("want scales 3 and √2, got %v", got)
	}
}
