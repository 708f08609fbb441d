package checkpoint_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"forwardpass/pkg/checkpoint"
)

// smolLM2 is the path of a real checkpoint below the directory FORWARDPASS_MODELS; without that, the
// test is skipped.
func smolLM2(t testing.TB) string {
	dir := os.Getenv("FORWARDPASS_MODELS")
	if dir == "" {
		t.Skip("FORWARDPASS_MODELS is not set")
	}
	return filepath.Join(dir, "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
}

func TestSmolLM2(t *testing.T) {
	path := smolLM2(t)
	fastest := time.Hour
	for range 5 {
		start := time.Now()
		c, err := checkpoint.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		fastest = min(fastest, time.Since(start))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("opened in %v", fastest)
	if fastest > 50*time.Millisecond {
		t.Errorf("opening takes %v, want milliseconds: no weight may be read", fastest)
	}

	c := open(t, path)
	for key, want := range map[string]any{
		"general.architecture": "llama", "llama.block_count": int64(30), "llama.embedding_length": int64(576),
		"llama.attention.head_count": int64(9), "llama.attention.head_count_kv": int64(3), "llama.rope.freq_base": 100000.0,
		"tokenizer.ggml.add_bos_token": false,
	} {
		if c.Meta[key] != want {
			t.Errorf("%s is %v, want %v", key, c.Meta[key], want)
		}
	}
	if tokens, ok := c.Meta["tokenizer.ggml.tokens"].([]string); !ok || len(tokens) != 49152 || tokens[49151] == "" {
		t.Errorf("want 49152 tokens, got %d", len(tokens))
	}
	types := map[string]int{}
	for _, name := range c.Names() {
		x, err := c.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		types[x.Type.String()]++
	}
	if want := map[string]int{"F32": 61, "Q4_1": 210, "Q8_0": 1}; !maps.Equal(types, want) {
		t.Errorf("types %v, want %v", types, want)
	}
	if m, err := c.Matrix("blk.29.ffn_down.weight", 576, 1536); err != nil || m.Type.String() != "Q4_1" {
		t.Errorf("blk.29.ffn_down.weight: %v", err)
	}
	start := time.Now()
	if err := c.CheckFinite(t.Context(), nil); err != nil {
		t.Error(err)
	}
	t.Logf("all weights read and found finite in %v", time.Since(start))
}

func BenchmarkOpenSmolLM2(b *testing.B) { benchmarkOpen(b, smolLM2(b)) }

func BenchmarkOpenStoryland(b *testing.B) { benchmarkOpen(b, "../../testdata/storyland") }

func benchmarkOpen(b *testing.B, path string) {
	b.ReportAllocs()
	for b.Loop() {
		c, err := checkpoint.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// GPT-2's largest matrix is 768 × 3072; its 48 transposed weights are 85 million numbers.
func BenchmarkTransposed(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.safetensors")
	if err := checkpoint.WriteSafetensors(path, nil, []*checkpoint.Tensor{f32("w", make([]float32, 768*3072), 768, 3072)}); err != nil {
		b.Fatal(err)
	}
	c, err := checkpoint.ReadSafetensors(path)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.SetBytes(4 * 768 * 3072)
	for b.Loop() {
		if _, err := c.Transposed("w", 768, 3072); err != nil {
			b.Fatal(err)
		}
	}
}
