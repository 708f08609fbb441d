package generate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tensor"
)

// TestCancelFreesBlocks interrupts after each number of tokens, from the stream and through the context, in every kind of
// run: what was generated is there, and not one block stays in use.
func TestCancelFreesBlocks(t *testing.T) {
	m, tok := storyland(t)
	ids := prompt(t, tok, "Once upon a time there was a cat named")
	pool, err := m.NewPool(kvcache.Options{BlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the reader has gone")
	full := run(t, m, ids, Options{MaxNewTokens: 12, EOS: none})
	for after := 0; after <= 12; after++ {
		for _, how := range []string{"context", "ErrStop", "error", "context and error"} {
			for _, kind := range []string{"one", "chunks", "samples", "batch", "lookup", "draft"} {
				ctx, cancel := context.WithCancel(context.Background())
				seen := 0
				o := Options{MaxNewTokens: 12, EOS: none, Tokenizer: tok, Cache: CacheOptions{Pool: pool}}
				o.Stream = func(tk Token) error {
					if tk.Sample != 0 {
						return nil
					}
					if seen++; seen < after {
						return nil
					}
					switch how {
					case "context":
						cancel()
					case "ErrStop":
						return ErrStop
					case "context and error": // the reader has gone because of the context
						cancel()
						return broken
					default:
						return broken
					}
					return nil
				}
				if after == 0 {
					cancel()
				}
				var rs []*Result
				switch kind {
				case "samples":
					rs, err = RunN(ctx, m, ids, 3, o)
				case "batch":
					rs, err = RunBatch(ctx, m, [][]int{ids, ids[:3]}, o)
				default:
					switch kind {
					case "chunks":
						o.Chunk = 2
					case "lookup":
						o.Draft = &Draft{}
					case "draft":
						o.Draft = &Draft{Model: m}
					}
					var r *Result
					r, err = Run(ctx, m, ids, o)
					rs = []*Result{r}
				}
				cancel()
				if wantErr := how == "error" && after > 0; wantErr != errors.Is(err, broken) || !wantErr && err != nil {
					t.Fatalf("%s, %s after %d tokens: error %v", kind, how, after, err)
				}
				r, why := rs[0], ReasonCancelled
				if how == "error" && after > 0 {
					why = ReasonError
				}
				if after < 12 && r.Reason != why || after == 12 && r.Reason != ReasonLength {
					t.Errorf("%s, %s after %d tokens: reason %q", kind, how, after, r.Reason)
				}
				if n := len(r.IDs); n < after || n > after && !(kind == "lookup" || kind == "draft") || !slices.Equal(r.IDs, full.IDs[:n]) {
					t.Errorf("%s, %s after %d tokens: got %v", kind, how, after, r.IDs)
				}
				if r.Text != tok.Decode(r.IDs) {
					t.Errorf("%s, %s after %d tokens: text %q, want %q", kind, how, after, r.Text, tok.Decode(r.IDs))
				}
				if s := pool.Stats(); s.InUse != 0 {
					t.Fatalf("%s, %s after %d tokens: %d blocks in use", kind, how, after, s.InUse)
				}
			}
		}
	}
}

// TestCancelDuringPrefill: a context that ends on its own, while the prompt is run.
func TestCancelDuringPrefill(t *testing.T) {
	m, tok := storyland(t)
	ids := slices.Repeat(prompt(t, tok, "Once upon a time there was a cat named Anna."), 40)[:400]
	pool, err := m.NewPool(kvcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3} {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Microsecond)
		rs, err := RunN(ctx, m, ids, n, Options{Chunk: 7, Cache: CacheOptions{Pool: pool}})
		cancel()
		if err != nil || len(rs) != n || rs[0].Reason != ReasonCancelled {
			t.Errorf("%d results, error %v", len(rs), err)
		}
		if s := pool.Stats(); s.InUse != 0 {
			t.Errorf("%d blocks in use", s.InUse)
		}
	}
}

// TestPoolTooSmall: running out of blocks is an error, with what there is and without a leak.
func TestPoolTooSmall(t *testing.T) {
	m, tok := storyland(t)
	ids := prompt(t, tok, "Once upon a time there was a cat named")
	pool, err := m.NewPool(kvcache.Options{BlockSize: 4, Blocks: 5})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), m, ids, Options{EOS: none, Cache: CacheOptions{Pool: pool}})
	if !errors.Is(err, kvcache.ErrNoBlocks) {
		t.Errorf("error %v", err)
	}
	if r == nil || len(ids)+len(r.IDs) != 5*4+1 || r.Reason != ReasonError {
		t.Errorf("result %+v, want what there is room for and the reason %q", r, ReasonError)
	}
	if s := pool.Stats(); s.InUse != 0 {
		t.Errorf("%d blocks in use", s.InUse)
	}
}

// TestKeep: the next turn of a conversation goes on from the cache of the one before, with the same tokens.
func TestKeep(t *testing.T) {
	m, tok := storyland(t)
	ids := prompt(t, tok, "Ben has two apples.")
	for _, d := range []*Draft{nil, {}} {
		r := run(t, m, ids, Options{MaxNewTokens: 10, Draft: d, Cache: CacheOptions{Keep: true}})
		next := slices.Concat(ids, r.IDs, prompt(t, tok, " He finds three more.")[1:])
		want := run(t, m, next, Options{MaxNewTokens: 10})
		again := run(t, m, next, Options{MaxNewTokens: 10, Cache: CacheOptions{Prefix: r.Cache}})
		same(t, "second turn", again.IDs, want.IDs)
		if got, all := again.Timings.PrefillTokens, want.Timings.PrefillTokens; got != all-r.Cache.Len() || r.Cache.Len() < len(ids)+len(r.IDs)-2 {
			t.Errorf("the second turn ran %d of %d tokens with %d kept", got, all, r.Cache.Len())
		}
		r.Cache.Free()
		if s := r.Cache.Pool().Stats(); s.InUse != 0 {
			t.Errorf("%d blocks in use", s.InUse)
		}
	}
}

// TestBadInput: a clear error before any work, which would show in the pool.
func TestBadInput(t *testing.T) {
	m, tok := storyland(t)
	other := open(t, testdata+"/golden/models/qwen3")
	ids := prompt(t, tok, "I love")
	nan := func() float64 { var z float64; return z / z }()
	prefix, err := m.NewCache(kvcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := model.Batch{Seqs: []model.Sequence{{IDs: ids, Cache: prefix}}}
	if err := m.Forward(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	wrong, err := other.NewPool(kvcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	word, err := Regex("(datawhale){30}")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		ids  []int
		o    Options
	}{
		{"prompt 0 has no tokens", nil, Options{}},
		{"token 1 is id 640, want 0…639", []int{1, 640}, Options{}},
		{"token 0 is id -1", []int{-1}, Options{}},
		{"513 tokens, more than the maximum context length of 512", slices.Repeat([]int{1}, 513), Options{}},
		{"more than the maximum context length of 2", ids, Options{MaxContext: 2}},
		{"MaxContext 513 is more than the model's 512", ids, Options{MaxContext: 513}},
		{"MaxContext must not be negative", ids, Options{MaxContext: -1}},
		{"MaxNewTokens must not be negative, got -1", ids, Options{MaxNewTokens: -1}},
		{"Chunk must not be negative", ids, Options{Chunk: -1}},
		{"LogProbs must not be negative", ids, Options{LogProbs: -1}},
		{"LogProbs 641 is more than the vocabulary", ids, Options{LogProbs: 641}},
		{"BlockSize must not be negative", ids, Options{Cache: CacheOptions{Options: kvcache.Options{BlockSize: -1}}}},
		{"EOS token 640 is not in the vocabulary", ids, Options{EOS: []int{640}}},
		{"a stop string is empty", ids, Options{Stop: []string{"a", ""}, Tokenizer: tok}},
		{"need a Tokenizer", ids, Options{Stop: []string{"a"}}},
		{"need a Tokenizer", ids, Options{Constraint: word}},
		{"temperature must be 0 or more", ids, Options{Sampling: sample.Options{Temperature: -1}}},
		{"temperature must be 0 or more, got NaN", ids, Options{Sampling: sample.Options{Temperature: nan}}},
		{"top-p must be in (0, 1]", ids, Options{Sampling: sample.Options{TopP: 1.5}}},
		{"top-k must be at least 0", ids, Options{Sampling: sample.Options{TopK: -1}}},
		{"token 640 is not in the vocabulary", ids, Options{Sampling: sample.Options{LogitBias: map[int]float32{640: 1}}}},
		{"its vocabulary has 80 tokens, the model's 640", ids, Options{Draft: &Draft{Model: other}}},
		{"draft: Tokens must be from 1 to the context of 512, or 0 for 4, got -1", ids, Options{Draft: &Draft{Tokens: -1}}},
		{"draft: Tokens must be from 1 to the context of 512, or 0 for 4, got 9", ids, Options{Draft: &Draft{Tokens: math.MaxInt}}},
		{"draft: Lookup must be at least 1, or 0 for 3, got -1", ids, Options{Draft: &Draft{Lookup: -1}}},
		{"speculative decoding needs a cache", ids, Options{Draft: &Draft{}, Cache: CacheOptions{Off: true}}},
		{"exclude each other", ids, Options{Cache: CacheOptions{Off: true, Contiguous: true}}},
		{"there is no Prefix", ids, Options{Cache: CacheOptions{Off: true, Keep: true}}},
		{"the pool is for another model", ids, Options{Cache: CacheOptions{Pool: wrong}}},
		{"the prefix has 4 tokens, prompt 0 only 4", ids, Options{Cache: CacheOptions{Prefix: prefix}}},
		{"prefix is of another text", append([]int{ids[0] + 1}, ids...), Options{Cache: CacheOptions{Prefix: prefix}}},
		{"Pool and Contiguous exclude it", ids, Options{Cache: CacheOptions{Prefix: prefix, Contiguous: true}}},
		{"want one from Regex", ids, Options{Constraint: &Constraint{}, Tokenizer: tok}},
		{"draft: want a model", ids, Options{Draft: &Draft{Model: &model.Model{}}}},
		{"unknown context policy 7", ids, Options{Context: 7}},
		{"MaxNewTokens must be set", ids, Options{Context: ContextSlide}},
		{"the shortest text of it needs", ids, Options{Constraint: word, Tokenizer: tok, MaxNewTokens: 20}},
	} {
		pool, err := m.NewPool(kvcache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if k := &c.o.Cache; k.Pool == nil && k.Prefix == nil && !k.Off {
			k.Pool = pool
		}
		r, err := Run(context.Background(), m, c.ids, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || r != nil {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
		if s := pool.Stats(); s.Bytes != 0 || s.Free != 0 {
			t.Errorf("%q came after work was done: %+v", c.want, s)
		}
		if _, err := RunBatch(context.Background(), m, [][]int{ids, c.ids}, c.o); err == nil {
			t.Errorf("%q: no error in a batch", c.want)
		}
	}
	if _, err := Run(context.Background(), nil, ids, Options{}); err == nil {
		t.Error("no model: no error")
	}
	if _, err := Contrastive(context.Background(), nil, ids, ContrastiveOptions{}); err == nil {
		t.Error("no model: no error")
	}
	if _, err := RunN(context.Background(), m, ids, 0, Options{}); err == nil {
		t.Error("no samples: no error")
	}
	if _, err := RunBatch(context.Background(), m, nil, Options{}); err == nil {
		t.Error("no prompts: no error")
	}
	for _, o := range []BeamOptions{
		{}, {Beams: 2}, {Beams: -1, MaxNewTokens: 3}, {Beams: 2, MaxNewTokens: 3, Return: 3}, {Beams: 2, MaxNewTokens: 3, LengthPenalty: nan},
		{Beams: 2, MaxNewTokens: 600}, {Beams: 2, MaxNewTokens: math.MaxInt}, {Beams: 2, MaxNewTokens: 3, Penalties: sample.Options{Temperature: 1}}, {Beams: 2, MaxNewTokens: 3, EarlyStopping: 9},
		{Beams: 2, MaxNewTokens: 3, Penalties: sample.Options{RepetitionPenalty: nan}},
		{Beams: 2, MaxNewTokens: 3, Forward: func(context.Context, [][]int) (*tensor.Tensor, error) { return nil, nil }},
	} {
		if _, err := Beam(context.Background(), m, ids, o); err == nil {
			t.Errorf("beam search with %+v: no error", o)
		}
	}
	for _, beams := range []int{641, math.MaxInt} {
		_, err := Beam(context.Background(), m, ids, BeamOptions{Beams: beams, MaxNewTokens: 3})
		if want := fmt.Sprintf("Beams must be from 1 to the vocabulary of 640, got %d", beams); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
