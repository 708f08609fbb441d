package kvcache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"forwardpass/pkg/tensor"
)

// twin is a cache beside what must be in it: the number written for each token.
type twin struct {
	cache *Cache
	want  []float32
}

// world is a pool with everything that holds blocks of it, each move made on the caches and on plain slices alike.
type world struct {
	rng     *rand.Rand
	pool    *Pool
	live    []*twin
	kept    [][]int32 // blocks held by Retain, with the tokens they hold in keptIDs
	keptIDs [][]float32
	swapped []*Swapped
	away    [][]float32 // tokens of swapped
	next    float32
}

func newWorld(t *testing.T, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 10))
	opts := Options{BlockSize: 1 + rng.IntN(5), Blocks: 4 + rng.IntN(20), Slack: 1 + rng.IntN(4)}
	if rng.IntN(3) == 0 {
		opts.Windows = []int{0, 1 + rng.IntN(6), 0}
	}
	p, err := NewPool(Dims{Layers: 3, KVHeads: 1, KDim: 1, VDim: 1}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &world{rng: rng, pool: p, next: 1}
}

// append adds n tokens as a forward pass does.
func (w *world) append(x *twin, n int) error {
	if err := x.cache.Reserve(n); err != nil {
		if !errors.Is(err, ErrNoBlocks) {
			return err
		}
		return nil
	}
	k, v := &tensor.Tensor{}, &tensor.Tensor{}
	k.Resize(n, 1, 1)
	v.Resize(n, 1, 1)
	fresh := make([]float32, n)
	for layer := range 3 {
		for i := range n {
			fresh[i] = w.next + float32(i)
			k.Data[i], v.Data[i] = fresh[i]+float32(layer)/4, -fresh[i]-float32(layer)/4
		}
		if err := x.cache.Append(layer, k, v, 0, n); err != nil {
			return err
		}
	}
	w.next += float32(n)
	if w.rng.IntN(8) == 0 { // the step fails
		x.cache.Unreserve()
		return nil
	}
	x.want = append(slices.Clip(x.want), fresh...)
	return x.cache.Advance(ids(fresh))
}

// ids are the token ids of the test: the numbers themselves.
func ids(x []float32) []int {
	out := make([]int, len(x))
	for i, v := range x {
		out[i] = int(v)
	}
	return out
}

func (w *world) move() error {
	pick := w.rng.IntN(16)
	if len(w.live) == 0 || pick == 0 {
		w.live = append(w.live, &twin{cache: w.pool.NewCache()})
		return nil
	}
	i := w.rng.IntN(len(w.live))
	x := w.live[i]
	switch {
	case pick < 7:
		return w.append(x, 1+w.rng.IntN(7))
	case pick == 7:
		w.live = append(w.live, &twin{x.cache.Fork(), slices.Clone(x.want)})
	case pick == 8:
		n := w.rng.IntN(len(x.want) + 1)
		if err := x.cache.Truncate(n); err == nil {
			x.want = x.want[:n]
		} else if w.pool.Groups() == 1 {
			return err
		}
	case pick == 9 && w.rng.IntN(2) == 0: // a sequence runs again in a fresh cache
		y := &twin{cache: w.pool.NewCache()}
		if err := w.append(y, 1+w.rng.IntN(7)); err != nil {
			return err
		}
		x.want = y.want
		return x.cache.Take(y.cache)
	case pick == 9:
		x.cache.Free()
		w.live = slices.Delete(w.live, i, i+1)
	case pick == 10:
		if err := x.cache.Reserve(w.rng.IntN(9)); err != nil && !errors.Is(err, ErrNoBlocks) {
			return err
		}
	case pick == 11 && w.pool.Groups() == 1: // a prefix tree keeps the beginning
		n := w.rng.IntN(len(x.want) + 1)
		blocks, _ := x.cache.Blocks(0)
		blocks = slices.Clone(blocks[:(n+w.pool.BlockSize()-1)/w.pool.BlockSize()])
		w.kept, w.keptIDs = append(w.kept, blocks), append(w.keptIDs, slices.Clone(x.want[:n]))
		return w.pool.Retain(0, blocks...)
	case pick == 12 && len(w.kept) > 0: // and another sequence begins with it
		j := w.rng.IntN(len(w.kept))
		n := w.rng.IntN(len(w.keptIDs[j]) + 1)
		c, err := w.pool.Adopt(ids(w.keptIDs[j][:n]), w.kept[j][:(n+w.pool.BlockSize()-1)/w.pool.BlockSize()])
		if err != nil {
			return err
		}
		w.live = append(w.live, &twin{c, slices.Clone(w.keptIDs[j][:n])})
	case pick == 13 && len(w.kept) > 0:
		j := w.rng.IntN(len(w.kept))
		blocks := w.kept[j]
		w.kept, w.keptIDs = slices.Delete(w.kept, j, j+1), slices.Delete(w.keptIDs, j, j+1)
		return w.pool.Release(0, blocks...)
	case pick == 14:
		s, err := x.cache.SwapOut()
		if err != nil {
			return err
		}
		w.swapped, w.away = append(w.swapped, s), append(w.away, x.want)
		w.live = slices.Delete(w.live, i, i+1)
	case pick == 15 && len(w.swapped) > 0:
		j := w.rng.IntN(len(w.swapped))
		c, err := w.pool.SwapIn(w.swapped[j])
		if errors.Is(err, ErrNoBlocks) {
			return nil
		}
		if err != nil {
			return err
		}
		w.live = append(w.live, &twin{c, w.away[j]})
		w.swapped, w.away = slices.Delete(w.swapped, j, j+1), slices.Delete(w.away, j, j+1)
	}
	return nil
}

// check compares every cache with its twin, and counts who refers to each block.
func (w *world) check() error {
	for i, x := range w.live {
		if x.cache.Len() != len(x.want) || !slices.Equal(x.cache.IDs(), ids(x.want)) {
			return fmt.Errorf("cache %d has %d tokens %v, want %v", i, x.cache.Len(), x.cache.IDs(), x.want)
		}
		for layer := range 3 {
			seen := 0
			for _, r := range x.cache.Runs(nil, layer, len(x.want)) {
				for j := range r.Len {
					want := x.want[r.Start+j] + float32(layer)/4
					if k, v := r.Keys(0, j)[0], r.Values(0, j)[0]; k != want || v != -want {
						return fmt.Errorf("cache %d, layer %d, token %d: got k %v, v %v, want %v", i, layer, r.Start+j, k, v, want)
					}
					seen++
				}
			}
			g, _ := w.pool.Place(layer)
			need := len(x.want)
			if window := w.pool.groups[g].window; window > 0 {
				need = min(need, window-1) // the next token sees itself, too
			}
			if seen < need {
				return fmt.Errorf("cache %d, layer %d: %d tokens left, want at least %d", i, layer, seen, need)
			}
		}
	}
	for g, grp := range w.pool.groups {
		refs, kept := make([]int32, len(grp.refs)), make([]int32, len(grp.refs))
		for _, x := range w.live {
			t := x.cache.tables[g]
			for _, b := range t.blocks[t.dropped:] {
				refs[b]++
			}
		}
		if g == 0 {
			for _, blocks := range w.kept {
				for _, b := range blocks {
					refs[b]++
					kept[b]++
				}
			}
		}
		used, idle := 0, 0
		for b, n := range refs {
			if n != grp.refs[b] || kept[b] != grp.kept[b] {
				return fmt.Errorf("group %d, block %d: %d references (%d retained), %d (%d) counted", g, b, grp.refs[b], grp.kept[b], n, kept[b])
			}
			if n > 0 && n == kept[b] {
				idle++
			}
			if n > 0 {
				used++
			}
			if free := slices.Contains(grp.free, int32(b)); free != (n == 0) {
				return fmt.Errorf("group %d, block %d with %d references: on the free list %v", g, b, n, free)
			}
		}
		if idle != grp.idle {
			return fmt.Errorf("group %d: %d idle blocks, %d counted as idle", g, idle, grp.idle)
		}
		if used != grp.inUse || used+len(grp.free) != len(grp.refs) {
			return fmt.Errorf("group %d: %d blocks used, %d counted as used, %d free of %d", g, used, grp.inUse, len(grp.free), len(grp.refs))
		}
	}
	return nil
}

// 10,000 random sequences of operations: every cache keeps reading what was written to it and to nothing else, references
// are exact after each operation, and nothing is left at the end.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(10_000) {
		w := newWorld(t, seed)
		for op := range 30 {
			err := w.move()
			if err == nil {
				err = w.check()
			}
			if err != nil {
				t.Fatalf("seed %d, operation %d: %v", seed, op, err)
			}
		}
		for _, x := range w.live {
			x.cache.Free()
			x.cache.Free() // a second time does nothing
		}
		for _, blocks := range w.kept {
			if err := w.pool.Release(0, blocks...); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if s := w.pool.Stats(); s.InUse != 0 || s.Bytes != 0 {
			t.Fatalf("seed %d: %d blocks leaked", seed, s.InUse)
		}
	}
}

func TestShareErrors(t *testing.T) {
	p, err := NewPool(Dims{Layers: 1, KVHeads: 1, KDim: 1, VDim: 1}, Options{BlockSize: 2, Blocks: 4})
	if err != nil {
		t.Fatal(err)
	}
	c := p.NewCache()
	if err := errors.Join(c.Reserve(4), c.Advance(make([]int, 4))); err != nil {
		t.Fatal(err)
	}
	blocks, _ := c.Blocks(0)
	for name, err := range map[string]error{
		"a free block":                p.Retain(0, 3),
		"no such block":               p.Release(0, 99),
		"a block named twice":         p.Release(0, blocks[0], blocks[0]),
		"no such group":               p.Retain(1, blocks[0]),
		"one good block and one free": p.Retain(0, blocks[0], 3),
	} {
		if err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if n := p.Refs(0, blocks[0]); n != 1 {
		t.Errorf("refused calls left %d references, want 1", n)
	}
	if _, err := p.Adopt(make([]int, 5), blocks); err == nil {
		t.Error("adopt of 5 tokens in two blocks of 2: want an error")
	}
	w, err := NewPool(Dims{Layers: 1, KVHeads: 1, KDim: 1, VDim: 1}, Options{Windows: []int{4}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Adopt(nil, nil); err == nil {
		t.Error("adopt in a pool with a sliding window: want an error")
	}
	// Swapped tokens fit only the kind of pool that they come from.
	s, err := c.SwapOut()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewPool(Dims{Layers: 1, KVHeads: 1, KDim: 1, VDim: 1}, Options{BlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.SwapIn(s); err == nil || other.Stats().InUse != 0 {
		t.Errorf("swap into another block size: error %v, %d blocks in use", err, other.Stats().InUse)
	}
}

// Int8 blocks travel with their scales.
func TestSwapInt8(t *testing.T) {
	p, err := NewPool(Dims{Layers: 2, KVHeads: 2, KDim: 3, VDim: 2}, Options{BlockSize: 2, Type: Int8})
	if err != nil {
		t.Fatal(err)
	}
	c := p.NewCache()
	k, v := &tensor.Tensor{}, &tensor.Tensor{}
	k.Resize(5, 2, 3)
	v.Resize(5, 2, 2)
	rng := rand.New(rand.NewPCG(1, 1))
	if err := c.Reserve(5); err != nil {
		t.Fatal(err)
	}
	for layer := range 2 {
		for _, x := range [][]float32{k.Data, v.Data} {
			for i := range x {
				x[i] = rng.Float32() - 0.5
			}
		}
		if err := c.Append(layer, k, v, 0, 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Advance(make([]int, 5)); err != nil {
		t.Fatal(err)
	}
	read := func(c *Cache) (out []float32) {
		for layer := range 2 {
			for _, r := range c.Runs(nil, layer, 5) {
				for h := range 2 {
					for j := range r.Len {
						out = append(append(out, r.Keys(h, j)[:3]...), r.Values(h, j)[:2]...)
					}
				}
			}
		}
		return out
	}
	before, bytes := read(c), c.Bytes()
	s, err := c.SwapOut()
	if err != nil {
		t.Fatal(err)
	}
	if p.Stats().InUse != 0 || s.Len() != 5 || s.Blocks() != 3 || s.Bytes() != bytes {
		t.Fatalf("after the swap %d blocks in use; saved %d tokens, %d blocks, %d bytes, want 5, 3, %d", p.Stats().InUse, s.Len(), s.Blocks(), s.Bytes(), bytes)
	}
	back, err := p.SwapIn(s)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(back); !slices.Equal(got, before) {
		t.Errorf("got %v, want %v", got, before)
	}
}
