package lesson_test

import (
	"testing"

	"forwardpass/pkg/lesson"
)

func TestApart(t *testing.T) {
	for _, c := range []struct {
		a, b []float32
		want float64
	}{
		{[]float32{1, 2, 3}, []float32{1, 2.5, 2}, 1},
		{[]float32{1, 2}, []float32{1, 2, 30}, 0}, // as far as both go
		{nil, []float32{1}, 0},
	} {
		if got := lesson.Apart(c.a, c.b); got != c.want {
			t.Errorf("Apart(%v, %v): want %g, got %g", c.a, c.b, c.want, got)
		}
	}
}
