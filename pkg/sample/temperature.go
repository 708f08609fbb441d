package sample

import "math"

// temperature divides the logits by T. The maximum is subtracted first: it changes no probability, and it keeps the quotients
// from overflowing however small T is.
func (p *Pipeline) temperature([]int) error {
	t := p.opts.Temperature
	if t == 1 {
		return nil
	}
	max := p.max()
	n := 0
	for _, id := range p.kept {
		p.x[id] = (p.x[id] - max) / t
		if !math.IsInf(p.x[id], -1) {
			p.kept[n] = id
			n++
		}
	}
	p.kept = p.kept[:n]
	return nil
}

// greedy keeps the token with the largest logit, the lowest id among equals: T→0.
func (p *Pipeline) greedy([]int) error {
	best := p.kept[0]
	for _, id := range p.kept[1:] {
		if p.x[id] > p.x[best] {
			best = id
		}
	}
	p.kept = append(p.kept[:0], best)
	return nil
}
