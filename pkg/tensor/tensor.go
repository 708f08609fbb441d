// Package tensor holds the numbers: float32 tensors for activations, matrices in the type that the
// checkpoint stores for weights, and the few operations that every stage of the forward pass is made of.
//
// A Tensor is row-major: element (i, j, k) of shape [A, B, C] is Data[(i*B+j)*C+k]. A linear layer is
//
//	y = x · Wᵀ + b        x [T, in], W [out, in], y [T, out]
//
// with W as PyTorch's nn.Linear stores it, one output feature a row. MatMul computes it from F32, F16,
// BF16 and quantised weights alike, so that a model runs from the memory-mapped file as it is.
package tensor

import (
	"fmt"
	"slices"
)

// Tensor is a dense, row-major block of float32 numbers.
type Tensor struct {
	Shape []int
	Data  []float32

	// Device is set by a backend whose memory the host can't read; Data is then nil.
	Device any
}

// New returns a tensor of zeros. It panics on a negative dimension only, as make does.
func New(shape ...int) *Tensor {
	return &Tensor{Shape: slices.Clone(shape), Data: make([]float32, Size(shape))}
}

// From returns a tensor of the given shape that uses data without copying it.
func From(data []float32, shape ...int) (*Tensor, error) {
	for _, d := range shape {
		if d < 0 {
			return nil, fmt.Errorf("tensor: shape %v has a negative dimension", slices.Clone(shape))
		}
	}
	if n := Size(shape); n != len(data) {
		return nil, fmt.Errorf("tensor: shape %v holds %d numbers, got %d", slices.Clone(shape), n, len(data))
	}
	return &Tensor{Shape: slices.Clone(shape), Data: data}, nil
}

// Size is the product of the dimensions: 1 for a scalar's empty shape.
func Size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Dim is the length of axis i; negative i counts from the end.
func (t *Tensor) Dim(i int) int {
	if i < 0 {
		i += len(t.Shape)
	}
	return t.Shape[i]
}

// Rows is the number of rows of length Dim(-1): everything but the last axis flattened.
func (t *Tensor) Rows() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return Size(t.Shape[:len(t.Shape)-1])
}

// Row is row i of the tensor seen as [Rows, Dim(-1)], without copying.
func (t *Tensor) Row(i int) []float32 {
	n := t.Dim(-1)
	return t.Data[i*n : (i+1)*n : (i+1)*n]
}

// Clone copies the tensor.
func (t *Tensor) Clone() *Tensor {
	return &Tensor{Shape: slices.Clone(t.Shape), Data: slices.Clone(t.Data)}
}

// Resize gives the tensor another shape, keeping its memory where it is large enough.
// The contents are undefined afterwards.
func (t *Tensor) Resize(shape ...int) *Tensor {
	n := Size(shape)
	if cap(t.Data) < n {
		t.Data = make([]float32, n)
	}
	t.Data = t.Data[:n]
	t.Shape = append(t.Shape[:0], shape...)
	return t
}

// View returns the same numbers under another shape of the same size.
func (t *Tensor) View(shape ...int) (*Tensor, error) { return From(t.Data, shape...) }

// CheckShape reports, in the words of the caller's stage, a tensor whose shape is not the one wanted.
// A negative dimension in want matches any length. It also reports a tensor with fewer numbers than its shape holds.
func CheckShape(what string, t *Tensor, want ...int) error {
	if t == nil {
		return fmt.Errorf("%s: want %v, got no tensor", what, slices.Clone(want))
	}
	ok := len(t.Shape) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = want[i] < 0 || t.Shape[i] == want[i]
	}
	if !ok {
		return fmt.Errorf("%s: want %v, got %v", what, slices.Clone(want), t.Shape) // the clone keeps want off the heap
	}
	return t.check(what)
}

// CheckRows reports a tensor that can't be read row by row: none, one without axes, or one with fewer numbers than its shape holds.
func CheckRows(what string, t *Tensor) error {
	if t == nil {
		return fmt.Errorf("%s: want [..., features], got no tensor", what)
	}
	if len(t.Shape) == 0 {
		return fmt.Errorf("%s: want [..., features], got a tensor without axes", what)
	}
	return t.check(what)
}

// check reports a shape that the numbers don't fill. What a device holds, only its backend knows.
func (t *Tensor) check(what string) error {
	for _, d := range t.Shape {
		if d < 0 {
			return fmt.Errorf("%s: shape %v has a negative dimension", what, t.Shape)
		}
	}
	if n := Size(t.Shape); t.Device == nil && len(t.Data) < n {
		return fmt.Errorf("%s: shape %v holds %d numbers, got %d", what, t.Shape, n, len(t.Data))
	}
	return nil
}
