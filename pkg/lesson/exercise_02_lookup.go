package lesson

import (
	"fmt"
	"slices"
)

// embeddingExercises are those of lesson 02.
func embeddingExercises() map[string]exercise {
	table := []float64{0, 0.5, 1, 10, 10.5, 11, 20, 20.5, 21, 30, 30.5, 31} // 4 rows of 3, or 6 of 2
	cases := []struct {
		width int
		ids   []int
		want  []float64
	}{
		{3, []int{0}, []float64{0, 0.5, 1}},
		{3, []int{2, 1}, []float64{20, 20.5, 21, 10, 10.5, 11}},
		{3, []int{3, 3, 0}, []float64{30, 30.5, 31, 30, 30.5, 31, 0, 0.5, 1}}, // a token twice is its row twice
		{2, []int{5, 0}, []float64{30.5, 31, 0, 0.5}},
		{3, []int{}, []float64{}},
	}
	return map[string]exercise{
		"lookup": task("row id begins at table[id*width] and ends before table[(id+1)*width]",
			len(cases), func(f func([]float64, int, []int) []float64, i int) error {
				c := cases[i]
				return equal(fmt.Sprintf("Lookup(table, %d, %v)", c.width, c.ids), f(slices.Clone(table), c.width, c.ids), c.want)
			}),
	}
}
