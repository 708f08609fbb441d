package generate

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
)

// TestSameTokens is the matrix: however the forward passes are cut up, and wherever keys and values are kept, the tokens are
// transformers' greedy ones.
func TestSameTokens(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			m := open(t, g.dir)
			base := Options{MaxNewTokens: len(g.greedy), EOS: none}
			check := func(what string, change func(*Options)) *Result {
				t.Helper()
				o := base
				if change != nil {
					change(&o)
				}
				r := run(t, m, g.prompt, o)
				same(t, what, r.IDs, g.greedy)
				return r
			}

			check("prefill and decode", nil)
			check("full recompute", func(o *Options) { o.Cache.Off = true })
			for n := 1; n <= len(g.prompt); n++ {
				check(fmt.Sprintf("chunks of %d", n), func(o *Options) { o.Chunk = n })
			}
			for _, n := range []int{1, 2, 3, 7, 16, 100} {
				check(fmt.Sprintf("blocks of %d", n), func(o *Options) { o.Cache.BlockSize = n; o.Chunk = 5 })
			}
			check("contiguous", func(o *Options) { o.Cache.Contiguous = true })
			if m.Config.Windows != nil {
				check("window, blocks of 1, no slack to speak of", func(o *Options) { o.Cache.BlockSize, o.Cache.Slack = 1, 1 })
				check("windows kept whole", func(o *Options) { o.Cache.Windows = make([]int, m.Config.NumLayers) })
			}

			// A prefix that is there already, at every split, in blocks that end before, at and after it.
			for n := 1; n < len(g.prompt); n++ {
				c, err := m.NewCache(kvcache.Options{BlockSize: 4})
				if err != nil {
					t.Fatal(err)
				}
				b := model.Batch{Seqs: []model.Sequence{{IDs: g.prompt[:n], Cache: c, Logits: model.None}}}
				if err := m.Forward(context.Background(), &b); err != nil {
					t.Fatal(err)
				}
				for range 2 { // the first fork must leave the prefix as it was
					check(fmt.Sprintf("prefix of %d tokens", n), func(o *Options) { o.Cache.Prefix = c })
				}
				if c.Len() != n {
					t.Fatalf("the prefix has %d tokens, want %d", c.Len(), n)
				}
				c.Free()
				if s := c.Pool().Stats(); s.InUse != 0 {
					t.Fatalf("%d blocks are still in use", s.InUse)
				}
			}

			// Every row of a batch is what it would be alone.
			var prompts, alone [][]int
			for n := len(g.prompt); n > 0; n -= 3 {
				prompts = append(prompts, g.prompt[:n])
				alone = append(alone, run(t, m, g.prompt[:n], base).IDs)
			}
			same(t, "row 0 alone", alone[0], g.greedy)
			for _, chunk := range []int{0, 4} {
				for range 2 {
					slices.Reverse(prompts) // rows in both orders
					slices.Reverse(alone)
					o := base
					o.Chunk = chunk
					rs, err := RunBatch(context.Background(), m, prompts, o)
					if err != nil {
						t.Fatal(err)
					}
					for i, r := range rs {
						same(t, fmt.Sprintf("batch row %d, chunk %d", i, chunk), r.IDs, alone[i])
					}
				}
			}

			// n samples share one prefill; a block size of 4 makes them copy the last block when they part.
			for _, size := range []int{0, 4} {
				o := base
				o.Cache.BlockSize = size
				rs, err := RunN(context.Background(), m, g.prompt, 4, o)
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range rs {
					same(t, fmt.Sprintf("sample %d of 4", i), r.IDs, g.greedy)
				}
			}

			// Speculative decoding, whatever the draft is worth.
			for _, d := range []struct {
				name  string
				draft Draft
			}{
				{"identical", Draft{Model: m}},
				{"good", Draft{Model: perturbed(t, g.dir, 0.05), Tokens: 3}},
				{"bad", Draft{Model: perturbed(t, g.dir, 2), Tokens: 7}},
				{"prompt lookup", Draft{}},
				{"prompt lookup, one token", Draft{Tokens: 1, Lookup: 1}},
			} {
				for _, size := range []int{0, 3} {
					r := check("speculative, "+d.name, func(o *Options) { o.Draft, o.Cache.BlockSize = &d.draft, size })
					if size > 0 {
						continue
					}
					t.Logf("speculative, %-24s accepted %d of %d", d.name, r.Accepted, r.Proposed)
					switch share := float64(r.Accepted) / float64(max(1, r.Proposed)); d.name {
					case "identical":
						if share < 1 {
							t.Errorf("an identical draft has %d of %d accepted", r.Accepted, r.Proposed)
						}
					case "good":
						if share < 0.4 {
							t.Errorf("a good draft has only %d of %d accepted", r.Accepted, r.Proposed)
						}
					case "bad":
						if share > 0.4 || r.Proposed == 0 {
							t.Errorf("a bad draft has %d of %d accepted: it is not bad", r.Accepted, r.Proposed)
						}
					}
				}
			}

			// All at once: batch, chunks, small blocks, speculation.
			o := base
			o.Chunk, o.Cache.BlockSize, o.Draft = 3, 2, &Draft{Model: perturbed(t, g.dir, 0.05)}
			rs, err := RunBatch(context.Background(), m, prompts, o)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range rs {
				same(t, fmt.Sprintf("all at once, row %d", i), r.IDs, alone[i])
			}
		})
	}
}

// TestSameSamples: at a temperature, too, a seed's tokens do not depend on how the work is cut up or on the neighbours.
func TestSameSamples(t *testing.T) {
	ctx := context.Background()
	for _, g := range goldens(t) {
		m := open(t, g.dir)
		base := Options{MaxNewTokens: 20, EOS: none, Sampling: sample.Options{Temperature: 1, TopP: 0.95, Seed: 11, FrequencyPenalty: 0.2}}
		var want [][]int
		for i := range 4 {
			o := base
			o.Sampling.Stream = uint64(i)
			want = append(want, run(t, m, g.prompt, o).IDs)
		}
		if slices.Equal(want[0], want[1]) {
			t.Errorf("%s: two streams give the same tokens", g.name)
		}
		for what, change := range map[string]func(*Options){
			"again":          func(*Options) {},
			"full recompute": func(o *Options) { o.Cache.Off = true },
			"chunks":         func(o *Options) { o.Chunk = 6 },
			"small blocks":   func(o *Options) { o.Cache.BlockSize = 3 },
		} {
			o := base
			change(&o)
			same(t, g.name+": "+what, run(t, m, g.prompt, o).IDs, want[0])
			rs, err := RunN(ctx, m, g.prompt, 4, o)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range rs {
				same(t, fmt.Sprintf("%s: %s, sample %d", g.name, what, i), r.IDs, want[i])
			}
			if rs, err = RunBatch(ctx, m, [][]int{g.prompt, g.prompt[:7], g.prompt, g.prompt}, o); err != nil {
				t.Fatal(err)
			}
			for _, i := range []int{0, 2, 3} {
				same(t, fmt.Sprintf("%s: %s, row %d", g.name, what, i), rs[i].IDs, want[i])
			}
		}
	}
}
