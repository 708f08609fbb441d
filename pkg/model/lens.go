package model

import (
	"context"

	"forwardpass/pkg/lmhead"
	"forwardpass/pkg/tensor"
)

// Lens is the logit lens (nostalgebraist 2020): what the model would say if it stopped after each layer. The residual stream before
// the first layer and after each one goes through the final norm and the LM head.
//
// ids [T] → L+1 tensors [T, V]; the last one is Logits.
func (m *Model) Lens(ids []int) ([]*tensor.Tensor, error) {
	var streams []*tensor.Tensor
	b := Batch{Seqs: []Sequence{{IDs: ids, Logits: None}}, Trace: &Trace{See: func(stage string, _ int, t *tensor.Tensor) {
		if stage == StageEmbed || stage == StageLayer {
			streams = append(streams, t.Clone()) // [T, C]
		}
	}}}
	if err := m.Forward(context.Background(), &b); err != nil {
		return nil, err
	}
	for i, x := range streams {
		if m.FinalNorm != nil {
			if err := m.FinalNorm.ForwardInto(x, x); err != nil {
				return nil, err
			}
		}
		var err error
		if streams[i], err = lmhead.Logits(x, m.Head, m.SoftCap); err != nil { // [T, V]
			return nil, err
		}
	}
	return streams, nil
}
