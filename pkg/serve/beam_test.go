package serve

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"forwardpass/pkg/generate"
)

// Beams among other requests give what the search gives alone, share their blocks, and leave nothing.
func TestBeam(t *testing.T) {
	m, tok := storyland(t)
	ids, err := tok.Encode(prompt)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, o := range []generate.BeamOptions{
		{Beams: 1, MaxNewTokens: 8}, {Beams: 4, MaxNewTokens: 12, LengthPenalty: 1}, {Beams: 3, MaxNewTokens: 10, EOS: []int{}, EarlyStopping: generate.StopEarly},
	} {
		want, err := generate.Beam(ctx, m, ids, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []Prefix{NoPrefix, RadixTree, HashedBlocks} {
			most := 0
			loop, err := Start(Model(m), Options{Prefix: p, Blocks: 200, BlockSize: 4, MaxBatch: 8, Observe: func(s Step) { most = max(most, s.Blocks) }})
			if err != nil {
				t.Fatal(err)
			}
			var others []*Stream
			for i := range 3 {
				st, err := loop.Submit(ctx, &Request{Prompt: []int{i, 5, 6}, Options: generate.Options{MaxNewTokens: 30, EOS: []int{}}})
				if err != nil {
					t.Fatal(err)
				}
				others = append(others, st)
			}
			got, err := loop.Beam(ctx, ids, o)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, want, func(a, b generate.Hypothesis) bool {
				return slices.Equal(a.IDs, b.IDs) && math.Abs(a.Score-b.Score) < 1e-4
			}) {
				t.Errorf("%d beams, prefix cache %v: got %v, want %v", o.Beams, p, got, want)
			}
			for _, st := range others {
				if _, err := st.Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if st := loop.Stats(); p != NoPrefix && st.Cached == 0 {
				t.Errorf("%d beams, prefix cache %v: nothing was shared", o.Beams, p)
			}
			if err := loop.Shutdown(ctx); err != nil {
				t.Fatal(err)
			}
			if loop.Blocks() != 0 || most > 200 {
				t.Errorf("%d blocks leaked, %d at most", loop.Blocks(), most)
			}
		}
	}
}

func TestBeamErrors(t *testing.T) {
	loop, err := Start(Cost{Step: 1e-3}.Simulate(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loop.Beam(context.Background(), []int{1}, generate.BeamOptions{Beams: 2, MaxNewTokens: 2}); err == nil {
		t.Error("beams without a model: want an error")
	}
	if err := loop.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	m, _ := storyland(t)
	if loop, err = Start(Model(m), Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := loop.Beam(ctx, []int{1, 2}, generate.BeamOptions{Beams: 4, MaxNewTokens: 400, EOS: []int{}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline: %v", err)
	}
	if err := loop.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := loop.Beam(context.Background(), []int{1, 2}, generate.BeamOptions{Beams: 2, MaxNewTokens: 2}); !errors.Is(err, ErrClosed) {
		t.Errorf("after the shutdown: %v", err)
	}
	if n := loop.Blocks(); n != 0 {
		t.Errorf("%d blocks leaked", n)
	}
}
