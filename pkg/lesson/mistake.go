package lesson

import (
	"errors"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/tensor"
	"forwardpass/pkg/tokenize"
)

// Mistake is an error in reading the K/V cache that people make, for a lesson to show its symptom.
type Mistake uint8

const (
	MaskWithoutOffset Mistake = iota // the causal mask counts the new tokens from 0, as if nothing were cached
	KeysRotatedTwice                 // keys are stored rotated, and rotated again when they are read
)

// OpenWrong opens a model that makes a mistake whenever it reads keys of earlier steps from its cache. A pass without
// a cache, and one that fills an empty cache, are right: so is the first new token.
func OpenWrong(name string, m Mistake) (*LM, error) {
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	tok, err := tokenize.Open(path)
	if err != nil {
		return nil, err
	}
	wrong, err := model.OpenWith(path, model.Options{Backend: &wrong{CPU: model.NewCPU(), mistake: m}})
	if err != nil {
		return nil, err
	}
	return &LM{Model: wrong, Tok: tok, Name: name}, nil
}

// wrong is the CPU backend with a mistake in attention.
type wrong struct {
	*model.CPU
	mistake Mistake
	flash   attention.Workspace
}

func (w *wrong) Attend(dst *tensor.Tensor, a *model.Attend, s *model.Step) error {
	seqs := make([]attention.Seq, len(s.Seqs))
	history := false
	for i, q := range s.Seqs {
		if q.Cache == nil {
			return w.CPU.Attend(dst, a, s)
		}
		history = history || q.Start > 0
		switch w.mistake {
		case MaskWithoutOffset: // new token i sees keys 0 … i
			seqs[i] = attention.Seq{T: q.T, Runs: q.Cache.Runs(nil, a.Index, q.T)}
		case KeysRotatedTwice:
			seqs[i] = attention.Seq{Start: q.Start, T: q.T, Runs: q.Cache.Runs(nil, a.Index, q.Len())}
			if err := rotateAgain(seqs[i].Runs, a, q); err != nil {
				return err
			}
		}
	}
	if !history {
		return w.CPU.Attend(dst, a, s)
	}
	if a.Weights != nil {
		return errors.New("lesson: a model with a mistake shows no attention weights")
	}
	return attention.Flash(dst, a.Q, seqs, a.Layer.Attention, &w.flash)
}

// rotateAgain turns the keys of earlier steps by their positions a second time, in a copy.
func rotateAgain(runs []kvcache.Run, a *model.Attend, q model.Span) error {
	if a.Layer.Rope == nil {
		return nil
	}
	heads, dim := a.K.Shape[1], a.K.Shape[2]
	for i := range runs {
		r := &runs[i]
		n := min(r.Len, q.Start-r.Start)
		if n <= 0 {
			continue
		}
		k := tensor.New(r.Len, heads, dim) // [run, n_kv, D]
		for j := range r.Len {
			for h := range heads {
				copy(k.Data[(j*heads+h)*dim:][:dim], r.Keys(h, j))
			}
		}
		old := &tensor.Tensor{Shape: []int{n, heads, dim}, Data: k.Data[:n*heads*dim]}
		if err := a.Layer.Rope.Apply(old, Positions(r.Start, n), q.Len()); err != nil {
			return err
		}
		r.K, r.HeadK, r.StepK = k.Data, dim, heads*dim
	}
	return nil
}
