package tensor

import "fmt"

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
	t, in := x.Rows(), x.Dim(-1)
	for _, p := range ps {
		if p.W.Cols != in {
			return fmt.Errorf("tensor: matmul of x %v with a matrix [%d, %d]: want %d columns", x.Shape, p.W.Rows, p.W.Cols, in)
		}
		if p.Bias != nil && len(p.Bias) != p.W.Rows {
			return fmt.Errorf("tensor: matmul bias: want %d numbers, got %d", p.W.Rows, len(p.Bias))
		}
	}
	row := make([]float32, in)
	for _, p := range ps {
		y := p.Dst.Resize(t, p.W.Rows)
		for o := range p.W.Rows {
			if err := p.W.Row(row, o); err != nil {
				return err
			}
			for i := range t {
				y.Data[i*p.W.Rows+o] = Dot(x.Data[i*in:(i+1)*in], row)
				if p.Bias != nil {
					y.Data[i*p.W.Rows+o] += p.Bias[o]
				}
			}
		}
	}
	return nil
}

// MulNT computes C = A·Bᵀ on strided rows: a [m, k], b [n, k], c [m, n], with ld* numbers from row to row.
// Attention's scores are one: queries against keys.
func MulNT(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int) {
	for i := range m {
		for j := range n {
			c[i*ldc+j] = Dot(a[i*lda:i*lda+k], b[j*ldb:j*ldb+k])
		}
	}
}

// MulNN computes C += A·B on strided rows: a [m, k], b [k, n], c [m, n].
// Attention's output is one: weights times values.
func MulNN(c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, k int) {
	for i := range m {
		for j := range k {
			Axpy(c[i*ldc:i*ldc+n], a[i*lda+j], b[j*ldb:j*ldb+n])
		}
	}
}
