package tensor

// Task is a piece of work that can be split: Run does part i of n.
type Task interface{ Run(part int) }

// Parallel runs parts 0…n-1 of a task on the worker pool and returns when all are done. A task that is
// a pointer to a reused struct costs no allocation.
func Parallel(n int, t Task) {
	for i := range n {
		t.Run(i)
	}
}

// Func makes a function a Task.
type Func func(part int)

func (f Func) Run(part int) { f(part) }
