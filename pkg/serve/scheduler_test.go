package serve

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"forwardpass/pkg/generate"
)

// replay simulates requests with one second a step.
func replay(t testing.TB, o Options, trace ...*Request) *Run {
	t.Helper()
	run, err := Replay(context.Background(), Cost{Step: 1, Context: 1000}.Simulate(), o, trace)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// ask is a request of prompt and answer lengths, which comes at a second.
func ask(at, prompt, answer, priority int) *Request {
	q := &Request{Prompt: make([]int, prompt), Arrival: time.Duration(at) * time.Second, Priority: priority}
	for i := range q.Prompt {
		q.Prompt[i] = at*1000 + i
	}
	q.Options.MaxNewTokens = answer
	return q
}

// finished are the seconds at which requests are done.
func finished(r *Run) (out []int) {
	for _, j := range r.Jobs {
		out = append(out, int(j.Record.Finish/time.Second))
	}
	return out
}

// steps are a column of a run's timeline.
func steps(r *Run, f func(Step) int) (out []int) {
	for _, s := range r.Steps {
		out = append(out, f(s))
	}
	return out
}

func TestSchedules(t *testing.T) {
	prefill := func(s Step) int { return s.Prefill }
	decode := func(s Step) int { return s.Decode }
	for name, c := range map[string]struct {
		o               Options
		trace           []*Request
		finish          []int
		prefill, decode []int
	}{
		"a request alone: a step for the prompt and its first token, one for each other": {
			Options{}, []*Request{ask(0, 5, 3, 0)}, []int{3}, []int{5, 0, 0}, []int{0, 1, 1}},
		"a prompt in chunks": {
			Options{TokenBudget: 2}, []*Request{ask(0, 5, 2, 0)}, []int{4}, []int{2, 2, 1, 0}, []int{0, 0, 0, 1}},
		"decoding goes first, and a prompt gets what is left of the budget": {
			Options{TokenBudget: 3}, []*Request{ask(0, 3, 4, 0), ask(1, 5, 1, 0)}, []int{4, 4}, []int{3, 2, 2, 1}, []int{0, 1, 1, 1}},
		"one joins while another runs": {
			Options{}, []*Request{ask(0, 2, 4, 0), ask(2, 2, 1, 0)}, []int{4, 3}, []int{2, 0, 2, 0}, []int{0, 1, 1, 1}},
		"prefill first: decoding waits for a new prompt": {
			Options{Policy: PrefillFirst}, []*Request{ask(0, 2, 3, 0), ask(1, 2, 2, 0)}, []int{4, 3}, []int{2, 2, 0, 0}, []int{0, 0, 2, 1}},
		"prefill first with patience: two must wait before decoding stops": {
			Options{Policy: PrefillFirst, WaitRatio: 2}, []*Request{ask(0, 2, 4, 0), ask(1, 2, 1, 0), ask(2, 2, 1, 0)}, []int{5, 3, 3}, []int{2, 0, 4, 0, 0}, []int{0, 1, 0, 1, 1}},
		"static: the third waits for both before it": {
			Options{Policy: Static, MaxBatch: 2}, []*Request{ask(0, 1, 2, 0), ask(0, 1, 4, 0), ask(0, 1, 1, 0)}, []int{2, 4, 5}, []int{2, 0, 0, 0, 1}, []int{0, 2, 1, 1, 0}},
		"continuous: it takes the first one's place": {
			Options{MaxBatch: 2}, []*Request{ask(0, 1, 2, 0), ask(0, 1, 4, 0), ask(0, 1, 1, 0)}, []int{2, 4, 3}, []int{2, 0, 1, 0}, []int{0, 2, 1, 1}},
		"a higher priority goes before": {
			Options{MaxBatch: 1}, []*Request{ask(0, 1, 1, 0), ask(0, 1, 1, 0), ask(0, 1, 1, 1)}, []int{2, 3, 1}, []int{1, 1, 1}, []int{0, 0, 0}},
		"and preempts": {
			Options{MaxBatch: 1, BlockSize: 1}, []*Request{ask(0, 2, 3, 0), ask(1, 2, 1, 1)}, []int{4, 2}, nil, nil},
		"the shortest prompt first": {
			Options{MaxBatch: 1, Order: ShortestFirst}, []*Request{ask(0, 9, 1, 0), ask(0, 2, 1, 0), ask(0, 5, 1, 0)}, []int{3, 1, 2}, nil, nil},
		"no blocks for both: the later one is put aside and runs its tokens again": {
			Options{BlockSize: 1, Blocks: 8, Watermark: -1}, []*Request{ask(0, 2, 5, 0), ask(0, 2, 5, 0)}, []int{5, 7}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			run := replay(t, c.o, c.trace...)
			if got := finished(run); !slices.Equal(got, c.finish) {
				t.Errorf("finished at %v, want %v", got, c.finish)
			}
			if got := steps(run, prefill); len(c.prefill) > 0 && !slices.Equal(got, c.prefill) {
				t.Errorf("prompt tokens in the steps %v, want %v", got, c.prefill)
			}
			if got := steps(run, decode); len(c.decode) > 0 && !slices.Equal(got, c.decode) {
				t.Errorf("decoding in the steps %v, want %v", got, c.decode)
			}
		})
	}
}

// A static batch goes on computing rows that are done; that is its waste.
func TestStaticPads(t *testing.T) {
	run := replay(t, Options{Policy: Static}, ask(0, 1, 2, 0), ask(0, 1, 5, 0))
	if got := steps(run, func(s Step) int { return s.Padding }); !slices.Equal(got, []int{0, 0, 1, 1, 1}) {
		t.Errorf("padding %v", got)
	}
}

// Swapping brings tokens back; recomputing runs them again.
func TestPreemption(t *testing.T) {
	o := Options{BlockSize: 1, Blocks: 10, Watermark: -1}
	trace := []*Request{ask(0, 3, 6, 0), ask(0, 3, 6, 0)}
	again := replay(t, o, trace...)
	o.Preemption = Swap
	swapped := replay(t, o, trace...)
	sum := func(r *Run, f func(Step) int) (n int) {
		for _, x := range steps(r, f) {
			n += x
		}
		return n
	}
	if n := sum(again, func(s Step) int { return s.Prefill }); n <= 6 {
		t.Errorf("recomputing: %d prompt tokens, want more than the 6 of the prompts", n)
	}
	if n := sum(swapped, func(s Step) int { return s.Prefill }); n != 6 {
		t.Errorf("swapping: %d prompt tokens, want 6", n)
	}
	if out := sum(swapped, func(s Step) int { return s.Swapped }); out == 0 || out%2 != 0 {
		t.Errorf("%d blocks were copied, want as many in as out", out)
	}
	r := swapped.Jobs[1].Record
	if r.Preemptions != 1 || len(r.Away) != 1 || r.State(r.Away[0].From) != Preempted || r.State(r.Away[0].To) != Decode || r.State(r.Finish) != NotThere {
		t.Errorf("its history: %+v", r)
	}
	o.SwapBlocks = 1
	if n := sum(replay(t, o, trace...), func(s Step) int { return s.Swapped }); n != 0 {
		t.Errorf("with room for one block outside, %d were swapped", n)
	}
}

// A prompt that is in the cache as a whole still computes its last position.
func TestFullHit(t *testing.T) {
	for _, p := range []Prefix{RadixTree, HashedBlocks} {
		q := ask(0, 32, 1, 0)
		later := *q
		later.Arrival = 5 * time.Second
		run := replay(t, Options{Prefix: p}, q, &later)
		if got := steps(run, func(s Step) int { return s.Prefill }); !slices.Equal(got, []int{32, 1}) {
			t.Errorf("%v: prompt tokens in the steps %v, want 32 and 1", p, got)
		}
		if s := run.Summary(SLO{}); s.Cached != 31 || s.HitRate() != 31./64 {
			t.Errorf("%v: %d tokens from the cache", p, s.Cached)
		}
	}
}

// The cached prefix goes first where the order says so.
func TestLongestPrefix(t *testing.T) {
	first := ask(0, 20, 1, 0)
	other, same := ask(1, 20, 1, 0), ask(0, 20, 1, 0)
	same.Arrival = time.Second
	o := Options{Prefix: RadixTree, MaxBatch: 1, Order: LongestPrefix}
	if got := finished(replay(t, o, first, other, same)); !slices.Equal(got, []int{1, 3, 2}) {
		t.Errorf("finished at %v, want the cached prompt before the other", got)
	}
}

func TestMetrics(t *testing.T) {
	s := time.Second
	records := []Record{
		{Arrival: 0, Scheduled: s, First: 2 * s, Finish: 6 * s, Prompt: 10, Cached: 5, New: 3, Times: [][]time.Duration{{2 * s, 3 * s, 6 * s}}},
		{Arrival: s, Scheduled: s, First: 2 * s, Finish: 2 * s, Prompt: 10, New: 1, Times: [][]time.Duration{{2 * s}}},
		{Arrival: s, Finish: 4 * s, Cancelled: true},
	}
	got := Summarise(records, SLO{TTFT: s})
	if got.Requests != 3 || got.Cancelled != 1 || got.New != 4 || got.Makespan != 6*s || got.HitRate() != 0.25 {
		t.Errorf("%+v", got)
	}
	if got.TTFT != (Quantiles{1500 * time.Millisecond, s, 2 * s, 2 * s, 2 * s}) || got.ITL.Max != 3*s || got.TPOT.Mean != 2*s || got.Queue.Max != s {
		t.Errorf("times: %+v", got)
	}
	if math.Abs(got.Attained-1./3) > 1e-12 || math.Abs(got.Goodput-1./6) > 1e-12 || math.Abs(got.Throughput-4./6) > 1e-12 {
		t.Errorf("goodput %v, attained %v, throughput %v", got.Goodput, got.Attained, got.Throughput)
	}
	if empty := Summarise(nil, SLO{}); empty.Requests != 0 || !strings.Contains(empty.String(), "0 requests") {
		t.Errorf("nothing: %+v", empty)
	}
	q := QuantilesOf([]time.Duration{4, 1, 3, 2})
	if q != (Quantiles{2, 2, 4, 4, 4}) {
		t.Errorf("quantiles of 1…4: %+v", q)
	}
}

func TestGrid(t *testing.T) {
	run := replay(t, Options{MaxBatch: 1}, ask(0, 2, 3, 0), ask(1, 2, 1, 0))
	requests, times, states := run.Grid(4)
	want := [][]float64{{Prefill, Decode, Decode, NotThere}, {NotThere, Queued, Queued, Prefill}}
	if !slices.EqualFunc(states, want, func(a, b []float64) bool { return slices.Equal(a, b) }) || !slices.Equal(times, []string{"0.5", "1.5", "2.5", "3.5"}) || !slices.Equal(requests, []string{"0", "1"}) {
		t.Errorf("states %v of %v at %v, want %v", states, requests, times, want)
	}
	if x := run.Times(); !slices.Equal(x, []float64{0, 1, 2, 3}) {
		t.Errorf("steps at %v", x)
	}
}

func TestTraces(t *testing.T) {
	l := Load{Requests: 2000, Rate: 10, Burst: 8, Prompt: 40, New: 20, Seed: 1}
	a, b := l.Trace(), l.Trace()
	prompt, answer, together := 0, 0, 0
	for i := range a {
		if a[i].Arrival != b[i].Arrival || !slices.Equal(a[i].Prompt, b[i].Prompt) || a[i].Length != b[i].Length {
			t.Fatalf("request %d differs from one trace to the next", i)
		}
		prompt, answer = prompt+len(a[i].Prompt), answer+a[i].Length
		if i > 0 && a[i].Arrival == a[i-1].Arrival {
			together++
		}
	}
	rate := 2000 / a[1999].Arrival.Seconds()
	if rate < 8 || rate > 12.5 || prompt < 2000*36 || prompt > 2000*43 || answer < 2000*18 || answer > 2000*22 || together != 1750 {
		t.Errorf("rate %.1f, %d prompt tokens, %d of answers, %d together", rate, prompt, answer, together)
	}
}

// A request's own Stream function can end it, quietly or with an error; others go on.
func TestStreamEnds(t *testing.T) {
	m, _ := storyland(t)
	s, err := New(Model(m), Options{})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	var jobs []*Job
	for _, end := range []error{generate.ErrStop, broken, nil} {
		n := 0
		j, err := s.Submit(&Request{Prompt: []int{5, 6}, Options: generate.Options{MaxNewTokens: 9, EOS: []int{}, Stream: func(generate.Token) error {
			if n++; n == 4 {
				return end
			}
			return nil
		}}}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	for !s.Idle() {
		if _, err := s.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if jobs[0].Err() != nil || !jobs[0].Record.Cancelled || !errors.Is(jobs[1].Err(), broken) || jobs[2].Err() != nil {
		t.Errorf("errors %v, %v, %v; want none, broken, none", jobs[0].Err(), jobs[1].Err(), jobs[2].Err())
	}
	for i, want := range []generate.Reason{generate.ReasonCancelled, generate.ReasonError} {
		if got := jobs[i].Results()[0].Reason; got != want {
			t.Errorf("request %d: reason %q, want %q", i, got, want)
		}
	}
	for i, n := range []int{4, 4, 9} {
		if got := len(jobs[i].Results()[0].IDs); got != n {
			t.Errorf("request %d: %d tokens, want %d", i, got, n)
		}
	}
	if err := empty(s); err != nil {
		t.Error(err)
	}
}

func TestBadOptions(t *testing.T) {
	m, _ := storyland(t)
	for name, o := range map[string]Options{
		"a negative batch":                 {MaxBatch: -1},
		"an unknown policy":                {Policy: 9},
		"a watermark of everything":        {Watermark: 1},
		"a prefix cache without paging":    {Memory: Contiguous, Blocks: 10, Prefix: RadixTree},
		"contiguous memory without size":   {Memory: Contiguous},
		"patience without prefill first":   {WaitRatio: 1},
		"a watermark that is not a number": {Watermark: math.NaN()},
		"more proposals than the context":  {Draft: &generate.Draft{Tokens: math.MaxInt}},
	} {
		if _, err := New(Model(m), o); err == nil || !strings.HasPrefix(err.Error(), "serve: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Model(open(t, "golden/models/llama-dynamic")), Options{Prefix: RadixTree}); err == nil {
		t.Error("a prefix cache for a model whose keys change: want an error")
	}
}

func TestBadRequests(t *testing.T) {
	m, _ := storyland(t)
	s, err := New(Model(m), Options{Blocks: 8, MaxBatch: 4, MaxWaiting: 1})
	if err != nil {
		t.Fatal(err)
	}
	ids := []int{1, 2, 3}
	for name, q := range map[string]*Request{
		"no prompt":                   {},
		"an id that is none":          {Prompt: []int{1 << 20}},
		"longer than memory":          {Prompt: ids, Options: generate.Options{MaxNewTokens: 200}},
		"longer than the context":     {Prompt: make([]int, 600)},
		"more samples than the batch": {Prompt: ids, Samples: 5, Options: generate.Options{MaxNewTokens: 5}},
		"negative samples":            {Prompt: ids, Samples: -1},
		"its own cache":               {Prompt: ids, Options: generate.Options{Cache: generate.CacheOptions{Off: true}}},
		"its own draft":               {Prompt: ids, Options: generate.Options{Draft: &generate.Draft{}}},
		"a negative length":           {Prompt: ids, Length: -1},
	} {
		if _, err := s.Submit(q, nil, nil); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if !s.Idle() || s.Pool().Stats().InUse != 0 {
		t.Error("refused requests have left something")
	}
	if _, err := s.Submit(&Request{Prompt: ids, Options: generate.Options{MaxNewTokens: math.MaxInt}}, nil, nil); err == nil || !strings.Contains(err.Error(), "32 blocks, there are 8") {
		t.Errorf("as many tokens as an int holds: %v, want an error about the blocks that the context takes", err)
	}
	good := &Request{Prompt: ids, Options: generate.Options{MaxNewTokens: 5}}
	if _, err := s.Submit(good, nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Submit(good, nil, nil); !errors.Is(err, ErrFull) {
		t.Errorf("a second one that waits: %v, want ErrFull", err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Step(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a step of a context that has ended: %v", err)
	}
	for !s.Idle() { // and on it goes
		if _, err := s.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
