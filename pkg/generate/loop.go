package generate

import (
	"context"
	"errors"
	"slices"

	"forwardpass/pkg/model"
)

// loop runs sequences together until all are done.
type loop struct {
	m     *model.Model
	seqs  []*Sequence
	batch model.Batch
	plans []plan
}

// plan is one sequence's part of the next forward pass.
type plan struct {
	s     *Sequence
	last  bool // its logits are wanted
	draft proposal
}

func newLoop(m *model.Model, prompts [][]int, opts Options) (*loop, error) {
	opts, err := opts.complete(m, prompts)
	if err != nil {
		return nil, err
	}
	l := &loop{m: m}
	for i, ids := range prompts {
		s, err := newSequence(m, ids, opts, i)
		if err != nil {
			l.free()
			return nil, err
		}
		l.seqs = append(l.seqs, s)
	}
	return l, nil
}

// prefill runs the prompt of the only sequence and makes n samples of it, each with its first token.
func (l *loop) prefill(ctx context.Context, n int) error {
	base := l.seqs[0]
	var failed error
	for !base.done && failed == nil {
		ids, last := base.Pending()
		want := model.None
		if last {
			want = model.Last
		}
		l.batch.Seqs = append(l.batch.Seqs[:0], model.Sequence{IDs: ids, Cache: base.Cache, Logits: want})
		if failed = l.m.Forward(ctx, &l.batch); last {
			break
		}
	}
	for i := 1; i < n; i++ {
		f, err := base.fork(i)
		if err != nil {
			return err
		}
		l.seqs = append(l.seqs, f)
	}
	for _, s := range l.seqs {
		if s.done || failed != nil {
			continue
		}
		if err := s.Push(l.batch.Logits.Row(0)); err != nil { // logits [1, V], the same for all
			return err
		}
	}
	return failed
}

func (l *loop) run(ctx context.Context) error {
	for {
		more, err := l.step(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// step is one forward pass for all sequences that are not done: a chunk of the prompt, or one token, or one token and its
// proposals.
func (l *loop) step(ctx context.Context) (more bool, err error) {
	l.plans, l.batch.Seqs = l.plans[:0], l.batch.Seqs[:0]
	for _, s := range l.seqs {
		if s.done {
			continue
		}
		p := plan{s: s}
		var ids []int
		ids, p.last = s.Pending()
		want := model.Last
		if !p.last {
			want = model.None
		} else if len(ids) == 1 && s.draft != nil {
			if p.draft, err = s.propose(ctx); err != nil {
				return false, err
			}
			if len(p.draft.ids) > 0 {
				ids = append(slices.Clone(ids), p.draft.ids...)
				want = model.All
			}
		}
		l.plans = append(l.plans, p)
		l.batch.Seqs = append(l.batch.Seqs, model.Sequence{IDs: ids, Cache: s.Cache, Logits: want})
	}
	if len(l.plans) == 0 {
		return false, nil
	}
	if err := l.m.Forward(ctx, &l.batch); err != nil { // b.Logits [rows, V]
		return false, err
	}
	row := 0
	for _, p := range l.plans {
		if !p.last {
			continue
		}
		if k := len(p.draft.ids); k > 0 {
			err = p.s.verify(p.draft, func(i int) []float32 { return l.batch.Logits.Row(row + i) })
			row += k + 1
		} else {
			err = p.s.Push(l.batch.Logits.Row(row))
			row++
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// end makes the results, also of sequences that are not done. Being cancelled is an ordinary end.
func (l *loop) end(ctx context.Context, err error) ([]*Result, error) {
	if ctx.Err() != nil || errors.Is(err, ErrStop) {
		err = nil
	}
	for _, s := range l.seqs {
		s.abort(err)
	}
	return l.results(), err
}

func (l *loop) results() []*Result {
	out := make([]*Result, len(l.seqs))
	for i, s := range l.seqs {
		out[i] = s.Result()
		if s.opts.Cache.Keep {
			out[i].Cache, s.Cache = s.Cache, nil
		}
	}
	return out
}

func (l *loop) free() {
	for _, s := range l.seqs {
		s.Free()
	}
}
