package attention

import (
	"math"

	"forwardpass/pkg/tensor"
)

// Visible is the half-open range of positions that the token at position pos sees under the causal mask and
// a sliding window (0: none).
func Visible(pos, window int) (from, to int) {
	if window > 0 {
		from = max(0, pos-window+1)
	}
	return from, pos + 1
}

// Mask is the causal mask as a matrix to add to the scores: 0 where the token may look, -Inf where not.
// The T queries stand at positions start … start+T-1; forgetting start is the classic mistake of a cached decode.
//
// → [T, start+T]
func Mask(start, t, window int) *tensor.Tensor {
	m := tensor.New(t, start+t)
	for i := range t {
		row := m.Row(i)
		from, to := Visible(start+i, window)
		for j := range row {
			if j < from || j >= to {
				row[j] = float32(math.Inf(-1))
			}
		}
	}
	return m
}
