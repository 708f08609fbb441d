//go:build linux && cuda && cgo

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/model"
	"forwardpass/pkg/rope"
)

// step is the layout of the running forward pass in device memory.
type step struct {
	ids, pos ptr       // [T]
	seq      ptr       // [T] the sequence of each row
	rows     ptr       // rows whose logits are wanted
	blocks   ptr       // the addresses of cache blocks
	tables   [][]int32 // of each sequence: where its groups' blocks begin among the blocks
	views    []view
	tiles    []tiles
	longest  int // S of the longest sequence
	turns    map[*rope.Table][2]ptr
}

// view is the list of sequences as layers see it whose cache groups have the same numbers.
type view struct {
	key []int32
	at  ptr // [n, 8]
}

// tiles is the list of (sequence, first row) for blocks of attention.
type tiles struct {
	group, rows int
	n           int
	at          ptr
}

const seqInts = 8 // of a sequence, as kernels.cu has it

// Begin ties the calling goroutine to its thread until End, and copies the step's layout to the device.
func (b *Backend) Begin(s *model.Step) error {
	if b.closed {
		return errClosed
	}
	if err := b.dev.enter(); err != nil {
		return err
	}
	if err := errors.Join(b.sweep(false), b.begin(s)); err != nil {
		b.dev.leave()
		return err
	}
	return nil
}

// End waits for the device and reports what went wrong there.
func (b *Backend) End() error {
	defer b.dev.leave()
	if b.dev.lost != nil {
		return nil // the call that noticed has said so
	}
	return b.dev.wait()
}

func (b *Backend) begin(s *model.Step) error {
	st := &b.step
	*st = step{tables: st.tables[:0], views: st.views[:0], tiles: st.tiles[:0]}
	b.dev.sync = b.opts.Sync
	b.arena.used = 0
	var addresses []ptr
	ints := make([]int32, 0, 4*len(s.IDs)+len(s.Rows))
	for _, id := range s.IDs {
		ints = append(ints, int32(id))
	}
	for _, p := range s.Pos {
		ints = append(ints, int32(p))
	}
	for i, q := range s.Seqs {
		for range q.T {
			ints = append(ints, int32(i))
		}
		st.longest = max(st.longest, q.Len())
		var table []int32
		if q.Cache != nil {
			pool := q.Cache.Pool()
			for g := range pool.Groups() {
				store, ok := pool.Storage(g).(*storage)
				if !ok || store.b.dev != b.dev {
					return fmt.Errorf("cuda: sequence %d: the cache is not in this device's memory: make it with the model's NewCache or NewPool", i)
				}
				table = append(table, int32(len(addresses)))
				blocks, dropped := q.Cache.Blocks(g)
				for j, block := range blocks {
					var p ptr
					if j >= dropped {
						p = store.address(int(block))
					}
					addresses = append(addresses, p)
				}
			}
		}
		st.tables = append(st.tables, table)
	}
	for _, r := range s.Rows {
		ints = append(ints, int32(r))
	}
	at, err := b.putInts(ints)
	if err != nil {
		return err
	}
	n := 4 * len(s.IDs)
	st.ids, st.pos, st.seq, st.rows = at, at+ptr(n), at+ptr(2*n), at+ptr(3*n)
	if len(addresses) > 0 {
		st.blocks, err = b.put(unsafe.Pointer(&addresses[0]), 8*len(addresses))
	}
	return err
}

// view is the sequences for a layer, and the index of the layer in its group of the first sequence's cache.
func (b *Backend) view(s *model.Step, layer int) (v *view, index int, err error) {
	key := make([]int32, 0, 2*len(s.Seqs))
	first := true
	for _, q := range s.Seqs {
		if q.Cache == nil {
			key = append(key, -1, 0)
			continue
		}
		g, i := q.Cache.Pool().Place(layer)
		if first {
			index, first = i, false
		}
		key = append(key, int32(g), int32(i-index))
	}
	for i := range b.step.views {
		if slices.Equal(b.step.views[i].key, key) {
			return &b.step.views[i], index, nil
		}
	}
	list := make([]int32, 0, seqInts*len(s.Seqs))
	for i, q := range s.Seqs {
		table, size := int32(-1), int32(0)
		if q.Cache != nil {
			table, size = b.step.tables[i][key[2*i]], int32(q.Cache.Pool().BlockSize())
		}
		list = append(list, int32(q.Row), int32(q.T), int32(q.Start), table, size, key[2*i+1], 0, 0)
	}
	at, err := b.putInts(list)
	if err != nil {
		return nil, 0, err
	}
	b.step.views = append(b.step.views, view{key, at})
	return &b.step.views[len(b.step.views)-1], index, nil
}

// tile lists the blocks of attention for groups of query heads on one key/value head: each takes rows of (token, head).
func (b *Backend) tile(s *model.Step, p attention.Params) (*tiles, error) {
	group, total := p.Heads/p.KVHeads, 0
	for _, q := range s.Seqs {
		total += q.T * group
	}
	rows := 32
	if total <= 8*len(s.Seqs) || max(p.KDim, p.VDim) > 256 { // a decode step; very long vectors leave no room for more
		rows = 8
	}
	for i := range b.step.tiles {
		if t := &b.step.tiles[i]; t.group == group && t.rows == rows {
			return t, nil
		}
	}
	var list []int32
	for i, q := range s.Seqs {
		for r := 0; r < q.T*group; r += rows {
			list = append(list, int32(i), int32(r))
		}
	}
	at, err := b.putInts(list)
	if err != nil {
		return nil, err
	}
	b.step.tiles = append(b.step.tiles, tiles{group, rows, len(list) / 2, at})
	return &b.step.tiles[len(b.step.tiles)-1], nil
}

// arena is device memory for the layouts of a step.
type arena struct {
	at   ptr
	size int
	used int
}

// put copies bytes to the arena until the step ends.
func (b *Backend) put(from unsafe.Pointer, n int) (ptr, error) {
	a := &b.arena
	if a.used+n > a.size {
		size := max(64<<10, 2*(a.used+n))
		p, err := b.dev.alloc(int64(size))
		if err != nil {
			return 0, err
		}
		b.kept = append(b.kept, kept{p, int64(size)}) // what is in use stays where it is
		*a = arena{at: p, size: size}
	}
	p := a.at + ptr(a.used)
	a.used += (n + 15) / 16 * 16
	b.dev.stats.Uploaded += int64(n)
	return p, b.dev.upload(p, from, int64(n))
}

func (b *Backend) putInts(v []int32) (ptr, error) {
	if len(v) == 0 {
		return 0, nil
	}
	return b.put(unsafe.Pointer(&v[0]), 4*len(v))
}

func (b *Backend) putFloats(v []float32) (ptr, error) {
	if len(v) == 0 {
		return 0, nil
	}
	return b.put(unsafe.Pointer(&v[0]), 4*len(v))
}
