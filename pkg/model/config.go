package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"forwardpass/pkg/block"
)

// Config is what a model is made of, in the names that config.json files have given to it.
type Config struct {
	Family            string // model_type: llama, qwen3, gpt2 …
	VocabSize         int    // V
	HiddenSize        int    // C
	IntermediateSize  int    // of the MLP
	NumLayers         int    // L, num_hidden_layers
	NumHeads          int    // H, num_attention_heads
	NumKVHeads        int    // num_key_value_heads
	HeadDim           int    // D
	MaxPositions      int    // max_position_embeddings: the maximum context length
	NormEps           float64
	RopeTheta         float64 // 0: no rotary embedding
	TieWordEmbeddings bool    // the LM head is the embedding table
	Windows           []int   // sliding window of each layer, 0: none
	NumExperts        int     // 0: dense
	ExpertsPerToken   int
	BOS               int   // -1: none
	EOS               []int // tokens that end a text
}

// config reads a config.json and remembers which of its keys somebody has asked for.
type config struct {
	file string
	raw  map[string]any
	used map[string]bool
	errs []error
}

func parseConfig(file string, text []byte) (*config, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	c := &config{file: file, used: map[string]bool{}}
	if err := d.Decode(&c.raw); err != nil {
		return nil, fmt.Errorf("model: %s: %w", file, err)
	}
	if c.raw == nil {
		return nil, fmt.Errorf("model: %s: want an object", file)
	}
	return c, nil
}

func (c *config) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("model: %s: "+format, append([]any{c.file}, args...)...))
}

func (c *config) has(key string) bool {
	c.used[key] = true
	return c.raw[key] != nil
}

// number is the value of key, or def where the key is absent or null.
func (c *config) number(key string, def float64) float64 {
	if !c.has(key) {
		return def
	}
	n, ok := c.raw[key].(json.Number)
	f, err := n.Float64()
	if !ok || err != nil {
		c.fail("%s: want a number, got %v", key, c.raw[key])
		return def
	}
	return f
}

// maxCount bounds every integer of a configuration, so that products of two never overflow.
const maxCount = 1 << 30

func (c *config) int(key string, def int) int {
	f := c.number(key, float64(def))
	if f != float64(int(f)) || f < -maxCount || f > maxCount {
		c.fail("%s: want an integer, got %v", key, f)
		return def
	}
	return int(f)
}

// count is a positive integer that must be there unless def is positive.
func (c *config) count(key string, def int) int {
	n := c.int(key, def)
	if n < 1 {
		c.fail("%s: want a positive integer, got %d", key, n)
		return 1
	}
	return n
}

func (c *config) bool(key string, def bool) bool {
	if !c.has(key) {
		return def
	}
	b, ok := c.raw[key].(bool)
	if !ok {
		c.fail("%s: want true or false, got %v", key, c.raw[key])
	}
	return b
}

func (c *config) string(key, def string) string {
	if !c.has(key) {
		return def
	}
	s, ok := c.raw[key].(string)
	if !ok {
		c.fail("%s: want a string, got %v", key, c.raw[key])
	}
	return s
}

func (c *config) list(key string) []any {
	if !c.has(key) {
		return nil
	}
	l, ok := c.raw[key].([]any)
	if !ok {
		c.fail("%s: want a list, got %v", key, c.raw[key])
	}
	return l
}

func (c *config) strings(key string) []string {
	var out []string
	for i, v := range c.list(key) {
		s, ok := v.(string)
		if !ok {
			c.fail("%s: element %d: want a string, got %v", key, i, v)
		}
		out = append(out, s)
	}
	return out
}

func (c *config) numbers(key string) []float64 {
	var out []float64
	for i, v := range c.list(key) {
		n, ok := v.(json.Number)
		f, err := n.Float64()
		if !ok || err != nil {
			c.fail("%s: element %d: want a number, got %v", key, i, v)
		}
		out = append(out, f)
	}
	return out
}

// ids is one token id or a list of them.
func (c *config) ids(key string) []int {
	if !c.has(key) {
		return nil
	}
	if _, ok := c.raw[key].([]any); !ok {
		return []int{c.int(key, 0)}
	}
	var out []int
	for _, f := range c.numbers(key) {
		if f != float64(int(f)) || f < 0 || f > maxCount {
			c.fail("%s: want token ids, got %v", key, f)
			continue
		}
		out = append(out, int(f))
	}
	return out
}

// object is a nested object, whose unknown keys are reported under its name.
func (c *config) object(key string) *config {
	o := &config{file: c.file + ": " + key, used: map[string]bool{}, raw: map[string]any{}}
	if c.has(key) {
		m, ok := c.raw[key].(map[string]any)
		if !ok {
			c.fail("%s: want an object, got %v", key, c.raw[key])
		}
		o.raw = m
	}
	return o
}

// only refuses any value of key but those listed (and its absence).
func (c *config) only(key string, want ...any) {
	if !c.has(key) {
		return
	}
	v := c.raw[key]
	if n, ok := v.(json.Number); ok {
		if f, err := n.Float64(); err == nil {
			v = f
		}
	}
	if !slices.Contains(want, v) {
		c.fail("%s is %v, which is not supported (supported: %v)", key, v, want)
	}
}

func (c *config) activation(key, def string) block.Activation {
	switch a := c.string(key, def); a {
	case "silu", "swish":
		return block.SiLU
	case "gelu":
		return block.GELU
	case "gelu_new", "gelu_pytorch_tanh", "gelu_fast":
		return block.GELUTanh
	case "relu":
		return block.ReLU
	default:
		c.fail("%s: activation %q is not supported", key, a)
		return block.SiLU
	}
}

// harmless are keys that don't change the forward pass: notes of the training, of generation and of the tools that
// wrote the file.
var harmless = strings.Fields(`
	architectures model_type dtype torch_dtype transformers_version initializer_range use_cache _name_or_path name_or_path
	attention_dropout hidden_dropout resid_pdrop embd_pdrop attn_pdrop resid_dropout embd_dropout classifier_dropout
	summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj task_specific_params
	pretraining_tp pad_token_id unk_token_id sep_token_id mask_token_id decoder_start_token_id id2label label2id
	output_hidden_states output_attentions output_router_logits router_aux_loss_coef router_jitter_noise router_z_loss_coef
	aux_loss_alpha seq_aux ep_size is_decoder chunk_size_feed_forward problem_type return_dict auto_map
	max_window_layers cache_implementation _attn_implementation _attn_implementation_autoset attn_implementation
	gradient_checkpointing bos_token eos_token n_ctx n_inner_dim attn_dropout_prob hidden_dropout_prob`)

// finish returns what went wrong: wrong values, and keys with a value that nobody has understood.
func (c *config) finish(ignore []string) error {
	for _, key := range slices.Sorted(maps.Keys(c.raw)) {
		if c.used[key] || slices.Contains(harmless, key) || slices.Contains(ignore, key) || empty(c.raw[key]) {
			continue
		}
		c.fail("%s is %v, a setting that this program doesn't know for %v; Options.Ignore goes on without it", key, short(c.raw[key]), c.raw["model_type"])
	}
	return errors.Join(c.errs...)
}

// empty says whether a value switches nothing on.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func short(v any) string {
	s := fmt.Sprint(v)
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return s
}

// alias reads a key under the name that most families have for it.
func (c *config) alias(key, common string) {
	if c.has(key) {
		c.raw[common] = c.raw[key]
	}
}

// number is a value as the JSON decoder would give it.
func number[T int | float64](v T) json.Number { return json.Number(fmt.Sprint(v)) }
