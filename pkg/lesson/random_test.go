package lesson_test

import (
	"fmt"
	"testing"

	"forwardpass/pkg/lesson"
)

func TestRandom(t *testing.T) {
	m, err := lesson.Random(50_000, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	again, err := lesson.Random(50_000, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	a, err := m.Logits([]int{1, 2, 49_999})
	if err != nil {
		t.Fatal(err)
	}
	b, err := again.Logits([]int{1, 2, 49_999})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(a.Shape) != "[3 50000]" || lesson.Apart(a.Data, b.Data) != 0 || lesson.Apart(a.Row(0), a.Row(1)) == 0 {
		t.Errorf("want three different rows of 50,000, the same ones again for the same seed; got %v, apart by %g", a.Shape, lesson.Apart(a.Data, b.Data))
	}
	if _, err := lesson.Random(1, 1); err == nil {
		t.Error("want an error for a vocabulary of one")
	}
}
