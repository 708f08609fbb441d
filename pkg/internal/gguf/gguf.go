// Package gguf reads the container that llama.cpp keeps its models in: one file that holds the
// hyperparameters, the vocabulary and the weights. The layout, all little-endian:
//
//	"GGUF"  version u32  tensors u64  keys u64
//	keys    × (name string, type u32, value)             a string is a u64 length and its bytes
//	tensors × (name string, n u32, n dimensions u64, type u32, offset u64)
//	padding to general.alignment (32), then the data; offsets count from here
//
// Parse reads everything up to the data and checks that every tensor lies inside the file, so that the
// caller can slice without looking. The format is specified in ggml/docs/gguf.md.
package gguf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"forwardpass/pkg/internal/mmap"
)

// File is what a GGUF file says about itself.
type File struct {
	Version   int
	Alignment int // of tensor offsets, a power of two
	// Meta holds the keys. All integers are int64 and all floating-point numbers float64; arrays are
	// []int64, []float64, []bool, []string, or []any of arrays.
	Meta    map[string]any
	Tensors []Tensor // in the order of the file
}

// Tensor says where a tensor is. Dims are in ggml's order: the first varies fastest, so a matrix of
// out rows and in columns has Dims [in, out].
type Tensor struct {
	Name         string
	Type         Type
	Dims         []int
	Offset, Size int64 // bytes, from the start of the file
}

const (
	defaultAlignment = 32
	maxDims          = 4
	maxNesting       = 4 // arrays of arrays; no known file has any
)

// The types of a key's value.
const (
	kindU8 uint32 = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
)

// kindBytes is the least room that one value takes in the file.
var kindBytes = [...]uint64{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8}

// ReadFile parses the file at path; it needs the tensors' table, not their data.
func ReadFile(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	defer m.Close()
	f, err := Parse(m.Data)
	if err != nil {
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	return f, nil
}

// Parse reads the header, the keys and the tensor table of a whole file. Nothing in the result refers
// to data. Errors give the byte at which the file is wrong.
func Parse(data []byte) (*File, error) {
	r := &reader{data: data}
	f := &File{Alignment: defaultAlignment, Meta: map[string]any{}}
	nTensors, nKeys, err := r.header(f)
	if err != nil {
		return nil, err
	}
	for range nKeys {
		start := r.pos
		key := r.str("key")
		kind := r.u32("type of a value")
		value := r.value(kind, 0)
		if r.err != nil {
			return nil, fmt.Errorf("key %q: %w", key, r.err)
		}
		if _, twice := f.Meta[key]; twice {
			return nil, fmt.Errorf("at byte %d: key %q occurs twice", start, key)
		}
		f.Meta[key] = value
	}
	if v, ok := f.Meta["general.alignment"]; ok {
		a, ok := v.(int64)
		if !ok || a <= 0 || a > math.MaxInt32 || a&(a-1) != 0 {
			return nil, fmt.Errorf("general.alignment must be a power of two, got %v", v)
		}
		f.Alignment = int(a)
	}
	f.Tensors = make([]Tensor, 0, nTensors)
	for range nTensors {
		t := r.tensor()
		if r.err != nil {
			return nil, fmt.Errorf("tensor %q (number %d of %d): %w", t.Name, len(f.Tensors)+1, nTensors, r.err)
		}
		f.Tensors = append(f.Tensors, t)
	}
	return f, f.place(r.pos, len(data))
}

// header reads the magic, the version and the counts, and checks that the file has room for them.
func (r *reader) header(f *File) (tensors, keys uint64, err error) {
	if len(r.data) < 4 || string(r.data[:4]) != "GGUF" {
		return 0, 0, fmt.Errorf("at byte 0: want the magic \"GGUF\", got %q", r.data[:min(4, len(r.data))])
	}
	r.pos = 4
	version := r.u32("version")
	tensors, keys = r.u64("number of tensors"), r.u64("number of keys")
	switch rest := uint64(len(r.data) - r.pos); {
	case r.err != nil:
		return 0, 0, r.err
	case version > 0 && version&0xffff == 0:
		return 0, 0, fmt.Errorf("at byte 4: the file is big-endian; only little-endian files are read")
	case version != 2 && version != 3:
		return 0, 0, fmt.Errorf("at byte 4: want version 2 or 3, got %d", version)
	case keys > rest/(8+4+1):
		return 0, 0, fmt.Errorf("at byte 16: %d keys don't fit the %d bytes that follow", keys, rest)
	case tensors > rest/(8+4+4+8):
		return 0, 0, fmt.Errorf("at byte 8: %d tensors don't fit the %d bytes that follow", tensors, rest)
	}
	f.Version = int(version)
	return tensors, keys, nil
}

// tensor reads one row of the tensor table; its Offset is still relative to the data.
func (r *reader) tensor() Tensor {
	t := Tensor{Name: r.str("name")}
	start := r.pos
	n := r.u32("number of dimensions")
	if n > maxDims {
		r.fail(start, "want at most %d dimensions, got %d", maxDims, n)
		return t
	}
	elements := uint64(1)
	t.Dims = make([]int, n)
	for i := range t.Dims {
		start = r.pos
		d := r.u64("dimension")
		high, low := bits.Mul64(elements, d)
		if high != 0 || low > math.MaxInt || d > math.MaxInt {
			r.fail(start, "dimension %d is %d: the number of elements overflows", i, d)
			return t
		}
		t.Dims[i], elements = int(d), low
	}
	start = r.pos
	t.Type = Type(r.u32("type"))
	block, bytes := t.Type.Block()
	if r.err == nil && block == 0 {
		r.fail(start, "unknown tensor type %d", uint32(t.Type))
	}
	start = r.pos
	offset := r.u64("offset")
	if r.err != nil {
		return t
	}
	row := 1
	if n > 0 {
		row = t.Dims[0]
	}
	if row%block != 0 {
		r.fail(start, "%s needs rows in multiples of %d, got %d", t.Type, block, row)
		return t
	}
	high, size := bits.Mul64(elements/uint64(block), uint64(bytes))
	if high != 0 || size > math.MaxInt64 || offset > math.MaxInt64 {
		r.fail(start, "%d elements of %s at offset %d: more than a file can hold", elements, t.Type, offset)
		return t
	}
	t.Offset, t.Size = int64(offset), int64(size)
	return t
}

// place makes the tensors' offsets absolute, the data starting at the first multiple of the alignment
// from pos, and checks that they are aligned, inside the file, named once and don't overlap.
func (f *File) place(pos, fileSize int) error {
	align := int64(f.Alignment)
	base := (int64(pos) + align - 1) &^ (align - 1)
	names := make(map[string]bool, len(f.Tensors))
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if names[t.Name] {
			return fmt.Errorf("tensor %q occurs twice", t.Name)
		}
		names[t.Name] = true
		if t.Size == 0 { // nothing is there: any offset does
			t.Offset = min(base, int64(fileSize))
			continue
		}
		if t.Offset%align != 0 {
			return fmt.Errorf("tensor %q: offset %d is no multiple of the alignment %d", t.Name, t.Offset, align)
		}
		// Subtractions, as sums of numbers from the file could overflow.
		if room := int64(fileSize) - base; t.Offset > room || t.Size > room-t.Offset {
			return fmt.Errorf("tensor %q: %s %v takes %d bytes from byte %d + %d on, past the end of the file (%d bytes)",
				t.Name, t.Type, t.Dims, t.Size, base, t.Offset, fileSize)
		}
		t.Offset += base
	}
	order := make([]*Tensor, 0, len(f.Tensors))
	for i := range f.Tensors {
		if f.Tensors[i].Size > 0 {
			order = append(order, &f.Tensors[i])
		}
	}
	slices.SortFunc(order, func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := 1; i < len(order); i++ {
		if a, b := order[i-1], order[i]; a.Offset+a.Size > b.Offset {
			return fmt.Errorf("tensors %q (bytes %d…%d) and %q (from byte %d) overlap",
				a.Name, a.Offset, a.Offset+a.Size, b.Name, b.Offset)
		}
	}
	return nil
}

// reader walks through the file. The first error sticks, and what is read after it is zero.
type reader struct {
	data []byte
	pos  int
	err  error
}

func (r *reader) fail(pos int, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %w", pos, fmt.Errorf(format, args...))
	}
}

// take is the next n bytes, or nil.
func (r *reader) take(n uint64, what string) []byte {
	if r.err != nil {
		return nil
	}
	if rest := uint64(len(r.data) - r.pos); n > rest {
		r.fail(r.pos, "%s of %d bytes: the file ends after %d", what, n, rest)
		return nil
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

func (r *reader) u32(what string) uint32 {
	if b := r.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64(what string) uint64 {
	if b := r.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) str(what string) string { return string(r.take(r.u64(what), what)) }

func (r *reader) value(kind uint32, depth int) any {
	switch kind {
	case kindF32, kindF64:
		return r.float(kind)
	case kindBool:
		return r.bool()
	case kindString:
		return r.str("string")
	case kindArray:
		return r.array(depth)
	}
	return r.int(kind)
}

func (r *reader) int(kind uint32) int64 {
	if kind >= uint32(len(kindBytes)) {
		r.fail(r.pos, "unknown type of value %d", kind)
		return 0
	}
	start := r.pos
	b := r.take(kindBytes[kind], "integer")
	if b == nil {
		return 0
	}
	switch kind {
	case kindU8:
		return int64(b[0])
	case kindI8:
		return int64(int8(b[0]))
	case kindU16:
		return int64(binary.LittleEndian.Uint16(b))
	case kindI16:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case kindU32:
		return int64(binary.LittleEndian.Uint32(b))
	case kindI32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case kindI64:
		return int64(binary.LittleEndian.Uint64(b))
	}
	u := binary.LittleEndian.Uint64(b)
	if u > math.MaxInt64 {
		r.fail(start, "integer %d is larger than an int64", u)
	}
	return int64(u)
}

func (r *reader) float(kind uint32) float64 {
	if kind == kindF32 {
		return float64(math.Float32frombits(r.u32("number")))
	}
	return math.Float64frombits(r.u64("number"))
}

func (r *reader) bool() bool {
	b := r.take(1, "boolean")
	return b != nil && b[0] != 0
}

func (r *reader) array(depth int) any {
	start := r.pos
	kind, n := r.u32("type of an array"), r.u64("length of an array")
	switch rest := uint64(len(r.data) - r.pos); {
	case r.err != nil:
		return nil
	case depth >= maxNesting:
		r.fail(start, "arrays are nested more than %d deep", maxNesting)
		return nil
	case kind >= uint32(len(kindBytes)):
		r.fail(start, "unknown type of array %d", kind)
		return nil
	case n > rest/kindBytes[kind]:
		r.fail(start, "an array of %d values doesn't fit the %d bytes that follow", n, rest)
		return nil
	}
	switch kind {
	case kindString:
		return r.strings(int(n))
	case kindF32, kindF64:
		return fill(r, n, func() float64 { return r.float(kind) })
	case kindBool:
		return fill(r, n, r.bool)
	case kindArray:
		return fill(r, n, func() any { return r.array(depth + 1) })
	}
	return fill(r, n, func() int64 { return r.int(kind) })
}

func fill[T any](r *reader, n uint64, next func() T) []T {
	out := make([]T, n)
	for i := 0; i < len(out) && r.err == nil; i++ {
		out[i] = next()
	}
	return out
}

// strings reads n strings. A vocabulary has a hundred thousand of them: they share one copy of the
// bytes of the whole array.
func (r *reader) strings(n int) []string {
	start := r.pos
	for i := 0; i < n && r.err == nil; i++ { // find the end
		r.take(r.u64("string"), "string")
	}
	if r.err != nil {
		return nil
	}
	all := string(r.data[start:r.pos])
	out := make([]string, n)
	at := 0
	for i := range out {
		length := int(binary.LittleEndian.Uint64(r.data[start+at:]))
		at += 8
		out[i] = all[at : at+length]
		at += length
	}
	return out
}
