package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"

	"forwardpass/pkg/tensor"
)

// A file of llama2.c is seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size,
// seq_len; a negative vocab_size means that the classifier has weights of its own) and then float32
// weights in the order of run.c's memory_map_weights, the layers of one kind together:
//
//	embeddings [V, C] | attention norms [L, C] | q [L, C, C] | k [L, KV, C] | v | o [L, C, C]
//	FFN norms [L, C] | w1 [L, F, C] | w2 [L, C, F] | w3 [L, F, C] | final norm [C]
//	two RoPE tables [seq_len, D/2], which nobody reads any more | classifier [V, C] if untied
//
// Rows of q and k are in the interleaved order of RoPE, as in GGUF, so the tensors get GGUF's names and
// the header GGUF's keys: to the rest of the program such a file is a GGUF file of the llama architecture.

const (
	llama2cHeader = 7 * 4
	ropeTables    = "RoPE tables"
)

// openLlama2C maps a .bin file of llama2.c.
func (c *Checkpoint) openLlama2C(path string) error {
	c.Format = Llama2C
	return c.load(path, func(data []byte, file string) (entries []*entry, err error) {
		c.Meta, entries, err = parseLlama2C(data, file)
		return entries, err
	})
}

func parseLlama2C(data []byte, file string) (map[string]any, []*entry, error) {
	if len(data) < llama2cHeader {
		return nil, nil, fmt.Errorf("at byte 0: want 7 integers of 4 bytes, the file has %d bytes", len(data))
	}
	switch string(data[:4]) { // as a dim, each of these would be tens of millions
	case "24ka": // 0x616b3432
		return nil, nil, fmt.Errorf("at byte 0: a versioned export of llama2.c; want the legacy format that run.c reads (--version 0)")
	case "PK\x03\x04", "\x80\x02\x8a\x0a": // torch.save, now and before
		return nil, nil, fmt.Errorf("at byte 0: a PyTorch pickle, which runs code when it is read; save the model as safetensors")
	}
	var h [7]int
	for i, name := range []string{"dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"} {
		h[i] = int(int32(binary.LittleEndian.Uint32(data[4*i:])))
		if h[i] <= 0 && name != "vocab_size" || h[i] == 0 || h[i] == math.MinInt32 {
			return nil, nil, fmt.Errorf("at byte %d: %s must be positive, got %d", 4*i, name, h[i])
		}
	}
	dim, hidden, layers, heads, kvHeads, vocab, context := h[0], h[1], h[2], h[3], h[4], h[5], h[6]
	tied := vocab > 0
	if !tied {
		vocab = -vocab
	}
	if dim%heads != 0 || heads%kvHeads != 0 || dim/heads%2 != 0 {
		return nil, nil, fmt.Errorf("at byte 12: %d heads and %d KV heads don't divide dim %d into heads of even size", heads, kvHeads, dim)
	}
	// Layers cost the file many bytes each: checked before anything is made per layer.
	if layers > len(data)/8/dim {
		return nil, nil, fmt.Errorf("at byte 8: %d layers of dim %d don't fit the %d bytes of the file", layers, dim, len(data))
	}
	headDim := dim / heads
	kv := headDim * kvHeads
	parts := []struct {
		name   string // %d is the layer
		layers int
		shape  []int
	}{
		{"token_embd.weight", 0, []int{vocab, dim}},
		{"blk.%d.attn_norm.weight", layers, []int{dim}},
		{"blk.%d.attn_q.weight", layers, []int{dim, dim}},
		{"blk.%d.attn_k.weight", layers, []int{kv, dim}},
		{"blk.%d.attn_v.weight", layers, []int{kv, dim}},
		{"blk.%d.attn_output.weight", layers, []int{dim, dim}},
		{"blk.%d.ffn_norm.weight", layers, []int{dim}},
		{"blk.%d.ffn_gate.weight", layers, []int{hidden, dim}},
		{"blk.%d.ffn_down.weight", layers, []int{dim, hidden}},
		{"blk.%d.ffn_up.weight", layers, []int{hidden, dim}},
		{"output_norm.weight", 0, []int{dim}},
		{ropeTables, 0, []int{2, context, headDim / 2}},
		{"output.weight", 0, []int{vocab, dim}},
	}
	if tied {
		parts = parts[:len(parts)-1]
	}
	var entries []*entry
	pos := llama2cHeader
	for _, p := range parts {
		for layer := range max(p.layers, 1) {
			name := p.name
			if p.layers > 0 {
				name = fmt.Sprintf(p.name, layer)
			}
			bytes, err := byteSize(p.shape, 4)
			if err != nil || bytes > len(data)-pos {
				return nil, nil, fmt.Errorf("tensor %q at byte %d: F32 %v doesn't fit the file, which ends at byte %d", name, pos, p.shape, len(data))
			}
			end := pos + bytes
			if name != ropeTables {
				entries = append(entries, &entry{stored: "F32", computes: true, Tensor: Tensor{
					Name: name, Type: tensor.F32, Shape: p.shape, Data: data[pos:end:end], File: file, Offset: int64(pos),
				}})
			}
			pos = end
		}
	}
	if pos != len(data) {
		return nil, nil, fmt.Errorf("at byte %d: the header describes a file that ends here, but it has %d bytes", pos, len(data))
	}
	return map[string]any{
		"general.architecture":                   "llama",
		"llama.embedding_length":                 int64(dim),
		"llama.feed_forward_length":              int64(hidden),
		"llama.block_count":                      int64(layers),
		"llama.attention.head_count":             int64(heads),
		"llama.attention.head_count_kv":          int64(kvHeads),
		"llama.vocab_size":                       int64(vocab),
		"llama.context_length":                   int64(context),
		"llama.rope.dimension_count":             int64(headDim),
		"llama.rope.freq_base":                   10000.0, // run.c's constants
		"llama.attention.layer_norm_rms_epsilon": 1e-5,
	}, entries, nil
}
