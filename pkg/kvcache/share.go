package kvcache

import "fmt"

// Blocks may be held by something else than a cache: a prefix tree keeps the blocks of finished requests, so
// that the next request with the same beginning adopts them instead of computing them again.

// Retain adds a reference to blocks in use of a group. On an error nothing has changed.
func (p *Pool) Retain(group int, blocks ...int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, err := p.held(group, blocks)
	if err != nil {
		return fmt.Errorf("kvcache: retain: %w", err)
	}
	for _, b := range blocks {
		g.refs[b]++
		g.kept[b]++
	}
	return nil
}

// Release gives back what Retain added; a block without references is free. On an error nothing has changed.
func (p *Pool) Release(group int, blocks ...int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, err := p.held(group, blocks)
	if err != nil {
		return fmt.Errorf("kvcache: release: %w", err)
	}
	for _, b := range blocks {
		if g.kept[b] == 0 {
			return fmt.Errorf("kvcache: release: block %d is not retained", b)
		}
	}
	for _, b := range blocks {
		if g.onlyKept(b) {
			g.idle--
		}
		g.kept[b]--
		g.drop(b)
	}
	return nil
}

// Refs is how many caches and other holders refer to a block; 0: the block is free.
func (p *Pool) Refs(group int, block int32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if group < 0 || group >= len(p.groups) {
		return 0
	}
	g := p.groups[group]
	if block < 0 || int(block) >= len(g.refs) {
		return 0
	}
	return int(g.refs[block])
}

// Idle says that a block is held by Retain only: Release frees it, if it was retained once; a block shared with a cache stays.
func (p *Pool) Idle(group int, block int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if group < 0 || group >= len(p.groups) {
		return false
	}
	g := p.groups[group]
	return block >= 0 && int(block) < len(g.refs) && g.onlyKept(block)
}

// Adopt makes a cache of the tokens ids, which are in the given blocks in this order. The blocks stay shared until the
// new cache writes to them. It needs a pool without sliding windows: all layers in one group.
func (p *Pool) Adopt(ids []int, blocks []int32) (*Cache, error) {
	if len(p.groups) != 1 || p.groups[0].window != 0 {
		return nil, fmt.Errorf("kvcache: adopt: the pool has sliding windows")
	}
	n, size := len(ids), p.opts.BlockSize
	if len(blocks) != (n+size-1)/size {
		return nil, fmt.Errorf("kvcache: adopt: %d tokens in %d blocks of %d", n, len(blocks), size)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g, err := p.held(0, blocks)
	if err != nil {
		return nil, fmt.Errorf("kvcache: adopt: %w", err)
	}
	for _, b := range blocks {
		g.share(b)
	}
	c := p.NewCache()
	c.tables[0].blocks = append(c.tables[0].blocks, blocks...)
	c.n, c.ids, c.reserved = n, append(c.ids, ids...), n
	return c, nil
}

// held checks that all blocks are in use, each as often as it is named. The pool's lock is held.
func (p *Pool) held(group int, blocks []int32) (*group, error) {
	if group < 0 || group >= len(p.groups) {
		return nil, fmt.Errorf("group %d of %d", group, len(p.groups))
	}
	g := p.groups[group]
	for i, b := range blocks {
		if b < 0 || int(b) >= len(g.refs) || g.refs[b] == 0 {
			return nil, fmt.Errorf("block %d is not in use", b)
		}
		for _, other := range blocks[:i] {
			if b == other {
				return nil, fmt.Errorf("block %d is named twice", b)
			}
		}
	}
	return g, nil
}
