package sample

// topK keeps the k tokens with the largest logits.
func (p *Pipeline) topK([]int) error {
	n := 0
	p.keepBest(p.x, func(int) bool { n++; return n == p.opts.TopK })
	return nil
}
