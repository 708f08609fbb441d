package lesson

import (
	"fmt"
	"slices"
)

// tokenExercises are those of lesson 01.
func tokenExercises() map[string]exercise {
	cases := []struct {
		ids                 []int
		left, right, joined int
		want                []int
	}{
		{[]int{1, 2, 3}, 1, 2, 9, []int{9, 3}},
		{[]int{3, 1, 2, 1, 2, 1}, 1, 2, 9, []int{3, 9, 9, 1}},
		{[]int{2, 1, 3}, 1, 2, 9, []int{2, 1, 3}}, // the other order is another pair
		{[]int{5, 5, 5}, 5, 5, 9, []int{9, 5}},    // from left to right, no token twice
		{[]int{5, 5, 5, 5}, 5, 5, 9, []int{9, 9}},
		{[]int{1}, 1, 2, 9, []int{1}},
		{[]int{}, 1, 2, 9, []int{}},
	}
	return map[string]exercise{
		"merge": task("walk with an index; when the token at it is left and the next one is right, append joined and step over both, else append the token and step over one; look out for the last token",
			len(cases), func(f func([]int, int, int, int) []int, i int) error {
				c := cases[i]
				call := fmt.Sprintf("Merge(%v, %d, %d, %d)", c.ids, c.left, c.right, c.joined)
				return same(call, f(slices.Clone(c.ids), c.left, c.right, c.joined), c.want)
			}),
	}
}
