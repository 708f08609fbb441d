package lesson

import (
	"math"
	"strings"
	"testing"
)

// TestAnswers: what a learner is told about a function that is not right yet.
func TestAnswers(t *testing.T) {
	softmax := exercises()["softmax"]
	for _, c := range []struct {
		name string
		fn   any
		want string
	}{
		{"another type", func(x []float32) []float32 { return x }, "want a func([]float64) []float64, got a func([]float32) []float32"},
		{"a panic", func(x []float64) []float64 { return x[:len(x)+1000] }, "case 1: your function panics: runtime error"},
		{"too few numbers", func(x []float64) []float64 { return x[1:] }, "Softmax([0 0 0 0]): want 4 numbers, got 3"},
		{"overflow", func(x []float64) []float64 {
			var sum float64
			for i := range x {
				x[i] = math.Exp(x[i])
				sum += x[i]
			}
			for i := range x {
				x[i] /= sum
			}
			return x
		}, "Softmax([1000 1001 1002]): number 0: want 0.0900306, got NaN"},
	} {
		if err := softmax.run(c.fn); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v", c.name, c.want, err)
		}
	}
}

// TestHints: every exercise has cases and a hint.
func TestHints(t *testing.T) {
	for name, e := range exercises() {
		if e.hint == "" || e.cases == 0 {
			t.Errorf("%s: %d cases, hint %q", name, e.cases, e.hint)
		}
	}
}
