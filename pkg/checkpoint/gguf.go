package checkpoint

import (
	"fmt"
	"slices"
	"strings"

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
	err := c.load(path, func(data []byte, file string) (entries []*entry, err error) {
		c.Meta, entries, err = parseGGUF(data, file)
		return entries, err
	})
	if parts, _ := c.Meta["split.count"].(int64); err == nil && parts > 1 {
		return c.addParts(path, parts)
	}
	return err
}

// addParts maps the rest of a large model that llama.cpp has split into files x-00001-of-00003.gguf and
// so on; the first part has the metadata.
func (c *Checkpoint) addParts(path string, parts int64) error {
	name := func(part int64) string { return fmt.Sprintf("-%05d-of-%05d.gguf", part, parts) }
	stem, ok := strings.CutSuffix(path, name(1))
	if !ok {
		return fmt.Errorf("%s is one of %d parts of a model; open the first, whose name ends in %s", path, parts, name(1))
	}
	for part := int64(2); part <= parts; part++ {
		err := c.load(stem+name(part), func(data []byte, file string) ([]*entry, error) {
			_, entries, err := parseGGUF(data, file)
			return entries, err
		})
		if err != nil {
			return fmt.Errorf("part %d of %d: %w", part, parts, err)
		}
	}
	if want, ok := c.Meta["split.tensors.count"].(int64); ok && want != int64(len(c.entries)) {
		return fmt.Errorf("%s: the %d parts should hold %d tensors, they hold %d", path, parts, want, len(c.entries))
	}
	return nil
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
