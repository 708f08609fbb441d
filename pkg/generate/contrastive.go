package generate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tensor"
)

// ContrastiveOptions of [Contrastive].
type ContrastiveOptions struct {
	MaxNewTokens int
	TopK         int     // candidates a step; 0: 4
	Alpha        float64 // weight of the penalty, in [0, 1]: 0 is greedy decoding; the paper uses 0.6
	EOS          []int   // nil: the model's own, empty: none
	Cache        kvcache.Options
}

// Contrastive continues ids [T] by contrastive search (Su et al. 2022, arXiv:2202.06417, equation 5): of the TopK most probable
// tokens v it takes the one with the largest
//
//	(1 − α)·p(v) − α·max_j cos(h_v, h_j)
//
// where h are the final hidden states, of the candidate and of all tokens before it. So a token that would make the text say
// the same thing again loses to a fresher one, without any random numbers. A step runs all candidates as one batch, each on a
// fork of the cache; the winner's hidden state and logits are those of the next step.
func Contrastive(ctx context.Context, m *model.Model, ids []int, o ContrastiveOptions) (*Result, error) {
	if m == nil {
		return nil, fmt.Errorf("generate: contrastive search: want a model from model.Open, got none")
	}
	if !(o.Alpha >= 0 && o.Alpha <= 1) || o.TopK < 0 || o.TopK > m.Config.VocabSize {
		return nil, fmt.Errorf("generate: contrastive search: want alpha in [0, 1] and k from 1 to %d, got %v and %d", m.Config.VocabSize, o.Alpha, o.TopK)
	}
	if o.TopK == 0 {
		o.TopK = min(4, m.Config.VocabSize)
	}
	opts, err := Options{MaxNewTokens: o.MaxNewTokens, EOS: o.EOS, Cache: CacheOptions{Options: o.Cache}}.complete(m, [][]int{ids})
	if err != nil {
		return nil, err
	}
	s, err := newSequence(m, ids, opts, 0)
	if err != nil {
		return nil, err
	}
	defer s.Free()

	var hidden tensor.Tensor // [rows, C] of the last pass
	b := model.Batch{Trace: &model.Trace{See: func(stage string, _ int, t *tensor.Tensor) {
		if stage == model.StageFinal {
			hidden.Resize(t.Shape...)
			copy(hidden.Data, t.Data)
		}
	}}}
	b.Seqs = []model.Sequence{{IDs: ids, Cache: s.Cache, Logits: model.All}}
	if s.done {
		return s.Result(), nil
	}
	if err := m.Forward(ctx, &b); err != nil {
		return s.stopped(ctx, err)
	}
	var seen [][]float32 // unit vectors of the hidden states so far, [S][C]
	for i := range hidden.Rows() {
		seen = append(seen, unit(hidden.Row(i)))
	}
	logits := slices.Clone(b.Logits.Row(b.Logits.Rows() - 1)) // [V]

	for !s.done {
		_, top, err := sample.LogProbs(logits, 0, o.TopK)
		if err != nil {
			return nil, fmt.Errorf("generate: contrastive search: %w", err)
		}
		b.Seqs = b.Seqs[:0]
		for _, c := range top {
			b.Seqs = append(b.Seqs, model.Sequence{IDs: []int{c.ID}, Cache: s.Cache.Fork()})
		}
		if err = m.Forward(ctx, &b); err == nil { // hidden [k, C], b.Logits [k, V]
			best, bestScore := 0, math.Inf(-1)
			for i, c := range top {
				score := (1-o.Alpha)*math.Exp(c.LogProb) - o.Alpha*nearest(unit(hidden.Row(i)), seen)
				if score > bestScore {
					best, bestScore = i, score
				}
			}
			s.Cache, b.Seqs[best].Cache = b.Seqs[best].Cache, s.Cache
			if err = s.commit(top[best].ID, logits); err == nil {
				seen = append(seen, unit(hidden.Row(best)))
				copy(logits, b.Logits.Row(best))
			}
		}
		for _, q := range b.Seqs {
			q.Cache.Free()
		}
		if err != nil {
			return s.stopped(ctx, err)
		}
	}
	return s.Result(), nil
}

// stopped ends a run after an error; being cancelled is none.
func (s *Sequence) stopped(ctx context.Context, err error) (*Result, error) {
	if ctx.Err() != nil {
		err = nil
	}
	s.abort(err)
	return s.Result(), err
}

func unit(x []float32) []float32 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(float64(v) / math.Sqrt(max(sum, 1e-30)))
	}
	return out
}

// nearest is the largest cosine between a unit vector and those of a list.
func nearest(x []float32, list [][]float32) float64 {
	best := -1.0
	for _, y := range list {
		dot := 0.0
		for i := range x {
			dot += float64(x[i]) * float64(y[i])
		}
		best = max(best, dot)
	}
	return best
}
