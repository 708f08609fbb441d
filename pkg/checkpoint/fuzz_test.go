package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime/metrics"
	"testing"

	"forwardpass/pkg/tensor"
)

// The loaders take any bytes: no panic, every tensor inside the file and as large as its shape says, and
// memory in proportion to the file. What they accept can then be read in every way without a panic.

func FuzzSafetensors(f *testing.F) {
	for _, json := range []string{
		`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"format":"pt"}}`,
		`{"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}} `,
		`{"a":{"dtype":"F32","shape":[0,9],"data_offsets":[0,0]}}`,
		`{}`,
	} {
		b := binary.LittleEndian.AppendUint64(nil, uint64(len(json)))
		f.Add(append(append(b, json...), make([]byte, 9)...))
		f.Add(append(append(b, json...), make([]byte, 8)...))
		f.Add(append(b, json...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := allocated()
		entries, _, err := parseSafetensors(data, "fuzz")
		checkAllocation(t, before, data)
		if err == nil {
			checkEntries(t, entries, data)
		}
	})
}

// llama2cSeeds are whole files with heads of 2 and a hidden size of 1, the smallest that there are.
func llama2cSeeds() [][]byte {
	file := func(layers, vocab int32, floats int) (b []byte) {
		for _, v := range []int32{2, 1, layers, 1, 1, vocab, 1} {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
		return append(b, make([]byte, 4*floats)...)
	}
	const layer = 2 + 4*2*2 + 2 + 3*2
	return [][]byte{file(1, 1, 2+layer+2+2), file(2, -1, 2+2*layer+2+2+2)}
}

func FuzzLlama2C(f *testing.F) {
	for _, s := range llama2cSeeds() {
		f.Add(s)
	}
	f.Add([]byte{8, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		before := allocated()
		_, entries, err := parseLlama2C(data, "fuzz")
		checkAllocation(t, before, data)
		if err == nil {
			checkEntries(t, entries, data)
		}
	})
}

func FuzzGGUF(f *testing.F) {
	for typ := tensor.F32; typ.Valid(); typ++ {
		block, size := typ.Block()
		path := filepath.Join(f.TempDir(), "x.gguf")
		x := &Tensor{Name: "w", Type: typ, Shape: []int{2, block}, Data: make([]byte, 2*size)}
		y := &Tensor{Name: "v", Type: tensor.F32, Shape: []int{1}, Data: make([]byte, 4)}
		if err := WriteGGUF(path, map[string]any{"general.architecture": "llama"}, []*Tensor{x, y}); err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := allocated()
		_, entries, err := parseGGUF(data, "fuzz")
		checkAllocation(t, before, data)
		if err == nil {
			checkEntries(t, entries, data)
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":8},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := allocated()
		shards, err := parseIndex(data)
		checkAllocation(t, before, data)
		if err == nil && len(shards) == 0 {
			t.Errorf("an index of no shards is accepted")
		}
		for file := range shards {
			if filepath.Dir(filepath.Join("dir", file)) != "dir" {
				t.Errorf("shard %q is outside the directory", file)
			}
		}
	})
}

func checkEntries(t *testing.T, entries []*entry, data []byte) {
	t.Helper()
	c := &Checkpoint{entries: map[string]*entry{}, asked: map[string]bool{}}
	for _, e := range entries {
		end := e.Offset + int64(len(e.Data))
		if e.Offset < 0 || end > int64(len(data)) || !bytes.Equal(e.Data, data[e.Offset:end]) {
			t.Errorf("tensor %q at byte %d, %d bytes: not a window on the file", e.Name, e.Offset, len(e.Data))
		}
		n := tensor.Size(e.Shape)
		if each := safetensorsTypes[e.stored]; each > 0 && n*each != len(e.Data) || e.computes && e.Type.Bytes(n) != len(e.Data) {
			t.Errorf("tensor %q: %s %v has %d bytes", e.Name, e.stored, e.Shape, len(e.Data))
		}
		c.entries[e.Name] = e
	}
	if len(c.entries) != len(entries) {
		t.Errorf("%d tensors have %d names", len(entries), len(c.entries))
	}
	for _, name := range c.Names() {
		x, errX := c.Floats(name)
		m, errM := c.Matrix(name, -1, -1)
		if errX == nil && errM == nil && len(x.Data) != m.Rows*m.Cols {
			t.Errorf("tensor %q: %d numbers, but a matrix [%d, %d]", name, len(x.Data), m.Rows, m.Cols)
		}
		if _, err := c.Ints(name); err == nil && errX == nil {
			t.Errorf("tensor %q is of floats and of integers", name)
		}
		if tr, err := c.Transposed(name, -1, -1); err == nil && (tr.Rows != m.Cols || tr.Cols != m.Rows) {
			t.Errorf("tensor %q: transposed [%d, %d]", name, tr.Rows, tr.Cols)
		}
	}
	_ = c.CheckFinite(context.Background(), nil) // NaN is no surprise here
}

func checkAllocation(t *testing.T, before uint64, data []byte) {
	t.Helper()
	if got := allocated() - before; got > uint64(1<<20+64*len(data)) {
		t.Errorf("%d bytes allocated for a file of %d", got, len(data))
	}
}

// allocated is the number of bytes that the program has allocated on the heap so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// The seeds above must reach the accepting end of the parsers, or the fuzzing looks at errors only.
func TestFuzzSeedsParse(t *testing.T) {
	for i, s := range llama2cSeeds() {
		if _, _, err := parseLlama2C(s, "seed"); err != nil {
			t.Errorf("seed %d: %v", i, err)
		}
	}
	data, err := os.ReadFile("../../testdata/storyland/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := parseSafetensors(data, "seed"); err != nil {
		t.Error(err)
	}
}
