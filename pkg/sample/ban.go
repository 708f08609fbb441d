package sample

import (
	"math"
	"slices"
)

// logitBias adds the biases. Two infinities of opposite sign would make NaN: a token at −Inf stays out.
func (p *Pipeline) logitBias([]int) error {
	for _, b := range p.bias {
		if !math.IsInf(p.x[b.id], -1) {
			p.x[b.id] += b.bias
		}
	}
	return p.settle()
}

// badWords bans the last token of each sequence whose other tokens end the history.
func (p *Pipeline) badWords(history []int) error {
	for _, word := range p.opts.BadWords {
		n := len(word) - 1
		if n <= len(history) && slices.Equal(history[len(history)-n:], word[:n]) {
			p.x[word[n]] = math.Inf(-1)
		}
	}
	return p.settle()
}

// noRepeatNGram bans what followed each earlier occurrence of the last n−1 tokens: it would complete an n-gram again.
func (p *Pipeline) noRepeatNGram(history []int) error {
	n := p.opts.NoRepeatNGram
	if len(history) < n {
		return nil
	}
	tail := history[len(history)-n+1:]
	for i := 0; i+n <= len(history); i++ {
		if id := history[i+n-1]; id >= 0 && id < len(p.x) && slices.Equal(history[i:i+n-1], tail) {
			p.x[id] = math.Inf(-1)
		}
	}
	return p.settle()
}
