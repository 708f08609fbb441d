package tensor

import (
	"fmt"
	"math"
	"unsafe"
)

// Matrix is a weight matrix [Rows, Cols] in its stored type: Rows output features of Cols input features.
// Data is row-major and usually a window on a memory-mapped file; it is never written.
type Matrix struct {
	Type       DType
	Rows, Cols int
	Data       []byte

	// Device is set by a backend that holds a copy of its own.
	Device any
}

// NewMatrix checks that data is exactly rows × cols numbers of type t.
func NewMatrix(t DType, rows, cols int, data []byte) (*Matrix, error) {
	if !t.Valid() {
		return nil, fmt.Errorf("tensor: unknown type %d", uint8(t))
	}
	if rows < 0 || cols < 0 {
		return nil, fmt.Errorf("tensor: matrix [%d, %d] has a negative dimension", rows, cols)
	}
	if b, _ := t.Block(); cols%b != 0 {
		return nil, fmt.Errorf("tensor: %s needs rows in multiples of %d, got %d columns", t, b, cols)
	}
	if cols > 0 && rows > math.MaxInt/8/cols {
		return nil, fmt.Errorf("tensor: matrix [%d, %d] is larger than any memory", rows, cols)
	}
	if want := rows * t.Bytes(cols); len(data) != want {
		return nil, fmt.Errorf("tensor: %s matrix [%d, %d] takes %d bytes, got %d", t, rows, cols, want, len(data))
	}
	return &Matrix{Type: t, Rows: rows, Cols: cols, Data: data}, nil
}

// check reports no matrix, or one whose data are not what its dimensions say.
func (m *Matrix) check() error {
	if m == nil {
		return fmt.Errorf("tensor: want a matrix [out, in], got none")
	}
	if !m.Type.Valid() || m.Rows < 0 || m.Cols < 0 || len(m.Data) < m.Rows*m.Type.Bytes(m.Cols) {
		_, err := NewMatrix(m.Type, m.Rows, m.Cols, m.Data)
		return err
	}
	return nil
}

// FromFloats is the F32 matrix [rows, cols] over data, without copying.
func FromFloats(data []float32, rows, cols int) (*Matrix, error) {
	return NewMatrix(F32, rows, cols, floatBytes(data))
}

// Slice is rows lo…hi of the matrix, without copying: how a fused Q/K/V weight is taken apart.
func (m *Matrix) Slice(lo, hi int) (*Matrix, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if lo < 0 || hi < lo || hi > m.Rows {
		return nil, fmt.Errorf("tensor: rows %d…%d of a matrix of %d rows", lo, hi, m.Rows)
	}
	n := m.Type.Bytes(m.Cols)
	return &Matrix{Type: m.Type, Rows: hi - lo, Cols: m.Cols, Data: m.Data[lo*n : hi*n : hi*n]}, nil
}

// Row writes row r, as float32, into dst[:Cols].
func (m *Matrix) Row(dst []float32, r int) error {
	if err := m.check(); err != nil {
		return err
	}
	if r < 0 || r >= m.Rows {
		return fmt.Errorf("tensor: row %d of a matrix of %d rows", r, m.Rows)
	}
	if len(dst) < m.Cols {
		return fmt.Errorf("tensor: a row has %d columns, got room for %d", m.Cols, len(dst))
	}
	n := m.Type.Bytes(m.Cols)
	Dequantize(dst[:m.Cols], m.Type, m.Data[r*n:(r+1)*n])
	return nil
}

// Floats is the whole matrix as a tensor [Rows, Cols]; for F32 it shares the memory.
func (m *Matrix) Floats() *Tensor {
	t := &Tensor{Shape: []int{m.Rows, m.Cols}}
	if f, ok := bytesFloat(m); ok {
		t.Data = f
		return t
	}
	t.Data = make([]float32, m.Rows*m.Cols)
	Dequantize(t.Data, m.Type, m.Data)
	return t
}

// bytesFloat sees an aligned F32 matrix as float32 numbers.
func bytesFloat(m *Matrix) ([]float32, bool) {
	n := m.Rows * m.Cols
	if m.Type != F32 || n == 0 || uintptr(unsafe.Pointer(&m.Data[0]))%4 != 0 {
		return nil, false
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&m.Data[0])), n), true
}

func floatBytes(f []float32) []byte {
	if len(f) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), 4*len(f))
}
