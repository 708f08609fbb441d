package lesson

import (
	"cmp"
	"slices"

	"forwardpass/pkg/tensor"
)

// Best is the ids of the n largest values, the largest first and the lowest id first among equals: what a chart of the
// likeliest tokens shows.
func Best[T cmp.Ordered](values []T, n int) []int {
	ids := make([]int, len(values))
	for i := range ids {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(values[b], values[a]) })
	return ids[:min(n, len(ids))]
}

// At is the values at the given indices, in that order.
func At[T any](values []T, ids []int) []T {
	out := make([]T, len(ids))
	for i, id := range ids {
		out[i] = values[id]
	}
	return out
}

// Vocabulary is the text of every token, by id. [V]
func (lm *LM) Vocabulary() []string {
	ids := make([]int, lm.Config.VocabSize)
	for i := range ids {
		ids[i] = i
	}
	return lm.Tokens(ids)
}

// Scale is the root of the mean square of each row of x [T, C]: how large a token's vector is, whatever its width. [T]
func Scale(x *tensor.Tensor) []float64 {
	out := make([]float64, x.Rows())
	for i := range out {
		out[i] = rms(x.Row(i))
	}
	return out
}
