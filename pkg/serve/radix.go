package serve

import (
	"slices"

	"forwardpass/pkg/kvcache"
)

// prefixCache keeps the blocks of computed token sequences for requests that begin with the same tokens.
type prefixCache interface {
	// match finds the longest kept beginning of ids, and the blocks with its keys and values.
	match(ids []int) (n int, blocks []int32)
	// insert keeps ids, which are computed in these blocks.
	insert(ids []int, blocks []int32) error
	// evict frees at least n blocks, least recently used first, and never one that a cache refers to; it returns how many.
	evict(n int) int
	// clear lets go of everything.
	clear()
}

// radix is a tree of token sequences (RadixAttention, arXiv:2312.07104, section 3). An edge carries a run of tokens; the path
// from the root to a node spells a sequence whose keys and values are kept.
//
//	root ── "You are a helpful" ─┬─ " teacher. What is 2+2"
//	                             └─ " poet. Write" ─┬─ " a song"
//	                                                └─ " a letter"
//
// Tokens may part in the middle of a block. Then the block is kept twice: the one before the fork belongs to the upper node,
// and each branch has its own copy of it, made by copy-on-write, with its own tokens behind.
type radix struct {
	pool   *kvcache.Pool
	root   *node
	clock  int64
	leaves lru[*node]
	freed  int // blocks freed by the eviction in progress
}

// node is a run of tokens, at positions start … start+len(ids)-1, and the blocks that these positions are in.
type node struct {
	parent   *node
	children map[int]*node // by their first token
	ids      []int
	start    int
	blocks   []int32
	used     int64 // when it was last matched or inserted; -1: evicted
}

func newRadix(p *kvcache.Pool) *radix {
	return &radix{pool: p, root: &node{children: map[int]*node{}}, leaves: lru[*node]{stamp: func(n *node) int64 {
		if len(n.children) > 0 {
			return -1 // no leaf; it is put in again when it becomes one
		}
		return n.used
	}}}
}

func (n *node) end() int { return n.start + len(n.ids) }

// Common is how many tokens two lists have in common at their front: where a radix tree splits.
func Common(a, b []int) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// walk follows ids from the root: it ends at a node of which the first n tokens fit, all of them if there is no child to go on.
func (r *radix) walk(ids []int, visit func(*node, int)) (last *node, n int) {
	at := r.root
	for {
		next := at.children[first(ids[at.end():])]
		if next == nil {
			return at, len(at.ids)
		}
		next.used = r.clock
		n := Common(next.ids, ids[next.start:])
		if visit != nil {
			visit(next, n)
		}
		if n < len(next.ids) {
			return next, n
		}
		at = next
	}
}

// first is the first id, -1 for none.
func first(ids []int) int {
	if len(ids) == 0 {
		return -1
	}
	return ids[0]
}

func (r *radix) match(ids []int) (int, []int32) {
	r.clock++
	size := r.pool.BlockSize()
	var blocks []int32
	last, n := r.walk(ids, func(x *node, n int) {
		// A node's first block replaces its parent's last one: it holds the parent's tokens, too.
		blocks = append(blocks[:x.start/size], x.blocks[:(x.start+n+size-1)/size-x.start/size]...)
	})
	return last.start + n, blocks
}

func (r *radix) insert(ids []int, blocks []int32) error {
	r.clock++
	at, n := r.walk(ids, nil)
	if n < len(at.ids) && at.start+n < len(ids) {
		var err error
		if at, err = r.split(at, n); err != nil {
			return err
		}
	}
	if at.start+n == len(ids) {
		return nil // all of it is there
	}
	leaf := &node{parent: at, children: map[int]*node{}, ids: slices.Clone(ids[at.end():]), start: at.end(), used: r.clock}
	leaf.blocks = slices.Clone(blocks[leaf.start/r.pool.BlockSize():])
	if err := r.pool.Retain(0, leaf.blocks...); err != nil {
		return err
	}
	at.children[leaf.ids[0]] = leaf
	r.leaves.add(leaf)
	return nil
}

// split cuts a node after n of its tokens and returns the upper part. A block that lies across the cut is kept by both.
func (r *radix) split(x *node, n int) (*node, error) {
	size := r.pool.BlockSize()
	cut := x.start + n
	upper := &node{parent: x.parent, children: map[int]*node{x.ids[n]: x}, ids: x.ids[:n:n], start: x.start, used: x.used}
	upper.blocks = slices.Clone(x.blocks[:(cut+size-1)/size-x.start/size])
	if cut%size != 0 {
		if err := r.pool.Retain(0, x.blocks[cut/size-x.start/size]); err != nil {
			return nil, err
		}
	}
	x.parent.children[x.ids[0]] = upper
	x.blocks = x.blocks[cut/size-x.start/size:]
	x.parent, x.ids, x.start = upper, x.ids[n:], cut
	return upper, nil
}

func (r *radix) evict(n int) int {
	r.freed = 0
	r.leaves.evict(func() bool { return r.freed >= n }, func(x *node) bool {
		for _, b := range x.blocks {
			if !r.pool.Idle(0, b) {
				return false // a running sequence uses it
			}
		}
		r.remove(x)
		return true
	})
	return r.freed
}

// remove takes a leaf out of the tree.
func (r *radix) remove(x *node) {
	before := r.pool.Stats().InUse
	_ = r.pool.Release(0, x.blocks...) // they were retained by insert or split
	r.freed += before - r.pool.Stats().InUse
	x.used = -1
	p := x.parent
	delete(p.children, x.ids[0])
	if len(p.children) == 0 && p != r.root {
		r.leaves.add(p)
	}
}

func (r *radix) clear() {
	var all func(x *node)
	all = func(x *node) {
		for _, c := range x.children {
			all(c)
		}
		_ = r.pool.Release(0, x.blocks...)
	}
	all(r.root)
	r.root = &node{children: map[int]*node{}}
	r.leaves.items = nil
}
