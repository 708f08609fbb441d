package serve

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Record is the history of one request. All times are counted from the same moment.
type Record struct {
	ID                                int
	Arrival, Scheduled, First, Finish time.Duration // it came, took part in a step, had its first token, was done

	Prompt, Cached, New int // tokens: of the prompt, those of them that came from the prefix cache, new ones
	Proposed, Accepted  int // tokens that a draft proposed, and how many of them were right
	Preemptions         int
	Cancelled           bool
	Away                []Span // from each preemption until it ran again

	Times [][]time.Duration // of each continuation, when its tokens came

	scheduled bool
}

// Span is a stretch of time.
type Span struct{ From, To time.Duration }

func (r *Record) last(sample int, now time.Duration) {
	for len(r.Times) <= sample {
		r.Times = append(r.Times, nil)
	}
	r.Times[sample] = append(r.Times[sample], now)
}

// TTFT is the time to first token, from arrival on.
func (r Record) TTFT() time.Duration { return r.First - r.Arrival }

// Queue is the time from arrival until the request took part in a step.
func (r Record) Queue() time.Duration { return r.Scheduled - r.Arrival }

// Total is the time from arrival to the last token.
func (r Record) Total() time.Duration { return r.Finish - r.Arrival }

// ITL is the inter-token latencies: from each token of a continuation to its next.
func (r Record) ITL() []time.Duration {
	var out []time.Duration
	for _, t := range r.Times {
		for i := 1; i < len(t); i++ {
			out = append(out, t[i]-t[i-1])
		}
	}
	return out
}

// TPOT is the time per output token: the mean inter-token latency, 0 for a single token.
func (r Record) TPOT() time.Duration {
	itl := r.ITL()
	if len(itl) == 0 {
		return 0
	}
	var sum time.Duration
	for _, t := range itl {
		sum += t
	}
	return sum / time.Duration(len(itl))
}

// Quantiles sum up a list of times.
type Quantiles struct{ Mean, P50, P90, P99, Max time.Duration }

// QuantilesOf sorts a copy of x; a quantile is the smallest value that at least its part of the values doesn't exceed.
func QuantilesOf(x []time.Duration) Quantiles {
	if len(x) == 0 {
		return Quantiles{}
	}
	x = slices.Clone(x)
	slices.Sort(x)
	at := func(percent int) time.Duration { return x[(percent*len(x)+99)/100-1] }
	var sum time.Duration
	for _, t := range x {
		sum += t
	}
	return Quantiles{sum / time.Duration(len(x)), at(50), at(90), at(99), x[len(x)-1]}
}

// SLO is a service level objective; 0: no demand.
type SLO struct{ TTFT, TPOT time.Duration }

// Met says whether a finished request was served well enough.
func (o SLO) Met(r Record) bool {
	return !r.Cancelled && (o.TTFT == 0 || r.TTFT() <= o.TTFT) && (o.TPOT == 0 || r.TPOT() <= o.TPOT)
}

// Summary is what a run comes to.
type Summary struct {
	Requests, Cancelled, Preemptions int
	Prompt, Cached, New              int           // tokens
	Makespan                         time.Duration // from the first arrival to the last token

	Throughput float64 // new tokens a second
	Rate       float64 // requests a second
	Goodput    float64 // requests a second that met the SLO
	Attained   float64 // part of the requests that met it

	TTFT, ITL, TPOT, Queue, Total Quantiles
}

// HitRate is the part of the prompt tokens that the prefix cache had.
func (s Summary) HitRate() float64 {
	if s.Prompt == 0 {
		return 0
	}
	return float64(s.Cached) / float64(s.Prompt)
}

// Summarise computes the metrics of finished requests.
func Summarise(records []Record, slo SLO) Summary {
	s := Summary{Requests: len(records)}
	if len(records) == 0 {
		return s
	}
	var ttft, itl, tpot, queue, total []time.Duration
	begin, end := records[0].Arrival, time.Duration(0)
	met := 0
	for _, r := range records {
		begin, end = min(begin, r.Arrival), max(end, r.Finish)
		s.Prompt, s.Cached, s.New = s.Prompt+r.Prompt, s.Cached+r.Cached, s.New+r.New
		s.Preemptions += r.Preemptions
		if r.Cancelled {
			s.Cancelled++
			continue
		}
		if slo.Met(r) {
			met++
		}
		if r.New == 0 {
			continue
		}
		ttft, queue, total = append(ttft, r.TTFT()), append(queue, r.Queue()), append(total, r.Total())
		each := r.ITL()
		itl = append(itl, each...)
		if len(each) > 0 {
			tpot = append(tpot, r.TPOT())
		}
	}
	s.Makespan = end - begin
	if sec := s.Makespan.Seconds(); sec > 0 {
		s.Throughput = float64(s.New) / sec
		s.Rate = float64(len(records)-s.Cancelled) / sec
		s.Goodput = float64(met) / sec
	}
	s.Attained = float64(met) / float64(len(records))
	s.TTFT, s.ITL, s.TPOT, s.Queue, s.Total = QuantilesOf(ttft), QuantilesOf(itl), QuantilesOf(tpot), QuantilesOf(queue), QuantilesOf(total)
	return s
}

// String is the summary as a table.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests in %v: %.1f tokens/s, %.2f requests/s, %.0f%% within the objective (%.2f/s)\n", s.Requests-s.Cancelled, s.Makespan.Round(time.Millisecond), s.Throughput, s.Rate, 100*s.Attained, s.Goodput)
	fmt.Fprintf(&b, "%-6s %10s %10s %10s %10s %10s\n", "", "mean", "p50", "p90", "p99", "max")
	for _, q := range []struct {
		name string
		q    Quantiles
	}{{"queue", s.Queue}, {"TTFT", s.TTFT}, {"ITL", s.ITL}, {"TPOT", s.TPOT}, {"total", s.Total}} {
		fmt.Fprintf(&b, "%-6s", q.name)
		for _, t := range []time.Duration{q.q.Mean, q.q.P50, q.q.P90, q.q.P99, q.q.Max} {
			fmt.Fprintf(&b, " %10s", t.Round(10*time.Microsecond))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
