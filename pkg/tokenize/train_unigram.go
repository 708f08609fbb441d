package tokenize

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// TrainUnigram learns a unigram vocabulary (Kudo 2018, section 3.2): start with
// every substring that is frequent enough, estimate their probabilities by
// expectation maximisation, drop a quarter of those that matter least, and
// repeat until the vocabulary has the size wanted. Words are cut at spaces,
// which are written "▁" and belong to the word after them.
func TrainUnigram(texts []string, o TrainOptions) (*Tokenizer, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("tokenize: train: %w", err)
	}
	o.Special = withUnknown(o.Special, "<unk>")
	if o.MaxLength == 0 {
		o.MaxLength = 16
	}
	space := metaspace{"▁", "always", true}
	tr := &unigramTrainer{o: o, corpus: countWords(texts, nil, space)}
	pieces, err := tr.train()
	if err != nil {
		return nil, fmt.Errorf("tokenize: train: %w", err)
	}
	list := make([][2]any, 0, o.size())
	for _, s := range o.Special {
		list = append(list, [2]any{s, 0.0})
	}
	for _, p := range pieces {
		list = append(list, [2]any{p.text, p.score})
	}
	mark := map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}
	return trained(o.Special, map[string]any{
		"pre_tokenizer": mark,
		"decoder":       mark,
		"model": map[string]any{"type": "Unigram", "unk_id": slices.Index(o.Special, "<unk>"), "byte_fallback": false,
			"vocab": list},
	})
}

// unigramPiece is a token and its log probability.
type unigramPiece struct {
	text  string
	score float64
}

type unigramTrainer struct {
	o      TrainOptions
	corpus []Word
}

const (
	shrinkBy      = 0.75 // what is left of the vocabulary after pruning
	subIterations = 2    // rounds of estimation between two prunings
	leastExpected = 0.5  // a token expected less often is dropped
	seedSize      = 1000000
)

func (tr *unigramTrainer) train() ([]unigramPiece, error) {
	pieces := tr.seeds()
	size := tr.o.size() - len(tr.o.Special)
	required := 0
	for _, p := range pieces {
		if utf8.RuneCountInString(p.text) == 1 {
			required++
		}
	}
	if required == 0 {
		return nil, fmt.Errorf("no text to learn from")
	}
	if size < required {
		return nil, fmt.Errorf("vocabulary size %d, but the alphabet and the special tokens alone are %d",
			tr.o.size(), required+len(tr.o.Special))
	}
	chars := map[string]bool{}
	for _, p := range pieces[:required] {
		chars[p.text] = true
	}
	for step := 1; ; step++ {
		var likelihood float64
		var lattice *unigramLattice
		for range subIterations {
			lattice = newUnigramLattice(pieces)
			var expected []float64
			expected, likelihood = lattice.expect(tr.corpus)
			pieces = maximise(pieces, expected)
		}
		lattice = newUnigramLattice(pieces)
		if tr.o.Trace != nil {
			tr.o.Trace(Step{Number: step, VocabSize: len(pieces), LogLikelihood: likelihood,
				words: func(n int) []Word { return lattice.show(tr.corpus, n) }})
		}
		if len(pieces) <= size*11/10 {
			break
		}
		pieces = tr.prune(pieces, lattice, max(size*11/10, int(float64(len(pieces))*shrinkBy)))
	}
	return finish(pieces, chars, size), nil
}

// seeds collects the characters and all substrings that occur more than once,
// unless each occurrence is part of the same longer one. A substring's first
// score is its number of characters in the corpus.
func (tr *unigramTrainer) seeds() []unigramPiece {
	counts := map[string]int{}
	for _, w := range tr.corpus {
		ends := runeStarts(w.Tokens[0])
		for i := range ends[:len(ends)-1] {
			for j := i + 1; j < len(ends) && j-i <= tr.o.MaxLength; j++ {
				counts[w.Tokens[0][ends[i]:ends[j]]] += w.Count
			}
		}
	}
	inside := map[string]bool{} // substrings of a longer one that occurs as often
	for s, n := range counts {
		_, first := utf8.DecodeRuneInString(s)
		_, last := utf8.DecodeLastRuneInString(s)
		for _, part := range []string{s[first:], s[:len(s)-last]} {
			if part != "" && counts[part] == n {
				inside[part] = true
			}
		}
	}
	var chars, longer []unigramPiece
	for s, n := range counts {
		size := utf8.RuneCountInString(s)
		switch {
		case size == 1:
			chars = append(chars, unigramPiece{s, float64(n)})
		case n > 1 && !inside[s]:
			longer = append(longer, unigramPiece{s, float64(n * size)})
		}
	}
	byScore := func(a, b unigramPiece) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.text, b.text))
	}
	slices.SortFunc(chars, byScore)
	slices.SortFunc(longer, byScore)
	pieces := append(chars, longer[:min(len(longer), seedSize)]...)
	sum := 0.0
	for _, p := range pieces {
		sum += p.score
	}
	for i := range pieces {
		pieces[i].score = math.Log(pieces[i].score) - math.Log(sum)
	}
	return pieces
}

// runeStarts returns where each character of s starts, and len(s).
func runeStarts(s string) []int {
	var at []int
	for i := range s {
		at = append(at, i)
	}
	return append(at, len(s))
}

// maximise is the M step: new log probabilities from expected counts, with the
// digamma function for the logarithm, which makes rare tokens rarer (a sparse
// prior: variational Bayes). Characters stay whatever their count.
func maximise(pieces []unigramPiece, expected []float64) []unigramPiece {
	out := make([]unigramPiece, 0, len(pieces))
	sum := 0.0
	for i, p := range pieces {
		n := expected[i]
		if n < leastExpected {
			if utf8.RuneCountInString(p.text) > 1 {
				continue
			}
			n = leastExpected
		}
		out = append(out, unigramPiece{p.text, n})
		sum += n
	}
	for i := range out {
		out[i].score = digamma(out[i].score) - digamma(sum)
	}
	return out
}

// digamma is the derivative of the logarithm of the gamma function, for x > 0: by
// its recurrence up to 7, and its asymptotic series from there.
func digamma(x float64) float64 {
	r := 0.0
	for ; x < 7; x++ {
		r -= 1 / x
	}
	x -= 0.5
	y := 1 / (x * x)
	return r + math.Log(x) + y*(1.0/24-y*(7.0/960-y*(31.0/8064-y*127.0/30720)))
}

// prune drops the tokens whose loss hurts the likelihood least, down to size.
func (tr *unigramTrainer) prune(pieces []unigramPiece, lattice *unigramLattice, size int) []unigramPiece {
	freq := make([]float64, len(pieces)) // in the best segmentations
	total := 0.0
	for _, w := range tr.corpus {
		for _, id := range lattice.best(w.Tokens[0], -1) {
			freq[id] += float64(w.Count)
			total += float64(w.Count)
		}
	}
	type candidate struct {
		id   int
		loss float64
	}
	var kept []unigramPiece
	var candidates []candidate
	for id, p := range pieces {
		if utf8.RuneCountInString(p.text) == 1 {
			kept = append(kept, p)
			continue
		}
		if freq[id] == 0 {
			continue // never used
		}
		// Without the token, its text is cut the second-best way.
		instead := lattice.best(p.text, int32(id))
		after := math.Log(total + freq[id]*float64(len(instead)-1))
		change := math.Log(freq[id]) - math.Log(total)
		for _, k := range instead {
			change -= math.Log(freq[k]+freq[id]) - after
		}
		candidates = append(candidates, candidate{id, freq[id] / total * change})
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(b.loss, a.loss) })
	for _, c := range candidates {
		if len(kept) >= size {
			break
		}
		kept = append(kept, pieces[c.id])
	}
	return kept
}

// finish keeps the characters and the most probable other tokens.
func finish(pieces []unigramPiece, chars map[string]bool, size int) []unigramPiece {
	slices.SortStableFunc(pieces, func(a, b unigramPiece) int { return cmp.Compare(b.score, a.score) })
	room := size - len(chars)
	var out []unigramPiece
	for _, p := range pieces {
		if chars[p.text] {
			out = append(out, p)
		} else if room > 0 {
			out = append(out, p)
			room--
		}
	}
	return out
}

// unigramLattice sees a word as all the ways to cut it into tokens.
type unigramLattice struct {
	pieces []unigramPiece
	words  *trie
}

func newUnigramLattice(pieces []unigramPiece) *unigramLattice {
	l := &unigramLattice{pieces: pieces, words: newTrie()}
	for id, p := range pieces {
		l.words.put(p.text, int32(id))
	}
	return l
}

// arcs calls f for every token that stands at word[i:j].
func (l *unigramLattice) arcs(word string, f func(i, j int, id int32)) {
	for i := range word {
		node := int32(0)
		for j := i; j < len(word); {
			if node = l.words.step(node, word[j]); node < 0 {
				break
			}
			j++
			if id := l.words.values[node]; id >= 0 {
				f(i, j, id)
			}
		}
	}
}

// expect is the E step: how often each token is expected in the corpus, over
// all segmentations, and the log-likelihood per word (forward-backward).
func (l *unigramLattice) expect(corpus []Word) (expected []float64, likelihood float64) {
	expected = make([]float64, len(l.pieces))
	total := 0.0
	for _, w := range corpus {
		word := w.Tokens[0]
		n := len(word)
		forward, backward := minusInfinity(n+1), minusInfinity(n+1)
		forward[0], backward[n] = 0, 0
		type arc struct {
			i, j int
			id   int32
		}
		var arcs []arc
		l.arcs(word, func(i, j int, id int32) {
			arcs = append(arcs, arc{i, j, id})
			forward[j] = logAdd(forward[j], forward[i]+l.pieces[id].score)
		})
		for k := len(arcs) - 1; k >= 0; k-- {
			a := arcs[k]
			backward[a.i] = logAdd(backward[a.i], backward[a.j]+l.pieces[a.id].score)
		}
		for _, a := range arcs {
			p := math.Exp(forward[a.i] + l.pieces[a.id].score + backward[a.j] - forward[n])
			expected[a.id] += p * float64(w.Count)
		}
		likelihood += forward[n] * float64(w.Count)
		total += float64(w.Count)
	}
	return expected, likelihood / total
}

func minusInfinity(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.Inf(-1)
	}
	return out
}

// logAdd is log(exp(a) + exp(b)).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// best returns the tokens of the most probable segmentation that does without
// one token (-1 for none).
func (l *unigramLattice) best(word string, without int32) []int32 {
	score := minusInfinity(len(word) + 1)
	score[0] = 0
	from := make([]int, len(word)+1)
	last := make([]int32, len(word)+1)
	l.arcs(word, func(i, j int, id int32) {
		if s := score[i] + l.pieces[id].score; id != without && s > score[j] {
			score[j], from[j], last[j] = s, i, id
		}
	})
	var out []int32
	for j := len(word); j > 0; j = from[j] {
		out = append(out, last[j])
	}
	slices.Reverse(out)
	return out
}

// show returns the best segmentation of the most frequent words.
func (l *unigramLattice) show(corpus []Word, n int) []Word {
	out := make([]Word, min(n, len(corpus)))
	for i := range out {
		out[i].Count = corpus[i].Count
		for _, id := range l.best(corpus[i].Tokens[0], -1) {
			out[i].Tokens = append(out[i].Tokens, l.pieces[id].text)
		}
	}
	return out
}
