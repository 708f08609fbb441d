package tensor

// Task is a piece of work that can be split: Run does part i of n. Parts run at the same time, in any order.
type Task interface{ Run(part int) }

// Parallel runs parts 0…n-1 of a task on the worker pool and returns when all are done. The caller works
// too. Several goroutines may call it at once, and a part may call it again. A task that is a pointer to a
// reused struct costs no allocation.
func Parallel(n int, t Task) {
	if n > 1 {
		if width := workers.width(); width > 1 && workers.run(n, width, t) {
			return
		}
	}
	for i := range n {
		t.Run(i)
	}
}

// Workers is how many parts run at the same time: GOMAXPROCS.
func Workers() int { return workers.width() }

// Func makes a function a Task.
type Func func(part int)

func (f Func) Run(part int) { f(part) }
