package kernel

import "sync"

// blockK is how many numbers of a row of weights are multiplied at a time in a matrix–matrix product:
// a panel of them stays in the first-level cache while all rows of x pass by.
const blockK = 256

// maxPanel is the widest panel, in rows of weights.
const maxPanel = 32

// scratch is the working memory of one matrix product.
type scratch struct {
	tile  [maxPanel * blockK]float32 // weights as float32, row by row
	panel [maxPanel * blockK]float32 // and transposed
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
