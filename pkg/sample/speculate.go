package sample

// Verify decides about a token that a draft model proposed, drawn from its distribution q [V], where the real model's is p [V]
// (speculative sampling: Leviathan et al. 2023, Chen et al. 2023). The token is accepted with probability min(1, p/q). If it is
// not, the answer is a token from what p has more than q, max(0, p − q), normalised. Either way the token is distributed
// exactly as p, however bad the draft.
//
// Greedy distributions put everything on one token: then a token is accepted when it is the model's own.
func (s *Sampler) Verify(p, q []float64, token int) (next int, accepted bool) {
	if token >= 0 && token < min(len(p), len(q)) && p[token] > 0 && s.rng.Float64()*q[token] < p[token] {
		return token, true
	}
	if len(s.weight) < len(p) {
		s.weight = make([]float64, len(p))
	}
	more := s.weight[:len(p)]
	sum := 0.0
	for i, x := range p {
		if i < len(q) {
			x = max(0, x-q[i])
		}
		more[i] = x
		sum += x
	}
	if sum == 0 { // p = q up to rounding, yet refused: any draw from p will do
		return s.Draw(p), false
	}
	return s.Draw(more), false
}
