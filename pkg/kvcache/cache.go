// Package kvcache keeps the keys and values of tokens that a sequence has already processed, so that a
// decode step computes one new token instead of the whole prefix (chapter section 4).
//
// A Cache is one sequence's block table: which blocks of a Pool hold its tokens, in order.
//
//	tokens   0 … 63   64 … 127   128 … 150
//	blocks   [ 7 ]    [ 2 ]      [ 9 ]
//
// Contiguous memory is the special case of one block that is as long as the sequence may become
// (NewContiguous); the pool with small blocks is what vLLM calls paged K/V. A step is
//
//	Reserve(T)   blocks for T new tokens, copies of shared ones (copy-on-write)
//	Append(...)  once for each layer: K, V [T, n_kv, d_head]
//	Advance(ids) the tokens count from now on
//
// Fork shares every block with a new sequence, Truncate goes back to an earlier length, Free gives all
// blocks back. Bytes follow 2·L·B·T·n_kv·d_head·bytes; see Dims.Bytes.
package kvcache

import (
	"fmt"
	"math"
	"slices"

	"forwardpass/pkg/tensor"
)

// Cache holds one sequence's keys and values.
type Cache struct {
	pool     *Pool
	tables   []table // of each group
	n        int     // tokens stored
	ids      []int   // which they are
	reserved int     // tokens for which there are blocks
	limit    int     // tokens there may be; 0: any number
	scratch  []dense // decoded numbers of each layer, for stored types that attention can't read
}

// table is the list of blocks of a group; the first dropped blocks have left the window and are free.
type table struct {
	blocks  []int32
	dropped int
}

// NewCache makes an empty cache for one sequence.
func (p *Pool) NewCache() *Cache {
	return &Cache{pool: p, tables: make([]table, len(p.groups)), limit: p.opts.MaxTokens, scratch: make([]dense, p.dims.Layers)}
}

// NewContiguous makes a cache of its own for maxTokens tokens in one piece of memory (for layers with a
// sliding window too: all positions are kept).
func NewContiguous(dims Dims, maxTokens int, t Type) (*Cache, error) {
	p, err := NewPool(dims, Contiguous(maxTokens, t))
	if err != nil {
		return nil, err
	}
	return p.NewCache(), nil
}

// Len is the number of tokens stored: the position of the next one.
func (c *Cache) Len() int { return c.n }

// IDs is the tokens stored. The slice must not be changed.
func (c *Cache) IDs() []int { return c.ids }

// Pool is where the cache's blocks come from.
func (c *Cache) Pool() *Pool { return c.pool }

// Blocks is the block table of a group, in token order, and how many blocks at its front have left the
// sliding window and are free again (their numbers mean nothing); no group, no blocks. The slice must not be changed.
func (c *Cache) Blocks(group int) (blocks []int32, dropped int) {
	if group < 0 || group >= len(c.tables) {
		return nil, 0
	}
	return c.tables[group].blocks, c.tables[group].dropped
}

// Bytes is the memory of the blocks that this cache refers to; a block shared with a fork counts for both.
func (c *Cache) Bytes() int64 {
	var sum int64
	for g, t := range c.tables {
		sum += int64(len(t.blocks)-t.dropped) * c.pool.groups[g].store.BlockBytes()
	}
	return sum
}

// Reserve makes room for n tokens after the last one. A block that another cache shares and that the new
// tokens will be written to is copied first. On an error (wrapping ErrNoBlocks when the pool is full)
// the cache is as it was.
func (c *Cache) Reserve(n int) error {
	if n < 0 {
		return fmt.Errorf("kvcache: can't reserve %d tokens", n)
	}
	if n > math.MaxInt32 {
		return fmt.Errorf("kvcache: can't reserve %d tokens: %w", n, ErrNoBlocks)
	}
	if c.limit > 0 && c.n+n > c.limit {
		return fmt.Errorf("kvcache: room for %d tokens, %d stored, can't add %d: %w", c.limit, c.n, n, ErrNoBlocks)
	}
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	size := p.opts.BlockSize
	want := (c.n + n + size - 1) / size
	for g, grp := range p.groups {
		t := &c.tables[g]
		had := len(t.blocks)
		if err := c.reserveGroup(grp, t, n, want); err != nil {
			c.shrink(grp, t, had)
			for h := range g { // undo the groups before
				c.shrink(p.groups[h], &c.tables[h], (c.reserved+size-1)/size)
			}
			return err
		}
	}
	c.reserved = max(c.reserved, c.n+n)
	return nil
}

func (c *Cache) reserveGroup(g *group, t *table, n, want int) error {
	// Copy on write: any existing block from the one that the next token falls into.
	for i := c.n / c.pool.opts.BlockSize; n > 0 && i < min(len(t.blocks), want); i++ {
		if b := t.blocks[i]; g.refs[b] > 1 {
			fresh, err := g.take()
			if err != nil {
				return err
			}
			if err := g.store.Copy(int(fresh), int(b)); err != nil {
				g.drop(fresh)
				return err
			}
			g.drop(b)
			t.blocks[i] = fresh
		}
	}
	for len(t.blocks) < want {
		b, err := g.take()
		if err != nil {
			return err
		}
		t.blocks = append(t.blocks, b)
	}
	return nil
}

func (c *Cache) shrink(g *group, t *table, blocks int) {
	for len(t.blocks) > max(blocks, t.dropped) {
		g.drop(t.blocks[len(t.blocks)-1])
		t.blocks = t.blocks[:len(t.blocks)-1]
	}
}

// Append writes one layer's keys and values of n new tokens, rows row … row+n-1 of k and v, after the tokens stored.
// Reserve comes before, Advance after all layers.
//
// k [T, n_kv, KDim], v [T, n_kv, VDim] (nil where VDim is 0)
func (c *Cache) Append(layer int, k, v *tensor.Tensor, row, n int) error {
	d := c.pool.dims
	if layer < 0 || layer >= d.Layers {
		return fmt.Errorf("kvcache: layer %d of %d", layer, d.Layers)
	}
	if err := tensor.CheckShape("kvcache: append: k", k, -1, d.KVHeads, d.KDim); err != nil {
		return err
	}
	if d.VDim > 0 {
		if err := tensor.CheckShape("kvcache: append: v", v, k.Shape[0], d.KVHeads, d.VDim); err != nil {
			return err
		}
	}
	if row < 0 || n < 0 || n > k.Shape[0] || row > k.Shape[0]-n {
		return fmt.Errorf("kvcache: append of %d rows from row %d on of %d", n, row, k.Shape[0])
	}
	if c.n+n > c.reserved {
		return fmt.Errorf("kvcache: append of %d tokens after %d: only %d reserved", n, c.n, c.reserved-c.n)
	}
	g, index := c.pool.Place(layer)
	h, ok := c.pool.groups[g].store.(*host)
	if !ok {
		return fmt.Errorf("kvcache: append: the cache is in device memory")
	}
	size := c.pool.opts.BlockSize
	for i := range n {
		pos := c.n + i
		kRow := k.Data[(row+i)*d.KVHeads*d.KDim:][:d.KVHeads*d.KDim] // [n_kv, KDim]
		var vRow []float32
		if d.VDim > 0 {
			vRow = v.Data[(row+i)*d.KVHeads*d.VDim:][:d.KVHeads*d.VDim] // [n_kv, VDim]
		}
		h.write(int(c.tables[g].blocks[pos/size]), index, pos%size, kRow, vRow)
	}
	c.scratch[layer].valid = min(c.scratch[layer].valid, c.n)
	return nil
}

// Advance counts the appended tokens as stored, and frees blocks that have left their layers' window.
func (c *Cache) Advance(ids []int) error {
	if c.n+len(ids) > c.reserved {
		return fmt.Errorf("kvcache: advance by %d tokens: %d reserved", len(ids), c.reserved-c.n)
	}
	c.n += len(ids)
	c.ids = append(c.ids, ids...)
	size := c.pool.opts.BlockSize
	for g, grp := range c.pool.groups {
		if grp.window == 0 {
			continue
		}
		first := max(0, c.n-grp.window-c.pool.opts.Slack) / size // blocks before this one are out of sight
		t := &c.tables[g]
		if first <= t.dropped {
			continue
		}
		c.pool.mu.Lock()
		for ; t.dropped < first; t.dropped++ {
			grp.drop(t.blocks[t.dropped])
			t.blocks[t.dropped] = -1
		}
		c.pool.mu.Unlock()
	}
	return nil
}

// Truncate goes back to the first n tokens: rejected speculative tokens, a shorter shared prefix.
// It fails where tokens that the next one would see have left a sliding window.
func (c *Cache) Truncate(n int) error {
	if n < 0 || n > c.n {
		return fmt.Errorf("kvcache: truncate to %d of %d tokens", n, c.n)
	}
	size := c.pool.opts.BlockSize
	for g, grp := range c.pool.groups {
		if d := c.tables[g].dropped; d > 0 && max(0, n-grp.window+1) < d*size {
			return fmt.Errorf("kvcache: truncate to %d of %d tokens: the window of %d needs tokens before %d, which are gone", n, c.n, grp.window, d*size)
		}
	}
	c.n, c.ids = n, c.ids[:n]
	c.Unreserve()
	return nil
}

// Fork makes another sequence with the same tokens. All blocks are shared until one of the two writes.
func (c *Cache) Fork() *Cache {
	f := c.pool.NewCache()
	f.n, f.ids, f.reserved = c.n, slices.Clone(c.ids), c.n
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	size := c.pool.opts.BlockSize
	for g, t := range c.tables {
		blocks := t.blocks[:min(len(t.blocks), max((c.n+size-1)/size, t.dropped))]
		for _, b := range blocks[t.dropped:] {
			c.pool.groups[g].share(b)
		}
		f.tables[g] = table{slices.Clone(blocks), t.dropped}
	}
	return f
}

// Take frees the cache and moves everything of another one of the same pool into it; the other is empty then.
func (c *Cache) Take(from *Cache) error {
	if from == nil || c.pool != from.pool || c == from {
		return fmt.Errorf("kvcache: take: want another cache of the same pool")
	}
	c.Free()
	*c, *from = *from, *c
	return nil
}

// Free gives all blocks back; the cache is empty and can be used again. Free of an empty cache does nothing.
func (c *Cache) Free() {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	for g := range c.tables {
		t := &c.tables[g]
		c.shrink(c.pool.groups[g], t, 0)
		*t = table{blocks: t.blocks[:0]}
	}
	c.n, c.ids, c.reserved = 0, c.ids[:0], 0
	for l := range c.scratch {
		c.scratch[l] = dense{}
	}
}

// Unreserve takes back a Reserve whose tokens were never counted by Advance.
func (c *Cache) Unreserve() {
	size := c.pool.opts.BlockSize
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	for g := range c.tables {
		c.shrink(c.pool.groups[g], &c.tables[g], (c.n+size-1)/size)
	}
	c.reserved = c.n
	for l := range c.scratch {
		c.scratch[l].valid = min(c.scratch[l].valid, c.n)
	}
}
