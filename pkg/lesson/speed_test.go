package lesson_test

import (
	"testing"
	"time"

	"forwardpass/pkg/lesson"
)

func TestTime(t *testing.T) {
	lm, err := lesson.Open("storyland")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := lm.Text("The cat chases the dog.", 100)
	if err != nil || len(ids) != 100 {
		t.Fatalf("want 100 ids, got %d, %v", len(ids), err)
	}
	for _, cached := range []bool{true, false} {
		s, err := lesson.Time(lm.Model, ids, 5, cached)
		if err != nil || s.TTFT <= 0 || s.TPOT <= 0 {
			t.Errorf("cached %t: %+v, %v", cached, s, err)
		}
	}
	if _, err := lesson.Time(lm.Model, nil, 5, true); err == nil {
		t.Error("an empty prompt: want an error")
	}
	if lesson.Millis(1500*time.Microsecond) != 1.5 {
		t.Error("1.5 ms")
	}
}
