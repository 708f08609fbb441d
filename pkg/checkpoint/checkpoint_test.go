package checkpoint_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/tensor"
)

// f32 is a tensor to be written.
func f32(name string, x []float32, shape ...int) *checkpoint.Tensor {
	t := &checkpoint.Tensor{Name: name, Type: tensor.F32, Shape: shape}
	for _, v := range x {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}

// modelDir is a Hugging Face directory with these files of weights and an index, if one is given.
func modelDir(t *testing.T, index string, files map[string][]*checkpoint.Tensor) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "config.json", []byte(`{"model_type": "llama"}`))
	if index != "" {
		write(t, dir, "model.safetensors.index.json", []byte(index))
	}
	for name, ts := range files {
		if err := checkpoint.WriteSafetensors(filepath.Join(dir, name), nil, ts); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t *testing.T, path string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestDirectory(t *testing.T) {
	dir := modelDir(t, "", map[string][]*checkpoint.Tensor{"model.safetensors": {f32("w", []float32{1, 2, 3, 4, 5, 6}, 2, 3), f32("b", []float32{7, 8}, 2)}})
	write(t, dir, "generation_config.json", []byte(`{"eos_token_id": 2}`))
	for _, path := range []string{dir, filepath.Join(dir, "model.safetensors")} {
		c := open(t, path)
		if string(c.Config) != `{"model_type": "llama"}` || string(c.Generation) != `{"eos_token_id": 2}` || c.Format != checkpoint.HuggingFace {
			t.Errorf("config %s, generation %s, format %v", c.Config, c.Generation, c.Format)
		}
		if !c.Has("w") || c.Has("none") {
			t.Errorf("Has is wrong")
		}
		if got := c.Unused(); !slices.Equal(got, []string{"b", "w"}) {
			t.Errorf("unused before any use: %v", got)
		}
		w, err := c.Matrix("w", 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Floats().Data; !slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) {
			t.Errorf("w is %v", got)
		}
		if got := c.Unused(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("unused: %v", got)
		}
	}
}

// The data of a matrix is the mapped file itself.
func TestZeroCopy(t *testing.T) {
	path := filepath.Join(modelDir(t, "", map[string][]*checkpoint.Tensor{"model.safetensors": {f32("w", []float32{1, 2}, 1, 2), f32("b", []float32{3, 4}, 2)}}), "model.safetensors")
	c := open(t, path)
	w, _ := c.Tensor("w")
	m, _ := c.Matrix("w", 1, 2)
	if &m.Data[0] != &w.Data[0] {
		t.Errorf("the matrix is a copy")
	}
	one, _ := c.Vector("b", 2)
	two, _ := c.Vector("b", 2)
	if &one[0] != &two[0] {
		t.Errorf("the aligned vector is a copy")
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := whole[w.Offset : w.Offset+int64(len(w.Data))]; w.File != path || !slices.Equal(got, w.Data) {
		t.Errorf("file %s, offset %d: not where the tensor is", w.File, w.Offset)
	}
}

func TestShards(t *testing.T) {
	const index = `{"metadata": {"total_size": 16}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}`
	dir := modelDir(t, index, map[string][]*checkpoint.Tensor{
		"model-1.safetensors": {f32("a", []float32{1}, 1)},
		"model-2.safetensors": {f32("b", []float32{2}, 1)},
	})
	c := open(t, dir)
	for name, want := range map[string]float32{"a": 1, "b": 2} {
		if got, err := c.Vector(name, 1); err != nil || got[0] != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	a, b := []*checkpoint.Tensor{f32("a", []float32{1}, 1)}, []*checkpoint.Tensor{f32("b", []float32{1}, 1)}
	type files = map[string][]*checkpoint.Tensor
	tests := []struct {
		name, index string
		files       files
		want        []string
	}{
		{"absent shard", index, files{"model-1.safetensors": a}, []string{"model-2.safetensors is absent", `"b" first`}},
		{"tensor not in its shard", index, files{"model-1.safetensors": a, "model-2.safetensors": {}}, []string{"model-2.safetensors", `tensor "b"`, "absent"}},
		{"tensor in two shards", index, files{"model-1.safetensors": a, "model-2.safetensors": {a[0], b[0]}}, []string{`tensor "a"`, "model-1.safetensors", "model-2.safetensors"}},
		{"bad JSON", `{"weight_map": `, nil, []string{"index.json", "bad JSON"}},
		{"no map", `{}`, nil, []string{"index.json", "weight_map is missing"}},
		{"path", `{"weight_map": {"a": "../x.safetensors"}}`, nil, []string{`tensor "a"`, "../x.safetensors"}},
		{"no name", `{"weight_map": {"a": ".."}}`, nil, []string{`tensor "a"`, `".."`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := checkpoint.Open(modelDir(t, tt.index, tt.files))
			wantError(t, err, tt.want...)
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	with := func(files ...string) string {
		dir := t.TempDir()
		for _, f := range files {
			write(t, dir, f, []byte("{}"))
		}
		return dir
	}
	tests := []struct {
		name, path string
		want       []string
	}{
		{"nothing there", filepath.Join(t.TempDir(), "none"), []string{"none", "no such file"}},
		{"empty directory", with(), []string{"no config.json"}},
		{"directory with a GGUF file", with("m.gguf"), []string{"no config.json", "m.gguf"}},
		{"config.json only", with("config.json"), []string{"neither model.safetensors nor"}},
		{"pickle", with("config.json", "pytorch_model.bin"), []string{"pytorch_model.bin only", "safetensors"}},
		{"safetensors without config.json", filepath.Join(with("x.safetensors"), "x.safetensors"), []string{"no config.json"}},
		{"another file", filepath.Join(with("x.txt"), "x.txt"), []string{"x.txt", ".gguf"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := checkpoint.Open(tt.path)
			wantError(t, err, tt.want...)
		})
	}
}

func TestReadRefuses(t *testing.T) {
	dir := modelDir(t, "", map[string][]*checkpoint.Tensor{"model.safetensors": {
		f32("model.norm.weight", []float32{1, 2}, 2), f32("model.up.weight", make([]float32, 6), 2, 3), f32("experts", make([]float32, 24), 2, 4, 3)}})
	path := filepath.Join(dir, "model.safetensors")
	c := open(t, dir)
	up, _ := c.Tensor("model.up.weight")
	at := fmt.Sprintf("at byte %d", up.Offset)
	errorOf := func(_ any, err error) error { return err }
	tests := []struct {
		name string
		err  error
		want []string
	}{
		{"missing", errorOf(c.Tensor("lm_head.weight")), []string{dir, `no tensor "lm_head.weight"`, "among its 3"}},
		{"wrong prefix", errorOf(c.Vector("transformer.norm.weight", 2)), []string{`no tensor "transformer.norm.weight"`, `it has "model.norm.weight"`}},
		{"rows", errorOf(c.Matrix("model.up.weight", 4, 3)), []string{path, `"model.up.weight"`, at, "want shape [4 3], got [2 3]"}},
		{"transposed", errorOf(c.Transposed("model.up.weight", 3, 2)), []string{path, `"model.up.weight"`, at, "want shape [3 2], got [2 3]"}},
		{"vector as matrix", errorOf(c.Matrix("model.norm.weight", 1, 2)), []string{"want shape [1 2], got [2]"}},
		{"matrix as vector", errorOf(c.Vector("model.up.weight", 6)), []string{"want shape [6], got [2 3]"}},
		{"length", errorOf(c.Vector("model.norm.weight", 3)), []string{"want shape [3], got [2]"}},
		{"axes", errorOf(c.Floats("experts", 8, 3)), []string{"want shape [8 3], got [2 4 3]"}},
		{"floats as integers", errorOf(c.Ints("experts")), []string{`"experts" is F32, want BOOL, U8 to U32 or I8 to I64`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantError(t, tt.err, tt.want...) })
	}
	if m, err := c.Matrix("experts", 8, 3); err != nil || m.Rows != 8 {
		t.Errorf("experts as one matrix: %v, %v", m, err)
	}
	if m, err := c.Matrix("experts", -1, -1); err != nil || m.Rows != 8 || m.Cols != 3 {
		t.Errorf("experts as a matrix of any size: %v, %v", m, err)
	}
	if v, err := c.Vector("model.norm.weight", -1); err != nil || len(v) != 2 {
		t.Errorf("vector of any length: %v, %v", v, err)
	}
}

func TestCheckFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	big := make([]float32, 100_000)
	big[70_000], big[70_001], big[99_999] = nan, inf, inf
	dir := modelDir(t, "", map[string][]*checkpoint.Tensor{"model.safetensors": {
		f32("good", []float32{math.MaxFloat32, 0, -1}, 3), f32("big", big, 1000, 100), f32("one", []float32{inf}, 1)}})
	c := open(t, dir)
	var done, total int64
	err := c.CheckFinite(t.Context(), func(d, n int64) { done, total = d, n })
	b, _ := c.Tensor("big")
	wantError(t, err, `tensor "big": NaN at [700 0]`, fmt.Sprintf("byte %d (3 of its 100000", b.Offset+4*70_000), `tensor "one": -Inf at [0]`, "model.safetensors")
	if strings.Contains(err.Error(), "good") {
		t.Errorf("a good tensor is named: %v", err)
	}
	if done != total || total != 4*(100_000+3+1) {
		t.Errorf("progress ends at %d of %d bytes", done, total)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.CheckFinite(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled check: %v", err)
	}
	fine := open(t, modelDir(t, "", map[string][]*checkpoint.Tensor{"model.safetensors": {f32("good", []float32{1}, 1)}}))
	if err := fine.CheckFinite(t.Context(), nil); err != nil {
		t.Error(err)
	}
	// In a quantised type it is a block's scale that is broken.
	path := filepath.Join(t.TempDir(), "x.gguf")
	q := &checkpoint.Tensor{Name: "q", Type: tensor.Q8_0, Shape: []int{2, 32}, Data: make([]byte, 68)}
	q.Data[34+1], q.Data[34+2] = 0x7c, 1 // the second scale is +Inf
	if err := checkpoint.WriteGGUF(path, nil, []*checkpoint.Tensor{q}); err != nil {
		t.Fatal(err)
	}
	g := open(t, path)
	qt, _ := g.Tensor("q")
	wantError(t, g.CheckFinite(t.Context(), nil), `tensor "q": +Inf at [1 0]`, fmt.Sprintf("byte %d", qt.Offset+34))
}
