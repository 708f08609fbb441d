package lesson

import (
	"fmt"
	"math"
)

// tourExercises are those of lesson 00.
func tourExercises() map[string]exercise {
	inf := float32(math.Inf(-1))
	cases := []struct {
		logits []float32
		want   int
	}{
		{[]float32{0.5, 2, 1}, 1},
		{[]float32{-3, -1, -2}, 1}, // no logit need be positive
		{[]float32{1, 4, 4, 0}, 1}, // the lowest id of equals
		{[]float32{inf, inf, -700, inf}, 2},
		{[]float32{7}, 0},
	}
	return map[string]exercise{
		"argmax": task("walk over the logits once and remember the id of the largest so far; start with id 0, not with the value 0, and replace it only by a larger one",
			len(cases), func(f func([]float32) int, i int) error {
				if got := f(cases[i].logits); got != cases[i].want {
					return fmt.Errorf("Argmax(%v): want id %d, got %d", cases[i].logits, cases[i].want, got)
				}
				return nil
			}),
	}
}
