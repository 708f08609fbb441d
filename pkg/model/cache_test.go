package model_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/tensor"
)

// prompt is the token ids of a golden model's case.
func prompt(t testing.TB, path string) []int {
	t.Helper()
	f, err := checkpoint.ReadSafetensors(path + ".safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ids, err := f.Ints("prompt/ids")
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// step runs new tokens of one sequence and returns all their logits.
func step(t testing.TB, m *model.Model, c *kvcache.Cache, ids []int) *tensor.Tensor {
	t.Helper()
	b := model.Batch{Seqs: []model.Sequence{{IDs: ids, Cache: c, Logits: model.All}}}
	if err := m.Forward(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Logits
}

// same reports the first rows of got that differ from rows first… of want.
func same(got, want *tensor.Tensor, first int, tol float64) error {
	for i := range got.Rows() {
		for j, g := range got.Row(i) {
			w := want.Row(first + i)[j]
			if !(math.Abs(float64(g-w)) <= tol) {
				return fmt.Errorf("position %d, token %d: want %g, got %g", first+i, j, w, g)
			}
		}
	}
	return nil
}

// neonTwice is a tolerance: twice as large for NEON's kernels, whose sums are made in another order.
func neonTwice(tol float64) float64 {
	if tensor.Kernels() == "neon" {
		return 2 * tol
	}
	return tol
}

// TestCache: prefill and decode give what the full pass gives, for every family, every split point and every kind of
// cache. Where the rotation depends on the length, a token's logits belong to the length at which it was
// computed, so the full pass to compare with ends there. One token and many go through different kernels, whose roundings the
// model of K-quants magnifies most: to 2.5e-5 with NEON, 1.7e-5 with AVX2.
func TestCache(t *testing.T) {
	tol := neonTwice(2e-5)
	for _, path := range golden(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			m, ids := open(t, path), prompt(t, path)
			full, err := m.Logits(ids)
			if err != nil {
				t.Fatal(err)
			}
			byLength := m.Layers[0].Rope != nil && m.Layers[0].Rope.Changes(1, len(ids))
			until := func(n int) *tensor.Tensor { // the full pass over the first n tokens
				if !byLength {
					return full
				}
				lg, err := m.Logits(ids[:n])
				if err != nil {
					t.Fatal(err)
				}
				return lg
			}
			caches := map[string]func() (*kvcache.Cache, error){
				"contiguous": func() (*kvcache.Cache, error) { return m.NewCache(kvcache.Contiguous(len(ids), kvcache.F32)) },
				"paged":      func() (*kvcache.Cache, error) { return m.NewCache(kvcache.Options{BlockSize: 3}) },
			}
			for kind, make := range caches {
				for split := 1; split < len(ids); split++ {
					c, err := make()
					if err != nil {
						t.Fatal(err)
					}
					if err := same(step(t, m, c, ids[:split]), until(split), 0, tol); err != nil {
						t.Fatalf("%s: prefill of %d: %v", kind, split, err)
					}
					if split%4 == 0 { // the rest in one go: a chunk
						if err := same(step(t, m, c, ids[split:]), full, split, tol); err != nil {
							t.Fatalf("%s: chunk after %d: %v", kind, split, err)
						}
						continue
					}
					for i := split; i < len(ids); i++ {
						if err := same(step(t, m, c, ids[i:i+1]), until(i+1), i, tol); err != nil {
							t.Fatalf("%s: decode after prefill of %d: %v", kind, split, err)
						}
					}
					if c.Len() != len(ids) {
						t.Fatalf("%s: cache holds %d tokens, want %d", kind, c.Len(), len(ids))
					}
				}
			}
		})
	}
}

// TestWindowFrees: a cache holds no more blocks than the windows let its layers see.
func TestWindowFrees(t *testing.T) {
	m := open(t, testdata+"/golden/models/mistral")
	c, err := m.NewCache(kvcache.Options{BlockSize: 2, Slack: 1})
	if err != nil {
		t.Fatal(err)
	}
	ids := prompt(t, testdata+"/golden/models/mistral")
	window := m.Config.Windows[0]
	if window == 0 || window > len(ids)-6 {
		t.Fatalf("want a window well below %d tokens, got %d", len(ids), window)
	}
	step(t, m, c, ids)
	blocks, dropped := c.Blocks(0)
	if held := len(blocks) - dropped; held*2 > window+4 {
		t.Errorf("%d tokens in blocks for a window of %d", held*2, window)
	}
	if err := c.Truncate(2); err == nil {
		t.Error("want an error: the tokens that position 2 sees are gone")
	}
	if err := c.Truncate(len(ids) - 1); err != nil {
		t.Error(err)
	}
	c.Free()
	if s := c.Pool().Stats(); s.InUse != 0 {
		t.Errorf("%d blocks in use after Free", s.InUse)
	}
}

// TestBatch: a row of a ragged batch, prefill and decode mixed, gets what it gets alone.
func TestBatch(t *testing.T) {
	for _, path := range golden(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			m, ids := open(t, path), prompt(t, path)
			starts, news := []int{0, 5, 0, 9}, []int{7, 1, 1, 4}
			b := model.Batch{}
			var want []*tensor.Tensor
			for i := range starts {
				var c *kvcache.Cache
				if i != 2 { // one without a cache
					var err error
					if c, err = m.NewCache(kvcache.Options{BlockSize: 4}); err != nil {
						t.Fatal(err)
					}
					if starts[i] > 0 {
						step(t, m, c, ids[:starts[i]])
					}
				}
				b.Seqs = append(b.Seqs, model.Sequence{IDs: ids[starts[i] : starts[i]+news[i]], Cache: c, Logits: model.All})
				lg, err := m.Logits(ids[:starts[i]+news[i]])
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, lg)
			}
			if err := m.Forward(context.Background(), &b); err != nil {
				t.Fatal(err)
			}
			row, v := 0, m.Config.VocabSize
			for i := range starts {
				got, err := tensor.From(b.Logits.Data[row*v:(row+news[i])*v], news[i], v)
				if err != nil {
					t.Fatal(err)
				}
				if err := same(got, want[i], starts[i], 2e-5); err != nil {
					t.Errorf("sequence %d: %v", i, err)
				}
				row += news[i]
			}
		})
	}
}

// TestCausal: what comes later changes nothing before it. (The tolerance is for experts, which work on batches of
// other sizes then.)
func TestCausal(t *testing.T) {
	for _, path := range golden(t) {
		m, ids := open(t, path), prompt(t, path)
		before, err := m.Logits(ids)
		if err != nil {
			t.Fatal(err)
		}
		last := len(ids) - 1
		ids[last] = (ids[last] + 1) % m.Config.VocabSize
		after, err := m.Logits(ids)
		if err != nil {
			t.Fatal(err)
		}
		v := m.Config.VocabSize
		head := &tensor.Tensor{Shape: []int{last, v}, Data: before.Data[:last*v]}
		if err := same(head, after, 0, 1e-5); err != nil {
			t.Errorf("%s: changed with the last token: %v", path, err)
		}
		tail := &tensor.Tensor{Shape: []int{1, v}, Data: before.Data[last*v:]}
		if err := same(tail, after, last, 1e-5); err == nil {
			t.Errorf("%s: the last position does not depend on its token", path)
		}
	}
}

// TestUnreserved: an error or a cancelled context leaves every cache as it was.
func TestUnreserved(t *testing.T) {
	m := open(t, testdata+"/storyland")
	pool, err := m.NewPool(kvcache.Options{BlockSize: 4, Blocks: 3})
	if err != nil {
		t.Fatal(err)
	}
	a, b := pool.NewCache(), pool.NewCache()
	step(t, m, a, []int{0, 5, 6})
	batch := model.Batch{Seqs: []model.Sequence{{IDs: []int{7, 8}, Cache: a}, {IDs: make([]int, 9), Cache: b}}}
	if err := m.Forward(context.Background(), &batch); !errors.Is(err, kvcache.ErrNoBlocks) {
		t.Fatalf("want ErrNoBlocks, got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	batch.Seqs = batch.Seqs[:1]
	if err := m.Forward(ctx, &batch); !errors.Is(err, context.Canceled) {
		t.Fatalf("want context.Canceled, got %v", err)
	}
	if a.Len() != 3 || b.Len() != 0 || pool.Stats().InUse != 1 {
		t.Errorf("want 3 and 0 tokens in 1 block, got %d and %d in %d", a.Len(), b.Len(), pool.Stats().InUse)
	}
	want, err := m.Logits([]int{0, 5, 6, 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := same(step(t, m, a, []int{7}), want, 3, 2e-5); err != nil {
		t.Error(err)
	}
}

// TestInt8 states how far logits move when keys and values are kept as 8-bit integers.
func TestInt8(t *testing.T) {
	m := open(t, testdata+"/storyland")
	f, err := checkpoint.ReadSafetensors(testdata + "/golden/storyland.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := f.Ints("story/ids")
	if err != nil {
		t.Fatal(err)
	}
	full, err := m.Logits(ids)
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.NewCache(kvcache.Options{Type: kvcache.Int8, BlockSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	got := step(t, m, c, ids[:150])
	var worst, sum float64
	for i := 150; ; i++ {
		for j := range got.Data {
			d := math.Abs(float64(got.Data[j] - full.Data[(i-got.Rows())*m.Config.VocabSize+j]))
			worst, sum = max(worst, d), sum+d
		}
		if i == len(ids) {
			break
		}
		got = step(t, m, c, ids[i:i+1])
	}
	mean := sum / float64(len(full.Data))
	t.Logf("int8 cache: largest logit difference %.3f, mean %.4f; %d bytes against %d", worst, mean, c.Bytes(), m.CacheDims().Bytes(1, 208, 4))
	if mean > 0.1 || mean == 0 {
		t.Errorf("mean difference %g, want something between 0 and 0.1", mean)
	}
}
