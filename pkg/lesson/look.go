package lesson

import (
	"context"
	"fmt"
	"math"
	"slices"

	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tensor"
)

// OpenFirst opens the first of the named models that is here. When that is not the first name it prints a line that says
// how to bring the one that was meant, so that a lesson on a real checkpoint also runs without it.
func OpenFirst(names ...string) (*LM, error) {
	for i, name := range names {
		if !Have(name) {
			continue
		}
		if i > 0 {
			fmt.Printf("%s is not here, so this is %s. `go run ./notebooks -model %s` brings it.\n", names[0], name, names[0])
		}
		return Open(name)
	}
	return nil, fmt.Errorf("lesson: none of the models %q is here: `go run ./notebooks -model NAME` brings one", names)
}

// Top is the n most probable next tokens under logits [V], best first, as a chart wants them: their texts and
// their probabilities.
func (lm *LM) Top(logits []float32, n int) (tokens []string, probs []float64, err error) {
	_, best, err := sample.LogProbs(logits, 0, n)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]int, len(best))
	for i, b := range best {
		ids[i] = b.ID
		probs = append(probs, math.Exp(b.LogProb))
	}
	return lm.Tokens(ids), probs, nil
}

// Stages runs a text through the model and returns a copy of every stage's tensor by its name, such as
// "layers.2.attention.weights" [H, T, T]: what Compare sees, for a cell to look at.
func (lm *LM) Stages(ids []int) (map[string]*tensor.Tensor, error) {
	seen := map[string]*tensor.Tensor{}
	trace := &model.Trace{Weights: true, See: func(stage string, layer int, t *tensor.Tensor) {
		seen[model.StageName(stage, layer)] = t.Clone()
	}}
	b := model.Batch{Seqs: []model.Sequence{{IDs: ids, Logits: model.All}}, Trace: trace}
	if err := lm.Forward(context.Background(), &b); err != nil {
		return nil, err
	}
	return seen, nil
}

// Head is one head's part of attention weights [H, T, S], row by row, as a heat map wants it: what the causal mask hides
// is -Inf, which a heat map leaves empty.
func Head(w *tensor.Tensor, head int) [][]float32 {
	t, s := w.Dim(1), w.Dim(2)
	rows := make([][]float32, t)
	for i := range rows {
		rows[i] = slices.Clone(w.Row(head*t + i)) // [S]
		for j := s - t + i + 1; j < s; j++ {
			rows[i][j] = float32(math.Inf(-1))
		}
	}
	return rows
}

// Positions is start, start+1, … of n tokens in a row.
func Positions(start, n int) []int {
	pos := make([]int, n)
	for i := range pos {
		pos[i] = start + i
	}
	return pos
}
