package lesson_test

import (
	"testing"

	"forwardpass/pkg/lesson"
	"forwardpass/pkg/lmhead"
)

// TestStories: the model knows this language, so its loss is near that of the validation set (0.612).
func TestStories(t *testing.T) {
	lm, err := lesson.Open("storyland")
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	var n int
	for _, s := range lesson.Stories() {
		ids, err := lm.Tok.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		lg, err := lm.Logits(ids)
		if err != nil {
			t.Fatal(err)
		}
		l, err := lmhead.CrossEntropy(lg, lmhead.Shift(ids))
		if err != nil {
			t.Fatal(err)
		}
		sum += l.Mean * float64(l.Counted)
		n += l.Counted
	}
	if mean := sum / float64(n); len(lesson.Stories()) != 60 || mean > 0.8 {
		t.Errorf("%d stories, mean loss %.3f", len(lesson.Stories()), mean)
	}
}
