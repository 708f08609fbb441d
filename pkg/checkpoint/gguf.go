package checkpoint

import (
	"slices"

	"forwardpass/pkg/internal/gguf"
	"forwardpass/pkg/tensor"
)

// ggufTypes are the types of GGUF that models compute with.
var ggufTypes = map[gguf.Type]tensor.DType{
	gguf.F32: tensor.F32, gguf.F16: tensor.F16, gguf.BF16: tensor.BF16,
	gguf.Q8_0: tensor.Q8_0, gguf.Q4_0: tensor.Q4_0, gguf.Q4_1: tensor.Q4_1,
	gguf.Q5_0: tensor.Q5_0, gguf.Q5_1: tensor.Q5_1,
	gguf.Q4_K: tensor.Q4_K, gguf.Q5_K: tensor.Q5_K, gguf.Q6_K: tensor.Q6_K,
}

// openGGUF maps a GGUF file. Its tensors keep the names they have there ("blk.0.attn_q.weight").
func (c *Checkpoint) openGGUF(path string) error {
	c.Format = GGUF
	return c.load(path, func(data []byte, file string) (entries []*entry, err error) {
		c.Meta, entries, err = parseGGUF(data, file)
		return entries, err
	})
}

func parseGGUF(data []byte, file string) (map[string]any, []*entry, error) {
	f, err := gguf.Parse(data)
	if err != nil {
		return nil, nil, err
	}
	entries := make([]*entry, len(f.Tensors))
	for i, t := range f.Tensors {
		shape := slices.Clone(t.Dims)
		slices.Reverse(shape)
		end := t.Offset + t.Size
		e := &entry{stored: t.Type.String(), Tensor: Tensor{
			Name: t.Name, Shape: shape, Data: data[t.Offset:end:end], File: file, Offset: t.Offset,
		}}
		e.Type, e.computes = ggufTypes[t.Type]
		entries[i] = e
	}
	return f.Meta, entries, nil
}
