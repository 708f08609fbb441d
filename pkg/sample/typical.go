package sample

import "math"

// typical keeps the tokens whose surprise −ln p is nearest to the entropy H = −Σ p·ln p, nearest first, until their mass
// reaches TypicalP.
func (p *Pipeline) typical([]int) error {
	sum := p.softmax()
	logSum := p.max() + math.Log(sum)
	h := 0.0
	for _, id := range p.kept {
		h += p.weight[id] / sum * (logSum - p.x[id])
	}
	for _, id := range p.kept {
		p.weight[id] = -math.Abs(logSum - p.x[id] - h)
	}
	want, mass := reach(p.opts.TypicalP), 0.0
	p.keepBest(p.weight, func(id int) bool { mass += math.Exp(p.x[id] - logSum); return mass >= want })
	return nil
}
