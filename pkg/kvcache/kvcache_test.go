package kvcache

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/tensor"
)

var dims = Dims{Layers: 2, KVHeads: 3, KDim: 4, VDim: 5}

// value is what the tests store: it tells sequence, layer, position, head and index apart.
func value(seq, layer, pos, head, i int) float32 {
	return float32(seq)*1000 + float32(layer)*100 + float32(pos) + float32(head)/8 + float32(i)/64
}

// add appends ids to a cache, with keys and values made of its number.
func add(t testing.TB, c *Cache, seq int, ids ...int) error {
	t.Helper()
	if err := c.Reserve(len(ids)); err != nil {
		return err
	}
	d := c.Pool().Dims()
	for l := range d.Layers {
		k, v := tensor.New(len(ids), d.KVHeads, d.KDim), tensor.New(len(ids), d.KVHeads, d.VDim)
		for i := range ids {
			for h := range d.KVHeads {
				for j := range d.KDim {
					k.Data[(i*d.KVHeads+h)*d.KDim+j] = value(seq, l, c.Len()+i, h, j)
				}
				for j := range d.VDim {
					v.Data[(i*d.KVHeads+h)*d.VDim+j] = -value(seq, l, c.Len()+i, h, j)
				}
			}
		}
		if err := c.Append(l, k, v, 0, len(ids)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Advance(ids); err != nil {
		t.Fatal(err)
	}
	return nil
}

// holds reports a position whose numbers aren't those of the sequence that wrote it.
func holds(c *Cache, writer func(pos int) int, tol float64) error {
	d := c.Pool().Dims()
	for l := range d.Layers {
		next := -1
		for _, r := range c.Runs(nil, l, c.Len()) {
			if next >= 0 && r.Start != next {
				return fmt.Errorf("layer %d: run at %d after %d", l, r.Start, next)
			}
			next = r.Start + r.Len
			for j := range r.Len {
				pos := r.Start + j
				for h := range d.KVHeads {
					for i, k := range r.Keys(h, j)[:d.KDim] {
						if want := value(writer(pos), l, pos, h, i); !(math.Abs(float64(k-want)) <= tol*math.Abs(float64(want))) {
							return fmt.Errorf("layer %d, position %d, head %d: key %d: want %g, got %g", l, pos, h, i, want, k)
						}
					}
					for i, v := range r.Values(h, j)[:d.VDim] {
						if want := -value(writer(pos), l, pos, h, i); !(math.Abs(float64(v-want)) <= tol*math.Abs(float64(want))) {
							return fmt.Errorf("layer %d, position %d, head %d: value %d: want %g, got %g", l, pos, h, i, want, v)
						}
					}
				}
			}
		}
		if next != c.Len() {
			return fmt.Errorf("layer %d: runs end at %d of %d", l, next, c.Len())
		}
	}
	return nil
}

func is(n int) func(int) int { return func(int) int { return n } }

func pool(t testing.TB, o Options) *Pool {
	t.Helper()
	p, err := NewPool(dims, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFormula: the chapter's numbers, and bytes held equal to the formula.
func TestFormula(t *testing.T) {
	notes := Dims{Layers: 32, KVHeads: 32, KDim: 128, VDim: 128}
	if got := notes.Bytes(1, 4096, 2); got != 2_147_483_648 {
		t.Errorf("the notes' example takes 2,147,483,648 bytes, got %d", got)
	}
	for _, o := range []Options{{BlockSize: 4}, {BlockSize: 1}, Contiguous(12, F32), {BlockSize: 6, MaxTokens: 12}} {
		c := pool(t, o).NewCache()
		if err := add(t, c, 1, make([]int, 12)...); err != nil {
			t.Fatal(err)
		}
		if got, want := c.Bytes(), dims.Bytes(1, 12, 4); got != want {
			t.Errorf("%+v: 12 tokens take %d bytes by the formula, %d held", o, want, got)
		}
		if got, want := c.Pool().Stats().Bytes, c.Bytes(); got != want {
			t.Errorf("%+v: the pool says %d bytes, the cache %d", o, got, want)
		}
		if err := holds(c, is(1), 0); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	c := pool(t, Options{BlockSize: 4, Type: Int8}).NewCache()
	if err := add(t, c, 1, make([]int, 12)...); err != nil {
		t.Fatal(err)
	}
	if want := int64(12 * 2 * 3 * (4 + 4 + 5 + 4)); c.Bytes() != want { // one byte a number, a float32 scale a vector
		t.Errorf("Int8: want %d bytes, got %d", want, c.Bytes())
	}
	if err := holds(c, is(1), 1.0/127/2*1.01); err != nil {
		t.Errorf("Int8: %v", err)
	}
}

// TestFork: forks share blocks until one writes, and never see each other's tokens.
func TestFork(t *testing.T) {
	p := pool(t, Options{BlockSize: 4})
	a := p.NewCache()
	if err := add(t, a, 1, 1, 2, 3, 4, 5, 6); err != nil {
		t.Fatal(err)
	}
	b := a.Fork()
	if s := p.Stats(); s.InUse != 2 {
		t.Errorf("a fork should take no block: %d in use", s.InUse)
	}
	if err := add(t, b, 2, 7, 8, 9); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.InUse != 4 { // the first shared, the second twice, the third of b
		t.Errorf("want 4 blocks after a write to a fork, got %d", s.InUse)
	}
	if err := add(t, a, 1, 7); err != nil {
		t.Fatal(err)
	}
	if err := holds(a, is(1), 0); err != nil {
		t.Errorf("first: %v", err)
	}
	if err := holds(b, func(pos int) int { return 1 + pos/6 }, 0); err != nil {
		t.Errorf("fork: %v", err)
	}
	if !slices.Equal(a.IDs(), []int{1, 2, 3, 4, 5, 6, 7}) || !slices.Equal(b.IDs(), []int{1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("ids %v and %v", a.IDs(), b.IDs())
	}
	if err := b.Truncate(5); err != nil {
		t.Fatal(err)
	}
	if err := add(t, b, 3, 9); err != nil {
		t.Fatal(err)
	}
	if err := holds(b, func(pos int) int { return 1 + pos/5*2 }, 0); err != nil {
		t.Errorf("truncated fork: %v", err)
	}
	a.Free()
	if err := holds(b, func(pos int) int { return 1 + pos/5*2 }, 0); err != nil {
		t.Errorf("after the other is freed: %v", err)
	}
	b.Free()
	b.Free()
	if s := p.Stats(); s.InUse != 0 || s.Bytes != 0 {
		t.Errorf("%d blocks in use after Free", s.InUse)
	}
}

// TestFull: a pool without free blocks leaves the cache as it was.
func TestFull(t *testing.T) {
	p := pool(t, Options{BlockSize: 2, Blocks: 3, Windows: []int{0, 2}})
	a, b := p.NewCache(), p.NewCache()
	if err := add(t, a, 1, 1, 2, 3); err != nil {
		t.Fatal(err)
	}
	if err := add(t, b, 2, 1, 2, 3); !errors.Is(err, ErrNoBlocks) {
		t.Fatalf("want ErrNoBlocks, got %v", err)
	}
	if s := p.Stats(); s.InUse != 4 || b.Len() != 0 {
		t.Errorf("want 2 blocks in each of 2 groups, got %d", s.InUse)
	}
	if err := add(t, b, 2, 1, 2); err != nil {
		t.Error(err)
	}
	if err := holds(a, is(1), 0); err != nil {
		t.Error(err)
	}
	c := pool(t, Contiguous(3, F32)).NewCache()
	if err := c.Reserve(4); !errors.Is(err, ErrNoBlocks) || !strings.Contains(err.Error(), "room for 3") {
		t.Errorf("got %v", err)
	}
}

// TestWindow: blocks that have left a layer's window are free, and those of other layers stay.
func TestWindow(t *testing.T) {
	p := pool(t, Options{BlockSize: 2, Slack: 1, Windows: []int{0, 4}})
	c := p.NewCache()
	for i := range 21 {
		if err := add(t, c, 1, i); err != nil {
			t.Fatal(err)
		}
	}
	full, none := c.Blocks(0)
	local, dropped := c.Blocks(1)
	if len(full) != 11 || none != 0 || len(local)-dropped > 4 {
		t.Errorf("want 11 blocks and at most 4, got %d and %d", len(full), len(local)-dropped)
	}
	r := c.Runs(nil, 1, c.Len())
	if first := r[0].Start; first > 21-4 {
		t.Errorf("the window's tokens begin at 17, held are those from %d", first)
	}
	if err := c.Truncate(20); err != nil {
		t.Errorf("back by one within the slack: %v", err)
	}
	if err := c.Truncate(6); err == nil || !strings.Contains(err.Error(), "window of 4") {
		t.Errorf("want an error for tokens that are gone, got %v", err)
	}
	f := c.Fork()
	c.Free()
	f.Free()
	if s := p.Stats(); s.InUse != 0 {
		t.Errorf("%d blocks in use after Free", s.InUse)
	}
}

// TestTake moves one cache into another.
func TestTake(t *testing.T) {
	p := pool(t, Options{BlockSize: 2})
	a, b := p.NewCache(), p.NewCache()
	if err := errors.Join(add(t, a, 1, 1, 2, 3), add(t, b, 2, 4, 5, 6, 7, 8)); err != nil {
		t.Fatal(err)
	}
	if err := a.Take(b); err != nil {
		t.Fatal(err)
	}
	if a.Len() != 5 || b.Len() != 0 || p.Stats().InUse != 3 {
		t.Errorf("want 5 and 0 tokens in 3 blocks, got %d and %d in %d", a.Len(), b.Len(), p.Stats().InUse)
	}
	if err := holds(a, is(2), 0); err != nil {
		t.Error(err)
	}
	if err := a.Take(a); err == nil {
		t.Error("want an error for taking itself")
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		d    Dims
		o    Options
		want string
	}{
		{Dims{}, Options{}, "positive"},
		{Dims{Layers: 1, KVHeads: 1, KDim: 1, VDim: -1}, Options{}, "positive"},
		{dims, Options{BlockSize: -1}, "negative"},
		{dims, Options{BlockSize: math.MaxInt / 16}, "larger than any memory"},
		{dims, Options{Type: 9}, "unknown type 9"},
		{dims, Options{Windows: []int{1}}, "each of 2 layers, got 1"},
		{dims, Options{Windows: []int{1, -2}}, "layer 1"},
	} {
		if _, err := NewPool(c.d, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v %+v: want %q, got %v", c.d, c.o, c.want, err)
		}
	}
	c := pool(t, Options{}).NewCache()
	if r := append(c.Runs(nil, 0, 100), c.Runs(nil, 9, 0)...); len(r) != 0 {
		t.Errorf("keys that nothing was reserved for: %v", r)
	}
	if _, err := c.Pool().SwapIn(nil); err == nil {
		t.Error("want an error for no sequence")
	}
	k, v := tensor.New(2, 3, 4), tensor.New(2, 3, 5)
	for name, err := range map[string]error{
		"not reserved":  c.Append(0, k, v, 0, 2),
		"no such layer": c.Append(2, k, v, 0, 1),
		"shape of k":    c.Append(0, v, v, 0, 1),
		"shape of v":    c.Append(0, k, k, 0, 1),
		"rows":          c.Append(0, k, v, 1, 2),
		"reserve":       c.Reserve(-1),
		"reserve all":   c.Reserve(math.MaxInt),
		"row":           c.Append(0, k, v, math.MaxInt, 1),
		"no cache":      c.Take(nil),
		"short":         c.Append(0, &tensor.Tensor{Shape: k.Shape}, v, 0, 1),
		"advance":       c.Advance([]int{1}),
		"truncate":      c.Truncate(1),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "kvcache: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The memory of one sequence of 4,096 tokens: with as many key/value heads as query heads, with 8, with one, and with
// DeepSeek's compressed vector.
func ExampleDims_Bytes() {
	for _, v := range []struct {
		name string
		d    Dims
	}{
		{"MHA", Dims{32, 32, 128, 128}}, {"GQA", Dims{32, 8, 128, 128}}, {"MQA", Dims{32, 1, 128, 128}}, {"MLA", Dims{32, 1, 512 + 64, 0}},
	} {
		fmt.Printf("%s %5d MiB\n", v.name, v.d.Bytes(1, 4096, 2)>>20)
	}
	// Output:
	// MHA  2048 MiB
	// GQA   512 MiB
	// MQA    64 MiB
	// MLA   144 MiB
}

func BenchmarkAppend(b *testing.B) {
	d := Dims{Layers: 30, KVHeads: 3, KDim: 64, VDim: 64}
	p, err := NewPool(d, Options{})
	if err != nil {
		b.Fatal(err)
	}
	k := tensor.New(1, 3, 64)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range k.Data {
		k.Data[i] = rng.Float32()
	}
	c := p.NewCache()
	for b.Loop() {
		if err := c.Reserve(1); err != nil {
			b.Fatal(err)
		}
		for l := range d.Layers {
			if err := c.Append(l, k, k, 0, 1); err != nil {
				b.Fatal(err)
			}
		}
		if err := c.Advance([]int{0}); err != nil {
			b.Fatal(err)
		}
		if c.Len() == 4096 {
			c.Free()
		}
	}
}
