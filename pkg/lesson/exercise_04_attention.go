package lesson

import (
	"fmt"
	"math"
)

// attentionExercises are those of lesson 04.
func attentionExercises() map[string]exercise {
	inf := math.Inf(-1)
	masks := []struct {
		start, t int
		want     [][]float64
	}{
		{0, 1, [][]float64{{0}}},
		{0, 3, [][]float64{{0, inf, inf}, {0, 0, inf}, {0, 0, 0}}},
		{4, 1, [][]float64{{0, 0, 0, 0, 0}}}, // a decode step sees everything
		{2, 2, [][]float64{{0, 0, 0, inf}, {0, 0, 0, 0}}},
	}
	rows := []struct{ scores, want []float64 }{
		{[]float64{0, 0, 0, 0}, []float64{0.25, 0.25, 0.25, 0.25}},
		{[]float64{1, 2, 3}, []float64{0.0900305732, 0.2447284711, 0.6652409558}},
		{[]float64{-1, 0.5}, []float64{0.1824255238, 0.8175744762}},
		{[]float64{2, inf, 1, inf}, []float64{0.7310585786, 0, 0.2689414214, 0}},
		{[]float64{1000, 1001, 1002}, []float64{0.0900305732, 0.2447284711, 0.6652409558}},
		{[]float64{-1000, -1001}, []float64{0.7310585786, 0.2689414214}},
	}
	return map[string]exercise{
		"mask": task("the query of row i stands at position start+i; it may look at columns 0 … start+i, itself included",
			len(masks), func(f func(int, int) [][]float64, i int) error {
				c := masks[i]
				got := f(c.start, c.t)
				if len(got) != len(c.want) {
					return fmt.Errorf("Mask(%d, %d): want %d rows, got %d", c.start, c.t, len(c.want), len(got))
				}
				for r := range got {
					if err := same(fmt.Sprintf("Mask(%d, %d): row %d", c.start, c.t, r), got[r], c.want[r]); err != nil {
						return err
					}
				}
				return nil
			}),
		"softmax": task("find the largest score first; exponentiate the differences from it; divide by their sum",
			len(rows), func(f func([]float64) []float64, i int) error {
				call := fmt.Sprintf("Softmax(%v)", rows[i].scores)
				in := append([]float64(nil), rows[i].scores...)
				return equal(call, f(in), rows[i].want)
			}),
	}
}
