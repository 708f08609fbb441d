package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime/metrics"
	"strings"
	"testing"
)

// builder puts a file together by hand, so that it can be wrong.
type builder struct{ bytes.Buffer }

// put appends numbers in their size, and strings with their length.
func (b *builder) put(values ...any) *builder {
	for _, v := range values {
		if s, ok := v.(string); ok {
			b.put(uint64(len(s)))
			b.WriteString(s)
		} else if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return b
}

// file starts a file of so many tensors and keys.
func file(tensors, keys uint64) *builder {
	b := &builder{}
	b.WriteString("GGUF")
	return b.put(uint32(3), tensors, keys)
}

// pad fills up to the next multiple of 32 and adds n bytes of data.
func (b *builder) pad(n int) []byte {
	b.Write(make([]byte, (32-b.Len()%32)%32+n))
	return b.Bytes()
}

func TestParse(t *testing.T) {
	var out bytes.Buffer
	meta := map[string]any{
		"s": "text \x00 \xff", "b": true, "u8": uint8(200), "i8": int8(-100), "u16": uint16(60000), "i16": int16(-30000),
		"u32": uint32(4e9), "i32": int32(-2e9), "u64": uint64(1 << 62), "i64": int64(-1 << 62), "f32": float32(0.1), "f64": 0.1,
		"as": []string{"", "a", "bc"}, "ab": []bool{true, false}, "ai": []int32{-1, 2}, "au": []uint8{0, 255},
		"af": []float32{0.5, -1}, "general.alignment": uint32(64), "none": []string{},
	}
	data := []Data{
		{"a", F32, []int{3, 2}, bytes.Repeat([]byte{1}, 24)},
		{"b", Q8_0, []int{32, 2}, bytes.Repeat([]byte{2}, 68)},
		{"scalar", F16, nil, []byte{3, 3}},
		{"nothing", F32, []int{0, 7}, nil},
	}
	if err := Write(&out, meta, data); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Version != 3 || f.Alignment != 64 {
		t.Errorf("version %d, alignment %d", f.Version, f.Alignment)
	}
	want := map[string]any{
		"s": "text \x00 \xff", "b": true, "u8": int64(200), "i8": int64(-100), "u16": int64(60000), "i16": int64(-30000),
		"u32": int64(4e9), "i32": int64(-2e9), "u64": int64(1 << 62), "i64": int64(-1 << 62), "f32": float64(float32(0.1)), "f64": 0.1,
		"as": []string{"", "a", "bc"}, "ab": []bool{true, false}, "ai": []int64{-1, 2}, "au": []int64{0, 255},
		"af": []float64{0.5, -1}, "general.alignment": int64(64), "none": []string{},
	}
	for k, w := range want {
		if !reflect.DeepEqual(f.Meta[k], w) {
			t.Errorf("key %s is %#v, want %#v", k, f.Meta[k], w)
		}
	}
	if len(f.Meta) != len(want) || len(f.Tensors) != len(data) {
		t.Fatalf("%d keys, %d tensors; want %d, %d", len(f.Meta), len(f.Tensors), len(want), len(data))
	}
	for i, d := range data {
		x := f.Tensors[i]
		if x.Name != d.Name || x.Type != d.Type || len(x.Dims) != len(d.Dims) || !bytes.Equal(out.Bytes()[x.Offset:x.Offset+x.Size], d.Bytes) {
			t.Errorf("tensor %+v, want %+v", x, d)
		}
		if x.Offset%64 != 0 && x.Size > 0 {
			t.Errorf("tensor %s at byte %d: not aligned", x.Name, x.Offset)
		}
	}
	// Every prefix is refused: the last tensor of data ends before the padding.
	last := f.Tensors[2].Offset + f.Tensors[2].Size
	for n := range last {
		if _, err := Parse(out.Bytes()[:n]); err == nil {
			t.Errorf("a file cut to %d of %d bytes is read", n, last)
		}
	}
}

// An array of arrays is legal, if rare.
func TestNestedArray(t *testing.T) {
	b := file(0, 1).put("k", kindArray, kindArray, uint64(2), kindU8, uint64(2), byte(1), byte(2), kindString, uint64(1), "x")
	f, err := Parse(b.Bytes())
	if want := []any{[]int64{1, 2}, []string{"x"}}; err != nil || !reflect.DeepEqual(f.Meta["k"], want) {
		t.Errorf("got %#v, %v; want %#v", f, err, want)
	}
}

func TestParseRefuses(t *testing.T) {
	u32, u64 := func(n int) uint32 { return uint32(n) }, func(n int) uint64 { return uint64(n) }
	// one is a file with one tensor "w", without its type and offset.
	one := func(dims ...uint64) *builder { return file(1, 0).put("w", u32(len(dims)), dims) }
	nested := file(0, 1).put("k", kindArray)
	for range 100_000 {
		nested.put(kindArray, u64(1))
	}
	nested.put(kindU8, u64(0))
	tests := []struct {
		name string
		file []byte
		want []string
	}{
		{"empty", nil, []string{"at byte 0", `want the magic "GGUF", got ""`}},
		{"magic", []byte("GGML\x03\x00\x00\x00"), []string{"at byte 0", `got "GGML"`}},
		{"cut in the version", []byte("GGUF\x03"), []string{"at byte 4", "the file ends after 1"}},
		{"cut in the counts", []byte("GGUF\x03\x00\x00\x00\x00"), []string{"at byte 8", "number of tensors"}},
		{"version 1", []byte("GGUF\x01\x00\x00\x00" + strings.Repeat("\x00", 16)), []string{"at byte 4", "want version 2 or 3, got 1"}},
		{"version 4", []byte("GGUF\x04\x00\x00\x00" + strings.Repeat("\x00", 16)), []string{"got 4"}},
		{"big-endian", []byte("GGUF\x00\x00\x00\x03" + strings.Repeat("\x00", 16)), []string{"big-endian"}},
		{"keys", file(0, 1<<63).Bytes(), []string{"at byte 16", "9223372036854775808 keys", "0 bytes"}},
		{"tensors", file(1<<40, 0).Bytes(), []string{"at byte 8", "1099511627776 tensors", "0 bytes"}},
		{"key length", file(0, 1).put(uint64(math.MaxUint64), make([]byte, 30)).Bytes(), []string{"at byte 32", "key of 18446744073709551615 bytes", "ends after 30"}},
		{"string length", file(0, 1).put("k", kindString, u64(99), make([]byte, 20)).Bytes(), []string{`key "k"`, "at byte 45", "string of 99 bytes", "ends after 20"}},
		{"value type", file(0, 1).put("k", u32(13), u64(0)).Bytes(), []string{`key "k"`, "unknown type of value 13"}},
		{"array type", file(0, 1).put("k", kindArray, u32(77), u64(1), u64(0)).Bytes(), []string{`key "k"`, "unknown type of array 77"}},
		{"array length", file(0, 1).put("k", kindArray, kindString, uint64(1<<60), u64(0)).Bytes(), []string{`key "k"`, "array of 1152921504606846976", "8 bytes"}},
		{"string in an array", file(0, 1).put("k", kindArray, kindString, u64(2), "abc", uint64(1<<40), u64(0)).Bytes(), []string{`key "k"`, "string of 1099511627776 bytes"}},
		{"deep arrays", nested.Bytes(), []string{`key "k"`, "nested more than 4 deep"}},
		{"large integer", file(0, 1).put("k", kindU64, uint64(1<<63)).Bytes(), []string{`key "k"`, "larger than an int64"}},
		{"key twice", file(0, 2).put("k", kindU8, byte(1), "k", kindU8, byte(1)).Bytes(), []string{`key "k" occurs twice`, "at byte 38"}},
		{"alignment 0", file(0, 1).put("general.alignment", kindU32, u32(0)).Bytes(), []string{"power of two, got 0"}},
		{"alignment 48", file(0, 1).put("general.alignment", kindU32, u32(48)).Bytes(), []string{"power of two, got 48"}},
		{"alignment a string", file(0, 1).put("general.alignment", kindString, "32").Bytes(), []string{"power of two, got 32"}},
		{"dimensions", one(1, 1, 1, 1, 1).put(u32(0), u64(0)).pad(4), []string{`tensor "w" (number 1 of 1)`, "at most 4 dimensions, got 5"}},
		{"product overflows", one(1<<32, 1<<32).put(u32(0), u64(0)).pad(4), []string{`tensor "w"`, "overflows"}},
		{"bytes overflow", one(1<<62).put(u32(0), u64(0)).pad(4), []string{`tensor "w"`, "more than a file can hold"}},
		{"type", one(1).put(u32(31), u64(0)).pad(4), []string{`tensor "w"`, "at byte 45", "unknown tensor type 31"}},
		{"offset overflows", one(1).put(u32(0), uint64(1<<63)).pad(4), []string{`tensor "w"`, "more than a file can hold"}},
		{"offset not aligned", one(1).put(u32(0), u64(8)).pad(64), []string{`tensor "w"`, "offset 8", "alignment 32"}},
		{"offset past the file", one(1).put(u32(0), u64(1<<20)).pad(4), []string{`tensor "w"`, "past the end of the file (68 bytes)"}},
		{"data cut", one(16).put(u32(0), u64(0)).pad(60), []string{`tensor "w"`, "F32 [16] takes 64 bytes", "(124 bytes)"}},
		{"row no block", one(33).put(u32(2), u64(0)).pad(99), []string{`tensor "w"`, "Q4_0 needs rows in multiples of 32, got 33"}},
		{"overlap", file(2, 0).put("a", u32(1), u64(16), u32(0), u64(0), "b", u32(1), u64(8), u32(0), u64(32)).pad(64), []string{`"a"`, `"b"`, "overlap"}},
		{"tensor twice", file(2, 0).put("a", u32(1), u64(8), u32(0), u64(0), "a", u32(1), u64(8), u32(0), u64(32)).pad(64), []string{`"a" occurs twice`}},
		{"cut in the table", file(2, 0).put("a", u32(1), u64(8), u32(0), u64(0), "b", u32(1), u64(8)).Bytes(), []string{`tensor "b" (number 2 of 2)`, "the file ends after 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.file)
			for _, w := range tt.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("error %v lacks %q", err, w)
				}
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, v := range []any{struct{}{}, 1, []any{1}} {
		if err := Write(&bytes.Buffer{}, map[string]any{"k": v}, nil); err == nil || !strings.Contains(err.Error(), `key "k"`) {
			t.Errorf("%T: error %v", v, err)
		}
	}
}

func TestTypes(t *testing.T) {
	for typ, l := range layouts {
		if e, b := typ.Block(); !typ.Known() || e != l.elements || b != l.bytes || typ.String() != l.name {
			t.Errorf("%v: %d elements in %d bytes", typ, e, b)
		}
	}
	if typ := Type(99); typ.Known() || typ.String() != "type 99" {
		t.Errorf("type 99 is %v", typ)
	}
}

// FuzzParse: whatever the bytes, no panic, tensors inside the file, and memory in proportion to it.
func FuzzParse(f *testing.F) {
	var out bytes.Buffer
	if err := Write(&out, map[string]any{"general.architecture": "llama", "n": uint32(2), "general.alignment": uint32(32),
		"f": []float32{1}, "tokens": []string{"a", "bc", ""}, "b": true},
		[]Data{{"w", F32, []int{2, 2}, make([]byte, 16)}, {"q", Q8_0, []int{32}, make([]byte, 34)}}); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add(file(0, 1).put("k", kindArray, kindArray, uint64(2), kindU8, uint64(2), byte(1), byte(2), kindString, uint64(1), "x").Bytes())
	f.Add(file(1, 0).put("w", uint32(1), uint64(4), uint32(30), uint64(0)).pad(8))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := allocated()
		file, err := Parse(data)
		if got, most := allocated()-before, uint64(1<<20+64*len(data)); got > most {
			t.Errorf("%d bytes allocated for a file of %d", got, len(data))
		}
		if err != nil {
			return
		}
		for _, x := range file.Tensors {
			if x.Offset < 0 || x.Size < 0 || x.Offset+x.Size > int64(len(data)) {
				t.Errorf("tensor %+v leaves the file of %d bytes", x, len(data))
			}
		}
	})
}

// allocated is the number of bytes that the program has allocated on the heap so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func ExampleParse() {
	var out bytes.Buffer
	err := Write(&out, map[string]any{"general.architecture": "llama", "llama.block_count": uint32(2)},
		[]Data{{Name: "blk.0.ffn_up.weight", Type: Q8_0, Dims: []int{64, 3}, Bytes: make([]byte, 3*2*34)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := Parse(out.Bytes())
	fmt.Println(f.Meta, err)
	for _, t := range f.Tensors {
		fmt.Printf("%s %s %v: %d bytes from byte %d\n", t.Name, t.Type, t.Dims, t.Size, t.Offset)
	}
	// Output:
	// map[general.architecture:llama llama.block_count:2] <nil>
	// blk.0.ffn_up.weight Q8_0 [64 3]: 204 bytes from byte 192
}
