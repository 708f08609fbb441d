package sample

import (
	"fmt"
	"math"
)

// LogProb is a token with the natural logarithm of its probability.
type LogProb struct {
	ID      int
	LogProb float64
}

// LogProbs returns ln p of the token id and of the n most probable tokens, best first (the lowest id first among equals), under
// the model's own distribution: softmax of logits [V], before any step of a pipeline.
func LogProbs(logits []float32, id, n int) (float64, []LogProb, error) {
	if id < 0 || id >= len(logits) {
		return 0, nil, fmt.Errorf("sample: token %d is not in the vocabulary of %d", id, len(logits))
	}
	logSum, err := logSumExp(logits)
	if err != nil {
		return 0, nil, err
	}
	top := make([]LogProb, 0, max(0, min(n, len(logits))))
	for i, l := range logits {
		c := LogProb{i, float64(l) - logSum}
		if len(top) == cap(top) {
			if len(top) == 0 || !(c.LogProb > top[len(top)-1].LogProb) {
				continue
			}
			top = top[:len(top)-1]
		}
		at := len(top)
		for at > 0 && c.LogProb > top[at-1].LogProb {
			at--
		}
		top = append(top, LogProb{})
		copy(top[at+1:], top[at:])
		top[at] = c
	}
	return float64(logits[id]) - logSum, top, nil
}

// logSumExp returns ln Σ exp(l), with the maximum taken out so that nothing overflows.
func logSumExp(logits []float32) (float64, error) {
	max := math.Inf(-1)
	for i, l := range logits {
		if l != l {
			return 0, fmt.Errorf("sample: logit of token %d is NaN", i)
		}
		if float64(l) > max {
			max = float64(l)
		}
	}
	if math.IsInf(max, 0) {
		return 0, fmt.Errorf("sample: the largest logit is %v: no probabilities", max)
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - max)
	}
	return max + math.Log(sum), nil
}
