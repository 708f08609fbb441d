package serve

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Calibrate measures steps of a runner, from one short prompt to many long ones, and fits a cost to them. Each is repeated; the mean
// counts, without the slowest. It takes about a second for a small model; vocab is the number of ids that prompts are made of, longest the
// context to go up to.
func Calibrate(ctx context.Context, r Runner, vocab, longest int) (Cost, error) {
	const decode, repeats = 17, 6
	longest = min(longest, r.context())
	rng := rand.New(rand.NewPCG(1, 6))
	var points []Step
	for _, batch := range []int{1, 2, 4, 8, 16, 32} {
		for _, prompt := range []int{1, 6, longest / 8, longest / 3, longest - decode} {
			if prompt < 1 || batch*prompt > 16*longest {
				continue
			}
			var trace []*Request
			for range batch {
				q := &Request{Prompt: make([]int, prompt)}
				for i := range q.Prompt {
					q.Prompt[i] = rng.IntN(vocab)
				}
				q.Options.MaxNewTokens, q.Options.EOS = decode, []int{}
				trace = append(trace, q)
			}
			var runs [][]Step
			for range repeats {
				run, err := Replay(ctx, r, Options{MaxBatch: batch, TokenBudget: batch*prompt + batch}, trace)
				if err != nil {
					return Cost{}, err
				}
				runs = append(runs, run.Steps)
			}
			for i, st := range runs[0] { // the schedule is the same in every run
				var d []time.Duration
				for _, steps := range runs {
					d = append(d, steps[i].Duration)
				}
				slices.Sort(d)
				st.Duration = 0
				for _, x := range d[:repeats-1] {
					st.Duration += x / (repeats - 1)
				}
				points = append(points, st)
			}
		}
	}
	return Fit(points)
}
