package tensor

import (
	"fmt"
	"sync"
	"sync/atomic"

	"forwardpass/pkg/tensor/internal/kernel"
)

// Product is one linear layer of a group that shares its input: Dst = x·Wᵀ + Bias.
type Product struct {
	Dst  *Tensor // [T, W.Rows], resized
	W    *Matrix
	Bias []float32 // [W.Rows] or nil
}

// MatMul returns x·Wᵀ. x [T, in], w [out, in] → [T, out].
func MatMul(x *Tensor, w *Matrix) (*Tensor, error) {
	p := Product{Dst: &Tensor{}, W: w}
	if err := MatMuls(x, p); err != nil {
		return nil, err
	}
	return p.Dst, nil
}

// MatMuls computes a group of products of the same x in one go (Q, K and V; gate and up), so that
// the worker pool is woken once for all of them. Every Dst is resized to [T, W.Rows].
func MatMuls(x *Tensor, ps ...Product) error {
	if err := CheckRows("tensor: matmul of x", x); err != nil {
		return err
	}
	t, in := x.Rows(), x.Dim(-1)
	for _, p := range ps {
		if p.Dst == nil {
			return fmt.Errorf("tensor: matmul: want a tensor to write to, got none")
		}
		if err := p.W.check(); err != nil {
			return err
		}
		if p.W.Cols != in {
			return fmt.Errorf("tensor: matmul of x %v with a matrix [%d, %d]: want %d columns", x.Shape, p.W.Rows, p.W.Cols, in)
		}
		if p.Bias != nil && len(p.Bias) != p.W.Rows {
			return fmt.Errorf("tensor: matmul bias: want %d numbers, got %d", p.W.Rows, len(p.Bias))
		}
	}
	j := takeProducts()
	defer j.release()
	j.ps = append(j.ps[:0], ps...)
	blocks := false
	for _, p := range ps {
		p.Dst.Resize(t, p.W.Rows)
		blocks = blocks || kernel.Type(p.W.Type).Blocks()
	}
	j.t = t
	j.in.Set(x.Data, in, t, in, blocks)
	j.split()
	j.share(Workers())
	Parallel(len(j.shares), j)
	return nil
}

// products is the task of one MatMuls call. The matrices are cut into parts; each worker has a share of parts that follow
// each other in memory, and helps with the others' when its own is done.
type products struct {
	in     kernel.Input // [T, in]
	t      int
	ps     []Product
	parts  []part
	shares []share
}

// part is some rows of one of the matrices.
type part struct{ product, lo, hi int }

// share is parts next…end-1.
type share struct {
	next atomic.Int64
	end  int64
	_    [48]byte // a cache line each
}

const (
	minBytes = 32 << 10
	unit     = 32 // rows of the kernel's panels are this or half of it
)

// split cuts the matrices into parts: some eight a worker, so that none waits long for the last, but of at least minBytes
// where weights stream through once; with many rows of x a panel of the kernel or two is enough.
func (j *products) split() {
	rows := 0
	for _, p := range j.ps {
		rows += p.W.Rows
	}
	j.parts = j.parts[:0]
	for i, p := range j.ps {
		step := max(1, rows/(8*Workers()))
		if j.t > kernel.Few {
			step = unit
		} else if b := p.W.Type.Bytes(p.W.Cols); step*b < minBytes {
			step = max(1, minBytes/max(b, 1))
		}
		step = (step + unit - 1) / unit * unit
		for lo := 0; lo < p.W.Rows; lo += step {
			j.parts = append(j.parts, part{i, lo, min(lo+step, p.W.Rows)})
		}
	}
}

// share divides the parts evenly among n workers. Memory is read fastest in long stretches: what a kernel prefetches
// beyond its part is then what the same worker needs next.
func (j *products) share(n int) {
	n = min(n, len(j.parts))
	if cap(j.shares) < n {
		j.shares = make([]share, n)
	}
	j.shares = j.shares[:n]
	for i := range j.shares {
		j.shares[i].next.Store(int64(len(j.parts) * i / n))
		j.shares[i].end = int64(len(j.parts) * (i + 1) / n)
	}
}

// Run is a worker: it does the parts of its own share, then what is left of the others'.
func (j *products) Run(worker int) {
	for i := range j.shares {
		s := &j.shares[(worker+i)%len(j.shares)]
		for {
			n := s.next.Add(1) - 1
			if n >= s.end {
				break
			}
			j.multiply(j.parts[n])
		}
	}
}

// multiply multiplies x by the rows of one part.
func (j *products) multiply(at part) {
	p := &j.ps[at.product]
	out, bytes := p.W.Rows, p.W.Type.Bytes(p.W.Cols)
	if j.t == 0 {
		return
	}
	y := p.Dst.Data[at.lo:]
	kernel.MatMul(y, out, &j.in, kernel.Type(p.W.Type), p.W.Data[at.lo*bytes:at.hi*bytes], at.hi-at.lo)
	if p.Bias != nil {
		for t := range j.t {
			Add(y[t*out:t*out+at.hi-at.lo], p.Bias[at.lo:at.hi])
		}
	}
}

// Finished tasks are kept for the next call, so that a steady state allocates none.
var productsPool struct {
	sync.Mutex
	free []*products
}

func takeProducts() *products {
	productsPool.Lock()
	defer productsPool.Unlock()
	if n := len(productsPool.free); n > 0 {
		j := productsPool.free[n-1]
		productsPool.free = productsPool.free[:n-1]
		return j
	}
	return &products{}
}

func (j *products) release() {
	clear(j.ps) // no tensor is kept alive
	j.in.Drop()
	productsPool.Lock()
	productsPool.free = append(productsPool.free, j)
	productsPool.Unlock()
}

// MulNT computes C = A·Bᵀ on strided rows: a [m, k], b [n, k], c [m, n], with ld* numbers from row to row.
// Attention's scores are one: queries against keys.
func MulNT(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int) {
	kernel.MulNT(c, ldc, a, lda, b, ldb, m, n, k)
}

// MulNN computes C += A·B on strided rows: a [m, k], b [k, n], c [m, n].
// Attention's output is one: weights times values.
func MulNN(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int) {
	kernel.MulNN(c, ldc, a, lda, b, ldb, m, n, k)
}
