package tokenize

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// TrainOptions says how a vocabulary is learned. The zero value learns 1,000
// tokens with no special ones.
type TrainOptions struct {
	VocabSize    int      // tokens in all, 1,000 if 0
	MinFrequency int      // a pair that occurs less often is not merged
	Special      []string // special tokens; they get the first ids
	MaxLength    int      // longest token in characters; 0: unlimited, 16 for unigram
	Lowercase    bool     // WordPiece: read everything in lower case

	// Likelihood makes WordPiece merge the pair that raises the likelihood of the
	// corpus most, count(ab)/(count(a)·count(b)), as Schuster and Nakajima did,
	// and not the most frequent one, as Hugging Face tokenizers does.
	Likelihood bool

	// Trace is called after every step of training.
	Trace func(Step)
}

// Step is one step of training: a merge, or, for a unigram model, a round of
// estimating and pruning.
type Step struct {
	Number int // from 1

	Left, Right string  // the pair that was merged …
	Token       string  // … into this token
	Count       int     // how often the pair occurred
	Score       float64 // what it was chosen by: its count, or the likelihood ratio

	VocabSize     int     // tokens there are now
	LogLikelihood float64 // unigram: of the corpus, per word

	words func(n int) []Word
}

// Word is a word of the corpus, cut into the tokens there are so far.
type Word struct {
	Count  int
	Tokens []string
}

// Words returns what the n most frequent words look like after the step.
func (s Step) Words(n int) []Word { return s.words(n) }

func (o *TrainOptions) size() int {
	if o.VocabSize == 0 {
		return 1000
	}
	return o.VocabSize
}

// check refuses options that make no sense.
func (o *TrainOptions) check() error {
	switch {
	case o.size() < 1 || o.size() > maxVocab:
		return fmt.Errorf("vocabulary size %d, want 1 to %d", o.VocabSize, maxVocab)
	case o.MinFrequency < 0:
		return fmt.Errorf("minimum frequency %d, want at least 0", o.MinFrequency)
	case o.MaxLength < 0:
		return fmt.Errorf("maximum length %d, want at least 0", o.MaxLength)
	}
	seen := map[string]bool{}
	for _, s := range o.Special {
		if s == "" || seen[s] {
			return fmt.Errorf("special token %q is empty or there twice", s)
		}
		seen[s] = true
	}
	return nil
}

// countWords cuts texts into pieces and counts them. The words come back in the
// order of falling count, those of equal count in alphabetical order.
func countWords(texts []string, n normalizer, p pretokenizer) []Word {
	counts := map[string]int{}
	for _, s := range texts {
		t := whole(s, true, true)
		if n != nil {
			t = n.normalize(t)
		}
		p.split(t, func(piece text) {
			if piece.s != "" {
				counts[piece.s]++
			}
		})
	}
	words := make([]Word, 0, len(counts))
	for s, count := range counts {
		words = append(words, Word{count, []string{s}})
	}
	slices.SortFunc(words, func(a, b Word) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return strings.Compare(a.Tokens[0], b.Tokens[0])
	})
	return words
}

// trained turns the parts of a pipeline, as tokenizer.json has them, into a
// tokenizer.
func trained(special []string, parts map[string]any) (*Tokenizer, error) {
	added := make([]map[string]any, len(special))
	for id, s := range special {
		added[id] = map[string]any{"id": id, "content": s, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
	}
	file := map[string]any{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added,
		"normalizer": nil, "pre_tokenizer": nil, "post_processor": nil, "decoder": nil}
	for k, v := range parts {
		file[k] = v
	}
	data, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		return nil, err
	}
	t, err := parseHF(string(data))
	if err != nil {
		return nil, err
	}
	t.json = data
	return t, nil
}

// Save writes a trained tokenizer to path as tokenizer.json, which Open and
// Hugging Face tokenizers read. If path is a directory, the file in it is
// called tokenizer.json.
func (t *Tokenizer) Save(path string) error {
	if t.json == nil {
		return fmt.Errorf("tokenize: only a tokenizer that was trained here can be saved; copy the file this one was read from")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	if err := os.WriteFile(path, t.json, 0o644); err != nil {
		return fmt.Errorf("tokenize: %w", err)
	}
	return nil
}
