package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forwardpass/pkg/internal/gguf"
	"forwardpass/pkg/tensor"
)

// WriteSafetensors writes tensors of type F32, F16 or BF16 to path, which appears whole or not at all.
// The four-byte numbers come first and the header's length is a multiple of 8, so that a mapped file is
// aligned; otherwise the tensors are ordered by name. File and Offset of the tensors are ignored.
func WriteSafetensors(path string, meta map[string]string, ts []*Tensor) error {
	ts = slices.Clone(ts)
	slices.SortFunc(ts, func(a, b *Tensor) int {
		if wide := a.Type == tensor.F32; wide != (b.Type == tensor.F32) {
			if wide {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	table := map[string]any{}
	if len(meta) > 0 {
		table["__metadata__"] = meta
	}
	offset := 0
	for _, t := range ts {
		if err := t.check(table); err != nil {
			return err
		}
		if each := safetensorsTypes[t.Type.String()]; each == 0 {
			return fmt.Errorf("checkpoint: tensor %q: safetensors has no type %s", t.Name, t.Type)
		}
		end := offset + len(t.Data)
		table[t.Name] = map[string]any{
			"dtype": t.Type.String(), "shape": append([]int{}, t.Shape...), "data_offsets": [2]int{offset, end},
		}
		offset = end
	}
	head, err := json.Marshal(table)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for len(head)%8 != 0 {
		head = append(head, ' ')
	}
	return writeAtomically(path, func(w io.Writer) error {
		if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(head)))); err != nil {
			return err
		}
		if _, err := w.Write(head); err != nil {
			return err
		}
		for _, t := range ts {
			if _, err := w.Write(t.Data); err != nil {
				return err
			}
		}
		return nil
	})
}

// WriteGGUF writes tensors of any type to path, which appears whole or not at all. A value of meta is
// stored in its own type: string, bool, the sized integers, float32, float64, and slices of these.
// llama.cpp wants most counts as uint32 and most real numbers as float32.
func WriteGGUF(path string, meta map[string]any, ts []*Tensor) error {
	seen := map[string]any{}
	out := make([]gguf.Data, len(ts))
	for i, t := range ts {
		if err := t.check(seen); err != nil {
			return err
		}
		seen[t.Name] = true
		dims := slices.Clone(t.Shape)
		slices.Reverse(dims)
		out[i] = gguf.Data{Name: t.Name, Dims: dims, Bytes: t.Data}
		for stored, computed := range ggufTypes {
			if computed == t.Type {
				out[i].Type = stored
			}
		}
	}
	return writeAtomically(path, func(w io.Writer) error { return gguf.Write(w, meta, out) })
}

// check is what both formats want of a tensor: a name of its own and as many bytes as its shape says.
func (t *Tensor) check(names map[string]any) error {
	if t == nil {
		return fmt.Errorf("checkpoint: want tensors to write, one is nil")
	}
	if names[t.Name] != nil {
		return fmt.Errorf("checkpoint: tensor %q occurs twice", t.Name)
	}
	if !t.Type.Valid() {
		return fmt.Errorf("checkpoint: tensor %q: unknown type %s", t.Name, t.Type)
	}
	block, _ := t.Type.Block()
	row := 1
	if len(t.Shape) > 0 {
		row = t.Shape[len(t.Shape)-1]
	}
	if n := tensor.Size(t.Shape); row%block != 0 || t.Type.Bytes(n) != len(t.Data) {
		return fmt.Errorf("checkpoint: tensor %q: %s %v takes %d bytes in rows of a multiple of %d, got %d bytes",
			t.Name, t.Type, t.Shape, t.Type.Bytes(n), block, len(t.Data))
	}
	return nil
}

// writeAtomically writes a file beside path and renames it.
func writeAtomically(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			err = fmt.Errorf("checkpoint: %s: %w", path, err)
		}
	}()
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
