package model

import (
	"forwardpass/pkg/block"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/rope"
	"forwardpass/pkg/tensor"
)

// Backend is where the arithmetic of the stages happens. The CPU's calls the stage packages; the GPU's has a
// kernel for each method. Tensors come from NewTensor and belong to the backend: a device keeps its own memory
// in Tensor.Device, and every method gives its first argument the shape of the result.
//
// Begin and End enclose one forward pass. Between them all calls come from one goroutine.
type Backend interface {
	Name() string

	// NewTensor is an empty tensor for results of the other methods.
	NewTensor() *tensor.Tensor
	// NewStorage is the cache memory of a group of layers.
	NewStorage(d kvcache.Dims, blockSize int, t kvcache.Type) (kvcache.Storage, error)

	Begin(s *Step) error
	End() error

	// Embed: rows of table for the step's ids → x [T, C].
	Embed(x *tensor.Tensor, table *tensor.Matrix, s *Step) error
	// AddPositions adds the learned row of each position to x [T, C].
	AddPositions(x *tensor.Tensor, table *tensor.Matrix, s *Step) error
	// Scale multiplies x by a.
	Scale(x *tensor.Tensor, a float32) error
	// Clamp limits x to [-limit, limit].
	Clamp(x *tensor.Tensor, limit float32) error
	// Norm normalises the rows of x [..., C] into dst, which may be x.
	Norm(dst, x *tensor.Tensor, n *block.Norm) error
	// Linear computes layers that share the input x [T, in].
	Linear(x *tensor.Tensor, ps ...tensor.Product) error
	// Rope rotates x [T, H, D] in place: of each head, the numbers from offset on.
	Rope(x *tensor.Tensor, t *rope.Table, offset int, s *Step) error
	// Concat joins rows: a [T, n], b [T, m] → dst [T, 1, n+m].
	Concat(dst, a, b *tensor.Tensor) error
	// Store appends k [T, n_kv, D] and v [T, n_kv, Dv] (nil for latent attention) to the caches of the step's sequences.
	Store(layer int, k, v *tensor.Tensor, s *Step) error
	// Attend computes attention over cache and new tokens → dst [T, H, Dv].
	Attend(dst *tensor.Tensor, a *Attend, s *Step) error
	// Absorb and Expand are the two sides of latent attention.
	Absorb(dst, q *tensor.Tensor, l *Layer) error
	Expand(dst, x *tensor.Tensor, l *Layer) error
	// MLP and MoE: x [T, C] → dst [T, C]. router, where not nil, is called with the logits [T, experts].
	MLP(dst, x *tensor.Tensor, m *block.MLP) error
	MoE(dst, x *tensor.Tensor, m *block.MoE, router func(*tensor.Tensor) error) error
	// Add adds y to x.
	Add(x, y *tensor.Tensor) error
	// Gather copies rows of x [T, C] → dst [len(rows), C].
	Gather(dst, x *tensor.Tensor, rows []int) error
	// Logits: h [n, C] → dst [n, V], in host memory, with a soft-cap where it is over 0.
	Logits(dst, h *tensor.Tensor, head tensor.Linear, softCap float32) error
	// Read brings x to the host: x itself on the CPU.
	Read(x *tensor.Tensor) (*tensor.Tensor, error)
	// Close gives the backend's memory back.
	Close() error
}

// Attend is one layer's attention of one step.
type Attend struct {
	Index   int
	Layer   *Layer
	Q, K, V *tensor.Tensor // of the new tokens: [T, H, D], [T, n_kv, D], [T, n_kv, Dv]; V nil for latent attention

	// Weights, where not nil, is called with each sequence's weights [H, T, S].
	Weights func(seq int, w *tensor.Tensor) error
}

// Step is the layout of one forward pass over a ragged batch: the new tokens of all sequences, one after
// the other.
type Step struct {
	IDs  []int // [T] token ids
	Pos  []int // [T] positions in their sequences
	Seqs []Span
	Rows []int // rows whose logits are wanted
}

// Span is one sequence's part of a step.
type Span struct {
	Row, T int            // rows Row … Row+T-1
	Start  int            // position of the first of them
	Cache  *kvcache.Cache // the history; nil: none
}

// Len is S, the tokens of the sequence with the new ones.
func (s Span) Len() int { return s.Start + s.T }
