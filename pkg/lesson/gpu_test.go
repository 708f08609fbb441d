package lesson_test

import (
	"testing"

	"forwardpass/pkg/lesson"
)

func TestLaunch(t *testing.T) {
	seen := map[[2]int]int{}
	lesson.Launch(3, 4, func(block, thread int) { seen[[2]int{block, thread}]++ })
	if len(seen) != 12 || seen[[2]int{2, 3}] != 1 {
		t.Errorf("want each of 12 threads once, got %v", seen)
	}
}

// TestBlock: a sum by halves is right in every order with its barriers, and wrong without.
func TestBlock(t *testing.T) {
	sum := func(order []int, barriers bool) int {
		x := []int{1, 2, 3, 4, 5, 6, 7, 8}
		step := func(half int) func(int) {
			return func(t int) {
				if t < half {
					x[t] += x[t+half]
				}
			}
		}
		phases := []func(int){step(4), step(2), step(1)}
		if !barriers {
			all := phases
			phases = []func(int){func(t int) {
				for _, p := range all {
					p(t)
				}
			}}
		}
		lesson.Block(8, order, phases...)
		return x[0]
	}
	backwards := []int{7, 6, 5, 4, 3, 2, 1, 0}
	if sum(nil, true) != 36 || sum(backwards, true) != 36 {
		t.Error("with barriers: want 36 in every order")
	}
	if sum(nil, false) == 36 {
		t.Error("without barriers: want a wrong sum in some order")
	}
}

func TestSectors(t *testing.T) {
	for _, c := range []struct {
		stride, want int
	}{{1, 4}, {2, 8}, {8, 32}, {100, 32}, {0, 1}} {
		var a []int
		for i := range 32 {
			a = append(a, 4*c.stride*i)
		}
		if got := lesson.Sectors(a); got != c.want {
			t.Errorf("stride %d: want %d sectors, got %d", c.stride, c.want, got)
		}
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		threads, registers, shared, want int
		limit                            string
	}{
		{256, 32, 0, 8, "threads"},
		{256, 64, 0, 4, "registers"},
		{256, 33, 0, 6, "registers"}, // 33 registers take as many as 40
		{32, 16, 0, 32, "blocks"},
		{128, 32, 100 << 10, 2, "shared memory"},
		{1024, 128, 0, 0, "registers"}, // a launch would fail
	} {
		blocks, occupancy, limit := lesson.Hopper.Fit(c.threads, c.registers, c.shared)
		if blocks != c.want || limit != c.limit || occupancy != float64(blocks*c.threads)/2048 {
			t.Errorf("%+v: got %d blocks, %g, limited by %s", c, blocks, occupancy, limit)
		}
	}
}

func TestGPU(t *testing.T) {
	r, note, err := lesson.GPU()
	if err != nil || r == nil || note == "" {
		t.Errorf("%v %q %v", r, note, err)
	}
}
