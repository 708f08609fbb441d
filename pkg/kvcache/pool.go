package kvcache

import (
	"errors"
	"fmt"
	"sync"
)

// ErrNoBlocks is returned, wrapped, when a pool's blocks are all in use.
var ErrNoBlocks = errors.New("no free cache blocks")

// Options of a pool. The zero value is an unbounded pool of float32 blocks of 64 tokens.
type Options struct {
	BlockSize int   // tokens a block; 0: 64
	MaxTokens int   // tokens that a sequence may have; 0: no limit
	Blocks    int   // how many blocks there may be at once, for each group of layers; 0: no limit
	Type      Type  // how numbers are stored
	Windows   []int // sliding window of each layer, 0: the layer sees everything; empty: no windows
	Slack     int   // tokens kept behind a window so that Truncate can go back; 0: one block

	// NewStorage makes the memory of a group of layers; nil: host memory.
	NewStorage func(d Dims, blockSize int, t Type) (Storage, error)
}

// Contiguous is the options of a pool whose caches are each one piece of memory for maxTokens tokens; layers with
// a sliding window keep everything too.
func Contiguous(maxTokens int, t Type) Options {
	return Options{BlockSize: maxTokens, MaxTokens: maxTokens, Type: t, Windows: []int{}}
}

// Type is how a cache stores its numbers.
type Type uint8

const (
	F32  Type = iota
	Int8      // 8-bit integers with one scale for each token, head and K or V
)

func (t Type) String() string {
	if t > Int8 {
		return fmt.Sprintf("Type(%d)", uint8(t))
	}
	return [...]string{"F32", "Int8"}[t]
}

// vectorBytes is the size of one stored vector of n numbers.
func (t Type) vectorBytes(n int) int {
	if t == Int8 && n > 0 {
		return n + 4
	}
	return 4 * n
}

// Storage is the memory behind a group of layers. Block numbers are handed out by the pool.
type Storage interface {
	Grow(blocks int) error   // make blocks 0…blocks-1 usable
	Copy(dst, src int) error // copy block src over block dst
	BlockBytes() int64       // bytes of one block
	Close() error            // give the memory back
}

// Pool holds the blocks that the caches of many sequences share, as vLLM's block manager does
// (PagedAttention, arXiv:2309.06180): a block is BlockSize consecutive tokens of one sequence in all
// layers of a group, counted by reference, so that sequences with a common prefix keep it once.
//
// Layers with different sliding windows are in different groups, each with blocks of its own: a block
// that has left the window of its layers is free again.
//
// A Pool is safe for use by several goroutines; a Cache belongs to one at a time.
type Pool struct {
	mu     sync.Mutex
	dims   Dims
	opts   Options
	groups []*group
	layer  []place // of each layer
}

type place struct{ group, index int }

// group is the layers that share a window, with their blocks.
type group struct {
	window  int
	dims    Dims
	store   Storage
	refs    []int32 // of each block; 0: free
	kept    []int32 // how many of them are Retain's
	free    []int32
	inUse   int
	idle    int // blocks that no cache refers to, only Retain
	maximum int
}

// largest is how many numbers a block may hold: 2 TiB of float32.
const largest = 1 << 39

// NewPool checks the options and makes an empty pool; blocks take memory when first used.
func NewPool(dims Dims, opts Options) (*Pool, error) {
	if dims.Layers < 1 || dims.KVHeads < 1 || dims.KDim < 1 || dims.VDim < 0 {
		return nil, fmt.Errorf("kvcache: dimensions must be positive, got %+v", dims)
	}
	if opts.BlockSize < 0 || opts.MaxTokens < 0 || opts.Blocks < 0 || opts.Slack < 0 {
		return nil, fmt.Errorf("kvcache: block size, tokens, blocks and slack must not be negative, got %d, %d, %d, %d", opts.BlockSize, opts.MaxTokens, opts.Blocks, opts.Slack)
	}
	if opts.Type > Int8 {
		return nil, fmt.Errorf("kvcache: unknown type %d", opts.Type)
	}
	if len(opts.Windows) != 0 && len(opts.Windows) != dims.Layers {
		return nil, fmt.Errorf("kvcache: want a window for each of %d layers, got %d", dims.Layers, len(opts.Windows))
	}
	if opts.BlockSize == 0 {
		opts.BlockSize = 64
	}
	if per := float64(dims.Layers) * float64(dims.KVHeads) * (float64(dims.KDim) + float64(dims.VDim)); per*float64(opts.BlockSize) > largest {
		return nil, fmt.Errorf("kvcache: a block of %d tokens of %g numbers is larger than any memory", opts.BlockSize, per)
	}
	if opts.Slack == 0 {
		opts.Slack = opts.BlockSize
	}
	if opts.NewStorage == nil {
		opts.NewStorage = NewHost
	}
	p := &Pool{dims: dims, opts: opts, layer: make([]place, dims.Layers)}
	byWindow := map[int]int{}
	for l := range dims.Layers {
		w := 0
		if len(opts.Windows) > 0 {
			w = opts.Windows[l]
		}
		if w < 0 {
			return nil, fmt.Errorf("kvcache: layer %d: window must not be negative, got %d", l, w)
		}
		g, ok := byWindow[w]
		if !ok {
			g = len(p.groups)
			byWindow[w] = g
			p.groups = append(p.groups, &group{window: w, maximum: opts.Blocks, dims: Dims{KVHeads: dims.KVHeads, KDim: dims.KDim, VDim: dims.VDim}})
		}
		p.layer[l] = place{g, p.groups[g].dims.Layers}
		p.groups[g].dims.Layers++
	}
	for _, g := range p.groups {
		var err error
		if g.store, err = opts.NewStorage(g.dims, opts.BlockSize, opts.Type); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// BlockSize is the number of tokens in a block.
func (p *Pool) BlockSize() int { return p.opts.BlockSize }

// Dims is what one token keeps.
func (p *Pool) Dims() Dims { return p.dims }

// Type is how the numbers are stored.
func (p *Pool) Type() Type { return p.opts.Type }

// Groups is how many groups of layers there are: one for each distinct window.
func (p *Pool) Groups() int { return len(p.groups) }

// Place is the group of a layer, and the layer's index in it.
func (p *Pool) Place(layer int) (group, index int) { return p.layer[layer].group, p.layer[layer].index }

// Storage is the memory of a group.
func (p *Pool) Storage(group int) Storage { return p.groups[group].store }

// Stats counts blocks, over all groups.
type Stats struct {
	InUse, Free, Limit int   // Limit 0: unbounded; Free counts what could still be handed out below the limit
	Idle               int   // of those in use, the ones that no cache refers to, only Retain
	Bytes              int64 // of the blocks in use
}

// Stats says how many blocks are in use and free now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s Stats
	for _, g := range p.groups {
		s.InUse += g.inUse
		s.Idle += g.idle
		s.Limit += g.maximum
		s.Bytes += int64(g.inUse) * g.store.BlockBytes()
		if g.maximum > 0 {
			s.Free += g.maximum - g.inUse
		} else {
			s.Free += len(g.free)
		}
	}
	return s
}

// Close gives the pool's memory back. Caches of the pool must not be used afterwards.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, g := range p.groups {
		errs = append(errs, g.store.Close())
	}
	return errors.Join(errs...)
}

// take hands out a block of the group with one reference. The pool's lock is held.
func (g *group) take() (int32, error) {
	if g.maximum > 0 && g.inUse >= g.maximum {
		return 0, fmt.Errorf("kvcache: all %d blocks in use: %w", g.maximum, ErrNoBlocks)
	}
	if len(g.free) == 0 {
		grow := max(1, min(len(g.refs), 64))
		if g.maximum > 0 {
			grow = min(grow, g.maximum-len(g.refs))
		}
		if err := g.store.Grow(len(g.refs) + grow); err != nil {
			return 0, err
		}
		for i := range grow { // the lowest number comes out first
			g.free = append(g.free, int32(len(g.refs)+grow-1-i))
		}
		g.refs = append(g.refs, make([]int32, grow)...)
		g.kept = append(g.kept, make([]int32, grow)...)
	}
	b := g.free[len(g.free)-1]
	g.free = g.free[:len(g.free)-1]
	g.refs[b] = 1
	g.inUse++
	return b, nil
}

// share adds a cache's reference to block b. The pool's lock is held.
func (g *group) share(b int32) {
	if g.onlyKept(b) {
		g.idle--
	}
	g.refs[b]++
}

// drop gives a cache's reference to block b back. The pool's lock is held.
func (g *group) drop(b int32) {
	g.refs[b]--
	if g.refs[b] == 0 {
		g.free = append(g.free, b)
		g.inUse--
	} else if g.onlyKept(b) {
		g.idle++
	}
}

// onlyKept says that block b is in use, but by no cache.
func (g *group) onlyKept(b int32) bool { return g.kept[b] > 0 && g.refs[b] == g.kept[b] }
