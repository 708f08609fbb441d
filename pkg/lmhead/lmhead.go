// Package lmhead turns hidden states into scores for every token of the vocabulary, and scores into probabilities
// and losses (chapter section 2.5).
//
//	logits = h · Wᵀ          h [T, C], W [V, C] → [T, V]
//	p      = softmax(logits) each row sums to 1
//
// The row at position t scores the token at t+1. Generation needs the last row only; training uses all of them.
package lmhead

import (
	"fmt"
	"math"

	"forwardpass/pkg/tensor"
)

// Logits returns the scores of every token. h [T, C], head [V, C] → [T, V]. With softCap > 0 each score s
// becomes cap·tanh(s/cap) (Gemma 2).
func Logits(h *tensor.Tensor, head tensor.Linear, softCap float32) (*tensor.Tensor, error) {
	y := &tensor.Tensor{}
	return y, LogitsInto(y, h, head, softCap)
}

// LogitsInto is Logits into dst, resized.
func LogitsInto(dst, h *tensor.Tensor, head tensor.Linear, softCap float32) error {
	if err := tensor.MatMuls(h, head.To(dst)); err != nil {
		return fmt.Errorf("lmhead: %w", err)
	}
	if softCap > 0 {
		tensor.SoftCap(dst.Data, softCap)
	}
	return nil
}

// Softmax returns the probabilities of each row. logits [..., V] → the same shape; nil for what is no such tensor
func Softmax(logits *tensor.Tensor) *tensor.Tensor {
	if tensor.CheckRows("lmhead: logits", logits) != nil {
		return nil
	}
	p := logits.Clone()
	for i := range p.Rows() {
		tensor.Softmax(p.Row(i))
	}
	return p
}

// LogSoftmax returns the natural logarithms of the probabilities of each row, computed without rounding
// small ones to zero: log p = x - max - log Σ e^(x-max). logits [..., V] → the same shape; nil for what is no such tensor
func LogSoftmax(logits *tensor.Tensor) *tensor.Tensor {
	if tensor.CheckRows("lmhead: logits", logits) != nil {
		return nil
	}
	p := logits.Clone()
	for i := range p.Rows() {
		row := p.Row(i)
		z := logSumExp(row)
		for j := range row {
			row[j] = float32(float64(row[j]) - z)
		}
	}
	return p
}

func logSumExp(x []float32) float64 {
	m := float64(tensor.Max(x))
	if math.IsInf(m, 0) {
		return m
	}
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - m)
	}
	return m + math.Log(sum)
}

// Ignore is the label of a position that doesn't count, as in PyTorch.
const Ignore = -100

// Loss is the cross-entropy of a sequence under teacher forcing.
type Loss struct {
	Mean    float64   // of -log p(label), over the positions that count, in nats
	Each    []float64 // [T]; 0 where ignored
	Counted int
}

// Perplexity is e^Mean: as if the model chose among so many equally likely tokens.
func (l Loss) Perplexity() float64 { return math.Exp(l.Mean) }

// CrossEntropy compares the logits [T, V] with the token that should have come at each position. labels [T],
// Ignore where a position doesn't count. The label of position t is the token at t+1: shifting is up to the
// caller (see Shift).
func CrossEntropy(logits *tensor.Tensor, labels []int) (Loss, error) {
	if err := tensor.CheckShape("lmhead: logits", logits, len(labels), -1); err != nil {
		return Loss{}, err
	}
	v := logits.Dim(-1)
	l := Loss{Each: make([]float64, len(labels))}
	var sum float64
	for i, label := range labels {
		if label == Ignore {
			continue
		}
		if label < 0 || label >= v {
			return Loss{}, fmt.Errorf("lmhead: label %d is %d, want 0…%d or %d to ignore it", i, label, v-1, Ignore)
		}
		row := logits.Row(i)
		l.Each[i] = logSumExp(row) - float64(row[label])
		sum += l.Each[i]
		l.Counted++
	}
	if l.Counted == 0 {
		return Loss{}, fmt.Errorf("lmhead: all %d labels are ignored", len(labels))
	}
	l.Mean = sum / float64(l.Counted)
	return l, nil
}

// Shift returns the labels of a sequence: at each position the next token, Ignore at the last.
func Shift(ids []int) []int {
	if len(ids) == 0 {
		return nil
	}
	return append(append(make([]int, 0, len(ids)), ids[1:]...), Ignore)
}
