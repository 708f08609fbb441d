package checkpoint_test

import (
	"encoding/binary"
	"math"
	"testing"

	"forwardpass/pkg/checkpoint"
)

// llama2c is a file with that header, its weights counting up from 0.
func llama2c(header [7]int32, floats int) []byte {
	var b []byte
	for _, h := range header {
		b = binary.LittleEndian.AppendUint32(b, uint32(h))
	}
	for i := range floats {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(i)))
	}
	return b
}

func TestLlama2C(t *testing.T) {
	const dim, hidden, layers, heads, kvHeads, vocab, context = 8, 6, 2, 4, 2, 5, 3
	const kv = dim / heads * kvHeads
	perLayer := dim + 2*dim*dim + 2*kv*dim + dim + 3*hidden*dim
	tied := vocab*dim + layers*perLayer + dim + context*dim/heads
	for _, untied := range []bool{false, true} {
		header, floats := [7]int32{dim, hidden, layers, heads, kvHeads, vocab, context}, tied
		if untied {
			header[5], floats = -vocab, tied+vocab*dim
		}
		c := open(t, write(t, t.TempDir(), "m.bin", llama2c(header, floats)))
		if c.Format != checkpoint.Llama2C || c.Meta["llama.attention.head_count_kv"] != int64(kvHeads) || c.Meta["llama.vocab_size"] != int64(vocab) {
			t.Errorf("format %v, metadata %v", c.Format, c.Meta)
		}
		// The order of run.c, each kind for all layers.
		next := 0
		check := func(name string, shape ...int) {
			t.Helper()
			x, err := c.Floats(name, shape...)
			if err != nil {
				t.Fatal(err)
			}
			if x.Data[0] != float32(next) {
				t.Errorf("%s starts with number %v, want %d", name, x.Data[0], next)
			}
			next += len(x.Data)
		}
		each := func(name string, shape ...int) {
			t.Helper()
			for _, layer := range []string{"blk.0.", "blk.1."} {
				check(layer+name, shape...)
			}
		}
		check("token_embd.weight", vocab, dim)
		each("attn_norm.weight", dim)
		each("attn_q.weight", dim, dim)
		each("attn_k.weight", kv, dim)
		each("attn_v.weight", kv, dim)
		each("attn_output.weight", dim, dim)
		each("ffn_norm.weight", dim)
		each("ffn_gate.weight", hidden, dim)
		each("ffn_down.weight", dim, hidden)
		each("ffn_up.weight", hidden, dim)
		check("output_norm.weight", dim)
		if next += context * dim / heads; untied {
			check("output.weight", vocab, dim)
		} else if c.Has("output.weight") {
			t.Errorf("a tied model has a classifier of its own")
		}
		if next != floats || len(c.Unused()) > 0 {
			t.Errorf("%d of %d numbers are in tensors; unused: %v", next, floats, c.Unused())
		}
	}
}

func TestLlama2CRefuses(t *testing.T) {
	good := [7]int32{8, 6, 2, 4, 2, 5, 3}
	size := 5*8 + 2*(8+128+64+8+144) + 8 + 6
	with := func(i int, v int32) [7]int32 {
		h := good
		h[i] = v
		return h
	}
	tests := []struct {
		name string
		file []byte
		want []string
	}{
		{"empty", nil, []string{"empty"}},
		{"cut in the header", llama2c(good, 0)[:27], []string{"at byte 0", "7 integers", "27 bytes"}},
		{"header only", llama2c(good, 0), []string{"at byte 8", "2 layers"}},
		{"cut", llama2c(good, size-1), []string{`tensor "RoPE tables" at byte`, "ends at byte"}},
		{"cut in a layer", llama2c(good, 300), []string{`tensor "blk.1.attn_v.weight" at byte 1148`, "F32 [4 8]", "ends at byte 1228"}},
		{"too long", llama2c(good, size+1), []string{"ends here"}},
		{"untied, no classifier", llama2c(with(5, -5), size), []string{`tensor "output.weight"`}},
		{"no dim", llama2c(with(0, 0), size), []string{"at byte 0", "dim must be positive, got 0"}},
		{"negative layers", llama2c(with(2, -1), size), []string{"at byte 8", "n_layers must be positive, got -1"}},
		{"no vocabulary", llama2c(with(5, 0), size), []string{"at byte 20", "vocab_size"}},
		{"smallest vocabulary", llama2c(with(5, math.MinInt32), size), []string{"at byte 20", "vocab_size"}},
		{"heads don't divide", llama2c(with(3, 3), size), []string{"3 heads"}},
		{"KV heads don't divide", llama2c(with(4, 3), size), []string{"3 KV heads"}},
		{"odd heads", llama2c(with(3, 8), size), []string{"even size"}},
		{"layers beyond the file", llama2c(with(2, math.MaxInt32), size), []string{"at byte 8", "2147483647 layers"}},
		{"vocabulary beyond the file", llama2c(with(5, math.MaxInt32), size), []string{`tensor "token_embd.weight" at byte 28`}},
		{"versioned", append([]byte("24ka"), make([]byte, 300)...), []string{"versioned export", "legacy"}},
		{"pickle", append([]byte("\x80\x02\x8a\x0a"), make([]byte, 300)...), []string{"pickle", "safetensors"}},
		{"zip of a pickle", append([]byte("PK\x03\x04"), make([]byte, 300)...), []string{"pickle", "safetensors"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, t.TempDir(), "m.bin", tt.file)
			_, err := checkpoint.Open(path)
			wantError(t, err, append(tt.want, path)...)
		})
	}
}
