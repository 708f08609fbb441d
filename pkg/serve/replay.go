package serve

import (
	"context"
	"slices"
	"time"

	"forwardpass/pkg/generate"
)

// Run is what a replayed trace has come to.
type Run struct {
	Jobs  []*Job // in the order in which they came
	Steps []Step
}

// Records are the histories of all requests.
func (r *Run) Records() []Record {
	out := make([]Record, len(r.Jobs))
	for i, j := range r.Jobs {
		out[i] = j.Record
	}
	return out
}

// Summary is Summarise of the run's records.
func (r *Run) Summary(slo SLO) Summary { return Summarise(r.Records(), slo) }

// Replay runs requests that come at their Arrival times. Its clock runs only during steps (by as much as the step took, or would
// take according to a [Cost]) and jumps over times in which there is nothing to do, so that nobody waits for a quiet trace.
func Replay(ctx context.Context, r Runner, opts Options, trace []*Request) (*Run, error) {
	out := &Run{}
	var clock time.Duration
	inStep := false
	observe := opts.Observe
	opts.Observe = func(st Step) {
		out.Steps = append(out.Steps, st)
		if observe != nil {
			observe(st)
		}
	}
	s, err := New(r, opts)
	if err != nil {
		return nil, err
	}
	defer s.memory.close()
	s.now = func() time.Duration {
		if inStep {
			return clock + r.elapsed()
		}
		return clock
	}
	next := slices.Clone(trace)
	slices.SortStableFunc(next, byArrival)
	var follow []*Request
	submit := func(q *Request) error {
		job, err := s.Submit(q, nil, func(j *Job) {
			if q.Then == nil {
				return
			}
			if f := q.Then(j.Results()); f != nil {
				f.Arrival += s.now() // a pause, until now
				follow = append(follow, f)
			}
		})
		if err != nil {
			return err
		}
		job.Record.Arrival = q.Arrival
		out.Jobs = append(out.Jobs, job)
		return nil
	}
	for len(next) > 0 || !s.Idle() {
		if s.Idle() {
			clock = max(clock, next[0].Arrival)
		}
		for len(next) > 0 && next[0].Arrival <= clock {
			q := next[0]
			next = next[1:]
			if err := submit(q); err != nil {
				return nil, err
			}
		}
		if s.Idle() {
			continue
		}
		inStep = true
		_, err := s.Step(ctx)
		clock, inStep = clock+r.elapsed(), false
		if err != nil {
			return nil, err
		}
		for _, f := range follow { // after those that come at the same time
			at, _ := slices.BinarySearchFunc(next, f, func(a, b *Request) int {
				if a.Arrival <= b.Arrival {
					return -1
				}
				return 1
			})
			next = slices.Insert(next, at, f)
		}
		follow = follow[:0]
	}
	return out, nil
}

// Alone gives a request's continuations when nothing else runs: what every schedule must reproduce.
func Alone(ctx context.Context, r Runner, q *Request) ([]*generate.Result, error) {
	q2 := *q
	q2.Arrival, q2.Then = 0, nil
	run, err := Replay(ctx, r, Options{}, []*Request{&q2})
	if err != nil {
		return nil, err
	}
	return run.Jobs[0].Results(), run.Jobs[0].Err()
}
