package kvcache

import (
	"fmt"
	"slices"
)

// Swapper is a Storage whose blocks can be taken out to the host's memory and brought back.
type Swapper interface {
	Save(block int) (BlockData, error)
	Restore(block int, d BlockData) error
}

// BlockData is a copy of one block's numbers, in the layout of its storage.
type BlockData struct {
	Floats []float32 // F32
	Ints   []int8    // Int8
	Scales []float32 // Int8
}

// Swapped is a sequence whose tokens wait outside of the pool, as vLLM's swapped requests do.
type Swapped struct {
	ids    []int
	groups []swappedTable
	bytes  int64
}

type swappedTable struct {
	blocks  []BlockData
	dropped int
}

// Len is the number of tokens.
func (s *Swapped) Len() int { return len(s.ids) }

// Blocks is how many blocks SwapIn needs, over all groups.
func (s *Swapped) Blocks() int {
	n := 0
	for _, t := range s.groups {
		n += len(t.blocks)
	}
	return n
}

// Bytes is the memory of the blocks that were copied.
func (s *Swapped) Bytes() int64 { return s.bytes }

// SwapOut copies the cache's tokens out of the pool and frees its blocks. Blocks that others share stay with them.
// On an error the cache is as it was.
func (c *Cache) SwapOut() (*Swapped, error) {
	s := &Swapped{ids: slices.Clone(c.ids), bytes: c.Bytes()}
	size := c.pool.opts.BlockSize
	for g, t := range c.tables {
		store, ok := c.pool.groups[g].store.(Swapper)
		if !ok {
			return nil, fmt.Errorf("kvcache: the cache's memory can't be swapped out")
		}
		st := swappedTable{dropped: t.dropped}
		for _, b := range t.blocks[t.dropped:max(t.dropped, min(len(t.blocks), (c.n+size-1)/size))] {
			d, err := store.Save(int(b))
			if err != nil {
				return nil, err
			}
			st.blocks = append(st.blocks, d)
		}
		s.groups = append(s.groups, st)
	}
	c.Free()
	return s, nil
}

// SwapIn brings a sequence back into the pool. On an error (wrapping ErrNoBlocks when the pool is full) nothing has changed.
func (p *Pool) SwapIn(s *Swapped) (*Cache, error) {
	if s == nil {
		return nil, fmt.Errorf("kvcache: swap in: want a sequence that SwapOut made, got none")
	}
	if len(s.groups) != len(p.groups) {
		return nil, fmt.Errorf("kvcache: swap in: the sequence has %d groups of layers, the pool %d", len(s.groups), len(p.groups))
	}
	c := p.NewCache()
	for g, st := range s.groups {
		t := &c.tables[g]
		t.dropped = st.dropped
		for range st.dropped {
			t.blocks = append(t.blocks, -1)
		}
		for _, d := range st.blocks {
			if err := c.restore(g, d); err != nil {
				c.Free()
				return nil, err
			}
		}
	}
	c.n, c.ids, c.reserved = len(s.ids), slices.Clone(s.ids), len(s.ids)
	return c, nil
}

func (c *Cache) restore(g int, d BlockData) error {
	grp := c.pool.groups[g]
	store, ok := grp.store.(Swapper)
	if !ok {
		return fmt.Errorf("kvcache: the cache's memory can't be swapped in")
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	b, err := grp.take()
	if err != nil {
		return err
	}
	if err := store.Restore(int(b), d); err != nil {
		grp.drop(b)
		return err
	}
	c.tables[g].blocks = append(c.tables[g].blocks, b)
	return nil
}

// Save copies a block.
func (h *host) Save(block int) (BlockData, error) {
	if h.typ == F32 {
		return BlockData{Floats: slices.Clone(h.floats[block])}, nil
	}
	return BlockData{Ints: slices.Clone(h.ints[block]), Scales: slices.Clone(h.scales[block])}, nil
}

// Restore writes a saved block over another.
func (h *host) Restore(block int, d BlockData) error {
	if h.typ == F32 && len(d.Floats) != len(h.floats[block]) || h.typ == Int8 && (len(d.Ints) != len(h.ints[block]) || len(d.Scales) != len(h.scales[block])) {
		return fmt.Errorf("kvcache: restore: the data are of another block size, type or model")
	}
	if h.typ == F32 {
		copy(h.floats[block], d.Floats)
	} else {
		copy(h.ints[block], d.Ints)
		copy(h.scales[block], d.Scales)
	}
	return nil
}
