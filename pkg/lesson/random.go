package lesson

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/model"
	"forwardpass/pkg/tensor"
)

// Random opens a Llama of two layers and width 32 that knows nothing: its weights are random. It has as many tokens as
// you like, for a look at shapes and costs that a trained model of this size doesn't have.
func Random(vocab int, seed uint64) (*model.Model, error) {
	if vocab < 2 {
		return nil, fmt.Errorf("lesson: want a vocabulary of at least 2 tokens, got %d", vocab)
	}
	const c, mlp, layers = 32, 64, 2
	rng := rand.New(rand.NewPCG(seed, 0))
	var ts []*checkpoint.Tensor
	add := func(name string, shape ...int) {
		data := make([]byte, 4*tensor.Size(shape))
		for i := range len(data) / 4 {
			v := 1.0 // norms
			if len(shape) == 2 {
				v = rng.NormFloat64() / math.Sqrt(c)
			}
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(v)))
		}
		ts = append(ts, &checkpoint.Tensor{Name: name, Type: tensor.F32, Shape: shape, Data: data})
	}
	add("model.embed_tokens.weight", vocab, c)
	for l := range layers {
		p := fmt.Sprintf("model.layers.%d.", l)
		for _, proj := range []string{"q", "k", "v", "o"} {
			add(p+"self_attn."+proj+"_proj.weight", c, c)
		}
		add(p+"mlp.gate_proj.weight", mlp, c)
		add(p+"mlp.up_proj.weight", mlp, c)
		add(p+"mlp.down_proj.weight", c, mlp)
		add(p+"input_layernorm.weight", c)
		add(p+"post_attention_layernorm.weight", c)
	}
	add("model.norm.weight", c)
	dir, err := os.MkdirTemp("", "forwardpass-random-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // the mapping outlives the name
	path := filepath.Join(dir, "model.safetensors")
	if err := checkpoint.WriteSafetensors(path, nil, ts); err != nil {
		return nil, err
	}
	return model.OpenConfig(path, fmt.Appendf(nil, `{"model_type":"llama","vocab_size":%d,"hidden_size":%d,"intermediate_size":%d,"num_hidden_layers":%d,
		"num_attention_heads":4,"num_key_value_heads":4,"max_position_embeddings":512,"rms_norm_eps":1e-5,"tie_word_embeddings":true}`, vocab, c, mlp, layers))
}
