// Package rope rotates queries and keys by their position (Rotary Position Embedding, Su et al. 2021,
// arXiv:2104.09864, section 3.2; chapter section 2.2).
//
// A head of D numbers is seen as D/2 pairs. At position m, pair i is turned by the angle m·θᵢ,
//
//	(a, b) → (a·cos mθᵢ - b·sin mθᵢ, a·sin mθᵢ + b·cos mθᵢ),    θᵢ = base^(-2i/D)
//
// so the dot product of a query at m and a key at n depends on m-n only. Which numbers form a pair is a convention
// of the weights: (i, i+D/2) in Hugging Face files ("half-split"), (2i, 2i+1) in the paper, in llama2.c and
// in GGUF files of the Llama family ("interleaved"). Mixing them up is the classic mistake.
package rope

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"forwardpass/pkg/tensor"
)

// Config describes a table. The zero Scaling is the paper's RoPE.
type Config struct {
	HeadDim      int     // D, numbers of a head
	Dim          int     // how many of them are rotated, the first ones (partial rotary); 0: all
	Theta        float64 // base of the frequencies; 0: 10,000
	MaxPositions int     // positions that the model was made for, which some scalings need
	Interleaved  bool    // pairs (2i, 2i+1) instead of (i, i+Dim/2)
	Scaling      Scaling
}

// Table knows the cosines and sines of every position. It is safe for concurrent use.
type Table struct {
	cfg    Config
	factor float64 // of cosines and sines: YaRN's and LongRoPE's attention factor

	mu   sync.RWMutex
	sets []*set // one for each set of frequencies that is independent of the length
}

// set is a list of frequencies with the cosines and sines of positions 0…len-1.
type set struct {
	freq     []float64 // [Dim/2]
	cos, sin []float32 // [positions, Dim/2]
}

// New checks the configuration and computes the frequencies.
func New(cfg Config) (*Table, error) {
	if cfg.Dim == 0 {
		cfg.Dim = cfg.HeadDim
	}
	if cfg.Theta == 0 {
		cfg.Theta = 10_000
	}
	if cfg.Scaling.OriginalMax == 0 {
		cfg.Scaling.OriginalMax = cfg.MaxPositions
	}
	if cfg.HeadDim < 2 || cfg.Dim < 2 || cfg.Dim > cfg.HeadDim {
		return nil, fmt.Errorf("rope: want 2 ≤ rotated dimensions ≤ head dimension, got %d of %d", cfg.Dim, cfg.HeadDim)
	}
	if cfg.Dim%2 != 0 {
		return nil, fmt.Errorf("rope: the rotated dimensions must be even, got %d", cfg.Dim)
	}
	if !(cfg.Theta > 1) || math.IsInf(cfg.Theta, 0) {
		return nil, fmt.Errorf("rope: theta must be a finite number over 1, got %v", cfg.Theta)
	}
	t := &Table{cfg: cfg}
	sets, factor, err := cfg.Scaling.frequencies(cfg)
	if err != nil {
		return nil, err
	}
	t.factor = factor
	for _, f := range sets {
		t.sets = append(t.sets, &set{freq: f})
	}
	return t, nil
}

// Config is what the table was made from, with defaults filled in.
func (t *Table) Config() Config { return t.cfg }

// AttentionFactor multiplies every cosine and sine (YaRN, LongRoPE); 1 elsewhere.
func (t *Table) AttentionFactor() float64 { return t.factor }

// Changes says whether sequences of the two lengths have different frequencies (dynamic NTK, LongRoPE). What was computed for
// the one is of no use for the other: not the cached keys, nor anything in the layers above them.
func (t *Table) Changes(from, to int) bool {
	switch sc := t.cfg.Scaling; sc.Type {
	case Dynamic:
		return from != to && max(from, to) > t.cfg.MaxPositions
	case LongRoPE:
		return (from > sc.OriginalMax) != (to > sc.OriginalMax)
	}
	return false
}

// Frequencies is θᵢ for each pair of a sequence of the given length, in radians a position. [Dim/2]
func (t *Table) Frequencies(length int) []float64 {
	return slices.Clone(t.set(length).freq)
}

// Angles is the rotation of every pair at position pos of a sequence of the given length. [Dim/2]
func (t *Table) Angles(pos, length int) []float64 {
	a := t.Frequencies(length)
	for i := range a {
		a[i] *= float64(pos)
	}
	return a
}

// Apply rotates x [T, H, D] in place: row i is at position pos[i] of a sequence that has length tokens in
// all (pos[T-1]+1 as a rule; it matters for scalings that depend on the length only).
func (t *Table) Apply(x *tensor.Tensor, pos []int, length int) error {
	if err := tensor.CheckShape("rope: x", x, len(pos), -1, t.cfg.HeadDim); err != nil {
		return err
	}
	heads := x.Shape[1]
	return t.ApplyStrided(x.Data, heads, heads*t.cfg.HeadDim, t.cfg.HeadDim, pos, length)
}

// largest is how many cosines a table may hold, 4 GiB: a position beyond is a mistake.
const largest = 1 << 30

// ApplyStrided rotates vectors that lie at fixed strides: head h of row i begins at x[i*row+h*head].
func (t *Table) ApplyStrided(x []float32, heads, row, head int, pos []int, length int) error {
	if len(pos) == 0 {
		return nil
	}
	last := slices.Max(pos)
	if slices.Min(pos) < 0 {
		return fmt.Errorf("rope: position must not be negative, got %d", slices.Min(pos))
	}
	half := t.cfg.Dim / 2
	if last >= largest/half {
		return fmt.Errorf("rope: want a position below %d, got %d", largest/half, last)
	}
	if heads < 0 || row < 0 || head < 0 || heads > 0 && len(x) < (len(pos)-1)*row+(heads-1)*head+t.cfg.Dim {
		return fmt.Errorf("rope: %d rows of %d heads at strides %d and %d are not in %d numbers", len(pos), heads, row, head, len(x))
	}
	cos, sin := t.cosSin(last+1, length)
	for i, p := range pos {
		c, s := cos[p*half:(p+1)*half], sin[p*half:(p+1)*half]
		for h := range heads {
			v := x[i*row+h*head:][:t.cfg.Dim]
			if t.cfg.Interleaved {
				rotateInterleaved(v, c, s)
			} else {
				rotateHalf(v, c, s)
			}
		}
	}
	return nil
}

// rotateHalf turns the pairs (i, i+D/2).
func rotateHalf(v, cos, sin []float32) {
	half := len(v) / 2
	a, b := v[:half], v[half:]
	b, cos, sin = b[:len(a)], cos[:len(a)], sin[:len(a)]
	for i, x := range a {
		y := b[i]
		a[i] = x*cos[i] - y*sin[i]
		b[i] = y*cos[i] + x*sin[i]
	}
}

// rotateInterleaved turns the pairs (2i, 2i+1).
func rotateInterleaved(v, cos, sin []float32) {
	for i := range cos {
		x, y := v[2*i], v[2*i+1]
		v[2*i] = x*cos[i] - y*sin[i]
		v[2*i+1] = y*cos[i] + x*sin[i]
	}
}

// set is the frequencies for a sequence of the given length.
func (t *Table) set(length int) *set {
	switch sc := t.cfg.Scaling; {
	case sc.Type == Dynamic && length > t.cfg.MaxPositions:
		return &set{freq: sc.dynamic(t.cfg, length)}
	case sc.Type == LongRoPE && length > sc.OriginalMax:
		return t.sets[1]
	}
	return t.sets[0]
}

// cosSin is the table for positions 0…n-1, [n, Dim/2] each.
func (t *Table) cosSin(n, length int) (cos, sin []float32) {
	s, half := t.set(length), t.cfg.Dim/2
	t.mu.RLock()
	cos, sin = s.cos, s.sin
	t.mu.RUnlock()
	if len(cos) >= n*half {
		return cos, sin
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(s.cos) < n*half {
		room := max(n, 2*len(s.cos)/half)
		c, sn := make([]float32, room*half), make([]float32, room*half)
		for p := copy(c, s.cos) / half; p < room; p++ {
			for i, f := range s.freq {
				// The angle is rounded to float32 before the cosine, as in transformers and the checkpoints it trained.
				a := float64(float32(p) * float32(f))
				c[p*half+i] = float32(math.Cos(a) * t.factor)
				sn[p*half+i] = float32(math.Sin(a) * t.factor)
			}
		}
		copy(sn, s.sin)
		s.cos, s.sin = c, sn
	}
	return s.cos, s.sin
}

// Permute reorders the rows of a projection so that weights made for one pairing work with the other:
// it returns, for each row of the result, the row to take. toInterleaved turns half-split rows (Hugging
// Face) into interleaved ones (paper, GGUF); false is the way back. heads × headDim rows, the first dim
// of each head rotated.
func Permute(heads, headDim, dim int, toInterleaved bool) ([]int, error) {
	if heads < 1 || dim < 2 || dim%2 != 0 || dim > headDim || heads > math.MaxInt32/headDim {
		return nil, fmt.Errorf("rope: permute of %d heads of %d numbers, %d rotated", heads, headDim, dim)
	}
	rows := make([]int, heads*headDim)
	for h := range heads {
		for i := range headDim {
			from := i
			switch {
			case i >= dim:
			case toInterleaved:
				from = i/2 + i%2*(dim/2)
			default:
				from = i%(dim/2)*2 + i/(dim/2)
			}
			rows[h*headDim+i] = h*headDim + from
		}
	}
	return rows, nil
}
