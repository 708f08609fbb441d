package serve

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// What a user's request is doing at some time, as [Run.Grid] has it.
const (
	NotThere  = iota
	Queued    // it has come and waits
	Prefill   // its prompt is computed
	Decode    // its tokens come
	Preempted // it has been put aside
)

// States are the names of what a request may be doing, from NotThere to Preempted.
var States = []string{"not there", "queued", "prefill", "decode", "preempted"}

// State is what the request is doing at a time.
func (r Record) State(at time.Duration) int {
	if at < r.Arrival || at >= r.Finish {
		return NotThere
	}
	if !r.scheduled || at < r.Scheduled {
		return Queued
	}
	for _, a := range r.Away {
		if at >= a.From && at < a.To {
			return Preempted
		}
	}
	if r.New == 0 || at < r.First {
		return Prefill
	}
	return Decode
}

// End is when the last step was over.
func (r *Run) End() time.Duration {
	if len(r.Steps) == 0 {
		return 0
	}
	last := r.Steps[len(r.Steps)-1]
	return last.Start + last.Duration
}

// Grid is the timeline of the run as a heat map: a row for each request, a column for each of cols equal stretches of time, and in
// each cell what the request is doing in the middle of it, an index into [States]. The labels are the requests' numbers and the
// columns' middles in seconds.
func (r *Run) Grid(cols int) (requests, seconds []string, states [][]float64) {
	end := r.End()
	middle := func(c int) time.Duration { return end * time.Duration(2*c+1) / time.Duration(2*cols) }
	for c := range cols {
		seconds = append(seconds, fmt.Sprintf("%.3g", middle(c).Seconds()))
	}
	for _, j := range r.Jobs {
		row := make([]float64, cols)
		for c := range cols {
			row[c] = float64(j.Record.State(middle(c)))
		}
		requests, states = append(requests, fmt.Sprint(j.ID)), append(states, row)
	}
	return requests, seconds, states
}

// Times are the starts of the steps, in seconds: the x axis for [Column] of the steps.
func (r *Run) Times() []float64 {
	return Column(r.Steps, func(s Step) time.Duration { return s.Start })
}

// Case is a scheduler to compare with others.
type Case struct {
	Name    string
	Options Options
}

// Outcome is what one case made of a trace.
type Outcome struct {
	Name    string
	Run     *Run
	Summary Summary
}

// Outcomes print as a table.
type Outcomes []Outcome

// Compare replays the same trace with each scheduler.
func Compare(ctx context.Context, r Runner, trace []*Request, slo SLO, cases ...Case) (Outcomes, error) {
	var out Outcomes
	for _, c := range cases {
		run, err := Replay(ctx, r, c.Options, trace)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		out = append(out, Outcome{c.Name, run, run.Summary(slo)})
	}
	return out, nil
}

// Names are the cases' names, for charts.
func (o Outcomes) Names() []string {
	var names []string
	for _, c := range o {
		names = append(names, c.Name)
	}
	return names
}

// String is the outcomes as a table.
func (o Outcomes) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %10s %10s %10s %10s %10s %8s %7s\n", "", "tokens/s", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99", "in SLO", "hits")
	for _, c := range o {
		s := c.Summary
		fmt.Fprintf(&b, "%-28s %10.0f", c.Name, s.Throughput)
		for _, t := range []time.Duration{s.TTFT.P50, s.TTFT.P99, s.ITL.P50, s.ITL.P99} {
			fmt.Fprintf(&b, " %10s", t.Round(10*time.Microsecond))
		}
		fmt.Fprintf(&b, " %7.0f%% %6.0f%%\n", 100*s.Attained, 100*s.HitRate())
	}
	return b.String()
}
