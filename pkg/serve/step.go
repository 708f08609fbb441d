package serve

import (
	"time"
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

	Blocks, Idle int // blocks in use, and those of them that only the prefix cache holds
	Tokens       int // tokens whose keys and values sequences hold
	Slots        int // tokens for which they hold room
	Hole         int // contiguous memory: the largest free piece, in tokens
	Free         int // contiguous memory: free tokens in all
}

// Utilisation is the part of the room held by sequences that has tokens in it.
func (s Step) Utilisation() float64 {
	if s.Slots == 0 {
		return 1
	}
	return float64(s.Tokens) / float64(s.Slots)
}

// Column takes one number of each step (or of each record, …), for charts.
func Column[T any](rows []T, f func(T) float64) []float64 {
	out := make([]float64, len(rows))
	for i, r := range rows {
		out[i] = f(r)
	}
	return out
}
