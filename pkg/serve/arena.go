package serve

import "slices"

// arena gives out pieces of one contiguous memory of tokens, first fit, as engines without paging do. What it can't give although
// enough is free is external fragmentation.
type arena struct {
	size  int
	holes []hole // free pieces by start; no two touch
}

type hole struct{ start, size int }

func newArena(size int) *arena { return &arena{size: size, holes: []hole{{0, size}}} }

// take returns the start of a free piece of n tokens; false: no hole is large enough.
func (a *arena) take(n int) (start int, ok bool) {
	for i := range a.holes {
		h := &a.holes[i]
		if h.size < n {
			continue
		}
		start = h.start
		h.start, h.size = h.start+n, h.size-n
		if h.size == 0 {
			a.holes = slices.Delete(a.holes, i, i+1)
		}
		return start, true
	}
	return 0, false
}

// give returns a piece; neighbouring holes become one.
func (a *arena) give(start, n int) {
	i := 0
	for i < len(a.holes) && a.holes[i].start < start {
		i++
	}
	a.holes = slices.Insert(a.holes, i, hole{start, n})
	if i+1 < len(a.holes) && start+n == a.holes[i+1].start {
		a.holes[i].size += a.holes[i+1].size
		a.holes = slices.Delete(a.holes, i+1, i+2)
	}
	if i > 0 && a.holes[i-1].start+a.holes[i-1].size == start {
		a.holes[i-1].size += a.holes[i].size
		a.holes = slices.Delete(a.holes, i, i+1)
	}
}

// free is how many tokens are free in all, and in the largest piece.
func (a *arena) free() (all, largest int) {
	for _, h := range a.holes {
		all += h.size
		largest = max(largest, h.size)
	}
	return all, largest
}
