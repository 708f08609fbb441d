package generate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/lmhead"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tensor"
)

// BeamOptions of [Beam]. Only Beams and MaxNewTokens must be set.
type BeamOptions struct {
	Beams        int // at most the vocabulary; each keeps keys and values of its own new tokens
	MaxNewTokens int
	Return       int   // how many hypotheses; 0: all, one for each beam
	EOS          []int // nil: the model's own, empty: none

	// LengthPenalty is the exponent of the length by which the sum of log-probabilities is divided. 0 compares plain sums, which
	// favours short texts; 1 (transformers' default) compares means; above 1 favours long texts.
	LengthPenalty float64
	EarlyStopping EarlyStopping

	// Penalties are applied to the log-probabilities at each step: repetition, no-repeat n-gram, bad words, biases. Temperature
	// and filters have no place in a search.
	Penalties sample.Options
	Cache     kvcache.Options

	// Forward, where it is set, gives the logits [n, V] that follow n sequences of ids, instead of forward passes with a cache of
	// the search's own: package serve lets its scheduler run them among other requests.
	Forward func(ctx context.Context, seqs [][]int) (*tensor.Tensor, error)
}

// EarlyStopping says when beam search ends before MaxNewTokens. The names in parentheses are transformers' values.
type EarlyStopping uint8

const (
	StopHeuristic EarlyStopping = iota // (False) when the best running beam, at its present length, is no better than the worst finished one
	StopEarly                          // (True) as soon as there are as many finished hypotheses as beams
	StopNever                          // ("never") only when no running beam can still win: at the longest length, where length helps
)

// Hypothesis is one result of beam search.
type Hypothesis struct {
	IDs   []int   // new tokens, with the EOS token if there is one
	Score float64 // Σ ln p / (number of new tokens)^LengthPenalty
}

// beam is a sequence in the search: its new tokens and the sum of their log-probabilities.
type beam struct {
	ids    []int
	sum    float64
	parent int // the running beam that it continues
	ended  bool
}

// Beam searches for the continuations of ids [T] with the highest score: at each step it keeps the best Beams sequences, by the
// sum of their log-probabilities, of all that continue one of the Beams sequences by one token. The results, best first, are
// those of transformers' beam search without sampling; of equal sums, the earlier beam and the lower id win.
func Beam(ctx context.Context, m *model.Model, ids []int, o BeamOptions) ([]Hypothesis, error) {
	if o.Beams < 1 || o.MaxNewTokens < 1 || o.Return < 0 || o.Return > o.Beams {
		return nil, fmt.Errorf("generate: beam search: want at least one beam and token and at most as many results as beams, got %d, %d and %d", o.Beams, o.MaxNewTokens, o.Return)
	}
	if math.IsNaN(o.LengthPenalty) || math.IsInf(o.LengthPenalty, 0) || o.EarlyStopping > StopNever {
		return nil, fmt.Errorf("generate: beam search: length penalty %v, early stopping %d", o.LengthPenalty, o.EarlyStopping)
	}
	p := o.Penalties
	if p.Temperature != 0 || p.TopK != 0 || p.TopP != 0 || p.MinP != 0 || p.TypicalP != 0 {
		return nil, fmt.Errorf("generate: beam search: temperature and filters need sampling")
	}
	all, err := Options{MaxNewTokens: o.MaxNewTokens, EOS: o.EOS, Sampling: p, Cache: CacheOptions{Options: o.Cache}}.complete(m, [][]int{ids})
	if err != nil {
		return nil, err
	}
	if v := m.Config.VocabSize; o.Beams > v {
		return nil, fmt.Errorf("generate: beam search: Beams must be from 1 to the vocabulary of %d, got %d", v, o.Beams)
	}
	if o.MaxNewTokens > m.Config.MaxPositions-len(ids) {
		return nil, fmt.Errorf("generate: beam search: %d tokens and %d new are more than the %w of %d", len(ids), o.MaxNewTokens, model.ErrContext, m.Config.MaxPositions)
	}
	if p.PromptLen == 0 {
		p.PromptLen = len(ids)
	}
	p.Temperature = 1
	pipeline, err := sample.NewPipeline(p)
	if err != nil {
		return nil, fmt.Errorf("generate: beam search: %w", err)
	}
	s := search{BeamOptions: o, m: m, prompt: ids, eos: all.EOS, pipeline: pipeline, scores: make([]float64, m.Config.VocabSize)}
	defer s.free()
	return s.run(ctx)
}

type search struct {
	BeamOptions
	m        *model.Model
	prompt   []int
	eos      []int
	pipeline *sample.Pipeline
	batch    model.Batch
	scores   []float64 // [V]

	running  []beam
	caches   []*kvcache.Cache // of the running beams
	finished []Hypothesis     // best first, at most Beams
}

func (s *search) free() {
	for _, c := range s.caches {
		c.Free()
	}
}

func (s *search) run(ctx context.Context) ([]Hypothesis, error) {
	s.running = []beam{{}}
	if s.Forward == nil {
		c, err := s.m.NewCache(s.Cache)
		if err != nil {
			return nil, err
		}
		s.caches = []*kvcache.Cache{c}
	}
	for n := 1; ; n++ { // n new tokens after this step
		if err := s.forward(ctx); err != nil {
			return nil, err
		}
		best, err := s.candidates(n)
		if err != nil {
			return nil, err
		}
		s.finish(best, n)
		if s.advance(best); len(s.running) == 0 || s.enough(n) {
			break
		}
	}
	if s.Return == 0 {
		s.Return = s.Beams
	}
	return s.finished[:min(s.Return, len(s.finished))], nil
}

// forward runs the last token of each running beam, or the prompt.
func (s *search) forward(ctx context.Context) (err error) {
	if s.Forward != nil {
		var seqs [][]int
		for _, b := range s.running {
			seqs = append(seqs, slices.Concat(s.prompt, b.ids))
		}
		if s.batch.Logits, err = s.Forward(ctx, seqs); err != nil { // [beams, V]
			return err
		}
		return tensor.CheckShape("generate: beam search: logits", s.batch.Logits, len(seqs), len(s.scores))
	}
	s.batch.Seqs = s.batch.Seqs[:0]
	for i, b := range s.running {
		ids := s.prompt
		if len(b.ids) > 0 {
			ids = b.ids[len(b.ids)-1:]
		}
		s.batch.Seqs = append(s.batch.Seqs, model.Sequence{IDs: ids, Cache: s.caches[i]})
	}
	return s.m.Forward(ctx, &s.batch) // b.Logits [beams, V]
}

// candidates returns the best continuations by one token, best first: enough of them that Beams are left when each EOS token
// has taken one from every beam.
func (s *search) candidates(n int) ([]beam, error) {
	count := max(2, 1+len(s.eos)) * s.Beams
	var best []beam
	logp := lmhead.LogSoftmax(s.batch.Logits) // [beams, V]
	for i, b := range s.running {
		if err := s.pipeline.Scores(s.scores, logp.Row(i), slices.Concat(s.prompt, b.ids)); err != nil {
			return nil, fmt.Errorf("generate: beam search: %w", err)
		}
		for id, x := range s.scores {
			if sum := b.sum + x; !math.IsInf(sum, -1) && (len(best) < count || sum > best[count-1].sum) {
				at, _ := slices.BinarySearchFunc(best, sum, func(b beam, sum float64) int {
					if b.sum >= sum {
						return -1
					}
					return 1
				})
				best = slices.Insert(best, at, beam{ids: []int{id}, sum: sum, parent: i})[:min(len(best)+1, count)]
			}
		}
	}
	for i := range best {
		b := &best[i]
		b.ended = slices.Contains(s.eos, b.ids[0]) || n == s.MaxNewTokens
		b.ids = append(slices.Clone(s.running[b.parent].ids), b.ids[0])
	}
	return best, nil
}

// finish takes those of the best Beams candidates that have ended into the finished hypotheses.
func (s *search) finish(best []beam, n int) {
	if s.EarlyStopping == StopEarly && len(s.finished) == s.Beams {
		return
	}
	for _, b := range best[:min(s.Beams, len(best))] {
		if b.ended {
			s.finished = append(s.finished, Hypothesis{IDs: b.ids, Score: b.sum / math.Pow(float64(n), s.LengthPenalty)})
		}
	}
	slices.SortStableFunc(s.finished, func(a, b Hypothesis) int { return cmp.Compare(b.Score, a.Score) })
	s.finished = s.finished[:min(s.Beams, len(s.finished))]
}

// advance makes the best candidates that go on the running beams, each with a fork of its parent's cache.
func (s *search) advance(best []beam) {
	var running []beam
	var caches []*kvcache.Cache
	for _, b := range best {
		if !b.ended && len(running) < s.Beams {
			running = append(running, b)
			if s.Forward == nil {
				caches = append(caches, s.caches[b.parent].Fork())
			}
		}
	}
	s.free()
	s.running, s.caches = running, caches
}

// enough says that going on would change nothing, or is not wanted.
func (s *search) enough(n int) bool {
	if len(s.finished) < s.Beams {
		return false
	}
	if s.EarlyStopping == StopEarly {
		return true
	}
	length := n
	if s.EarlyStopping == StopNever && s.LengthPenalty > 0 {
		length = s.MaxNewTokens
	}
	possible := s.running[0].sum / math.Pow(float64(length), s.LengthPenalty)
	return possible <= s.finished[len(s.finished)-1].Score
}
