// Package embed turns token ids into vectors (chapter section 2.1): row id of a table [V, C], nothing more. The
// same token gets the same vector wherever it stands, so models without rotary embeddings add a vector for the position:
// learned (a second table) or sinusoidal.
package embed

import (
	"fmt"
	"math"

	"forwardpass/pkg/tensor"
)

// Lookup returns the rows of the table for ids. table [V, C] → [T, C]
func Lookup(table *tensor.Matrix, ids []int) (*tensor.Tensor, error) {
	x := &tensor.Tensor{}
	return x, LookupInto(x, table, ids)
}

// LookupInto is Lookup into dst, resized to [T, C].
func LookupInto(dst *tensor.Tensor, table *tensor.Matrix, ids []int) error {
	if dst == nil || table == nil {
		return fmt.Errorf("embed: want a tensor to write to and a table [V, C], got none")
	}
	for i, id := range ids {
		if id < 0 || id >= table.Rows {
			return fmt.Errorf("embed: token %d of the input is id %d, want 0…%d", i, id, table.Rows-1)
		}
	}
	dst.Resize(len(ids), table.Cols)
	for i, id := range ids {
		if err := table.Row(dst.Row(i), id); err != nil {
			return err
		}
	}
	return nil
}

// AddLearned adds to each row of x [T, C] the row of a learned table [positions, C] for its position (GPT-2).
// row is a buffer to keep from call to call, or nil.
func AddLearned(x *tensor.Tensor, table *tensor.Matrix, pos []int, row *tensor.Tensor) error {
	if table == nil {
		return fmt.Errorf("embed: want a table [positions, C], got none")
	}
	if err := tensor.CheckShape("embed: x", x, len(pos), table.Cols); err != nil {
		return err
	}
	if row == nil {
		row = &tensor.Tensor{}
	}
	row.Resize(table.Cols)
	for i, p := range pos {
		if p < 0 || p >= table.Rows {
			return fmt.Errorf("embed: position %d, the table has %d", p, table.Rows)
		}
		if err := table.Row(row.Data, p); err != nil {
			return err
		}
		tensor.Add(x.Row(i), row.Data)
	}
	return nil
}

// Sinusoidal is the position table of the 2017 Transformer (arXiv:1706.03762, section 3.5):
//
//	PE(pos, 2i) = sin(pos/10000^(2i/C)),  PE(pos, 2i+1) = cos(pos/10000^(2i/C))
//
// → [positions, C]
func Sinusoidal(positions, c int) (*tensor.Tensor, error) {
	if positions < 0 || c < 2 || c%2 != 0 {
		return nil, fmt.Errorf("embed: sinusoidal positions need an even number of features, got %d positions of %d", positions, c)
	}
	if positions > math.MaxInt32/c {
		return nil, fmt.Errorf("embed: a table of %d positions of %d features is too large", positions, c)
	}
	pe := tensor.New(positions, c)
	for p := range positions {
		row := pe.Row(p)
		for i := 0; i < c; i += 2 {
			a := float64(p) / math.Pow(10_000, float64(i)/float64(c))
			row[i], row[i+1] = float32(math.Sin(a)), float32(math.Cos(a))
		}
	}
	return pe, nil
}
