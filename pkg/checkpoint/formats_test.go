package checkpoint_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/model"
	"forwardpass/pkg/tensor"
)

// interleave reorders the rows of a query or key weight [H·D, C] from Hugging Face's pairing for RoPE
// (row i with row i+D/2 of each head) to that of GGUF and llama2.c (row 2i with row 2i+1).
func interleave(w *tensor.Tensor, headDim int) *tensor.Tensor {
	out := w.Clone()
	for r := range w.Rows() {
		i := r % headDim
		copy(out.Row(r), w.Row(r-i+i/2+i%2*headDim/2))
	}
	return out
}

// The same model, written as safetensors, GGUF and llama2.c, gives the same logits: names, shapes, the
// order of rows and the constants that llama2.c leaves out are understood alike.
func TestFormatsAgree(t *testing.T) {
	const source = "../../testdata/storyland"
	ids := []int{3, 14, 15, 92, 65, 35, 89, 79, 323, 84, 62, 64}
	hf, err := model.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer hf.Close()
	want, err := hf.Logits(ids)
	if err != nil {
		t.Fatal(err)
	}

	c := open(t, source)
	const dim, hidden, layers, heads, kvHeads, vocab, context, headDim = 128, 256, 4, 8, 4, 640, 512, 16
	weight := func(name string) *tensor.Tensor {
		w, err := c.Floats("model." + name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, "q_proj") || strings.Contains(name, "k_proj") {
			w = interleave(w, headDim)
		}
		return w
	}
	var gguf []*checkpoint.Tensor
	var bin []byte
	for _, h := range []int32{dim, hidden, layers, heads, kvHeads, vocab, context} {
		bin = binary.LittleEndian.AppendUint32(bin, uint32(h))
	}
	add := func(name, ggufName string) {
		w := weight(name)
		gguf = append(gguf, f32(ggufName, w.Data, w.Shape...))
		for _, v := range w.Data {
			bin = binary.LittleEndian.AppendUint32(bin, math.Float32bits(v))
		}
	}
	add("embed_tokens.weight", "token_embd.weight")
	for _, part := range [][2]string{
		{"input_layernorm", "attn_norm"}, {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"},
		{"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"}, {"mlp.gate_proj", "ffn_gate"},
		{"mlp.down_proj", "ffn_down"}, {"mlp.up_proj", "ffn_up"},
	} {
		for layer := range layers {
			add(fmt.Sprintf("layers.%d.%s.weight", layer, part[0]), fmt.Sprintf("blk.%d.%s.weight", layer, part[1]))
		}
	}
	add("norm.weight", "output_norm.weight")
	bin = append(bin, make([]byte, 4*context*headDim)...) // RoPE tables

	dir := t.TempDir()
	ggufPath := filepath.Join(dir, "m.gguf")
	if err := checkpoint.WriteGGUF(ggufPath, map[string]any{
		"general.architecture": "llama", "llama.embedding_length": uint32(dim), "llama.feed_forward_length": uint32(hidden),
		"llama.block_count": uint32(layers), "llama.attention.head_count": uint32(heads), "llama.attention.head_count_kv": uint32(kvHeads),
		"llama.context_length": uint32(context), "llama.vocab_size": uint32(vocab), "llama.rope.freq_base": float32(10000),
		"llama.attention.layer_norm_rms_epsilon": float32(1e-5),
	}, gguf); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{ggufPath, write(t, dir, "m.bin", bin)} {
		m, err := model.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Logits(ids)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Shape, want.Shape) {
			t.Fatalf("%s: logits %v, want %v", filepath.Ext(path), got.Shape, want.Shape)
		}
		worst := 0.0
		for i := range got.Data {
			worst = max(worst, math.Abs(float64(got.Data[i]-want.Data[i])))
		}
		if !(worst <= 1e-4) { // also if NaN
			t.Errorf("%s: logits differ by up to %g", filepath.Ext(path), worst)
		}
		t.Logf("%-5s largest difference of a logit %.2g", filepath.Ext(path), worst)
		if left := m.Checkpoint().Unused(); len(left) > 0 {
			t.Errorf("%s: unused %v", filepath.Ext(path), left)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
