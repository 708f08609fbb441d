package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tokenize"
)

const testdata = "../../testdata/"

var opened = map[string]*model.Model{}
var openMu sync.Mutex

func open(t testing.TB, dir string) *model.Model {
	t.Helper()
	openMu.Lock()
	defer openMu.Unlock()
	if m := opened[dir]; m != nil {
		return m
	}
	m, err := model.Open(testdata + dir)
	if err != nil {
		t.Fatal(err)
	}
	opened[dir] = m
	return m
}

// storyland is the trained model of the repository with its tokenizer.
func storyland(t testing.TB) (*model.Model, *tokenize.Tokenizer) {
	t.Helper()
	tok, err := tokenize.Open(testdata + "storyland")
	if err != nil {
		t.Fatal(err)
	}
	return open(t, "storyland"), tok
}

// asked is a request with the answers that it gets alone.
type asked struct {
	*Request
	want [][]int
	why  []generate.Reason
}

// requests makes n different requests with common prefixes: greedy and sampled, with several samples, with stop tokens.
func requests(t testing.TB, m *model.Model, tok *tokenize.Tokenizer, n int, seed uint64) []*asked {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	v := m.Config.VocabSize
	some := func(n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = rng.IntN(v)
		}
		return out
	}
	stems := [][]int{{}, some(9), some(21)}
	stems = append(stems, slices.Concat(stems[2], some(6)))
	var out []*asked
	for range n {
		q := &Request{Prompt: slices.Concat(stems[rng.IntN(len(stems))], some(1+rng.IntN(12)))}
		q.Options.MaxNewTokens = 1 + rng.IntN(14)
		q.Options.EOS = []int{}
		if rng.IntN(2) == 0 {
			q.Options.Sampling = sample.Options{Temperature: 0.5 + rng.Float64(), TopP: 0.95, Seed: rng.Uint64()}
		}
		if rng.IntN(4) == 0 {
			q.Samples = 2 + rng.IntN(2)
		}
		if rng.IntN(4) == 0 {
			q.Options.EOS = some(v / 8)
		}
		if rng.IntN(4) == 0 {
			q.Options.Sampling.RepetitionPenalty = 1.3
		}
		if rng.IntN(4) == 0 {
			q.Options.LogProbs = 2
		}
		if tok != nil {
			q.Options.Tokenizer = tok
			switch rng.IntN(3) {
			case 0:
				q.Options.Stop = []string{"e", " t"}[:1+rng.IntN(2)]
			case 1:
				q.Options.EOS = []int{0}
				q.Options.Constraint = must([]func() (*generate.Constraint, error){
					func() (*generate.Constraint, error) { return generate.Regex(`( [a-z]+)+\.`) },
					func() (*generate.Constraint, error) {
						return generate.JSONSchema([]byte(`{"type":"array","items":{"type":"boolean"}}`))
					},
				}[rng.IntN(2)]())
				q.Options.MaxNewTokens += 8
			}
		}
		a := &asked{Request: q}
		for i := range max(1, q.Samples) {
			o := q.Options
			o.Sampling.Stream += uint64(i)
			r, err := generate.Run(context.Background(), m, q.Prompt, o)
			if err != nil {
				t.Fatal(err)
			}
			a.want, a.why = append(a.want, r.IDs), append(a.why, r.Reason)
		}
		out = append(out, a)
	}
	return out
}

// policies draws scheduler options.
func policies(rng *rand.Rand, m *model.Model, prefix bool) Options {
	o := Options{
		Policy:      []Policy{Mixed, Mixed, Mixed, PrefillFirst, Static}[rng.IntN(5)],
		MaxBatch:    3 + rng.IntN(6),
		TokenBudget: []int{3, 8, 40, 0}[rng.IntN(4)],
		BlockSize:   []int{1, 4, 16}[rng.IntN(3)],
		Preemption:  Preemption(rng.IntN(2)),
		Order:       Order(rng.IntN(3)),
	}
	if prefix {
		o.Prefix = Prefix(rng.IntN(3))
	}
	if o.Policy == PrefillFirst && rng.IntN(2) == 0 {
		o.WaitRatio, o.MaxWait = 1.2, 5
	}
	if rng.IntN(3) > 0 { // hardly more than the longest request
		o.Blocks = (60+rng.IntN(60))/o.BlockSize + 1
		if o.Preemption == Swap && rng.IntN(2) == 0 {
			o.SwapBlocks = 30 / o.BlockSize
		}
	}
	if rng.IntN(3) == 0 {
		o.Draft = &generate.Draft{Tokens: 1 + rng.IntN(4), Lookup: 1 + rng.IntN(2)}
		if rng.IntN(3) == 0 {
			o.Draft.Model = m
		}
	}
	if o.Prefix == NoPrefix && rng.IntN(4) == 0 {
		o.Memory, o.Blocks = Contiguous, 300/o.BlockSize
	}
	return o
}

type tally struct{ preempted, swapped, cached, cancelled, forked, proposed, accepted int }

// schedule runs one random schedule and checks everything about it.
func schedule(m *model.Model, all []*asked, o Options, rng *rand.Rand, sum *tally) error {
	ctx := context.Background()
	o.Observe = func(st Step) {
		sum.preempted, sum.swapped, sum.cached = sum.preempted+st.Preempted, sum.swapped+st.Swapped, sum.cached+st.Cached
		sum.proposed, sum.accepted = sum.proposed+st.Proposed, sum.accepted+st.Accepted
	}
	s, err := New(Model(m), o)
	if err != nil {
		return err
	}
	type live struct {
		*asked
		job    *Job
		got    [][]int
		cancel int // at which step
	}
	var jobs []*live
	left := 4 + rng.IntN(8)
	for step := 0; left > 0 || !s.Idle(); step++ {
		for left > 0 && (s.Idle() || rng.IntN(3) == 0) {
			left--
			a := all[rng.IntN(len(all))]
			q := *a.Request
			q.Priority = rng.IntN(3) / 2
			l := &live{asked: a, got: make([][]int, max(1, q.Samples)), cancel: -1}
			if rng.IntN(5) == 0 {
				l.cancel = step + rng.IntN(12)
			}
			if l.job, err = s.Submit(&q, func(t generate.Token) { l.got[t.Sample] = append(l.got[t.Sample], t.ID) }, nil); err != nil {
				return err
			}
			sum.forked += max(1, q.Samples) - 1
			jobs = append(jobs, l)
		}
		for _, l := range jobs {
			if l.cancel == step && !l.job.Done() {
				s.Cancel(l.job)
				sum.cancelled++
				if err := held(s); err != nil {
					return fmt.Errorf("step %d, after a cancellation: %w", step, err)
				}
			}
		}
		if _, err := s.Step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if err := held(s); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if step > 5000 {
			return fmt.Errorf("no end after %d steps", step)
		}
	}
	for i, l := range jobs {
		if l.job.Err() != nil {
			return fmt.Errorf("request %d: %w", i, l.job.Err())
		}
		for j, r := range l.job.Results() {
			if !slices.Equal(r.IDs, l.got[j]) {
				return fmt.Errorf("request %d, sample %d: streamed %v, result %v", i, j, l.got[j], r.IDs)
			}
			if l.job.Record.Cancelled {
				if n := len(r.IDs); n > len(l.want[j]) || !slices.Equal(r.IDs, l.want[j][:n]) {
					return fmt.Errorf("request %d, sample %d, cancelled: got %v, alone it gets %v", i, j, r.IDs, l.want[j])
				}
				continue
			}
			if !slices.Equal(r.IDs, l.want[j]) || r.Reason != l.why[j] {
				return fmt.Errorf("request %d, sample %d: got %v (%s), alone it gets %v (%s)", i, j, r.IDs, r.Reason, l.want[j], l.why[j])
			}
		}
	}
	return empty(s)
}

// held checks that exactly the running sequences and the prefix cache have blocks.
func held(s *Scheduler) error {
	if s.opts.Memory == Contiguous {
		used := 0
		for _, q := range s.running {
			if q.running {
				used += q.limit
			}
		}
		if free, _ := s.memory.arena.free(); free+used != s.memory.arena.size {
			return fmt.Errorf("%d tokens free and %d in use of %d", free, used, s.memory.arena.size)
		}
		return nil
	}
	blocks := map[int32]bool{}
	for _, q := range s.running {
		if q.running {
			b, dropped := q.memory.cache.Blocks(0)
			for _, b := range b[dropped:] {
				blocks[b] = true
			}
		}
	}
	st := s.memory.pool.Stats()
	if s.memory.pool.Groups() == 1 && len(blocks) != st.InUse-st.Idle {
		return fmt.Errorf("running sequences have %d blocks, %d are in use and %d idle", len(blocks), st.InUse, st.Idle)
	}
	return nil
}

// empty checks that nothing is left when nothing runs.
func empty(s *Scheduler) error {
	if s.memory.arena != nil {
		if _, hole := s.memory.arena.free(); hole != s.memory.arena.size {
			return fmt.Errorf("the largest hole has %d tokens of %d", hole, s.memory.arena.size)
		}
		return nil
	}
	if s.memory.prefix != nil {
		s.memory.prefix.evict(1 << 30)
	}
	if st := s.memory.pool.Stats(); st.InUse != 0 {
		return fmt.Errorf("%d blocks leaked", st.InUse)
	}
	if s.memory.swapped != 0 {
		return fmt.Errorf("%d blocks are still counted as swapped out", s.memory.swapped)
	}
	return nil
}

// Whatever the policy and whatever else runs, a request gets the tokens that it gets alone, and no block is lost.
func TestEveryScheduleGivesTheSameTokens(t *testing.T) {
	for _, c := range []struct {
		model  string
		n      int
		prefix bool
	}{
		{"golden/models/llama", 1000, true},
		{"golden/models/qwen3", 60, true},
		{"golden/models/mixtral", 60, true},
		{"golden/models/gemma3", 60, true},
		{"golden/models/deepseek-v3", 40, true},
		{"golden/models/gpt2", 40, true},
		{"golden/models/llama-dynamic", 40, false},
		{"storyland", 100, true},
	} {
		t.Run(c.model, func(t *testing.T) {
			m := open(t, c.model)
			var tok *tokenize.Tokenizer
			if c.model == "storyland" {
				_, tok = storyland(t)
			}
			all := requests(t, m, tok, 24, 1)
			n := c.n
			if testing.Short() {
				n /= 10
			}
			var sum tally
			for seed := range uint64(n) {
				rng := rand.New(rand.NewPCG(seed, 99))
				o := policies(rng, m, c.prefix)
				if err := schedule(m, all, o, rng, &sum); err != nil {
					t.Fatalf("seed %d, %+v: %v", seed, o, err)
				}
			}
			t.Logf("%d schedules: %+v", n, sum)
			if sum.preempted == 0 || sum.cancelled == 0 || sum.forked == 0 || sum.swapped == 0 || sum.proposed == 0 || c.prefix && sum.cached == 0 {
				t.Errorf("the schedules had nothing of something: %+v", sum)
			}
		})
	}
}
