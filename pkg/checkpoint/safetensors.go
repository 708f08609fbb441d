package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"forwardpass/pkg/tensor"
)

// A safetensors file is
//
//	n u64, little-endian | n bytes of JSON, padded with spaces | the numbers, without gaps
//
// and the JSON is {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [from, to]}, …} with offsets
// from the end of the JSON; "__metadata__" maps strings to strings. github.com/huggingface/safetensors

// safetensorsTypes gives each type's bytes; the first three are what models compute with.
var safetensorsTypes = map[string]int{
	"F32": 4, "F16": 2, "BF16": 2,
	"F64": 8, "C64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
	"BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "U32": 4, "I32": 4, "U64": 8, "I64": 8,
}

// ReadSafetensors opens one safetensors file of tensors of any type, with no configuration beside it:
// golden values, for example. Its metadata is in Meta.
func ReadSafetensors(path string) (*Checkpoint, error) {
	c := &Checkpoint{Path: path, Meta: map[string]any{}, entries: map[string]*entry{}, asked: map[string]bool{}}
	if err := c.addSafetensors(path); err != nil {
		c.Close()
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return c, nil
}

func (c *Checkpoint) addSafetensors(path string) error {
	return c.load(path, func(data []byte, file string) ([]*entry, error) {
		entries, meta, err := parseSafetensors(data, file)
		for k, v := range meta {
			c.Meta[k] = v
		}
		return entries, err
	})
}

// parseSafetensors reads and checks the table of a whole file.
func parseSafetensors(data []byte, file string) ([]*entry, map[string]string, error) {
	if len(data) < 8 {
		return nil, nil, fmt.Errorf("at byte 0: want 8 bytes of header length, the file has %d", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if rest := uint64(len(data) - 8); n > rest {
		return nil, nil, fmt.Errorf("at byte 0: header of %d bytes, but the file ends %d bytes after", n, rest)
	}
	base := 8 + int(n)
	rows, meta, err := parseTable(data[8:base])
	if err != nil {
		return nil, nil, err
	}
	entries := make([]*entry, len(rows))
	for i, row := range rows {
		if entries[i], err = row.place(data, base, file); err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", row.name, err)
		}
	}
	return entries, meta, checkGapless(entries, base, len(data))
}

// tableRow is a tensor in the JSON.
type tableRow struct {
	name    string
	DType   string   `json:"dtype"`
	Shape   []uint64 `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`
}

// parseTable decodes the JSON. It walks the outer object itself, since encoding/json would keep the last
// of two tensors with one name in silence.
func parseTable(text []byte) ([]tableRow, map[string]string, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, nil, fmt.Errorf("at byte 8: the header is no JSON object: %v", cmp.Or(err, fmt.Errorf("got %v", start)))
	}
	var rows []tableRow
	var meta map[string]string
	seen := map[string]bool{}
	for d.More() {
		at := 8 + d.InputOffset()
		key, err := d.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("at byte %d: bad JSON header: %w", at, err)
		}
		name := key.(string) // an object's key is a string, or Token fails
		if seen[name] {
			return nil, nil, fmt.Errorf("at byte %d: tensor %q occurs twice", at, name)
		}
		seen[name] = true
		if name == "__metadata__" {
			if err := d.Decode(&meta); err != nil {
				return nil, nil, fmt.Errorf("at byte %d: __metadata__: %w", at, err)
			}
			continue
		}
		var row tableRow
		if err := d.Decode(&row); err != nil {
			return nil, nil, fmt.Errorf("at byte %d: tensor %q: bad JSON header: %w", at, name, err)
		}
		row.name = name
		rows = append(rows, row)
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, fmt.Errorf("at byte %d: bad JSON header: %w", 8+d.InputOffset(), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, fmt.Errorf("at byte %d: text after the JSON header", 8+d.InputOffset())
	}
	return rows, meta, nil
}

// place finds the numbers of a row in the file, whose data starts at byte base.
func (row tableRow) place(data []byte, base int, file string) (*entry, error) {
	each := safetensorsTypes[row.DType]
	if each == 0 {
		return nil, fmt.Errorf("unknown dtype %q", row.DType)
	}
	if len(row.Offsets) != 2 {
		return nil, fmt.Errorf("data_offsets must be two numbers, got %v", row.Offsets)
	}
	lo, hi := row.Offsets[0], row.Offsets[1]
	if size := uint64(len(data) - base); lo > hi || hi > size {
		return nil, fmt.Errorf("data_offsets [%d, %d] leave the file: it has %d bytes after byte %d", lo, hi, size, base)
	}
	shape := make([]int, len(row.Shape))
	for i, d := range row.Shape {
		if d > math.MaxInt {
			return nil, fmt.Errorf("shape %v: dimension %d overflows", row.Shape, d)
		}
		shape[i] = int(d)
	}
	bytes, err := byteSize(shape, each)
	if err != nil {
		return nil, err
	}
	if uint64(bytes) != hi-lo {
		return nil, fmt.Errorf("%s %v takes %d bytes, but data_offsets [%d, %d] hold %d", row.DType, shape, bytes, lo, hi, hi-lo)
	}
	from, to := base+int(lo), base+int(hi)
	e := &entry{stored: row.DType, Tensor: Tensor{
		Name: row.name, Shape: shape, Data: data[from:to:to], File: file, Offset: int64(from),
	}}
	e.Type, e.computes = map[string]tensor.DType{"F32": tensor.F32, "F16": tensor.F16, "BF16": tensor.BF16}[row.DType]
	return e, nil
}

// checkGapless makes sure that the tensors fill the bytes from base to size, each byte once.
func checkGapless(entries []*entry, base, size int) error {
	order := slices.Clone(entries)
	slices.SortFunc(order, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(len(a.Data), len(b.Data)))
	})
	end, before := int64(base), "the header"
	for _, e := range order {
		switch {
		case e.Offset < end:
			return fmt.Errorf("tensor %q (from byte %d) overlaps %s (up to byte %d)", e.Name, e.Offset, before, end)
		case e.Offset > end:
			return fmt.Errorf("bytes %d…%d, between %s and tensor %q, belong to no tensor", end, e.Offset, before, e.Name)
		}
		end, before = e.Offset+int64(len(e.Data)), fmt.Sprintf("tensor %q", e.Name)
	}
	if end != int64(size) {
		return fmt.Errorf("bytes %d…%d, after %s, belong to no tensor", end, size, before)
	}
	return nil
}

// byteSize is the product of the dimensions and the bytes of each number, or an error if that overflows.
func byteSize(shape []int, each int) (int, error) {
	n := uint64(each)
	for _, d := range shape {
		high, low := bits.Mul64(n, uint64(d))
		if high != 0 || low > math.MaxInt {
			return 0, fmt.Errorf("shape %v: the number of bytes overflows", shape)
		}
		n = low
	}
	return int(n), nil
}
