package serve

import (
	"errors"
	"fmt"

	"forwardpass/pkg/kvcache"
)

// place is where a sequence's keys and values are: in blocks of the pool, swapped out, in a piece of the arena, or nowhere.
type place struct {
	cache   *kvcache.Cache
	swapped *kvcache.Swapped
	start   int // in the arena
}

func (p *place) len() int {
	if p.cache == nil {
		return 0
	}
	return p.cache.Len()
}

// memory gives sequences room and takes it back: the block manager.
type memory struct {
	opts    Options
	newPool func(kvcache.Options) (*kvcache.Pool, error)
	pool    *kvcache.Pool
	prefix  prefixCache // or nil
	arena   *arena      // or nil
	swapped int         // blocks that are out
	hits    int         // tokens that the prefix cache has given, ever
}

func newMemory(o Options, longest int, newPool func(kvcache.Options) (*kvcache.Pool, error)) (*memory, error) {
	m := &memory{opts: o, newPool: newPool}
	po := kvcache.Options{BlockSize: o.BlockSize, Blocks: o.Blocks}
	if o.Draft != nil {
		po.Slack = o.BlockSize + o.Draft.Tokens + 1 // rejected proposals are taken back
	}
	switch o.Memory {
	case Contiguous:
		m.arena = newArena(o.Blocks * o.BlockSize)
		po = kvcache.Contiguous(longest, kvcache.F32) // only to learn whether it can be made
	case Paged:
		if o.Prefix != NoPrefix { // a prefix must stay whole, also in layers with a sliding window
			po.Windows = []int{}
		}
	}
	var err error
	if m.pool, err = newPool(po); err != nil {
		return nil, err
	}
	switch o.Prefix {
	case RadixTree:
		m.prefix = newRadix(m.pool)
	case HashedBlocks:
		m.prefix = newHashed(m.pool)
	}
	if o.Preemption == Swap && o.Memory == Paged {
		for g := range m.pool.Groups() {
			if _, ok := m.pool.Storage(g).(kvcache.Swapper); !ok {
				return nil, fmt.Errorf("serve: blocks can't be swapped out of this model's memory")
			}
		}
	}
	return m, nil
}

func (m *memory) blocks(tokens int) int {
	return (tokens + m.opts.BlockSize - 1) / m.opts.BlockSize
}

// fits says whether a sequence of so many tokens could ever run, with all the memory to itself.
func (m *memory) fits(tokens int) bool {
	return m.opts.Blocks == 0 || m.blocks(tokens) <= m.opts.Blocks
}

// available is how many blocks of each group can be had without taking any from a running sequence.
func (m *memory) available() int {
	s := m.pool.Stats()
	return s.Free/m.pool.Groups() + s.Idle
}

// admit gives a waiting sequence its first room, unless there is too little: its prefix from the prefix cache or what was
// swapped out, and enough blocks for the rest of its tokens, with the watermark left free. alone: nothing else runs, so that
// the watermark doesn't count.
func (m *memory) admit(s *sequence, alone bool) (bool, error) {
	if m.arena != nil {
		return m.admitContiguous(s)
	}
	limited := m.opts.Blocks > 0
	reserve := 0
	if !alone {
		reserve = int(m.opts.Watermark * float64(m.opts.Blocks))
	}
	if sw := s.memory.swapped; sw != nil {
		need := (sw.Blocks()+m.pool.Groups()-1)/m.pool.Groups() + 1
		if limited {
			if !alone && m.available() < need+reserve {
				return false, nil
			}
			m.room(need)
		}
		c, err := m.pool.SwapIn(sw)
		if errors.Is(err, kvcache.ErrNoBlocks) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		s.memory = place{cache: c}
		m.swapped -= sw.Blocks()
		s.kept = 0
		return true, nil
	}
	c := m.pool.NewCache()
	n := 0
	if m.prefix != nil {
		var blocks []int32
		n, blocks = m.prefix.match(s.IDs())
		n = min(n, len(s.IDs())-1) // the last position must be computed: its logits are wanted
		var err error
		if c, err = m.pool.Adopt(s.IDs()[:n], blocks[:m.blocks(n)]); err != nil {
			return false, err
		}
	}
	need := m.blocks(len(s.IDs())) - n/m.opts.BlockSize
	if limited && !alone && m.available() < need+reserve {
		c.Free()
		return false, nil
	}
	s.memory = place{cache: c}
	s.cached, s.kept = n, n
	m.hits += n
	return true, nil
}

func (m *memory) admitContiguous(s *sequence) (bool, error) {
	start, ok := m.arena.take(s.limit)
	if !ok {
		return false, nil
	}
	pool, err := m.newPool(kvcache.Contiguous(s.limit, kvcache.F32))
	if err != nil {
		m.arena.give(start, s.limit)
		return false, err
	}
	s.memory = place{cache: pool.NewCache(), start: start}
	return true, nil
}

// room makes sure that n blocks are free in each group, at the cost of the prefix cache.
func (m *memory) room(n int) bool {
	free := m.pool.Stats().Free / m.pool.Groups()
	if free < n && m.prefix != nil {
		free += m.prefix.evict(n - free)
	}
	return free >= n
}

// grow makes room for n more tokens of a running sequence. An error that wraps kvcache.ErrNoBlocks says that there is none.
func (m *memory) grow(s *sequence, n int) error {
	err := s.memory.cache.Reserve(n)
	if m.arena != nil || m.prefix == nil || !errors.Is(err, kvcache.ErrNoBlocks) {
		return err
	}
	m.room(m.blocks(n) + 1) // one more: the last block may be shared and must be copied
	return s.memory.cache.Reserve(n)
}

// keep gives the prefix cache the first n tokens that the sequence has computed. While it still writes, that must be full blocks.
func (m *memory) keep(s *sequence, n int) error {
	if m.prefix == nil || s.memory.cache == nil {
		return nil
	}
	c := s.memory.cache
	if n = min(n, c.Len()); !s.Done() {
		n = n / m.opts.BlockSize * m.opts.BlockSize
	}
	if n <= s.kept {
		return nil
	}
	s.kept = n
	blocks, _ := c.Blocks(0)
	return m.prefix.insert(c.IDs()[:n], blocks[:m.blocks(n)])
}

// release takes all room back.
func (m *memory) release(s *sequence) {
	if c := s.memory.cache; c != nil {
		c.Free()
		if m.arena != nil {
			m.arena.give(s.memory.start, s.limit)
			_ = c.Pool().Close() // its own; an error would be the device's, and nothing depends on this memory any more
		}
	}
	if sw := s.memory.swapped; sw != nil {
		m.swapped -= sw.Blocks()
	}
	s.memory = place{}
	s.kept = 0
}

// preempt takes the blocks of a running sequence, by swapping if that is the policy and there is room for it. It says how many
// blocks were copied out.
func (m *memory) preempt(s *sequence) (swapped int, err error) {
	c := s.memory.cache
	c.Unreserve()
	if m.opts.Preemption == Swap && m.arena == nil && c.Len() > 0 {
		n := 0
		for g := range m.pool.Groups() {
			blocks, dropped := c.Blocks(g)
			n += len(blocks) - dropped
		}
		if m.opts.SwapBlocks == 0 || m.swapped+n <= m.opts.SwapBlocks {
			sw, err := c.SwapOut()
			if err != nil {
				return 0, err
			}
			m.swapped += sw.Blocks()
			s.memory = place{swapped: sw}
			return sw.Blocks(), nil
		}
	}
	if err := m.keep(s, c.Len()); err != nil {
		return 0, err
	}
	m.release(s)
	return 0, nil
}

// close gives all memory back, when nothing runs any more.
func (m *memory) close() {
	if m.prefix != nil {
		m.prefix.clear()
	}
	_ = m.pool.Close() // an error would be a device's, and there is nobody left to tell
}

// usage is the tokens that sequences have and the tokens that their room could hold.
func (m *memory) usage(running []*sequence) (tokens, slots int) {
	for _, s := range running {
		tokens += s.memory.len()
		if m.arena != nil {
			slots += s.limit
		} else {
			slots += m.blocks(s.memory.len()) * m.opts.BlockSize
		}
	}
	return tokens, slots
}
