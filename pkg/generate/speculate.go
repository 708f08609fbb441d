package generate

import (
	"context"
	"fmt"
	"slices"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
)

// proposal is what a draft thinks comes next.
type proposal struct {
	ids []int
	q   [][]float64 // [len(ids)][V] the distribution that each was drawn from; nil: it was certain
}

// drafter proposes up to k tokens after ids.
type drafter interface {
	propose(ctx context.Context, ids []int, k int) (proposal, error)
	free()
}

func newDrafter(opts Options, index int) (drafter, error) {
	d := opts.Draft
	if d == nil {
		return nil, nil
	}
	if d.Model == nil {
		return lookup{d.Lookup}, nil
	}
	o := opts.Sampling
	o.Stream = ^(o.Stream + uint64(index)) // its own random numbers
	s, err := sample.New(o)
	if err != nil {
		return nil, fmt.Errorf("generate: draft: %w", err)
	}
	c, err := d.Model.NewCache(kvcache.Options{Slack: d.Tokens + 1})
	if err != nil {
		return nil, fmt.Errorf("generate: draft: %w", err)
	}
	return &modelDraft{m: d.Model, cache: c, sampler: s}, nil
}

// lookup proposes what followed the latest earlier occurrence of the last n tokens, or of fewer (prompt lookup decoding).
type lookup struct{ n int }

func (l lookup) propose(_ context.Context, ids []int, k int) (proposal, error) {
	for n := min(l.n, len(ids)-1); n > 0; n-- {
		tail := ids[len(ids)-n:]
		for at := len(ids) - n - 1; at >= 0; at-- {
			if slices.Equal(ids[at:at+n], tail) {
				next := ids[at+n:]
				return proposal{ids: slices.Clone(next[:min(k, len(next))])}, nil
			}
		}
	}
	return proposal{}, nil
}

func (lookup) free() {}

// modelDraft proposes with a smaller model.
type modelDraft struct {
	m       *model.Model
	cache   *kvcache.Cache
	ids     []int // what the cache holds
	sampler *sample.Sampler
	batch   model.Batch
}

func (d *modelDraft) free() { d.cache.Free() }

func (d *modelDraft) propose(ctx context.Context, ids []int, k int) (p proposal, err error) {
	k = min(k, d.m.Config.MaxPositions-len(ids))
	if k <= 0 {
		return p, nil
	}
	// Keep of the cache what still is a prefix of ids: tokens that were rejected go.
	n := 0
	for n < min(len(d.ids), len(ids)-1) && d.ids[n] == ids[n] {
		n++
	}
	if n < d.cache.Len() && d.cache.Truncate(n) != nil {
		d.cache.Free() // a window has moved on: run it all again
	}
	d.ids = append(d.ids[:0], ids...)
	for range k {
		d.batch.Seqs = append(d.batch.Seqs[:0], model.Sequence{IDs: d.ids[d.cache.Len():], Cache: d.cache})
		if err := d.m.Forward(ctx, &d.batch); err != nil {
			return p, fmt.Errorf("generate: draft: %w", err)
		}
		q, err := d.sampler.Probs(d.batch.Logits.Row(0), d.ids)
		if err != nil {
			return p, fmt.Errorf("generate: draft: %w", err)
		}
		id := d.sampler.Draw(q)
		p.ids, p.q = append(p.ids, id), append(p.q, q)
		d.ids = append(d.ids, id)
	}
	d.ids = d.ids[:d.cache.Len()]
	return p, nil
}

// propose asks the draft for no more tokens than there may be: the step itself yields one more.
func (s *Sequence) propose(ctx context.Context) (proposal, error) {
	seen := s.ids[s.start:]
	k := min(s.opts.Draft.Tokens, s.remaining()-1, s.opts.MaxContext-len(seen))
	if k <= 0 {
		return proposal{}, nil
	}
	return s.draft.propose(ctx, seen, k)
}

// verify goes through the proposals with the model's logits at each: row(i) follows i of them. It takes proposals as long as
// they are accepted and then one token more, and makes the cache forget the rest.
func (s *Sequence) verify(p proposal, row func(i int) []float32) error {
	s.res.Proposed += len(p.ids)
	for i := 0; i <= len(p.ids) && !s.done; i++ {
		logits := row(i)
		dist, err := s.sampler.Probs(s.allowed(logits), s.ids) // [V]
		if err != nil {
			return fmt.Errorf("generate: %w", err)
		}
		var id int
		accepted := false
		if i == len(p.ids) {
			id = s.sampler.Draw(dist)
		} else {
			q := p.certain(i, len(dist))
			if id, accepted = s.sampler.Verify(dist, q, p.ids[i]); accepted {
				s.res.Accepted++
			}
		}
		if err := s.commit(id, logits); err != nil {
			return err
		}
		if !accepted {
			break
		}
	}
	if n := len(s.ids) - s.start - 1; s.Cache.Len() > n {
		return s.Cache.Truncate(n)
	}
	return nil
}

// certain is the distribution that proposal i was drawn from.
func (p proposal) certain(i, v int) []float64 {
	if p.q != nil {
		return p.q[i]
	}
	q := make([]float64, v)
	q[p.ids[i]] = 1
	return q
}
