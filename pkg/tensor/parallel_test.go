package tensor

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counter counts how often each part ran, with plain additions: the race detector watches the hand-over.
type counter struct{ parts []int }

func (c *counter) Run(i int) { c.parts[i]++ }

func TestParallelRunsEachPartOnce(t *testing.T) {
	for _, procs := range []int{1, 2, 3, 8} {
		old := runtime.GOMAXPROCS(procs)
		for n := range 70 {
			c := &counter{make([]int, n)}
			for range 20 {
				Parallel(n, c)
			}
			for i, got := range c.parts {
				if got != 20 {
					t.Fatalf("GOMAXPROCS=%d, %d parts: part %d ran %d times of 20", procs, n, i, got)
				}
			}
		}
		runtime.GOMAXPROCS(old)
	}
}

// More callers than there are jobs, each of whose parts calls Parallel again.
func TestParallelConcurrentAndNested(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for round := range 30 {
				sums := make([]int, 7)
				Parallel(len(sums), Func(func(i int) {
					inner := &counter{make([]int, 5)}
					Parallel(len(inner.parts), inner)
					for _, n := range inner.parts {
						sums[i] += n
					}
				}))
				for i, s := range sums {
					if s != 5 {
						t.Errorf("round %d: part %d saw %d inner parts, want 5", round, i, s)
					}
				}
			}
		})
	}
	wg.Wait()
}

// A part that takes longer than anyone spins for: callers and workers go to sleep and wake up.
func TestParallelSleeps(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	var ran atomic.Int32
	for range 20 {
		Parallel(3, Func(func(i int) {
			if i > 0 {
				time.Sleep(time.Duration(i) * 2 * spinFor)
			}
			ran.Add(1)
		}))
		time.Sleep(3 * spinFor)
	}
	if ran.Load() != 60 {
		t.Fatalf("%d parts ran, want 60", ran.Load())
	}
}

// A worker that is late makes callers work alone for a while, longer each time, and then be joined again.
func TestPoolStopsWaitingForLateWorkers(t *testing.T) {
	var p pool
	const part = time.Millisecond
	for i, want := range []int32{aloneLeast, 2 * aloneLeast, 4 * aloneLeast} {
		p.judge(20*part, part)
		if got := p.alone.Load(); got != want {
			t.Fatalf("after %d late parts %d calls are done alone, want %d", i+1, got, want)
		}
	}
	c := &counter{make([]int, 4)}
	for range 4 * aloneLeast {
		if p.run(4, 2, c) {
			t.Fatal("the workers were asked before the penalty was over")
		}
	}
	if !p.run(4, 2, c) {
		t.Fatal("the workers were not asked after the penalty")
	}
	for range 40 {
		p.judge(part/2, part) // in time
	}
	p.judge(20*part, part)
	if got := p.alone.Load(); got != aloneLeast {
		t.Errorf("after many parts in time a late one costs %d calls, want %d", got, aloneLeast)
	}
}

// allocations is what a call of f allocates on average with several workers, after a warm-up that lets
// each of them have a scratch of its own. (testing.AllocsPerRun would leave one worker.)
func allocations(procs int, f func()) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	for range 50 {
		f()
	}
	const runs = 200
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs
}

func TestParallelAllocatesNothing(t *testing.T) {
	c := &counter{make([]int, 8)}
	if n := allocations(2, func() { Parallel(8, c) }); n > 0.1 { // the runtime itself may allocate now and then
		t.Errorf("%v allocations a call, want 0", n)
	}
}

func BenchmarkParallel(b *testing.B) {
	c := &counter{make([]int, 8)}
	for b.Loop() {
		Parallel(8, c)
	}
}
