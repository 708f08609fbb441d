package sample

import "fmt"

// recent returns the part of the history that the penalties look at.
func (p *Pipeline) recent(history []int) []int {
	if n := p.opts.PenaltyLastN; n > 0 && len(history) > n {
		return history[len(history)-n:]
	}
	return history
}

// generated returns the part of the history that presence and frequency look at: without the prompt.
func (p *Pipeline) generated(history []int) []int {
	out := history[min(max(p.opts.PromptLen, 0), len(history)):]
	if n := p.opts.PenaltyLastN; n > 0 && len(out) > n {
		out = out[len(out)-n:]
	}
	return out
}

// penalise counts the tokens and replaces the logit of each distinct one by f(logit, count).
func (p *Pipeline) penalise(tokens []int, f func(x float64, n int) float64) error {
	for _, id := range tokens {
		if id < 0 || id >= len(p.x) {
			return fmt.Errorf("sample: history: token %d is not in the vocabulary of %d", id, len(p.x))
		}
	}
	for _, id := range tokens {
		p.count[id]++
	}
	for _, id := range tokens {
		if p.count[id] > 0 {
			p.x[id] = f(p.x[id], p.count[id])
			p.count[id] = 0
		}
	}
	return p.settle()
}

func (p *Pipeline) repetition(history []int) error {
	r := p.opts.RepetitionPenalty
	return p.penalise(p.recent(history), func(x float64, _ int) float64 {
		if x < 0 {
			return x * r
		}
		return x / r
	})
}

func (p *Pipeline) presence(history []int) error {
	return p.penalise(p.generated(history), func(x float64, _ int) float64 { return x - p.opts.PresencePenalty })
}

func (p *Pipeline) frequency(history []int) error {
	return p.penalise(p.generated(history), func(x float64, n int) float64 { return x - float64(n)*p.opts.FrequencyPenalty })
}
