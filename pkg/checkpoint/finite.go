package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"forwardpass/pkg/tensor"
)

// CheckFinite reads all weights and reports those that are NaN or infinite: one line a tensor, with the
// first place. A model with such a weight answers with NaN logits, far from the cause. It is not part of
// Open, since it has to read the whole file. progress, if not nil, gets the bytes read so far and in all.
func (c *Checkpoint) CheckFinite(ctx context.Context, progress func(done, total int64)) error {
	var all []*Tensor
	var done, total int64
	for _, e := range c.entries {
		if e.computes {
			all = append(all, &e.Tensor)
			total += int64(len(e.Data))
		}
	}
	slices.SortFunc(all, func(a, b *Tensor) int { // in the order of the file, for the disk
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return int(a.Offset - b.Offset)
	})
	var bad []error
	for _, t := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.checkFinite(); err != nil {
			bad = append(bad, err)
		}
		done += int64(len(t.Data))
		if progress != nil {
			progress(done, total)
		}
	}
	return errors.Join(bad...)
}

// checkFinite looks at a tensor piece by piece, the pieces in parallel.
func (t *Tensor) checkFinite() error {
	const piece = 1 << 15 // numbers: a multiple of every block
	n := tensor.Size(t.Shape)
	type finding struct{ first, count int }
	found := make([]finding, (n+piece-1)/piece)
	tensor.Parallel(len(found), tensor.Func(func(p int) {
		lo, hi := p*piece, min(p*piece+piece, n)
		x := make([]float32, hi-lo)
		tensor.Dequantize(x, t.Type, t.Data[t.Type.Bytes(lo):t.Type.Bytes(hi)])
		for i, v := range x {
			if math.Float32bits(v)&0x7f800000 == 0x7f800000 { // an exponent of ones: Inf or NaN
				if found[p].count == 0 {
					found[p].first = lo + i
				}
				found[p].count++
			}
		}
	}))
	first, count := -1, 0
	for _, f := range found {
		if f.count > 0 && first < 0 {
			first = f.first
		}
		count += f.count
	}
	if count == 0 {
		return nil
	}
	block, size := t.Type.Block()
	start := first / block * size
	x := make([]float32, block)
	tensor.Dequantize(x, t.Type, t.Data[start:start+size])
	return fmt.Errorf("checkpoint: %s: tensor %q: %v at %v, byte %d (%d of its %d numbers are NaN or infinite)",
		t.File, t.Name, x[first%block], index(first, t.Shape), t.Offset+int64(start), count, n)
}

// index is the place of element i of a row-major shape: element 5 of [2, 3] is at [1 2].
func index(i int, shape []int) []int {
	at := make([]int, len(shape))
	for axis := len(shape) - 1; axis >= 0; axis-- {
		at[axis], i = i%shape[axis], i/shape[axis]
	}
	return at
}
