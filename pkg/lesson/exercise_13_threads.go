package lesson

import "fmt"

// gpuExercises are those of lesson 13.
func gpuExercises() map[string]exercise {
	cases := []struct{ block, thread, blocks, threads, n int }{
		{0, 0, 1, 32, 1},
		{0, 5, 1, 32, 3},        // more threads than numbers: nothing to do
		{2, 7, 4, 256, 1000},    // one each
		{3, 250, 4, 256, 1000},  // the last block is not full
		{1, 3, 2, 4, 20},        // several rounds
		{0, 0, 2, 4, 17},        // a round more than its neighbours
		{5, 31, 8, 32, 100_000}, // many rounds
	}
	return map[string]exercise{
		"grid-stride": task("a thread's first number is block*threads+thread; the whole grid has blocks*threads threads, so the next is that much further on; stop at n",
			len(cases), func(f func(block, thread, blocks, threads, n int) []int, i int) error {
				c := cases[i]
				var want []int
				for j := c.block*c.threads + c.thread; j < c.n; j += c.blocks * c.threads {
					want = append(want, j)
				}
				return same(fmt.Sprintf("Mine(block %d, thread %d, blocks %d, threads %d, n %d)", c.block, c.thread, c.blocks, c.threads, c.n),
					f(c.block, c.thread, c.blocks, c.threads, c.n), want)
			}),
	}
}
