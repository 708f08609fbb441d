package serve

import (
	"math/rand/v2"
	"slices"
	"testing"

	"forwardpass/pkg/kvcache"
)

// emptyPool has blocks that are only counted.
func emptyPool(t testing.TB, size, blocks int) *kvcache.Pool {
	t.Helper()
	p, err := (&simulated{}).newPool(kvcache.Options{BlockSize: size, Blocks: blocks})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// stored is a cache that holds ids, begun with what the prefix cache has of them, as the scheduler does it.
func stored(t testing.TB, p *kvcache.Pool, pc prefixCache, ids []int) *kvcache.Cache {
	t.Helper()
	n, blocks := pc.match(ids)
	c, err := p.Adopt(ids[:n], blocks)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Reserve(len(ids) - n); err != nil {
		t.Fatal(err)
	}
	if err := c.Advance(ids[n:]); err != nil {
		t.Fatal(err)
	}
	return c
}

func keep(t testing.TB, pc prefixCache, c *kvcache.Cache) {
	t.Helper()
	blocks, _ := c.Blocks(0)
	if err := pc.insert(c.IDs(), blocks); err != nil {
		t.Fatal(err)
	}
}

func TestRadixSplits(t *testing.T) {
	p := emptyPool(t, 4, 0)
	r := newRadix(p)
	for _, ids := range [][]int{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 5, 9, 9}, {1, 2}, {7, 7, 7}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}} {
		c := stored(t, p, r, ids)
		keep(t, r, c)
		c.Free()
	}
	for _, c := range []struct {
		ids []int
		n   int
	}{
		{[]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 10}, {[]int{1, 2, 3, 4, 5, 9, 8}, 6}, {[]int{1, 2, 3}, 3}, {[]int{7}, 1}, {[]int{8}, 0}, {nil, 0}, {[]int{1, 2, 3, 4, 5}, 5},
	} {
		n, blocks := r.match(c.ids)
		if n != c.n || len(blocks) != (n+3)/4 {
			t.Errorf("match %v: %d tokens in %d blocks, want %d", c.ids, n, len(blocks), c.n)
		}
	}
	// root: [1 2 3 4 5] and [7 7 7]; below the first [6 7 8 9 → 10] and [9 9]
	if n := len(r.root.children); n != 2 {
		t.Errorf("the root has %d children, want 2", n)
	}
	fork := r.root.children[1]
	if !slices.Equal(fork.ids, []int{1, 2, 3, 4, 5}) || len(fork.children) != 2 {
		t.Errorf("the fork has %v and %d children, want [1 2 3 4 5] and 2", fork.ids, len(fork.children))
	}
	r.clear()
	if s := p.Stats(); s.InUse != 0 {
		t.Errorf("%d blocks are left after clear", s.InUse)
	}
}

// The branch that was used longest ago goes first; one that a running sequence uses never goes.
func TestEviction(t *testing.T) {
	for name, make := range map[string]func(*kvcache.Pool) prefixCache{
		"radix":  func(p *kvcache.Pool) prefixCache { return newRadix(p) },
		"hashed": func(p *kvcache.Pool) prefixCache { return newHashed(p) },
	} {
		t.Run(name, func(t *testing.T) {
			p := emptyPool(t, 2, 0)
			pc := make(p)
			a, b, c := []int{1, 2, 3, 4}, []int{1, 2, 5, 6}, []int{8, 8, 8, 8}
			var running *kvcache.Cache
			for _, ids := range [][]int{a, b, c} {
				x := stored(t, p, pc, ids)
				keep(t, pc, x)
				if &ids[0] == &a[0] {
					running = x
				} else {
					x.Free()
				}
			}
			pc.match(b) // c is now the one that was used longest ago, but for a, which runs
			has := func(ids []int) int { n, _ := pc.match(ids); return n }
			if n := pc.evict(1); n < 1 || p.Stats().InUse+n != 5 {
				t.Fatalf("evicted %d blocks, %d are in use", n, p.Stats().InUse)
			}
			if has(a) != 4 || has(b) != 4 || has(c) == 4 {
				t.Errorf("left: %d tokens of a, %d of b, %d of c; want 4, 4 and fewer", has(a), has(b), has(c))
			}
			if pc.evict(100); has(a) != 4 || has(b) != 2 || has(c) != 0 {
				t.Errorf("left: %d tokens of a, %d of b, %d of c; want 4 (it runs), 2 (in common with a) and 0", has(a), has(b), has(c))
			}
			running.Free()
			if pc.evict(100); p.Stats().InUse != 0 {
				t.Errorf("%d blocks are left", p.Stats().InUse)
			}
		})
	}
}

// Random sequences go in and out; what is found is the longest common beginning with anything that is kept (in whole blocks for the
// hash table), and its blocks are those of a sequence that begins so.
func TestPrefixCachesFindTheLongest(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		size := 1 + rng.IntN(4)
		p := emptyPool(t, size, 0)
		pc, whole := prefixCache(newRadix(p)), 1
		if seed%2 == 1 {
			pc, whole = newHashed(p), size
		}
		var kept [][]int
		holds := map[int32][]int{} // what a block was written with: all tokens up to its end
		for range 40 {
			ids := make([]int, 1+rng.IntN(12))
			for i := range ids {
				ids[i] = rng.IntN(2)
			}
			want := 0
			for _, k := range kept {
				want = max(want, Common(k, ids)/whole*whole)
			}
			n, blocks := pc.match(ids)
			if n != want || len(blocks) != (n+size-1)/size {
				t.Fatalf("seed %d: match %v: %d tokens in %d blocks, want %d; kept %v", seed, ids, n, len(blocks), want, kept)
			}
			for i, b := range blocks {
				if part := ids[:min(n, (i+1)*size)]; Common(holds[b], part) != len(part) {
					t.Fatalf("seed %d: match %v: block %d holds %v", seed, ids, i, holds[b])
				}
			}
			c := stored(t, p, pc, ids)
			own, _ := c.Blocks(0)
			for i, b := range own {
				if end := min(len(ids), (i+1)*size); i*size >= n || p.Refs(0, b) == 1 {
					holds[b] = slices.Clone(ids[:end])
				}
			}
			if rng.IntN(2) == 0 {
				keep(t, pc, c)
				kept = append(kept, ids)
			}
			c.Free()
			if s := p.Stats(); s.InUse != s.Idle {
				t.Fatalf("seed %d: %d blocks in use, %d idle: nothing runs", seed, s.InUse, s.Idle)
			}
		}
		before := p.Stats().InUse
		if n := pc.evict(1 << 30); n != before || p.Stats().InUse != 0 {
			t.Fatalf("seed %d: evicted %d of %d blocks", seed, n, before)
		}
	}
}

func TestArena(t *testing.T) {
	a := newArena(10)
	take := func(n, want int) {
		t.Helper()
		start, ok := a.take(n)
		if ok != (want >= 0) || ok && start != want {
			t.Fatalf("take %d: %d, %v, want %d", n, start, ok, want)
		}
	}
	take(4, 0)
	take(3, 4)
	take(3, 7)
	take(1, -1)
	a.give(0, 4)
	a.give(7, 3)
	if all, largest := a.free(); all != 7 || largest != 4 {
		t.Errorf("free %d, largest %d, want 7 and 4: that is fragmentation", all, largest)
	}
	take(5, -1)
	a.give(4, 3)
	take(10, 0)
}
