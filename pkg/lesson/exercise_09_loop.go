package lesson

import (
	"fmt"
)

// loopExercises are those of lesson 09.
func loopExercises() map[string]exercise {
	cases := []struct {
		ids, eos                   []int
		prompt, maxNew, maxContext int
		want                       string
	}{
		{[]int{0, 5, 6, 7}, []int{0}, 3, 10, 100, ""},               // goes on; the 0 in the prompt ends nothing
		{[]int{0, 5, 6, 0}, []int{0}, 3, 10, 100, "eos"},            // a new one does
		{[]int{5, 6, 7, 9}, []int{2, 9}, 3, 10, 100, "eos"},         // any of several
		{[]int{0, 5, 6, 7, 8}, []int{0}, 3, 2, 100, "length"},       // two new tokens are enough
		{[]int{0, 5, 6, 7, 8}, []int{0}, 3, 3, 100, ""},             // one is missing
		{[]int{0, 5, 6, 7, 8}, []int{0}, 3, 0, 100, ""},             // no limit
		{[]int{0, 5, 6, 7, 8}, []int{0}, 3, 0, 5, "context"},        // full
		{[]int{0, 5, 6, 7, 8}, nil, 3, 0, 6, ""},                    // room for one more
		{[]int{0, 5, 6, 7, 0}, []int{0}, 3, 2, 5, "eos"},            // all three at once
		{[]int{0, 5, 6, 7, 8}, []int{0}, 3, 2, 5, "length"},         // two at once
		{[]int{1, 2, 3, 4, 5, 6, 7, 8}, []int{}, 1, 7, 9, "length"}, // no EOS at all
	}
	return map[string]exercise{
		"stop": task("look at the last id only for EOS, and let an EOS of the prompt be; new tokens are len(ids) - prompt, and compare with >=; check in the order eos, length, context",
			len(cases), func(f func(ids []int, prompt int, eos []int, maxNew, maxContext int) string, i int) error {
				c := cases[i]
				if got := f(c.ids, c.prompt, c.eos, c.maxNew, c.maxContext); got != c.want {
					return fmt.Errorf("Stop(ids %v, prompt %d, eos %v, maxNew %d, maxContext %d): want %q, got %q", c.ids, c.prompt, c.eos, c.maxNew, c.maxContext, c.want, got)
				}
				return nil
			}),
	}
}
