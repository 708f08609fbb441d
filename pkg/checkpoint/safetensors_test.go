package checkpoint_test

import (
	"bytes"
	"encoding/binary"
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

// table is a safetensors file with that JSON and so many bytes of data.
func table(json string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(json)))
	b = append(b, json...)
	for i := range data {
		b = append(b, byte(i))
	}
	return b
}

// write puts a file into dir and returns its path.
func write(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantError checks that an error says all of it.
func wantError(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q lacks %q", err, w)
		}
	}
}

func TestSafetensorsRefuses(t *testing.T) {
	tests := []struct {
		name string
		file []byte
		want []string
	}{
		{"empty", nil, []string{"empty"}},
		{"cut in the length", []byte{1, 2, 3}, []string{"at byte 0", "8 bytes of header length", "has 3"}},
		{"header longer than the file", binary.LittleEndian.AppendUint64(nil, 100), []string{"header of 100 bytes", "0 bytes after"}},
		{"header length of all ones", bytes.Repeat([]byte{255}, 8), []string{"header of 18446744073709551615 bytes"}},
		{"cut in the header", table(`{"a":{"dtype":"F32","shape":[1],"data_off`, 0), []string{`tensor "a"`, "bad JSON"}},
		{"cut in the data", table(`{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}`, 15), []string{`tensor "a"`, "[0, 16]", "15 bytes after byte 63"}},
		{"no object", table(`[1]`, 0), []string{"at byte 8", "no JSON object", "["}},
		{"no JSON", table(`hello`, 0), []string{"at byte 8", "no JSON object"}},
		{"text after the object", table(`{} {}`, 0), []string{"text after"}},
		{"a number for a tensor", table(`{"a":1}`, 0), []string{`tensor "a"`, "bad JSON"}},
		{"negative dimension", table(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), []string{`tensor "a"`, "-1"}},
		{"fractional dimension", table(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, 4), []string{`tensor "a"`, "1.5"}},
		{"unknown dtype", table(`{"a":{"dtype":"Q7","shape":[1],"data_offsets":[0,4]}}`, 4), []string{`tensor "a"`, `unknown dtype "Q7"`}},
		{"no dtype", table(`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4), []string{`tensor "a"`, `unknown dtype ""`}},
		{"no offsets", table(`{"a":{"dtype":"F32","shape":[1]}}`, 4), []string{`tensor "a"`, "data_offsets must be two numbers"}},
		{"three offsets", table(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, 4), []string{`tensor "a"`, "data_offsets must be two numbers"}},
		{"offsets backwards", table(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 4), []string{`tensor "a"`, "[4, 0]"}},
		{"offsets past the file", table(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 4), []string{`tensor "a"`, "[4, 8] leave the file"}},
		{"shape and bytes differ", table(`{"a":{"dtype":"F16","shape":[3],"data_offsets":[0,8]}}`, 8), []string{`tensor "a"`, "F16 [3] takes 6 bytes", "hold 8"}},
		{"shape overflows", table(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), []string{`tensor "a"`, "overflows"}},
		{"dimension overflows", table(`{"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0]}}`, 0), []string{`tensor "a"`, "overflows"}},
		{"two of a name", table(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), []string{`"a" occurs twice`}},
		{"overlap", table(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}`, 6), []string{`tensor "b"`, `overlaps tensor "a"`}},
		{"gap", table(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}}`, 6), []string{"belong to no tensor", `"a"`, `"b"`}},
		{"bytes left over", table(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 6), []string{`after tensor "a"`, "belong to no tensor"}},
		{"metadata of numbers", table(`{"__metadata__":{"a":1}}`, 0), []string{"__metadata__"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, t.TempDir(), "x.safetensors", tt.file)
			c, err := checkpoint.ReadSafetensors(path)
			if err == nil {
				c.Close()
			}
			wantError(t, err, append(tt.want, path)...)
		})
	}
}

// Every prefix of a good file is refused.
func TestSafetensorsTruncated(t *testing.T) {
	whole := table(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}  `, 9)
	dir := t.TempDir()
	c, err := checkpoint.ReadSafetensors(write(t, dir, "x.safetensors", whole))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for n := range whole {
		if _, err := checkpoint.ReadSafetensors(write(t, dir, fmt.Sprint(n), whole[:n])); err == nil {
			t.Errorf("a file cut to %d of %d bytes is opened", n, len(whole))
		}
	}
}

// A header of any length puts the numbers at any address: all ways to read them must agree.
func TestAlignment(t *testing.T) {
	want := []float32{1, -2, 3.5, float32(math.Pi), 0, 1e-30}
	for pad := range 9 {
		json := `{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"v":{"dtype":"F32","shape":[6],"data_offsets":[24,48]},` +
			`"h":{"dtype":"BF16","shape":[2,1],"data_offsets":[48,52]}}` + strings.Repeat(" ", pad)
		file := table(json, 0)
		for range 2 {
			file = append(file, f32("", want).Data...)
		}
		file = append(file, 0x80, 0x3f, 0x00, 0xc0) // 1, -2 in BF16
		c, err := checkpoint.ReadSafetensors(write(t, t.TempDir(), "x.safetensors", file))
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Matrix("a", 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Vector("v", 6)
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Floats("a", 2, -1)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := c.Transposed("a", 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		th, err := c.Transposed("h", 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.Floats().Data; !slices.Equal(got, []float32{1, float32(math.Pi), -2, 0, 3.5, 1e-30}) {
			t.Errorf("padding %d: transposed %v", pad, got)
		}
		if got := th.Floats().Data; th.Rows != 1 || th.Cols != 2 || !slices.Equal(got, []float32{1, -2}) {
			t.Errorf("padding %d: transposed BF16 %v", pad, got)
		}
		for what, got := range map[string][]float32{"matrix": m.Floats().Data, "vector": v, "floats": a.Data} {
			if !slices.Equal(got, want) {
				t.Errorf("padding %d: %s %v, want %v", pad, what, got, want)
			}
		}
		c.Close()
	}
}

func TestTransposed(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {1, 50}, {31, 33}, {32, 64}, {100, 7}} {
		in, out := size[0], size[1]
		x := make([]float32, in*out)
		for i := range x {
			x[i] = float32(i)
		}
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if err := checkpoint.WriteSafetensors(path, nil, []*checkpoint.Tensor{f32("w", x, in, out)}); err != nil {
			t.Fatal(err)
		}
		c, err := checkpoint.ReadSafetensors(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Transposed("w", in, out)
		if err != nil {
			t.Fatal(err)
		}
		got := m.Floats() // [out, in]
		for o := range out {
			for i := range in {
				if got.Data[o*in+i] != x[i*out+o] {
					t.Fatalf("%v: element [%d, %d] is %v, want %v", size, o, i, got.Data[o*in+i], x[i*out+o])
				}
			}
		}
		c.Close()
	}
}

func TestWriteSafetensorsRoundTrip(t *testing.T) {
	half := &checkpoint.Tensor{Name: "half", Type: tensor.F16, Shape: []int{3}, Data: []byte{0, 0x3c, 0, 0xc0, 1, 0}}
	bf := &checkpoint.Tensor{Name: "bf", Type: tensor.BF16, Shape: []int{1, 1}, Data: []byte{0x80, 0x3f}}
	scalar := f32("scalar", []float32{7})
	none := f32("none", nil, 0, 5)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	meta := map[string]string{"format": "pt", "made by": "a test"}
	if err := checkpoint.WriteSafetensors(path, meta, []*checkpoint.Tensor{half, bf, f32("w", []float32{1, 2}, 2, 1), scalar, none}); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.ReadSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.Names(); !slices.Equal(got, []string{"bf", "half", "none", "scalar", "w"}) {
		t.Errorf("names %v", got)
	}
	if c.Meta["made by"] != "a test" || len(c.Meta) != 2 {
		t.Errorf("metadata %v", c.Meta)
	}
	for name, want := range map[string][]float32{"half": {1, -2, 1.0 / (1 << 24)}, "bf": {1}, "scalar": {7}, "none": {}, "w": {1, 2}} {
		x, err := c.Floats(name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(x.Data, want) || !slices.Equal(x.Shape, c.Shape(name)) {
			t.Errorf("%s is %v %v, want %v of shape %v", name, x.Shape, x.Data, want, c.Shape(name))
		}
	}
	if w, _ := c.Tensor("w"); w.Offset%4 != 0 {
		t.Errorf("F32 data at byte %d: not aligned", w.Offset)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func TestWriteRefuses(t *testing.T) {
	q8 := &checkpoint.Tensor{Name: "q", Type: tensor.Q8_0, Shape: []int{32}, Data: make([]byte, 34)}
	tests := []struct {
		name string
		ts   []*checkpoint.Tensor
		want string
	}{
		{"two of a name", []*checkpoint.Tensor{f32("a", nil, 0), f32("a", nil, 0)}, `"a" occurs twice`},
		{"shape", []*checkpoint.Tensor{f32("a", []float32{1}, 2)}, "takes 8 bytes"},
		{"quantised", []*checkpoint.Tensor{q8}, "no type Q8_0"},
		{"unknown type", []*checkpoint.Tensor{{Name: "a", Type: 99}}, "unknown type"},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		wantError(t, checkpoint.WriteSafetensors(filepath.Join(dir, "x"), nil, tt.ts), tt.want)
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: a file is left", tt.name)
		}
	}
	wantError(t, checkpoint.WriteSafetensors(filepath.Join(t.TempDir(), "none", "x"), nil, nil), "no such file")
	wantError(t, checkpoint.WriteGGUF(filepath.Join(t.TempDir(), "x"), map[string]any{"k": struct{}{}}, nil), `key "k"`, "struct {}")
	wantError(t, checkpoint.WriteGGUF(filepath.Join(t.TempDir(), "x"), nil, []*checkpoint.Tensor{f32("a", []float32{1}, 2)}), "takes 8 bytes")
}

func TestInts(t *testing.T) {
	tests := []struct {
		dtype string
		data  []byte
		want  []int64
	}{
		{"BOOL", []byte{0, 1}, []int64{0, 1}},
		{"U8", []byte{0, 255}, []int64{0, 255}},
		{"I8", []byte{127, 255}, []int64{127, -1}},
		{"U16", []byte{1, 0, 255, 255}, []int64{1, 65535}},
		{"I16", []byte{1, 0, 255, 255}, []int64{1, -1}},
		{"U32", []byte{1, 0, 0, 0, 255, 255, 255, 255}, []int64{1, math.MaxUint32}},
		{"I32", []byte{1, 0, 0, 0, 255, 255, 255, 255}, []int64{1, -1}},
		{"I64", []byte{1, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}, []int64{1 + 1<<32, -1}},
	}
	for _, tt := range tests {
		json := fmt.Sprintf(`{"ids":{"dtype":%q,"shape":[1,2],"data_offsets":[0,%d]}}`, tt.dtype, len(tt.data))
		c, err := checkpoint.ReadSafetensors(write(t, t.TempDir(), "x.safetensors", append(table(json, 0), tt.data...)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Ints("ids")
		same := func(a int, b int64) bool { return int64(a) == b }
		if err != nil || !slices.EqualFunc(got, tt.want, same) {
			t.Errorf("%s: %v, %v; want %v", tt.dtype, got, err, tt.want)
		}
		if _, err := c.Tensor("ids"); err == nil || !strings.Contains(err.Error(), tt.dtype+", which is not supported") {
			t.Errorf("Tensor of %s: %v", tt.dtype, err)
		}
		c.Close()
	}
}

// The matrix kernels take a matrix at any address.
func TestUnalignedMatMul(t *testing.T) {
	const rows, cols = 40, 96
	x := tensor.New(3, cols)
	w := make([]float32, rows*cols)
	for i := range w {
		w[i] = float32(i%17) - 8
	}
	for i := range x.Data {
		x.Data[i] = float32(i%5) - 2 // small integers: every order of summation is exact
	}
	for pad := range 4 {
		json := fmt.Sprintf(`{"w":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,%d]}}`, rows, cols, 4*rows*cols) + strings.Repeat(" ", pad)
		file := append(table(json, 0), f32("", w).Data...)
		c, err := checkpoint.ReadSafetensors(write(t, t.TempDir(), "x.safetensors", file))
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Matrix("w", rows, cols)
		if err != nil {
			t.Fatal(err)
		}
		y, err := tensor.MatMul(x, m) // [3, rows]
		if err != nil {
			t.Fatal(err)
		}
		for i := range y.Data {
			want := float32(0)
			for k := range cols {
				want += x.Row(i / rows)[k] * w[i%rows*cols+k]
			}
			if y.Data[i] != want {
				t.Fatalf("padding %d: product %d is %v, want %v", pad, i, y.Data[i], want)
			}
		}
		c.Close()
	}
}
