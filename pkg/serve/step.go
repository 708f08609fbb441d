package serve

import (
	"time"

	"forwardpass/pkg/model"
)

// Step is what one step of the scheduler did: a column of the timeline.
type Step struct {
	Start, Duration time.Duration

	Prefill  int // prompt tokens run (tokens that are run again after a preemption, too)
	Decode   int // tokens run to choose the next
	Proposed int // further tokens run to verify proposals
	Accepted int // of those, how many were right
	Padding  int // rows of sequences that are done and wait for their static batch
	Chosen   int // new tokens

	Running, Waiting    int // sequences after planning
	Admitted, Preempted int
	Finished            int // sequences
	Cached              int // tokens that admitted sequences had from the prefix cache
	Swapped             int // blocks copied out or in

	Counts Counts // what the forward pass had to do

	Blocks, Idle int // blocks in use, and those of them that only the prefix cache holds
	Tokens       int // tokens whose keys and values sequences hold
	Slots        int // tokens for which they hold room
	Hole         int // contiguous memory: the largest free piece, in tokens
	Free         int // contiguous memory: free tokens in all
}

// Counts are what the time of a forward pass depends on.
type Counts struct {
	Sequences int
	Tokens    int // new ones
	Rows      int // of logits
	Seen      int // tokens whose keys and values are read: each sequence's, new ones included
	Pairs     int // for each new token the tokens that it sees
}

// countsOf counts the work of a batch whose caches hold what came before it.
func countsOf(b *model.Batch) Counts {
	w := Counts{Sequences: len(b.Seqs)}
	for _, q := range b.Seqs {
		t, s := len(q.IDs), len(q.IDs)
		if q.Cache != nil {
			s += q.Cache.Len()
		}
		w.Tokens += t
		w.Seen += s
		w.Pairs += t*(s-t) + t*(t+1)/2
		switch q.Logits {
		case model.Last:
			w.Rows++
		case model.All:
			w.Rows += t
		}
	}
	return w
}

// Utilisation is the part of the room held by sequences that has tokens in it.
func (s Step) Utilisation() float64 {
	if s.Slots == 0 {
		return 1
	}
	return float64(s.Tokens) / float64(s.Slots)
}

// Column takes one number of each step (or of each record, outcome, …), for charts. Times become seconds.
func Column[T any, N int | float64 | time.Duration](rows []T, f func(T) N) []float64 {
	out := make([]float64, len(rows))
	for i, r := range rows {
		switch v := any(f(r)).(type) {
		case time.Duration:
			out[i] = v.Seconds()
		case int:
			out[i] = float64(v)
		case float64:
			out[i] = v
		}
	}
	return out
}
