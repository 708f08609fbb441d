package tensor

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"forwardpass/pkg/tensor/internal/kernel"
)

// A forward pass of one token is a hundred or more short stretches of work, each too short to start
// goroutines for: waking a sleeping thread takes as long as multiplying a small matrix. So the workers
// stay awake between the stretches, for up to spinFor, and then sleep until the next one.
//
// Nobody is given a share (MatMuls gives shares of its own, from which others help themselves): whoever is awake
// claims the next part. On a busy machine a worker that the system has put aside then delays its own part only. If
// that happens, the caller works alone for a while, and for longer each time: on an overloaded machine one thread that
// waits for nobody is faster than two that wait for each other a hundred times a token.
const (
	spinFor    = 100 * time.Microsecond
	aloneLeast = 16   // calls of Parallel that are done alone after a worker was late
	aloneMost  = 2048 // and after it was late again and again
)

// pool is GOMAXPROCS-1 goroutines and the jobs they may help with.
type pool struct {
	jobs    [8]job
	taken   atomic.Uint32 // bit i: jobs[i] is in use
	alone   atomic.Int32  // so many calls are still done by the caller alone
	penalty atomic.Int32  // so many were the last time
	mu      sync.Mutex    // guards growing
	workers atomic.Pointer[[]*worker]
}

// job is one call of Parallel.
type job struct {
	left    atomic.Int32 // parts that nobody has claimed; above 0 only while the fields below are set
	pending atomic.Int32 // parts that are not finished
	asleep  atomic.Bool  // the caller waits on done
	done    chan struct{}
	n       int
	task    Task
	_       [64]byte // a cache line between jobs
}

type worker struct {
	parked atomic.Bool
	wake   chan struct{}
}

var workers pool

func (p *pool) width() int { return runtime.GOMAXPROCS(0) }

// run does the n parts of t with the help of width-1 workers. It is false if the caller is to do them itself: all
// jobs are taken, so that enough is going on already, or the workers were late.
func (p *pool) run(n, width int, t Task) bool {
	if p.alone.Load() > 0 && p.alone.Add(-1) >= 0 {
		return false
	}
	slot := p.take()
	if slot < 0 {
		return false
	}
	ws := p.grow(width - 1)
	j := &p.jobs[slot]
	j.n, j.task = n, t
	j.pending.Store(int32(n))
	j.left.Store(int32(n)) // from here on parts are claimed
	wanted := min(n, width) - 1
	for _, w := range ws[:width-1] {
		if wanted == 0 {
			break
		}
		if w.parked.Load() && w.parked.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
		wanted--
	}
	began := time.Now()
	mine := j.work()
	worked := time.Since(began)
	j.wait()
	p.judge(time.Since(began)-worked, worked/time.Duration(max(mine, 1)))
	j.task = nil
	p.release(slot)
	return true
}

// judge looks at how long the caller waited for parts of others, when one of its own took `part`. The last part
// may be in full swing when the caller is done; one that takes far longer is not being worked on.
func (p *pool) judge(waited, part time.Duration) {
	if waited < spinFor+2*part {
		if n := p.penalty.Load(); n > 0 {
			p.penalty.Store(n * 7 / 8)
		}
		return
	}
	n := min(max(2*p.penalty.Load(), aloneLeast), aloneMost)
	p.penalty.Store(n)
	p.alone.Store(n)
}

// take reserves a job that nobody uses, -1 if there is none.
func (p *pool) take() int {
	for {
		t := p.taken.Load()
		slot := bits.TrailingZeros32(^t)
		if slot >= len(p.jobs) {
			return -1
		}
		if p.taken.CompareAndSwap(t, t|1<<slot) {
			if p.jobs[slot].done == nil {
				p.jobs[slot].done = make(chan struct{}, 1)
			}
			return slot
		}
	}
}

func (p *pool) release(slot int) {
	for {
		if t := p.taken.Load(); p.taken.CompareAndSwap(t, t&^(1<<slot)) {
			return
		}
	}
}

// grow returns at least n workers.
func (p *pool) grow(n int) []*worker {
	if ws := p.workers.Load(); ws != nil && len(*ws) >= n {
		return *ws
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var ws []*worker
	if old := p.workers.Load(); old != nil {
		ws = append(ws, *old...)
	}
	for len(ws) < n {
		w := &worker{wake: make(chan struct{}, 1)}
		ws = append(ws, w)
		go p.serve(w)
	}
	p.workers.Store(&ws)
	return ws
}

// claim is the next part of the job. Once a part is claimed the job can't end, so its fields may be read.
func (j *job) claim() (part int, ok bool) {
	for {
		left := j.left.Load()
		if left == 0 {
			return 0, false
		}
		if j.left.CompareAndSwap(left, left-1) {
			return j.n - int(left), true
		}
	}
}

// work does parts of the job until all are claimed, and says how many it did.
func (j *job) work() int {
	done := 0
	for {
		part, ok := j.claim()
		if !ok {
			return done
		}
		done++
		j.task.Run(part)
		if j.pending.Add(-1) == 0 && j.asleep.Load() && j.asleep.CompareAndSwap(true, false) {
			j.done <- struct{}{}
		}
	}
}

// wait returns when no part is pending. The last one seldom takes long; if it does, its thread may need
// this one's core.
func (j *job) wait() {
	began := time.Now()
	for i := 1; j.pending.Load() > 0; i++ {
		kernel.Pause()
		if i%64 == 0 && time.Since(began) > spinFor {
			break
		}
	}
	// The flag may be taken by a worker that finished the job before this one in the same place: hence the loop.
	for j.pending.Load() > 0 {
		j.asleep.Store(true)
		if j.pending.Load() > 0 || !j.asleep.CompareAndSwap(true, false) {
			<-j.done
		}
	}
}

// help does what is there to do in any job.
func (p *pool) help() bool {
	any := false
	for t := p.taken.Load(); t != 0; t &= t - 1 {
		if j := &p.jobs[bits.TrailingZeros32(t)]; j.left.Load() > 0 && j.work() > 0 {
			any = true
		}
	}
	return any
}

// serve is a worker's life.
func (p *pool) serve(w *worker) {
	for {
		began := time.Now()
		for i := 1; ; i++ {
			if p.help() {
				began, i = time.Now(), 0
				continue
			}
			kernel.Pause()
			if i%64 == 0 && time.Since(began) > spinFor {
				break
			}
		}
		// A job that appears between the last look and the flag is seen by the look after it.
		w.parked.Store(true)
		if p.help() && w.parked.CompareAndSwap(true, false) {
			continue
		}
		<-w.wake
	}
}
