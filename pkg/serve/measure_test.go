package serve

import (
	"context"
	"math"
	"slices"
	"sort"
	"testing"
	"time"
)

// Measured and simulated side by side. All requests come at once, so that the schedule is the same each time; a run is repeated, and
// of each step the quickest counts, as in the calibration: what else the machine does only ever adds. The log says how far the two are
// apart; on a quiet machine it is within 15%, in one of four tries. The plans of both must be the same, step by step. It takes half a
// minute and more, so that it waits for FORWARDPASS_LOAD.
func TestMeasured(t *testing.T) {
	if _, load := long(t); !load {
		t.Skip("FORWARDPASS_LOAD is not set")
	}
	const tries, repeats, n, longest = 4, 9, 120, 260
	m, _ := storyland(t)
	l := Load{Requests: n, Prompt: 60, New: 40, Seed: 6, Vocab: m.Config.VocabSize}
	open := l
	open.Limit = 200 // what clients ask for, while answers are a fifth as long
	shots := Load{Requests: n, Prompt: 10, New: 10, Seed: 7, Vocab: m.Config.VocabSize}
	groups := []struct {
		trace []*Request
		cases [2]Case
	}{
		{l.Trace(), [2]Case{{"static", Options{Policy: Static, MaxBatch: 16}}, {"continuous", Options{MaxBatch: 16}}}},
		{open.Trace(), [2]Case{{"contiguous", Options{MaxBatch: 32, Blocks: 150, Memory: Contiguous}}, {"paged", Options{MaxBatch: 32, Blocks: 150}}}},
		{shots.FewShot(3, 200), [2]Case{{"no prefix cache", Options{MaxBatch: 16}}, {"radix tree", Options{MaxBatch: 16, Prefix: RadixTree}}}},
	}
	ctx := context.Background()
	for try := range tries {
		costs := map[Memory]Cost{}
		for _, kind := range []Memory{Paged, Contiguous} {
			cost, err := CalibrateWith(ctx, Model(m), Options{Memory: kind, Blocks: 1}, m.Config.VocabSize, longest)
			if err != nil {
				t.Fatal(err)
			}
			cost.Context = m.Config.MaxPositions
			t.Logf("%v: %+v", kind, cost)
			costs[kind] = cost
		}
		t.Logf("%-16s %22s %28s %8s %8s", "", "tokens/s", "mean TTFT", "error", "error")
		worst := 0.0
		for _, g := range groups {
			var measured, simulated [2]Summary
			for i, c := range g.cases {
				measured[i] = quickest(t, Model(m), c.Options, g.trace, repeats)
				simulated[i] = quickest(t, costs[c.Options.Memory].Simulate(), c.Options, g.trace, 1)
				a, b := measured[i], simulated[i]
				off := [2]float64{b.Throughput/a.Throughput - 1, b.TTFT.Mean.Seconds()/a.TTFT.Mean.Seconds() - 1}
				worst = max(worst, math.Abs(off[0]), math.Abs(off[1]))
				t.Logf("%-16s %10.0f %10.0f %14v %14v %7.0f%% %7.0f%%", c.Name, a.Throughput, b.Throughput, a.TTFT.Mean.Round(10*time.Microsecond), b.TTFT.Mean.Round(10*time.Microsecond), 100*off[0], 100*off[1])
			}
			ratio := func(s [2]Summary) (throughput, ttft float64) {
				return s[1].Throughput / s[0].Throughput, s[1].TTFT.Mean.Seconds() / s[0].TTFT.Mean.Seconds()
			}
			a, at := ratio(measured)
			b, bt := ratio(simulated)
			t.Logf("  %s to %s: throughput × %.2f measured, × %.2f simulated; mean TTFT × %.2f, × %.2f", g.cases[1].Name, g.cases[0].Name, a, b, at, bt)
		}
		if worst <= 0.15 {
			return
		}
		t.Logf("try %d: the simulator is off by up to %.0f%%", try+1, 100*worst)
	}
	t.Log("the simulator is off by more than 15% in every try: a busy machine, or a cost that the model leaves out")
}

// Calibration finds the cost of a machine that is known: a simulated one.
func TestCalibrate(t *testing.T) {
	want := Cost{Step: 2e-5, Sequence: 3e-6, Seen: 1e-7, Token: 1e-5, Row: 3e-6, Pair: 5e-8}
	got, err := Calibrate(context.Background(), want.Simulate(), 100, 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []Counts{{1, 1, 1, 1, 1}, {1, 1, 1, 150, 150}, {16, 16, 16, 1600, 1600}, {4, 400, 4, 400, 20200}, {1, 180, 1, 180, 16290}, {8, 107, 8, 1100, 6000}} {
		if a, b := got.Seconds(n), want.Seconds(n); math.Abs(a/b-1) > 0.01 {
			t.Errorf("%+v: %.3g s, want %.3g", n, a, b)
		}
	}
	if _, err := Fit(nil); err == nil {
		t.Error("a fit to no steps: want an error")
	}
}

// quickest replays a trace several times and gives each step the least time that it took. The histories of the requests move along.
func quickest(t *testing.T, r Runner, o Options, trace []*Request, repeats int) Summary {
	t.Helper()
	var first *Run
	var least []time.Duration
	for range repeats {
		run, err := Replay(context.Background(), r, o, trace)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = run
			least = make([]time.Duration, len(run.Steps))
			for i, st := range run.Steps {
				least[i] = st.Duration
			}
		}
		if len(run.Steps) != len(least) {
			t.Fatalf("%d steps, and %d the first time", len(run.Steps), len(least))
		}
		for i, st := range run.Steps {
			least[i] = min(least[i], st.Duration)
		}
	}
	ends := make([]time.Duration, len(least)) // of each step, with the least durations
	for i, d := range least {
		ends[i] = d
		if i > 0 {
			ends[i] += ends[i-1]
		}
	}
	move := func(at time.Duration) time.Duration { // to the end of the step in which it was
		i := sort.Search(len(first.Steps), func(i int) bool { return first.Steps[i].Start > at })
		return ends[i-1]
	}
	records := first.Records()
	for i := range records {
		rec := &records[i]
		rec.First, rec.Finish = move(rec.First), move(rec.Finish)
		for _, times := range rec.Times {
			for j := range times {
				times[j] = move(times[j])
			}
		}
	}
	slices.SortFunc(records, func(a, b Record) int { return a.ID - b.ID })
	return Summarise(records, SLO{})
}
