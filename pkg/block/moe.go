package block

import (
	"fmt"
	"math"
	"slices"

	"forwardpass/pkg/tensor"
)

// MoE is a mixture of experts: a router sends each token to TopK of the expert MLPs and adds up what they
// return, weighted (Shazeer et al. 2017, arXiv:1701.06538; chapter section 2.6). Parameters are many, work
// a token is little.
//
//	y = Σ over chosen e of w_e · expert_e(x)  (+ shared(x), where the model has experts that all tokens pass)
//
// The forms that models use:
//
//	Mixtral, Qwen3-MoE:  scores = softmax(router(x)); the TopK largest; weights divided by their sum (Normalize)
//	DeepSeek-V3:         scores = sigmoid(router(x)); chosen by score + Correction, first the TopGroups best groups by the sum of
//	                     their two best, then the TopK largest in them; weights are the scores, normalised and times RoutedScale
//	                     (arXiv:2412.19437, section 2.1.2)
type MoE struct {
	Router      tensor.Linear // C → experts
	Experts     []MLP
	Shared      *MLP // or nil
	TopK        int
	Normalize   bool      // divide the weights by their sum
	Sigmoid     bool      // scores by sigmoid instead of softmax
	Correction  []float32 // [experts] added to the scores for the choice only, or nil
	Groups      int       // experts come in so many groups; 0: one
	TopGroups   int       // of which so many may be chosen from
	RoutedScale float32   // multiplies the weights; 0: 1
}

// Pick is one token's choice of one expert.
type Pick struct {
	Token, Expert int
	Weight        float32
}

// Check reports settings that contradict each other.
func (m *MoE) Check() error {
	n := len(m.Experts)
	switch {
	case m.TopK < 1 || m.TopK > n:
		return fmt.Errorf("block: want 1…%d experts for each token, got %d", n, m.TopK)
	case m.Router.W == nil || m.Router.W.Rows != n:
		return fmt.Errorf("block: the router must score %d experts", n)
	case m.Correction != nil && len(m.Correction) != n:
		return fmt.Errorf("block: want a correction for each of %d experts, got %d", n, len(m.Correction))
	case m.Groups > 1 && (n%m.Groups != 0 || m.TopGroups < 1 || m.TopGroups > m.Groups || m.TopGroups*(n/m.Groups) < m.TopK):
		return fmt.Errorf("block: %d experts in %d groups, %d of them allowed, can't give %d", n, m.Groups, m.TopGroups, m.TopK)
	}
	return nil
}

// Forward returns the mixture for every row and the router's logits. x [T, C] → [T, C], [T, experts]
func (m *MoE) Forward(x *tensor.Tensor) (y, logits *tensor.Tensor, err error) {
	y = &tensor.Tensor{}
	s := &Scratch{}
	if err := m.ForwardInto(y, x, s); err != nil {
		return nil, nil, err
	}
	return y, s.logits.Clone(), nil
}

// ForwardInto is Forward into dst, resized, with buffers that are kept (nil: new ones).
func (m *MoE) ForwardInto(dst, x *tensor.Tensor, s *Scratch) error {
	if err := m.Check(); err != nil {
		return err
	}
	if dst == nil {
		return fmt.Errorf("block: want a tensor to write to, got none")
	}
	if s == nil {
		s = &Scratch{}
	}
	if err := tensor.MatMuls(x, m.Router.To(&s.logits)); err != nil { // [T, experts]
		return fmt.Errorf("block: router: %w", err)
	}
	s.picks = m.Route(s.picks[:0], &s.logits, &s.scores)
	if s.inner == nil {
		s.inner = &Scratch{}
	}
	t, c := x.Rows(), x.Dim(-1)
	if m.Shared != nil {
		if err := m.Shared.ForwardInto(dst, x, s.inner); err != nil {
			return err
		}
		if dst.Dim(-1) != c {
			return fmt.Errorf("block: the shared expert returns %d features, want %d", dst.Dim(-1), c)
		}
	} else {
		clear(dst.Resize(t, c).Data)
	}
	// Each expert sees its tokens together, as one small batch.
	slices.SortStableFunc(s.picks, func(a, b Pick) int { return a.Expert - b.Expert })
	for i := 0; i < len(s.picks); {
		j := i
		for j < len(s.picks) && s.picks[j].Expert == s.picks[i].Expert {
			j++
		}
		in := s.in.Resize(j-i, c)
		for k, p := range s.picks[i:j] {
			copy(in.Row(k), x.Row(p.Token))
		}
		if err := m.Experts[s.picks[i].Expert].ForwardInto(&s.out, in, s.inner); err != nil { // [tokens, C]
			return fmt.Errorf("block: expert %d: %w", s.picks[i].Expert, err)
		}
		if s.out.Dim(-1) != c {
			return fmt.Errorf("block: expert %d returns %d features, want %d", s.picks[i].Expert, s.out.Dim(-1), c)
		}
		for k, p := range s.picks[i:j] {
			tensor.Axpy(dst.Row(p.Token), p.Weight, s.out.Row(k))
		}
		i = j
	}
	return nil
}

// RouterLogits is the router's output of the last ForwardInto, [T, experts].
func (s *Scratch) RouterLogits() *tensor.Tensor { return &s.logits }

// Picks is the routing of the last ForwardInto, ordered by expert.
func (s *Scratch) Picks() []Pick { return s.picks }

// Route turns the router's logits [T, experts] into picks, TopK for each token, best first; scores is a
// buffer for the scores. Of equal scores the lower expert wins.
func (m *MoE) Route(picks []Pick, logits, scores *tensor.Tensor) []Pick {
	n := logits.Dim(-1)
	scores.Resize(logits.Shape...)
	copy(scores.Data, logits.Data)
	for t := range logits.Rows() {
		score := scores.Row(t)
		if m.Sigmoid {
			for i, v := range score {
				score[i] = float32(1 / (1 + math.Exp(-float64(v))))
			}
		} else {
			tensor.Softmax(score)
		}
		first := len(picks)
		for range m.TopK {
			best, bestAt := float32(math.Inf(-1)), -1
			for e := range n {
				if m.blocked(score, e) || slices.ContainsFunc(picks[first:], func(p Pick) bool { return p.Expert == e }) {
					continue
				}
				if s := m.choice(score, e); bestAt < 0 || s > best {
					best, bestAt = s, e
				}
			}
			picks = append(picks, Pick{Token: t, Expert: bestAt, Weight: score[bestAt]})
		}
		var sum float32
		for _, p := range picks[first:] {
			sum += p.Weight
		}
		for i := range picks[first:] {
			p := &picks[first+i]
			if m.Normalize {
				p.Weight /= sum
			}
			if m.RoutedScale != 0 {
				p.Weight *= m.RoutedScale
			}
		}
	}
	return picks
}

// choice is the score by which experts are chosen.
func (m *MoE) choice(score []float32, e int) float32 {
	if m.Correction != nil {
		return score[e] + m.Correction[e]
	}
	return score[e]
}

// blocked says whether expert e is in a group that is not among the best.
func (m *MoE) blocked(score []float32, e int) bool {
	if m.Groups <= 1 {
		return false
	}
	size := len(score) / m.Groups
	mine, better := e/size, 0
	own := m.groupScore(score, mine)
	for g := range m.Groups {
		if s := m.groupScore(score, g); s > own || s == own && g < mine {
			better++
		}
	}
	return better >= m.TopGroups
}

// groupScore is the sum of the two best choices in group g.
func (m *MoE) groupScore(score []float32, g int) float32 {
	size := len(score) / m.Groups
	first, second := float32(math.Inf(-1)), float32(math.Inf(-1))
	for e := g * size; e < (g+1)*size; e++ {
		if s := m.choice(score, e); s > first {
			first, second = s, first
		} else if s > second {
			second = s
		}
	}
	if size == 1 {
		return first
	}
	return first + second
}
