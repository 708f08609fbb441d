package generate

import (
	"context"
	"slices"
	"sync"
	"testing"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/sample"
)

// TestConcurrentRuns: goroutines that share a model, a pool and a constraint get what each would get alone.
func TestConcurrentRuns(t *testing.T) {
	m, tok := storyland(t)
	ids := prompt(t, tok, "The cat is")
	k, err := Regex(`( [a-z]+)+\.`)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := m.NewPool(kvcache.Options{BlockSize: 8})
	if err != nil {
		t.Fatal(err)
	}
	options := func(seed int) Options {
		return Options{MaxNewTokens: 12, Tokenizer: tok, Constraint: k, Sampling: sample.Options{Temperature: 1, Seed: uint64(seed)}}
	}
	var wg sync.WaitGroup
	got := make([]*Result, 8)
	errs := make([]error, len(got))
	for i := range got {
		wg.Go(func() {
			o := options(i)
			o.Cache.Pool = pool
			got[i], errs[i] = Run(context.Background(), m, ids, o)
		})
	}
	wg.Wait()
	for i, r := range got {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if want := run(t, m, ids, options(i)); !slices.Equal(r.IDs, want.IDs) || r.Text != want.Text {
			t.Errorf("run %d: %q beside others, %q alone", i, r.Text, want.Text)
		}
	}
	if s := pool.Stats(); s.InUse != 0 {
		t.Errorf("%d blocks in use", s.InUse)
	}
}
