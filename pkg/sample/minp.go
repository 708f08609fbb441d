package sample

import "math"

// minP keeps the tokens with p ≥ MinP·p_max. The softmax cancels: that is x ≥ x_max + ln MinP.
func (p *Pipeline) minP([]int) error {
	least := p.max() + math.Log(p.opts.MinP) - tolerance
	n := 0
	for _, id := range p.kept {
		if p.x[id] >= least {
			p.kept[n] = id
			n++
		}
	}
	p.kept = p.kept[:n]
	return nil
}
