package generate

import "context"

// Propose asks the sequence's draft for at most k of the tokens that may follow; none without a draft. It is for callers that run
// the model themselves. One that pushes the logits of the last token and then those of each proposal, as long as Push chose that very
// proposal, chooses exactly the tokens that it would without a draft, whatever the sampling: the draft only saves passes.
func (s *Sequence) Propose(ctx context.Context, k int) ([]int, error) {
	if s.draft == nil || s.done {
		return nil, nil
	}
	if k = min(k, s.opts.Draft.Tokens, s.remaining()-1); k < 1 {
		return nil, nil
	}
	p, err := s.draft.propose(ctx, s.ids[s.start:], k)
	return p.ids, err
}
