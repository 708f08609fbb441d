package lesson

import (
	"fmt"
	"slices"
)

// servingExercises are those of lesson 12.
func servingExercises() map[string]exercise {
	cases := []struct {
		table, free     []int
		size, length, n int
		take            int // how many blocks are wanted
		ok              bool
	}{
		{nil, []int{7, 2, 9}, 4, 0, 3, 1, true},            // the first block
		{[]int{7}, []int{2, 9}, 4, 3, 1, 0, true},          // fits in the last block
		{[]int{7}, []int{2, 9}, 4, 4, 1, 1, true},          // the last block is just full
		{nil, []int{7, 2, 9}, 4, 0, 9, 3, true},            // a prompt of several blocks
		{[]int{7}, []int{2, 9}, 4, 3, 10, 0, false},        // not enough: nothing changes
		{[]int{7}, nil, 4, 3, 1, 0, true},                  // none is needed
		{[]int{5}, []int{1}, 16, 10, 0, 0, true},           // no tokens
		{[]int{1, 2}, []int{3, 4, 5}, 1, 2, 3, 3, true},    // blocks of one token
		{[]int{4, 1}, []int{9, 8, 7}, 16, 30, 20, 2, true}, // two more
	}
	return map[string]exercise{
		"block-allocator": task("length+n tokens need ⌈(length+n)/size⌉ blocks in all, which in whole numbers is (length+n+size-1)/size; the table has len(table) of them already; check that free has enough before you take any",
			len(cases), func(f func(table, free []int, size, length, n int) (newTable, newFree []int, ok bool), i int) error {
				c := cases[i]
				call := fmt.Sprintf("Reserve(table %v, free %v, size %d, length %d, n %d)", c.table, c.free, c.size, c.length, c.n)
				table, free := slices.Clone(c.table), slices.Clone(c.free)
				gotTable, gotFree, ok := f(table, free, c.size, c.length, c.n)
				if ok != c.ok {
					return fmt.Errorf("%s: want ok %t, got %t", call, c.ok, ok)
				}
				if err := same(call+": the table", gotTable, append(slices.Clone(c.table), c.free[:c.take]...)); err != nil {
					return err
				}
				return same(call+": the free list", gotFree, c.free[c.take:])
			}),
	}
}
