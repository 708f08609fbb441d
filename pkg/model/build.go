package model

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/block"
	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/tensor"
)

// families are the builders by model_type. Adding one: docs/adding-a-family.md.
func families() map[string]func(*builder) {
	return map[string]func(*builder){
		"llama":       llama,
		"mistral":     mistral,
		"qwen2":       qwen2,
		"qwen3":       qwen3,
		"qwen3_moe":   qwen3MoE,
		"mixtral":     mixtral,
		"gpt2":        gpt2,
		"gpt_neox":    gptNeoX,
		"phi":         phi,
		"phi3":        phi3,
		"gemma":       gemma,
		"gemma2":      gemma2,
		"gemma3_text": gemma3,
		"olmo":        olmo,
		"olmo2":       olmo2,
		"deepseek_v3": deepseekV3,
	}
}

// builder makes a model out of a checkpoint. Errors are collected, so that a family reads like a list of
// its parts; after one, the parts are meaningless but harmless.
type builder struct {
	*config
	file  *checkpoint.Checkpoint
	names func(string) string // a Hugging Face tensor name in the file's own terms
	gguf  bool                // weights as llama.cpp's converter left them
	m     *Model

	prefix string // of all tensor names but the head's
}

// build makes a model of any supported family.
func build(file *checkpoint.Checkpoint, opts Options) (*Model, error) {
	b := &builder{file: file, names: func(s string) string { return s }, m: &Model{file: file}}
	var err error
	if file.Format == checkpoint.HuggingFace {
		b.config, err = parseConfig(file.ConfigFile, file.Config)
	} else {
		b.gguf = true
		b.config, b.names, err = fromGGUF(file)
	}
	if err != nil {
		return nil, err
	}
	kind := b.string("model_type", "")
	family, ok := families()[kind]
	if !ok {
		return nil, fmt.Errorf("model: %s: model_type %q is not supported (supported: %s)", b.config.file, kind, strings.Join(Families(), ", "))
	}
	b.only("is_encoder_decoder", false)
	b.only("add_cross_attention", false)
	if q := b.raw["quantization_config"]; q != nil {
		b.fail("quantization_config is %v: weights quantised by this method are not supported", short(q))
	}
	c := &b.m.Config
	c.Family = kind
	c.BOS = -1
	if ids := b.ids("bos_token_id"); len(ids) > 0 {
		c.BOS = ids[0]
	}
	c.EOS = b.ids("eos_token_id")
	if file.Generation != nil {
		g, err := parseConfig(filepath.Join(filepath.Dir(file.ConfigFile), "generation_config.json"), file.Generation)
		if err != nil {
			return nil, err
		}
		if ids := g.ids("eos_token_id"); ids != nil {
			c.EOS = ids
		}
		if err := errors.Join(g.errs...); err != nil {
			return nil, err
		}
	}
	family(b)
	if len(b.errs) == 0 {
		b.validate()
	}
	if err := b.finish(opts.Ignore); err != nil {
		return nil, err
	}
	if unused := b.unused(); len(unused) > 0 {
		return nil, fmt.Errorf("model: %s: %d tensors that a %s model doesn't have, such as %s", file.Path, len(unused), kind, unused[0])
	}
	return b.m, nil
}

// Families lists the supported values of model_type.
func Families() []string {
	var names []string
	for name := range families() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// unused lists tensors of the file that no part of the model is made of, but for buffers that old versions of
// transformers saved.
func (b *builder) unused() []string {
	return slices.DeleteFunc(b.file.Unused(), func(name string) bool {
		for _, buffer := range []string{"rotary_emb.inv_freq", "attn.bias", "attn.masked_bias", "attention.bias", "attention.masked_bias"} {
			if strings.HasSuffix(name, buffer) {
				return true
			}
		}
		return name == "lm_head.weight" && b.m.Config.TieWordEmbeddings
	})
}

// validate checks each layer's parameters, which the configuration may contradict.
func (b *builder) validate() {
	for i := range b.m.Layers {
		l := &b.m.Layers[i]
		if err := l.Attention.Check(); err != nil {
			b.fail("layer %d: %w", i, err)
		}
		if l.MoE != nil {
			if err := l.MoE.Check(); err != nil {
				b.fail("layer %d: %w", i, err)
			}
		}
		if l.Latent != nil && l.Latent.W != nil {
			if err := l.Latent.Check(); err != nil {
				b.fail("layer %d: %w", i, err)
			}
		}
		if len(b.errs) > 0 {
			return
		}
	}
}

func (b *builder) add(err error) {
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("model: %w", err))
	}
}

// common reads the sizes that every family has, under the keys most of them use.
func (b *builder) common() *Config {
	c := &b.m.Config
	c.VocabSize = b.count("vocab_size", 0)
	c.HiddenSize = b.count("hidden_size", 0)
	c.IntermediateSize = b.count("intermediate_size", 0)
	c.NumLayers = b.count("num_hidden_layers", 0)
	c.NumHeads = b.count("num_attention_heads", 0)
	c.NumKVHeads = b.count("num_key_value_heads", c.NumHeads)
	c.MaxPositions = b.count("max_position_embeddings", 0)
	if !b.has("head_dim") && c.HiddenSize%c.NumHeads != 0 {
		b.fail("hidden_size %d is not a multiple of num_attention_heads %d, and there is no head_dim", c.HiddenSize, c.NumHeads)
	}
	c.HeadDim = b.count("head_dim", max(1, c.HiddenSize/c.NumHeads))
	if c.NumHeads%c.NumKVHeads != 0 {
		b.fail("num_attention_heads %d is not a multiple of num_key_value_heads %d", c.NumHeads, c.NumKVHeads)
	}
	if c.NumLayers > 4096 {
		b.fail("num_hidden_layers: want 4096 at most, got %d", c.NumLayers)
		c.NumLayers = 1
	}
	c.Windows = make([]int, c.NumLayers)
	b.m.Layers = make([]Layer, c.NumLayers)
	return c
}

func (b *builder) name(s string) string { return b.names(b.prefix + s) }

// matrix is a weight [rows, cols] as it is stored.
func (b *builder) matrix(name string, rows, cols int) *tensor.Matrix {
	if len(b.errs) > 0 {
		return nil
	}
	m, err := b.file.Matrix(b.name(name), rows, cols)
	b.add(err)
	return m
}

// vector is a weight [n] as float32.
func (b *builder) vector(name string, n int) []float32 {
	if len(b.errs) > 0 {
		return nil
	}
	v, err := b.file.Vector(b.name(name), n)
	b.add(err)
	return v
}

// linear is name.weight [out, in], with name.bias [out] where bias says so.
func (b *builder) linear(name string, out, in int, bias bool) tensor.Linear {
	l := tensor.Linear{W: b.matrix(name+".weight", out, in)}
	if bias {
		l.Bias = b.vector(name+".bias", out)
	}
	return l
}

// rows is part of a fused layer: rows lo…hi of it.
func (b *builder) rows(l tensor.Linear, lo, hi int) tensor.Linear {
	if len(b.errs) > 0 {
		return l
	}
	w, err := l.W.Slice(lo, hi)
	b.add(err)
	part := tensor.Linear{W: w}
	if l.Bias != nil {
		part.Bias = l.Bias[lo:hi]
	}
	return part
}

// pick makes a layer of the given rows of another, in that order. It copies them.
func (b *builder) pick(l tensor.Linear, rows []int) tensor.Linear {
	if len(b.errs) > 0 {
		return l
	}
	n := l.W.Type.Bytes(l.W.Cols)
	data := make([]byte, 0, n*len(rows))
	var bias []float32
	for _, r := range rows {
		data = append(data, l.W.Data[r*n:(r+1)*n]...)
		if l.Bias != nil {
			bias = append(bias, l.Bias[r])
		}
	}
	w, err := tensor.NewMatrix(l.W.Type, len(rows), l.W.Cols, data)
	b.add(err)
	return tensor.Linear{W: w, Bias: bias}
}

// rms is an RMSNorm over n numbers; layerNorm a LayerNorm with a bias.
func (b *builder) rms(name string, n int) *block.Norm {
	return &block.Norm{Weight: b.vector(name+".weight", n), Eps: b.m.Config.NormEps}
}

func (b *builder) layerNorm(name string, n int) *block.Norm {
	return &block.Norm{Weight: b.vector(name+".weight", n), Bias: b.vector(name+".bias", n), Eps: b.m.Config.NormEps, Center: true}
}

// plusOne is Gemma's RMSNorm, whose file holds w-1; GGUF files hold w.
func (b *builder) plusOne(name string, n int) *block.Norm {
	norm := b.rms(name, n)
	if !b.gguf {
		norm.Weight = block.PlusOne(norm.Weight)
	}
	return norm
}

// head is the LM head: lm_head, or the embedding table.
func (b *builder) head(tied bool) {
	c := &b.m.Config
	c.TieWordEmbeddings = b.bool("tie_word_embeddings", tied)
	if c.TieWordEmbeddings {
		b.m.Head = tensor.Linear{W: b.m.Embedding}
		return
	}
	prefix := b.prefix
	b.prefix = ""
	b.m.Head = b.linear("lm_head", c.VocabSize, c.HiddenSize, false)
	b.prefix = prefix
}

// params is a layer's plain attention.
func (c *Config) params(layer int) attention.Params {
	return attention.Params{Heads: c.NumHeads, KVHeads: c.NumKVHeads, KDim: c.HeadDim, VDim: c.HeadDim, Window: c.Windows[layer]}
}

// windows gives layers the sliding window where slides says so.
func (b *builder) windows(slides func(layer int) bool) {
	c := &b.m.Config
	if !b.has("sliding_window") {
		return
	}
	w := b.count("sliding_window", 0)
	types := b.strings("layer_types")
	if types != nil && len(types) != c.NumLayers {
		b.fail("layer_types: want %d, got %d", c.NumLayers, len(types))
		return
	}
	for i := range c.Windows {
		s := slides(i)
		if types != nil {
			switch types[i] {
			case "sliding_attention":
				s = true
			case "full_attention":
				s = false
			default:
				b.fail("layer_types: layer %d is %q, which is not supported", i, types[i])
			}
		}
		if s {
			c.Windows[i] = w
		}
	}
}
