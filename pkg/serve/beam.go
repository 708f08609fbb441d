package serve

import (
	"context"
	"errors"
	"slices"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/tensor"
)

// Beam runs a beam search among the loop's other requests, with the hypotheses of [generate.Beam]. At each step every beam is a
// request for the logits after its tokens. Where the scheduler has a prefix cache, all tokens but the last come from there: beams
// share the blocks of their common past, and a beam that writes into a shared block gets its own copy of it (copy-on-write).
func (l *Loop) Beam(ctx context.Context, prompt []int, o generate.BeamOptions) ([]generate.Hypothesis, error) {
	r, ok := l.s.run.(*modelRunner)
	if !ok {
		return nil, errors.New("serve: beam search needs a model, not a cost")
	}
	o.Forward = func(ctx context.Context, seqs [][]int) (*tensor.Tensor, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		logits := tensor.New(len(seqs), r.m.Config.VocabSize) // [beams, V]
		var streams []*Stream
		for i, ids := range seqs {
			q := &Request{Prompt: ids, Options: generate.Options{MaxNewTokens: 1, EOS: []int{}}, probe: func(row []float32) { copy(logits.Row(i), row) }}
			st, err := l.Submit(ctx, q)
			if err != nil {
				return nil, err
			}
			streams = append(streams, st)
		}
		for _, st := range streams {
			if _, err := st.Wait(ctx); err != nil {
				return nil, err
			}
		}
		return logits, ctx.Err()
	}
	return generate.Beam(ctx, r.m, slices.Clone(prompt), o)
}

// probed is a generator whose only token is somebody else's matter.
type probed struct {
	generator
	see func(logits []float32)
}

func (p *probed) Push(logits []float32) error {
	p.see(logits)
	return p.generator.Push(logits)
}
