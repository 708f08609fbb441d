// Package attention lets tokens look at each other (Vaswani et al. 2017, arXiv:1706.03762, section 3.2;
// chapter section 2.3). For each head, with queries Q [T, D], keys K [S, D] and values V [S, D],
//
//	attention(Q, K, V) = softmax(Q·Kᵀ/√D + mask) · V
//
// The T new tokens stand at positions Start … Start+T-1 of a sequence of S = Start+T tokens; the causal mask lets
// the token at position p see positions 0 … p. With fewer key/value heads than query heads (GQA, arXiv:2305.13245;
// MQA with one), query head h reads key/value head h / (H/n_kv).
//
// Naive keeps the whole matrix of weights, as the formula says, for heat maps. Flash never does: it goes
// through the keys in tiles with a running softmax (FlashAttention, arXiv:2205.14135, algorithm 1).
package attention

import (
	"fmt"
	"math"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/tensor"
)

// Params describes the attention of a layer.
type Params struct {
	Heads   int       // H, query heads
	KVHeads int       // key/value heads; H must be a multiple
	KDim    int       // D, numbers of a query and a key
	VDim    int       // numbers of a value
	Scale   float32   // multiplies the scores; 0: 1/√KDim
	Window  int       // how many positions a token sees, itself included (sliding window); 0: all
	SoftCap float32   // scores s become cap·tanh(s/cap) (Gemma 2); 0: none
	Sinks   []float32 // [H] a learned score for "nothing" in each head's softmax; nil: none
}

// Check reports parameters that contradict each other.
func (p Params) Check() error {
	switch {
	case p.Heads < 1 || p.KVHeads < 1 || p.KDim < 1 || p.VDim < 1:
		return fmt.Errorf("attention: heads and dimensions must be positive, got %d heads, %d key/value heads, key %d, value %d", p.Heads, p.KVHeads, p.KDim, p.VDim)
	case p.Heads%p.KVHeads != 0:
		return fmt.Errorf("attention: the query heads must be a multiple of the key/value heads, got %d and %d", p.Heads, p.KVHeads)
	case p.Window < 0 || p.SoftCap < 0:
		return fmt.Errorf("attention: window and soft-cap must not be negative, got %d and %v", p.Window, p.SoftCap)
	case p.Sinks != nil && len(p.Sinks) != p.Heads:
		return fmt.Errorf("attention: want a sink for each of %d heads, got %d", p.Heads, len(p.Sinks))
	}
	return nil
}

func (p Params) scale() float32 {
	if p.Scale != 0 {
		return p.Scale
	}
	return float32(1 / math.Sqrt(float64(p.KDim)))
}

// Seq is one sequence of a batch: T new tokens whose queries are given, and the keys and values of all
// S = Start+T tokens, the new ones included.
type Seq struct {
	Start int           // position of the first new token
	T     int           // new tokens
	Runs  []kvcache.Run // where the keys and values lie, in order of positions
}

// check reports a sequence whose keys don't cover what its tokens see.
func (s Seq) check(p Params) error {
	if s.Start < 0 || s.T < 0 {
		return fmt.Errorf("attention: want a start and a number of tokens of at least 0, got %d and %d", s.Start, s.T)
	}
	first := 0
	if p.Window > 0 {
		first = max(0, s.Start-p.Window+1)
	}
	next := first
	for _, r := range s.Runs {
		if r.Start < 0 || r.Start >= s.Start+s.T {
			return fmt.Errorf("attention: keys from position %d on are not among the %d tokens of the sequence", r.Start, s.Start+s.T)
		}
		if r.Start > next {
			break
		}
		if !reach(len(r.K), r.HeadK, r.StepK, p.KVHeads, r.Len, p.KDim) || !reach(len(r.V), r.HeadV, r.StepV, p.KVHeads, r.Len, p.VDim) {
			return fmt.Errorf("attention: want %d tokens of %d key/value heads, keys of %d and values of %d numbers, from position %d on: they are not in %d and %d numbers",
				r.Len, p.KVHeads, p.KDim, p.VDim, r.Start, len(r.K), len(r.V))
		}
		next = max(next, r.Start+r.Len)
	}
	if next < s.Start+s.T {
		return fmt.Errorf("attention: tokens at %d…%d need the keys of positions %d…%d, which break off at %d", s.Start, s.Start+s.T-1, first, s.Start+s.T-1, next)
	}
	return nil
}

// reach says whether tokens of heads at these strides lie in n numbers.
func reach(n, head, step, heads, tokens, dim int) bool {
	return tokens == 0 || tokens > 0 && head >= 0 && step >= 0 && (heads-1)*head+(tokens-1)*step+dim <= n
}

// Keys makes a sequence without history out of the keys and values of its own tokens.
//
// k [T, n_kv, D], v [T, n_kv, Dv]
func Keys(k, v *tensor.Tensor) (Seq, error) {
	if k == nil || v == nil || len(k.Shape) != 3 || len(v.Shape) != 3 || k.Shape[0] != v.Shape[0] || k.Shape[1] != v.Shape[1] {
		return Seq{}, fmt.Errorf("attention: want k [T, n_kv, D] and v [T, n_kv, Dv]")
	}
	n, heads := k.Shape[0], k.Shape[1]
	return Seq{T: n, Runs: []kvcache.Run{{
		Len: n,
		K:   k.Data, HeadK: k.Shape[2], StepK: heads * k.Shape[2],
		V: v.Data, HeadV: v.Shape[2], StepV: heads * v.Shape[2],
	}}}, nil
}

// SplitHeads sees a projection [T, heads·D] as [T, heads, D]: no number moves.
func SplitHeads(x *tensor.Tensor, heads int) (*tensor.Tensor, error) {
	if err := tensor.CheckShape("attention: projection", x, -1, -1); err != nil {
		return nil, err
	}
	if heads < 1 || x.Shape[1]%heads != 0 {
		return nil, fmt.Errorf("attention: can't split %v into %d heads", x.Shape, heads)
	}
	return x.View(x.Shape[0], heads, x.Shape[1]/heads)
}

// MergeHeads is the way back: [T, heads, D] as [T, heads·D].
func MergeHeads(x *tensor.Tensor) (*tensor.Tensor, error) {
	if err := tensor.CheckShape("attention: heads", x, -1, -1, -1); err != nil {
		return nil, err
	}
	return x.View(x.Shape[0], x.Shape[1]*x.Shape[2])
}
