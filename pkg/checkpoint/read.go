package checkpoint

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"forwardpass/pkg/tensor"
)

// find marks a tensor as used.
func (c *Checkpoint) find(name string) (*entry, error) {
	e := c.entries[name]
	if e == nil {
		return nil, fmt.Errorf("checkpoint: %s has no tensor %q%s", c.Path, name, c.similar(name))
	}
	c.mu.Lock()
	c.asked[name] = true
	c.mu.Unlock()
	return e, nil
}

// similar names a tensor that ends like the missing one: most often a prefix is what is wrong.
func (c *Checkpoint) similar(name string) string {
	parts, names := strings.Split(name, "."), c.Names()
	for i := 1; i < len(parts)-1; i++ {
		end := strings.Join(parts[i:], ".")
		for _, n := range names {
			if n == end || strings.HasSuffix(n, "."+end) {
				return fmt.Sprintf("; it has %q", n)
			}
		}
	}
	return fmt.Sprintf(" among its %d", len(c.entries))
}

// Tensor is the tensor of that name as it is stored. A type that no model computes with is an error;
// Ints reads integers.
func (c *Checkpoint) Tensor(name string) (*Tensor, error) {
	e, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if !e.computes {
		return nil, fmt.Errorf("checkpoint: %s: tensor %q at byte %d is %s, which is not supported; want F32, F16, BF16, "+
			"Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K", e.File, name, e.Offset, e.stored)
	}
	return &e.Tensor, nil
}

// Matrix is the tensor as a matrix of rows × cols in its stored type, without copying. Leading axes are
// taken together: experts of shape [E, out, in] are the matrix [E·out, in]. A negative count matches any.
func (c *Checkpoint) Matrix(name string, rows, cols int) (*tensor.Matrix, error) {
	t, err := c.Tensor(name)
	if err != nil {
		return nil, err
	}
	last := len(t.Shape) - 1
	if last < 1 || !matches(tensor.Size(t.Shape[:last]), rows) || !matches(t.Shape[last], cols) {
		return nil, t.shapeError(rows, cols)
	}
	m, err := tensor.NewMatrix(t.Type, tensor.Size(t.Shape[:last]), t.Shape[last], t.Data)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: tensor %q: %w", t.File, name, err)
	}
	return m, nil
}

// Transposed is the matrix [out, in] of a tensor that is stored as [in, out], as GPT-2's Conv1D weights
// are: y = x · W + b there, x · Wᵀ + b here. It is copied once, in its type; F32, F16 and BF16 only.
func (c *Checkpoint) Transposed(name string, in, out int) (*tensor.Matrix, error) {
	m, err := c.Matrix(name, in, out) // [in, out]
	if err != nil {
		return nil, err
	}
	data := make([]byte, len(m.Data))
	switch m.Type {
	case tensor.F32:
		transpose(words[uint32](data), words[uint32](aligned(m.Data, 4)), m.Rows, m.Cols)
	case tensor.F16, tensor.BF16:
		transpose(words[uint16](data), words[uint16](aligned(m.Data, 2)), m.Rows, m.Cols)
	default:
		e := c.entries[name]
		return nil, fmt.Errorf("checkpoint: %s: tensor %q is %s: blocks along rows can't be transposed", e.File, name, m.Type)
	}
	return tensor.NewMatrix(m.Type, m.Cols, m.Rows, data) // [out, in]
}

// transpose writes src [rows, cols] as dst [cols, rows], tile by tile. A tile is copied out first: its rows
// lie a power of two apart in most models, where reading down a column would evict what comes next.
func transpose[T any](dst, src []T, rows, cols int) {
	const tile = 32
	strips := (cols + tile - 1) / tile
	if len(src) == 0 {
		strips = 0 // however many columns of nothing
	}
	tensor.Parallel(strips, tensor.Func(func(strip int) {
		var buf [tile][tile]T
		lo, hi := strip*tile, min(strip*tile+tile, cols)
		for top := 0; top < rows; top += tile {
			n := min(tile, rows-top)
			for r := range n {
				copy(buf[r][:], src[(top+r)*cols+lo:(top+r)*cols+hi])
			}
			for c := lo; c < hi; c++ {
				out := dst[c*rows+top:][:n]
				for r := range out {
					out[r] = buf[r][c-lo]
				}
			}
		}
	}))
}

// Vector is the one-dimensional tensor of n numbers as float32: a norm's weight, a bias. An aligned F32
// tensor shares the mapped memory, so it must not be written. A negative n matches any length.
func (c *Checkpoint) Vector(name string, n int) ([]float32, error) {
	t, err := c.Floats(name, n)
	if err != nil {
		return nil, err
	}
	return t.Data, nil
}

// Floats is the tensor as float32 numbers. A dimension below zero matches any; no shape at all matches
// every shape. An aligned F32 tensor shares the mapped memory, so it must not be written.
func (c *Checkpoint) Floats(name string, shape ...int) (*tensor.Tensor, error) {
	t, err := c.Tensor(name)
	if err != nil {
		return nil, err
	}
	ok := len(shape) == 0 || len(shape) == len(t.Shape)
	for i := 0; ok && i < len(shape); i++ {
		ok = matches(t.Shape[i], shape[i])
	}
	if !ok {
		return nil, t.shapeError(shape...)
	}
	if t.Type == tensor.F32 {
		return tensor.From(words[float32](aligned(t.Data, 4)), t.Shape...)
	}
	data := make([]float32, tensor.Size(t.Shape))
	tensor.Dequantize(data, t.Type, t.Data)
	return tensor.From(data, t.Shape...)
}

// Ints is an integer or boolean tensor, flattened; golden files keep token ids so.
func (c *Checkpoint) Ints(name string) ([]int, error) {
	e, err := c.find(name)
	if err != nil {
		return nil, err
	}
	le, b := binary.LittleEndian, e.Data
	at := map[string]func(i int) int{
		"BOOL": func(i int) int { return int(b[i]) },
		"U8":   func(i int) int { return int(b[i]) },
		"I8":   func(i int) int { return int(int8(b[i])) },
		"U16":  func(i int) int { return int(le.Uint16(b[2*i:])) },
		"I16":  func(i int) int { return int(int16(le.Uint16(b[2*i:]))) },
		"U32":  func(i int) int { return int(le.Uint32(b[4*i:])) },
		"I32":  func(i int) int { return int(int32(le.Uint32(b[4*i:]))) },
		"I64":  func(i int) int { return int(le.Uint64(b[8*i:])) },
	}[e.stored]
	if at == nil {
		return nil, fmt.Errorf("checkpoint: %s: tensor %q is %s, want BOOL, U8 to U32 or I8 to I64", e.File, name, e.stored)
	}
	out := make([]int, tensor.Size(e.Shape))
	for i := range out {
		out[i] = at(i)
	}
	return out, nil
}

// Shape is the shape of a tensor of any type, or nil if there is none. It doesn't count as a use.
func (c *Checkpoint) Shape(name string) []int {
	if e := c.entries[name]; e != nil {
		return e.Shape
	}
	return nil
}

func (t *Tensor) shapeError(want ...int) error {
	return fmt.Errorf("checkpoint: %s: tensor %q at byte %d: want shape %v, got %v", t.File, t.Name, t.Offset, want, t.Shape)
}

func matches(got, want int) bool { return want < 0 || got == want }

// aligned is b, or a copy of it if its address is no multiple of n: a safetensors header of odd length
// puts all numbers behind it at odd addresses.
func aligned(b []byte, n uintptr) []byte {
	if len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%n == 0 {
		return b
	}
	return append(make([]byte, 0, len(b)), b...)
}

// words sees aligned little-endian bytes as numbers.
func words[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(one)))
}
