// Package model is the whole forward pass (chapter sections 2 and 6.1):
//
//	ids [T] → embedding [T, C] → N × block [T, C] → final norm → LM head → logits [T, V]
//
// The batch is ragged, as in every serving engine: a list of sequences, each with its new token ids and the
// cache that holds its history. A prompt is one sequence with T new tokens (prefill), a decode step is B sequences
// with one new token each, a training pass is B sequences without a cache whose logits are wanted everywhere.
// There is one forward function for all of them, in forward.go; where its arithmetic happens is a Backend's matter.
//
// A family of models is a small file that maps config.json and tensor names to the parts they all have in common:
// llama.go, gpt2.go and so on.
package model

import (
	"context"
	"errors"
	"sync"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/block"
	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/rope"
	"forwardpass/pkg/tensor"
)

// Model is an open model. Its weights lie where the checkpoint has them, in their stored type. The methods may
// be called from several goroutines; forward passes run one after the other.
type Model struct {
	Config Config

	Embedding  *tensor.Matrix // [V, C]
	EmbedScale float32        // multiplies the embeddings (Gemma: √C); 0: 1
	Positions  *tensor.Matrix // [positions, C] learned, or nil
	EmbedNorm  *block.Norm    // after the embedding, or nil
	Layers     []Layer
	FinalNorm  *block.Norm   // or nil (post-norm models)
	Head       tensor.Linear // [V, C]
	SoftCap    float32       // of the logits; 0: none

	backend Backend
	file    *checkpoint.Checkpoint

	mu     sync.Mutex
	buf    buffers
	closed bool
}

// Layer is one Transformer block.
type Layer struct {
	Residual block.Residual
	AttnNorm *block.Norm // before attention (pre-norm, parallel), after the addition (post-norm); nil: none
	AttnPost *block.Norm // on what attention adds (Gemma 2, OLMo 2), or nil
	MLPNorm  *block.Norm // likewise for the MLP; in a parallel block nil means that it shares AttnNorm's output
	MLPPost  *block.Norm

	Q, K, V, O   tensor.Linear // C → H·D, n_kv·D, n_kv·Dv; H·Dv → C
	QNorm, KNorm *block.Norm   // or nil
	NormAll      bool          // QNorm and KNorm go over all heads together (OLMo 2), not over each (Qwen3)
	Clip         float32       // limits q, k and v (OLMo); 0: none
	Rope         *rope.Table   // or nil
	Attention    attention.Params

	Latent *attention.Latent // multi-head latent attention, with the projections below; nil: plain
	QDown  *tensor.Linear    // C → q_lora_rank, or nil: Q reads the input itself
	QLora  *block.Norm
	KVDown tensor.Linear // C → kv_lora_rank
	KVLora *block.Norm
	KRope  tensor.Linear // C → qk_rope_head_dim

	MLP *block.MLP
	MoE *block.MoE
}

// Options for OpenWith; the zero value is Open's.
type Options struct {
	Backend     Backend  // nil: the CPU
	CheckFinite bool     // read every weight and refuse NaN and infinity, which takes as long as reading the file does
	Ignore      []string // settings of config.json that may be passed over although nothing here understands them
}

// Open opens a Hugging Face directory, a .safetensors file with its config.json beside it, a .gguf file or a llama2.c .bin file. It
// takes milliseconds, whatever the size: weights are read when they are first used.
func Open(path string) (*Model, error) { return OpenWith(path, Options{}) }

// OpenWith is Open with options.
func OpenWith(path string, opts Options) (*Model, error) {
	file, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	return open(file, opts)
}

// OpenConfig opens the weights of a .safetensors file under a configuration of your own, in the format of config.json:
// what a lesson needs to run a model in another way than it was made for.
func OpenConfig(path string, config []byte) (*Model, error) {
	file, err := checkpoint.ReadSafetensors(path)
	if err != nil {
		return nil, err
	}
	file.Config, file.ConfigFile = config, "the configuration given for "+path
	return open(file, Options{})
}

func open(file *checkpoint.Checkpoint, opts Options) (*Model, error) {
	m, err := build(file, opts)
	if err == nil && opts.CheckFinite {
		err = file.CheckFinite(context.Background(), nil)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	m.backend = opts.Backend
	if m.backend == nil {
		m.backend = NewCPU()
	}
	return m, nil
}

// Close gives back the memory of the backend and the mapping of the file. Forward is an error from then on, and Close again does nothing.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	return errors.Join(m.backend.Close(), m.file.Close())
}

// Backend is where the model's arithmetic happens.
func (m *Model) Backend() Backend { return m.backend }

// Checkpoint is the file behind the model.
func (m *Model) Checkpoint() *checkpoint.Checkpoint { return m.file }

// CacheDims is what one token keeps in the K/V cache.
func (m *Model) CacheDims() kvcache.Dims {
	a := m.Layers[0].Attention
	d := kvcache.Dims{Layers: len(m.Layers), KVHeads: a.KVHeads, KDim: a.KDim, VDim: a.VDim}
	if m.Layers[0].Latent != nil {
		d.VDim = 0
	}
	return d
}

// NewPool makes a pool of cache blocks for this model, in its backend's memory; layers with a sliding window
// keep no more than they see, unless opts.Windows is set (to an empty list: everything is kept).
func (m *Model) NewPool(opts kvcache.Options) (*kvcache.Pool, error) {
	if opts.Windows == nil {
		opts.Windows = m.Config.Windows
	}
	if opts.NewStorage == nil {
		opts.NewStorage = m.backend.NewStorage
	}
	return kvcache.NewPool(m.CacheDims(), opts)
}

// NewCache makes a cache for one sequence, with a pool of its own.
func (m *Model) NewCache(opts kvcache.Options) (*kvcache.Cache, error) {
	p, err := m.NewPool(opts)
	if err != nil {
		return nil, err
	}
	return p.NewCache(), nil
}

// Parameters counts the numbers in the model's weights, once where the head is tied to the embedding.
func (m *Model) Parameters() int64 {
	var n int64
	for _, name := range m.file.Names() {
		n += int64(tensor.Size(m.file.Shape(name)))
	}
	return n
}
