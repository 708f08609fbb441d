package kernel

import "sync"

// panelSize is how many numbers a panel of weights has in a matrix–matrix product: about as large as the first-level
// cache, from which it is read again for every few rows of x. The last one may have a quarter more.
const panelSize = 32 << 10 / 4

// stretch is how many of the numbers that are left of each row make the next panel.
func stretch(left int) int {
	full := panelSize / panelWidth()
	if left <= full+full/4 {
		return left
	}
	return full
}

// scratch is the working memory of one matrix product.
type scratch struct {
	tile  [panelSize * 5 / 4]float32 // weights as float32, row by row
	panel [panelSize * 5 / 4]float32 // and transposed
	out   []float32                  // a narrow result
	row   []float32                  // a whole row of weights
}

// A few scratches go round, so that a steady state allocates none.
var scratches struct {
	sync.Mutex
	free []*scratch
}

func getScratch() *scratch {
	scratches.Lock()
	defer scratches.Unlock()
	if n := len(scratches.free); n > 0 {
		s := scratches.free[n-1]
		scratches.free = scratches.free[:n-1]
		return s
	}
	return &scratch{}
}

func putScratch(s *scratch) {
	scratches.Lock()
	scratches.free = append(scratches.free, s)
	scratches.Unlock()
}

// rows has room for n rows of cols numbers.
func (s *scratch) rows(n, cols int) []float32 {
	if cap(s.row) < n*cols {
		s.row = make([]float32, n*cols)
	}
	return s.row[:n*cols]
}

func (s *scratch) narrow(n int) []float32 {
	if cap(s.out) < n {
		s.out = make([]float32, n)
	}
	return s.out[:n]
}
