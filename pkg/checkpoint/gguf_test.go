package checkpoint_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/tensor"
)

// Every type goes through a GGUF file and comes back with its bytes, its shape and its numbers.
func TestGGUFTypes(t *testing.T) {
	types := []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1,
		tensor.Q5_0, tensor.Q5_1, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K}
	var ts []*checkpoint.Tensor
	for n, typ := range types {
		x := &checkpoint.Tensor{Name: typ.String(), Type: typ, Shape: []int{3, 512}, Data: make([]byte, typ.Bytes(3*512))}
		for i := range x.Data {
			x.Data[i] = byte(i*7+n) & 0x3b // exponents stay finite
		}
		ts = append(ts, x)
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := checkpoint.WriteGGUF(path, map[string]any{"general.architecture": "llama"}, ts); err != nil {
		t.Fatal(err)
	}
	c := open(t, path)
	if c.Format != checkpoint.GGUF || c.Meta["general.architecture"] != "llama" {
		t.Errorf("format %v, metadata %v", c.Format, c.Meta)
	}
	for _, want := range ts {
		got, err := c.Tensor(want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: %v %v differs from what was written", want.Name, got.Type, got.Shape)
		}
		m, err := c.Matrix(want.Name, 3, 512)
		if err != nil {
			t.Fatal(err)
		}
		x, err := c.Floats(want.Name, 3, 512)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float32, 512)
		for r := range 3 {
			if err := m.Row(row, r); err != nil || !slices.Equal(row, x.Row(r)) {
				t.Errorf("%s: row %d of the matrix and of the numbers differ (%v)", want.Name, r, err)
			}
		}
		_, err = c.Transposed(want.Name, 3, 512)
		if block, _ := want.Type.Block(); block > 1 {
			wantError(t, err, want.Name, "can't be transposed")
		} else if err != nil {
			t.Error(err)
		}
	}
	if err := c.CheckFinite(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// Every quantised type means what the package gguf of llama.cpp's authors says, bit for bit. The raw
// blocks go through a GGUF file, as a model's do. (testdata/reference/quants.py)
func TestQuantsGolden(t *testing.T) {
	golden, err := checkpoint.ReadSafetensors("../../testdata/golden/quants.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	var ts []*checkpoint.Tensor
	for typ := tensor.F32; typ.Valid(); typ++ {
		raw, err := golden.Ints(typ.String() + "/raw")
		if err != nil {
			t.Fatal(err)
		}
		x := &checkpoint.Tensor{Name: typ.String(), Type: typ, Shape: golden.Shape(typ.String() + "/values")}
		for _, b := range raw {
			x.Data = append(x.Data, byte(b))
		}
		ts = append(ts, x)
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := checkpoint.WriteGGUF(path, nil, ts); err != nil {
		t.Fatal(err)
	}
	c := open(t, path)
	for _, x := range ts {
		want, err := golden.Floats(x.Name + "/values")
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Floats(x.Name, want.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Matrix(x.Name, want.Shape[0], want.Shape[1])
		if err != nil {
			t.Fatal(err)
		}
		distinct := map[float32]bool{}
		row := make([]float32, want.Shape[1])
		for r := range want.Shape[0] {
			if err := m.Row(row, r); err != nil {
				t.Fatal(err)
			}
			for i, w := range want.Row(r) {
				if got.Row(r)[i] != w || row[i] != w {
					t.Fatalf("%s: number [%d, %d] is %v (in its row %v), want %v", x.Name, r, i, got.Row(r)[i], row[i], w)
				}
				distinct[w] = true
			}
		}
		t.Logf("%-5s %d numbers equal, %d distinct", x.Name, len(want.Data), len(distinct))
	}
	if left := golden.Unused(); len(left) > 0 {
		t.Errorf("the golden file has more: %v", left)
	}
}

// A file that llama.cpp could read and this package can't compute with opens; only the tensor is refused.
func TestGGUFUnsupportedType(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gguf")
	q8 := &checkpoint.Tensor{Name: "blk.0.w", Type: tensor.Q8_0, Shape: []int{1, 256}, Data: make([]byte, 272)}
	if err := checkpoint.WriteGGUF(path, nil, []*checkpoint.Tensor{q8}); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kind := bytes.Index(file, []byte("blk.0.w")) + len("blk.0.w") + 4 + 2*8
	file[kind] = 10 // Q2_K takes 84 bytes, so the file is large enough
	c := open(t, write(t, t.TempDir(), "x.gguf", file))
	_, err = c.Matrix("blk.0.w", 1, 256)
	wantError(t, err, c.Path, `"blk.0.w"`, fmt.Sprint("at byte ", len(file)-288), "Q2_K, which is not supported")
	if _, err := c.Ints("blk.0.w"); err == nil {
		t.Errorf("Q2_K is read as integers")
	}

	file[kind] = 99
	_, err = checkpoint.Open(write(t, t.TempDir(), "x.gguf", file))
	wantError(t, err, "x.gguf", fmt.Sprint("at byte ", kind), `tensor "blk.0.w"`, "unknown tensor type 99")
}

// llama.cpp splits large models; the parts are opened together.
func TestGGUFParts(t *testing.T) {
	dir := t.TempDir()
	part := func(n, tensors int, names ...string) string {
		var ts []*checkpoint.Tensor
		for _, name := range names {
			ts = append(ts, f32(name, []float32{float32(n)}, 1))
		}
		path := filepath.Join(dir, fmt.Sprintf("m-%05d-of-00002.gguf", n))
		meta := map[string]any{"split.no": uint16(n - 1), "split.count": uint16(2), "split.tensors.count": int32(tensors)}
		if n == 1 {
			meta["general.architecture"] = "llama"
		}
		if err := checkpoint.WriteGGUF(path, meta, ts); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := part(1, 3, "a")
	_, err := checkpoint.Open(first)
	wantError(t, err, "part 2 of 2", "m-00002-of-00002.gguf", "no such file")

	second := part(2, 3, "b", "c")
	c := open(t, first)
	if !slices.Equal(c.Names(), []string{"a", "b", "c"}) || c.Meta["general.architecture"] != "llama" {
		t.Errorf("names %v, metadata %v", c.Names(), c.Meta)
	}
	if b, err := c.Vector("b", 1); err != nil || b[0] != 2 {
		t.Errorf("b is %v, %v", b, err)
	}
	_, err = checkpoint.Open(second)
	wantError(t, err, second, "open the first", "-00001-of-00002.gguf")

	part(2, 3, "b")
	_, err = checkpoint.Open(first)
	wantError(t, err, "should hold 3 tensors, they hold 2")
	part(2, 3, "a", "b")
	_, err = checkpoint.Open(first)
	wantError(t, err, `tensor "a"`, "00001", "00002")
}
