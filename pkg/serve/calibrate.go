package serve

import (
	"context"
	"math/rand/v2"
)

// Calibrate measures steps of a runner, from one short prompt to many long ones, and fits a cost to them. Each is repeated, between
// the others, and the quickest counts: what disturbs a measurement only ever adds to it. It takes about a second for a small model.
// Prompts are made of ids below vocab; longest is the context to go up to.
func Calibrate(ctx context.Context, r Runner, vocab, longest int) (Cost, error) {
	return CalibrateWith(ctx, r, Options{}, vocab, longest)
}

// CalibrateWith is Calibrate for a kind of memory: of opts, Memory and BlockSize count. Attention reads long pieces of memory faster
// than many blocks, so that a cost holds for the kind that it was measured with.
func CalibrateWith(ctx context.Context, r Runner, opts Options, vocab, longest int) (Cost, error) {
	const decode, repeats = 17, 7
	longest = min(longest, r.context())
	opts, err := Options{Memory: opts.Memory, BlockSize: opts.BlockSize, Blocks: opts.Blocks}.complete()
	if err != nil {
		return Cost{}, err
	}
	rng := rand.New(rand.NewPCG(1, 6))
	type load struct {
		o     Options
		trace []*Request
		steps []Step // the quickest of each so far; the schedule is the same each time
	}
	var loads []*load
	for _, batch := range []int{1, 2, 4, 8, 16, 32} {
		for _, prompt := range []int{1, 6, longest / 8, longest / 3, longest - decode} {
			if prompt < 1 || batch*prompt > 16*longest {
				continue
			}
			l := &load{o: Options{Memory: opts.Memory, BlockSize: opts.BlockSize, MaxBatch: batch, TokenBudget: batch*prompt + batch}}
			if opts.Memory == Contiguous {
				l.o.Blocks = batch * (prompt + decode + opts.BlockSize) / opts.BlockSize
			}
			for range batch {
				q := &Request{Prompt: make([]int, prompt)}
				for i := range q.Prompt {
					q.Prompt[i] = rng.IntN(vocab)
				}
				q.Options.MaxNewTokens, q.Options.EOS = decode, []int{}
				l.trace = append(l.trace, q)
			}
			loads = append(loads, l)
		}
	}
	for range repeats {
		for _, l := range loads {
			run, err := Replay(ctx, r, l.o, l.trace)
			if err != nil {
				return Cost{}, err
			}
			if l.steps == nil {
				l.steps = run.Steps
			}
			for i, st := range run.Steps {
				l.steps[i].Duration = min(l.steps[i].Duration, st.Duration)
			}
		}
	}
	var points []Step
	for _, l := range loads {
		points = append(points, l.steps...)
	}
	return Fit(points)
}
