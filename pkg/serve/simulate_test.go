package serve

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/model"
)

// large is a model of 8 billion parameters in 16 bits on an accelerator of 400 TFLOP/s and 2 TB/s.
func large(t testing.TB) Cost {
	t.Helper()
	c := model.Config{HiddenSize: 4096, IntermediateSize: 14336, NumLayers: 32, NumHeads: 32, NumKVHeads: 8, HeadDim: 128, VocabSize: 128256}
	w, err := c.Work(2)
	if err != nil {
		t.Fatal(err)
	}
	cost := Roofline(w, model.Machine{FLOPS: 400e12, Bandwidth: 2e12}, 16, 25e9)
	cost.Context = 8192
	return cost
}

func TestRoofline(t *testing.T) {
	c := large(t)
	one := c.Seconds(Counts{Sequences: 1, Tokens: 1, Rows: 1, Seen: 100, Pairs: 100})
	if one < 0.007 || one > 0.009 { // 16 GB at 2 TB/s
		t.Errorf("a decode step of one sequence takes %.4f s", one)
	}
	many := c.Seconds(Counts{Sequences: 32, Tokens: 32, Rows: 32, Seen: 3200, Pairs: 3200})
	if many > 1.1*one {
		t.Errorf("a decode step of 32 sequences takes %.4f s, one of 1 %.4f s: reading the weights should be nearly all of it", many, one)
	}
	prefill := c.Seconds(Counts{Sequences: 1, Tokens: 4096, Rows: 1, Seen: 4096, Pairs: 4096 * 4097 / 2})
	if prefill < 0.14 || prefill > 0.2 { // 2 × 7 G × 4096 operations
		t.Errorf("a prompt of 4096 tokens takes %.4f s", prefill)
	}
}

// A simulation is a calculation: the same trace gives the same history, to the nanosecond.
func TestSimulationIsDeterministic(t *testing.T) {
	o := Options{MaxBatch: 32, Blocks: 350, Prefix: RadixTree, Preemption: Swap, Draft: &generate.Draft{Tokens: 3}}
	l := Load{Requests: 300, Rate: 40, Burst: 5, Prompt: 80, New: 40, Seed: 3}
	c := large(t)
	c.Accept = 0.6
	var before []Record
	for range 2 {
		run, err := Replay(context.Background(), c.Simulate(), o, l.Chat(100, 3, time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Jobs) != 900 {
			t.Fatalf("%d requests, want three for each of 300 users", len(run.Jobs))
		}
		if s := run.Summary(SLO{}); s.Preemptions == 0 || s.Cached == 0 {
			t.Errorf("nothing was preempted or nothing found: %+v", s)
		}
		records := run.Records()
		if before != nil && !reflect.DeepEqual(before, records) {
			t.Error("two simulations of one trace differ")
		}
		before = records
	}
}

// The simulator runs the real scheduler: with the lengths of a measured run it plans the very same steps.
func TestSimulationPlansTheSameSteps(t *testing.T) {
	m, _ := storyland(t)
	for _, o := range []Options{
		{MaxBatch: 8, TokenBudget: 64}, {Policy: Static, MaxBatch: 8}, {Policy: PrefillFirst, MaxBatch: 8}, {MaxBatch: 8, Blocks: 40, Preemption: Swap},
		{MaxBatch: 8, Blocks: 60, Memory: Contiguous}, {MaxBatch: 8, Blocks: 60, Prefix: HashedBlocks, Order: LongestPrefix},
	} {
		trace := Load{Requests: 40, Prompt: 30, New: 12, Seed: 4}.FewShot(3, 40) // all come at once, so that time plays no part
		real, err := Replay(context.Background(), Model(m), o, trace)
		if err != nil {
			t.Fatal(err)
		}
		simulated, err := Replay(context.Background(), Cost{Step: 1e-3, Context: 512}.Simulate(), o, trace)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []*Run{real, simulated} {
			for i := range run.Steps {
				run.Steps[i].Start, run.Steps[i].Duration = 0, 0
			}
		}
		if !slices.Equal(real.Steps, simulated.Steps) {
			t.Errorf("%+v: the steps differ: %d really, %d simulated", o, len(real.Steps), len(simulated.Steps))
		}
	}
}

// What each idea is worth, at a scale that this machine can't run.
func TestPoliciesSimulated(t *testing.T) {
	n := 4000
	if _, load := long(t); load {
		n = 100_000
	}
	ctx, slo := context.Background(), SLO{TTFT: 2 * time.Second, TPOT: 40 * time.Millisecond}
	c := large(t)
	begin := time.Now()
	compare := func(trace []*Request, cases ...Case) Outcomes {
		t.Helper()
		out, err := Compare(ctx, c.Simulate(), trace, slo, cases...)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("\n%s", out)
		return out
	}
	l := Load{Requests: n, Rate: 25, Prompt: 300, New: 120, Vocab: 32000, Seed: 1}
	batching := compare(l.Trace(),
		Case{"static", Options{Policy: Static, MaxBatch: 64}},
		Case{"prefill first", Options{Policy: PrefillFirst, MaxBatch: 64, TokenBudget: 4096}},
		Case{"mixed", Options{MaxBatch: 64, TokenBudget: 512}},
	)
	if s, m := batching[0].Summary, batching[2].Summary; m.Throughput < 1.5*s.Throughput || m.TTFT.P50*5 > s.TTFT.P50 {
		t.Error("continuous batching should be well ahead of static batching")
	}
	if p, m := batching[1].Summary, batching[2].Summary; m.ITL.P99 >= p.ITL.P99 {
		t.Error("chunked prefill should shorten the longest pauses between tokens")
	}

	l.Rate = 0
	l.Requests = n / 4
	l.Limit = 512
	memory := compare(l.Trace(),
		Case{"contiguous", Options{MaxBatch: 256, Blocks: 2000, Memory: Contiguous}},
		Case{"paged, recompute", Options{MaxBatch: 256, Blocks: 2000}},
		Case{"paged, swap", Options{MaxBatch: 256, Blocks: 2000, Preemption: Swap}},
	)
	use := func(o Outcome) float64 {
		sum, n := 0.0, 0.0
		for _, st := range o.Run.Steps {
			sum += st.Utilisation() * st.Duration.Seconds()
			n += st.Duration.Seconds()
		}
		return sum / n
	}
	t.Logf("utilisation: contiguous %.0f%%, paged %.0f%%", 100*use(memory[0]), 100*use(memory[1]))
	if memory[1].Summary.Throughput < 1.2*memory[0].Summary.Throughput || use(memory[0]) > 0.9 || use(memory[1]) < 0.9 {
		t.Error("paged memory should hold more sequences than contiguous memory")
	}

	l.Rate, l.Prompt, l.Limit = 30, 60, 0
	prefix := compare(l.FewShot(5, 2000),
		Case{"no prefix cache", Options{MaxBatch: 64, Blocks: 12000}},
		Case{"hashed blocks", Options{MaxBatch: 64, Blocks: 12000, Prefix: HashedBlocks}},
		Case{"radix tree", Options{MaxBatch: 64, Blocks: 12000, Prefix: RadixTree}},
	)
	if no, radix := prefix[0].Summary, prefix[2].Summary; radix.HitRate() < 0.9 || radix.TTFT.P50 > no.TTFT.P50/2 {
		t.Error("nearly all of few-shot prompts should come from the prefix cache")
	}
	l.Requests /= 8
	chat := compare(l.Chat(800, 4, 5*time.Second),
		Case{"chat, no prefix cache", Options{MaxBatch: 64, Blocks: 3000}},
		Case{"chat, radix tree", Options{MaxBatch: 64, Blocks: 3000, Prefix: RadixTree}},
		Case{"chat, radix, longest first", Options{MaxBatch: 64, Blocks: 3000, Prefix: RadixTree, Order: LongestPrefix}},
	)
	if chat[1].Summary.HitRate() < 0.5 {
		t.Error("a chat should find its own history")
	}

	draft := c
	draft.Accept, draft.Propose = 0.75, 2e-4
	out, err := Compare(ctx, draft.Simulate(), Load{Requests: 200, Rate: 2, Prompt: 100, New: 100, Seed: 5}.Trace(), slo, Case{"no draft", Options{}}, Case{"draft of 4", Options{Draft: &generate.Draft{Tokens: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out)
	if out[1].Summary.TPOT.P50 > out[0].Summary.TPOT.P50*6/10 {
		t.Error("a good draft should shorten the time per token")
	}
	t.Logf("%d requests and all in %v", n, time.Since(begin).Round(time.Millisecond))
}
