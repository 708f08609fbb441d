package tokenize

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// TrainBPE learns a byte-level BPE vocabulary, GPT-2's kind: words are cut into
// bytes, and the most frequent pair of neighbours is merged again and again
// until the vocabulary is full (Sennrich et al. 2016, algorithm 1). The merges
// equal those of Hugging Face tokenizers with ByteLevel(add_prefix_space=False)
// and its whole alphabet.
func TrainBPE(texts []string, o TrainOptions) (*Tokenizer, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("tokenize: train: %w", err)
	}
	tr := newMergeTrainer(o, "")
	for _, c := range byteChars {
		tr.alphabet[c] = -1
	}
	if err := tr.train(countWords(texts, nil, byteLevel{cut: true})); err != nil {
		return nil, fmt.Errorf("tokenize: train: %w", err)
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	return trained(o.Special, map[string]any{
		"pre_tokenizer": level,
		"decoder":       level,
		"model":         tr.bpe(map[string]any{"unk_token": nil, "byte_fallback": false, "fuse_unk": false}),
	})
}

// TrainSentencePieceBPE learns BPE the SentencePiece way: a space is written
// "▁" and belongs to the word after it, words are cut into characters, and
// characters that the corpus doesn't have fall back to bytes.
func TrainSentencePieceBPE(texts []string, o TrainOptions) (*Tokenizer, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("tokenize: train: %w", err)
	}
	o.Special = withUnknown(o.Special, "<unk>")
	tr := newMergeTrainer(o, "")
	for b := range 256 {
		tr.enter(fmt.Sprintf("<0x%02X>", b))
	}
	if err := tr.train(countWords(texts, nil, metaspace{"▁", "always", true})); err != nil {
		return nil, fmt.Errorf("tokenize: train: %w", err)
	}
	return trained(o.Special, map[string]any{
		"normalizer": map[string]any{"type": "Sequence", "normalizers": []any{
			map[string]any{"type": "Prepend", "prepend": "▁"},
			map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"},
		}},
		"decoder": map[string]any{"type": "Sequence", "decoders": []any{
			map[string]any{"type": "Replace", "pattern": map[string]any{"String": "▁"}, "content": " "},
			map[string]any{"type": "ByteFallback"},
			map[string]any{"type": "Fuse"},
			map[string]any{"type": "Strip", "content": " ", "start": 1, "stop": 0},
		}},
		"model": tr.bpe(map[string]any{"unk_token": "<unk>", "byte_fallback": true, "fuse_unk": true}),
	})
}

// TrainWordPiece learns BERT's kind of vocabulary: words as BERT's
// normaliser and pre-tokenizer make them, merged like BPE, where a token inside
// a word is another than the same letters at its start and has ## in front.
func TrainWordPiece(texts []string, o TrainOptions) (*Tokenizer, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("tokenize: train: %w", err)
	}
	if o.Special == nil {
		o.Special = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
	}
	o.Special = withUnknown(o.Special, "[UNK]")
	tr := newMergeTrainer(o, "##")
	n := bertNormalizer{clean: true, cjk: true, accents: o.Lowercase, lower: o.Lowercase}
	if err := tr.train(countWords(texts, n, splitBERT)); err != nil {
		return nil, fmt.Errorf("tokenize: train: %w", err)
	}
	var post any
	cls, sep := slices.Index(o.Special, "[CLS]"), slices.Index(o.Special, "[SEP]")
	if cls >= 0 && sep >= 0 {
		post = map[string]any{"type": "BertProcessing", "cls": []any{"[CLS]", cls}, "sep": []any{"[SEP]", sep}}
	}
	return trained(o.Special, map[string]any{
		"normalizer": map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
			"strip_accents": nil, "lowercase": o.Lowercase},
		"pre_tokenizer":  map[string]any{"type": "BertPreTokenizer"},
		"post_processor": post,
		"decoder":        map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model": map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
			"max_input_chars_per_word": 100, "vocab": tr.ids},
	})
}

// withUnknown puts the unknown token in front of the special ones, if it isn't
// there.
func withUnknown(special []string, unk string) []string {
	if slices.Contains(special, unk) {
		return special
	}
	return append([]string{unk}, special...)
}

// mergeTrainer learns merges from counted words.
type mergeTrainer struct {
	o        TrainOptions
	prefix   string // of tokens inside a word
	alphabet map[rune]int

	tokens []string
	ids    map[string]int
	merges [][2]string
	ranks  map[idPair]int // index in merges

	words    []trainWord
	counts   map[idPair]int
	single   []int // how often each token occurs, for likelihood
	waiting  mergeHeap
	newWords map[idPair][]int32 // words where a pair has just come up
}

type idPair struct{ left, right int32 }

// trainWord is a word as it is cut now.
type trainWord struct {
	ids   []int32
	count int
}

func newMergeTrainer(o TrainOptions, prefix string) *mergeTrainer {
	tr := &mergeTrainer{o: o, prefix: prefix, alphabet: map[rune]int{}, ids: map[string]int{},
		ranks: map[idPair]int{}, counts: map[idPair]int{}, newWords: map[idPair][]int32{}}
	for _, s := range o.Special {
		tr.enter(s)
	}
	return tr
}

// enter returns the id of a token, giving it the next one if it is new.
func (tr *mergeTrainer) enter(token string) int32 {
	id, ok := tr.ids[token]
	if !ok {
		id = len(tr.tokens)
		tr.ids[token] = id
		tr.tokens = append(tr.tokens, token)
		tr.single = append(tr.single, 0)
	}
	return int32(id)
}

// train learns until the vocabulary is full or no pair is left.
func (tr *mergeTrainer) train(corpus []Word) error {
	for _, w := range corpus {
		for _, c := range w.Tokens[0] {
			tr.alphabet[c]++
		}
	}
	chars := make([]rune, 0, len(tr.alphabet))
	for c := range tr.alphabet {
		chars = append(chars, c)
	}
	slices.Sort(chars)
	for _, c := range chars {
		tr.enter(string(c))
	}
	for i, w := range corpus {
		word := trainWord{count: w.Count}
		for k, c := range w.Tokens[0] {
			s := string(c)
			if k > 0 {
				s = tr.prefix + s
			}
			id := tr.enter(s)
			tr.single[id] += w.Count
			word.ids = append(word.ids, id)
		}
		for k := 1; k < len(word.ids); k++ {
			tr.change(idPair{word.ids[k-1], word.ids[k]}, 1, int32(i), w.Count)
		}
		tr.words = append(tr.words, word)
	}
	if len(tr.tokens) > tr.o.size() {
		return fmt.Errorf("vocabulary size %d, but the alphabet and the special tokens alone are %d", tr.o.size(), len(tr.tokens))
	}
	tr.queue()
	for step := 1; len(tr.tokens) < tr.o.size() && tr.waiting.Len() > 0; {
		if tr.o.Likelihood {
			tr.rescore()
		}
		top := &tr.waiting[0]
		if now := tr.entry(top.pair, nil); now.count != top.count || now.score != top.score {
			top.count, top.score = now.count, now.score // counts have changed since
			heap.Fix(&tr.waiting, 0)
			continue
		}
		best := heap.Pop(&tr.waiting).(waitingMerge)
		if best.count < 1 || best.count < tr.o.MinFrequency {
			if tr.o.Likelihood {
				continue // a rarer pair can have the higher ratio
			}
			break
		}
		token := tr.merge(best)
		tr.queue()
		if tr.o.Trace != nil {
			pair := tr.merges[len(tr.merges)-1]
			tr.o.Trace(Step{Number: step, Left: pair[0], Right: pair[1], Token: tr.tokens[token], Count: best.count,
				Score: best.score, VocabSize: len(tr.tokens), words: tr.show})
		}
		step++
	}
	return nil
}

// change adds to a pair's count; where it grows, the word is remembered.
func (tr *mergeTrainer) change(p idPair, by int, word int32, count int) {
	tr.counts[p] += by * count
	if by > 0 {
		tr.newWords[p] = append(tr.newWords[p], word)
	}
}

// queue makes candidates of the pairs that have come up.
func (tr *mergeTrainer) queue() {
	for p, words := range tr.newWords {
		if tr.counts[p] > 0 {
			heap.Push(&tr.waiting, tr.entry(p, words))
		}
	}
	clear(tr.newWords)
}

func (tr *mergeTrainer) entry(p idPair, words []int32) waitingMerge {
	m := waitingMerge{pair: p, count: tr.counts[p], words: words}
	m.score = float64(m.count)
	if tr.o.Likelihood && m.count > 0 {
		m.score /= float64(tr.single[p.left]) * float64(tr.single[p.right])
	}
	return m
}

// rescore brings every candidate up to date. Counts only fall while a candidate
// waits, so that the top of the heap can be trusted once it is up to date itself;
// a ratio of counts can rise.
func (tr *mergeTrainer) rescore() {
	for i := range tr.waiting {
		m := &tr.waiting[i]
		now := tr.entry(m.pair, nil)
		m.count, m.score = now.count, now.score
	}
	heap.Init(&tr.waiting)
}

// merge joins a pair everywhere and returns the new token.
func (tr *mergeTrainer) merge(m waitingMerge) int32 {
	left, right := tr.tokens[m.pair.left], tr.tokens[m.pair.right]
	to := tr.enter(left + strings.TrimPrefix(right, tr.prefix))
	if rank, again := tr.ranks[m.pair]; again { // the later rank counts
		tr.merges[rank] = [2]string{}
	}
	tr.ranks[m.pair] = len(tr.merges)
	tr.merges = append(tr.merges, [2]string{left, right})
	seen := map[int32]bool{}
	for _, i := range m.words {
		if !seen[i] {
			seen[i] = true
			tr.mergeWord(i, m.pair, to)
		}
	}
	return to
}

func (tr *mergeTrainer) mergeWord(i int32, p idPair, to int32) {
	w := &tr.words[i]
	for k := 0; k+1 < len(w.ids); k++ {
		if w.ids[k] != p.left || w.ids[k+1] != p.right {
			continue
		}
		tr.single[p.left] -= w.count
		tr.single[p.right] -= w.count
		tr.single[to] += w.count
		if k > 0 {
			tr.change(idPair{w.ids[k-1], p.left}, -1, i, w.count)
			if tr.fits(w.ids[k-1], to) {
				tr.change(idPair{w.ids[k-1], to}, 1, i, w.count)
			}
		}
		w.ids[k] = to
		w.ids = slices.Delete(w.ids, k+1, k+2)
		if k+1 < len(w.ids) {
			tr.change(idPair{p.right, w.ids[k+1]}, -1, i, w.count)
			if tr.fits(to, w.ids[k+1]) {
				tr.change(idPair{to, w.ids[k+1]}, 1, i, w.count)
			}
		}
	}
}

// fits reports whether two tokens together are short enough to be one.
func (tr *mergeTrainer) fits(a, b int32) bool {
	if tr.o.MaxLength == 0 {
		return true
	}
	return runeCount(strings.TrimPrefix(tr.tokens[a], tr.prefix))+runeCount(strings.TrimPrefix(tr.tokens[b], tr.prefix)) < tr.o.MaxLength
}

// show returns how the most frequent words are cut now.
func (tr *mergeTrainer) show(n int) []Word {
	out := make([]Word, min(n, len(tr.words)))
	for i := range out {
		w := tr.words[i]
		out[i].Count = w.count
		for _, id := range w.ids {
			out[i].Tokens = append(out[i].Tokens, tr.tokens[id])
		}
	}
	return out
}

// bpe is the "model" of a tokenizer.json.
func (tr *mergeTrainer) bpe(settings map[string]any) map[string]any {
	merges := make([][2]string, 0, len(tr.merges))
	for _, m := range tr.merges {
		if m[0] != "" {
			merges = append(merges, m)
		}
	}
	model := map[string]any{"type": "BPE", "dropout": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
		"ignore_merges": false, "vocab": tr.ids, "merges": merges}
	for k, v := range settings {
		model[k] = v
	}
	return model
}

// waitingMerge is a pair that may be merged, and the words where it came up.
type waitingMerge struct {
	pair  idPair
	count int
	score float64
	words []int32
}

// mergeHeap has the best candidate on top: the highest score, and of equal ones
// the pair of the oldest tokens.
type mergeHeap []waitingMerge

func (h mergeHeap) Len() int { return len(h) }
func (h mergeHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	switch {
	case a.score != b.score:
		return a.score > b.score
	case a.pair.left != b.pair.left:
		return a.pair.left < b.pair.left
	}
	return a.pair.right < b.pair.right
}
func (h mergeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *mergeHeap) Push(x any)   { *h = append(*h, x.(waitingMerge)) }
func (h *mergeHeap) Pop() any {
	old := *h
	top := old[len(old)-1]
	*h = old[:len(old)-1]
	return top
}
