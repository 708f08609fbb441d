package sample

// tolerance is how far a probability mass may fall short of a bound and still count as reaching it: logits are float32, so
// ln 0.4 and ln 0.3 give 0.7 − 2e-8.
const tolerance = 1e-7

// reach returns the mass that has to be collected for p. The tolerance shrinks as p nears 1, or the far tail would go too.
func reach(p float64) float64 { return p - min(tolerance, (1-p)/2) }

// topP keeps the smallest set of most probable tokens whose mass reaches p.
func (p *Pipeline) topP([]int) error {
	want := reach(p.opts.TopP) * p.softmax()
	sum := 0.0
	p.keepBest(p.x, func(id int) bool { sum += p.weight[id]; return sum >= want })
	return nil
}
