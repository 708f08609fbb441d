package tokenize

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Reading tokenizer.json, the file in which Hugging Face tokenizers keeps a
// whole pipeline. Every stage is an object with a "type"; one that isn't known
// here is refused by its name.

// hfFile is what a tokenizer.json holds. Truncation and padding are settings
// for batches, not part of the vocabulary, and are left aside.
type hfFile struct {
	added         []hfAdded
	normalizer    json.RawMessage
	pretokenizer  json.RawMessage
	postProcessor json.RawMessage
	decoder       json.RawMessage
	model         hfModel
}

type hfAdded struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	Normalized bool   `json:"normalized"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
}

func (a hfAdded) token() AddedToken {
	return AddedToken{ID: a.ID, Content: a.Content, Special: a.Special, Normalized: a.Normalized,
		SingleWord: a.SingleWord, LStrip: a.LStrip, RStrip: a.RStrip}
}

// hfModel is the "model" object of any type.
type hfModel struct {
	kind         string
	vocab        *vocab
	scores       []float64 // unigram, by id
	merges       []string  // BPE: left, right, left, right, …
	unk          *string
	unkID        *int
	prefix       string
	prefixSet    bool
	suffix       string
	fuseUnk      bool
	byteFallback bool
	ignoreMerges bool
	maxWord      int
	dropout      *float64
}

// parseHF reads a tokenizer.json.
func parseHF(data string) (*Tokenizer, error) {
	r, err := newJSONReader(data)
	if err != nil {
		return nil, err
	}
	var f hfFile
	seenModel := false
	err = r.object(func(key string) error {
		switch key {
		case "added_tokens":
			return r.value(&f.added)
		case "normalizer":
			return r.value(&f.normalizer)
		case "pre_tokenizer":
			return r.value(&f.pretokenizer)
		case "post_processor":
			return r.value(&f.postProcessor)
		case "decoder":
			return r.value(&f.decoder)
		case "model":
			seenModel = true
			return f.model.read(r)
		}
		_, err := r.raw()
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if !seenModel {
		return nil, fmt.Errorf(`no "model" in it`)
	}
	return f.build()
}

// read reads the model object.
func (m *hfModel) read(r *jsonReader) error {
	m.maxWord = 100
	var prefix, suffix *string
	err := r.object(func(key string) error {
		switch key {
		case "type":
			return r.value(&m.kind)
		case "vocab":
			if r.peek() == '[' {
				return m.readScores(r)
			}
			return m.readVocab(r)
		case "merges":
			return m.readMerges(r)
		case "unk_token":
			return r.value(&m.unk)
		case "unk_id":
			return r.value(&m.unkID)
		case "continuing_subword_prefix":
			return r.value(&prefix)
		case "end_of_word_suffix":
			return r.value(&suffix)
		case "fuse_unk":
			return r.value(&m.fuseUnk)
		case "byte_fallback":
			return r.value(&m.byteFallback)
		case "ignore_merges":
			return r.value(&m.ignoreMerges)
		case "max_input_chars_per_word":
			return r.value(&m.maxWord)
		case "dropout":
			return r.value(&m.dropout)
		}
		_, err := r.raw()
		return err
	})
	if prefix != nil {
		m.prefix, m.prefixSet = *prefix, true
	}
	if suffix != nil {
		m.suffix = *suffix
	}
	return err
}

// readVocab reads {"token": id, …}.
func (m *hfModel) readVocab(r *jsonReader) error {
	m.vocab = newVocab(max(64, (len(r.s)-r.pos)/64))
	return r.object(func(token string) error {
		id, err := r.int()
		if err != nil {
			return err
		}
		if err := m.vocab.add(token, id); err != nil {
			return fmt.Errorf("vocabulary: %w", err)
		}
		return nil
	})
}

// readScores reads [["piece", log probability], …], as unigram models have it.
func (m *hfModel) readScores(r *jsonReader) error {
	m.vocab = newVocab(max(64, (len(r.s)-r.pos)/32))
	return r.array(func() error {
		field := 0
		return r.array(func() error {
			field++
			switch field {
			case 1:
				piece, err := r.string()
				if err != nil {
					return err
				}
				return m.vocab.add(piece, len(m.scores))
			case 2:
				score, err := r.float()
				m.scores = append(m.scores, score)
				return err
			}
			return r.errorf("a piece has a text and a score, not more")
		})
	})
}

// readMerges reads ["left right", …] or [["left", "right"], …].
func (m *hfModel) readMerges(r *jsonReader) error {
	return r.array(func() error {
		if r.peek() == '"' {
			s, err := r.string()
			if err != nil {
				return err
			}
			left, right, ok := splitMerge(s)
			if !ok {
				return r.errorf("merge %d: %q is not two tokens", len(m.merges)/2, s)
			}
			m.merges = append(m.merges, left, right)
			return nil
		}
		n := len(m.merges)
		err := r.array(func() error {
			s, err := r.string()
			m.merges = append(m.merges, s)
			return err
		})
		if err == nil && len(m.merges) != n+2 {
			return r.errorf("merge %d: %q is not two tokens", n/2, m.merges[n:])
		}
		return err
	})
}

// splitMerge cuts a merge rule at its one space.
func splitMerge(s string) (left, right string, ok bool) {
	for i := 0; i < len(s); i++ {
		if s[i] != ' ' {
			continue
		}
		if ok || i == 0 || i == len(s)-1 {
			return "", "", false
		}
		left, right, ok = s[:i], s[i+1:], true
	}
	return left, right, ok
}

// build puts the pipeline together.
func (f *hfFile) build() (*Tokenizer, error) {
	t := &Tokenizer{vocab: f.model.vocab}
	if t.vocab == nil {
		return nil, fmt.Errorf("model: no vocabulary")
	}
	var err error
	if t.normalizer, err = buildNormalizer(f.normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if t.pretokenizer, err = buildPretokenizer(f.pretokenizer); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	t.origins = asksOrigin(t.pretokenizer)
	if t.decoder, err = buildDecoder(f.decoder); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	if t.model, err = f.model.build(t); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	list := make([]AddedToken, len(f.added))
	for i, a := range f.added {
		list[i] = a.token()
	}
	if err := t.addTokens(list); err != nil {
		return nil, err
	}
	if t.post, err = buildPost(f.postProcessor, t); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	t.vocab.compact()
	return t, nil
}

// build makes the model, and lets a BPE model over bytes read them directly.
func (m *hfModel) build(t *Tokenizer) (model, error) {
	if m.dropout != nil && *m.dropout != 0 {
		return nil, fmt.Errorf("dropout %g: random merges have no one answer, want 0", *m.dropout)
	}
	kind := m.kind
	if kind == "" { // files of before the type was written down
		switch {
		case m.merges != nil:
			kind = "BPE"
		case m.scores != nil:
			kind = "Unigram"
		default:
			kind = "WordPiece"
		}
	}
	switch kind {
	case "BPE":
		b, err := newBPE(m.vocab, m.merges, m.prefix, m.suffix)
		if err != nil {
			return nil, err
		}
		b.ignoreMerges, b.fuseUnk = m.ignoreMerges, m.fuseUnk
		if m.unk != nil {
			if b.unk = m.vocab.id(*m.unk); b.unk < 0 {
				return nil, fmt.Errorf("unknown token %q is not in the vocabulary", *m.unk)
			}
		}
		if m.byteFallback {
			b.useFallback()
		}
		if b.joinsNoBytes(m.merges) && m.prefix == "" && m.suffix == "" && !m.ignoreMerges {
			b.joined = newBigrams(m.vocab, !b.allBytes())
		}
		if !m.byteFallback && m.prefix == "" && m.suffix == "" && readBytes(t) {
			b.useBytes()
			b.joined = nil
		}
		return b, nil
	}
	unk := "[UNK]"
	if m.unk != nil {
		unk = *m.unk
	}
	switch kind {
	case "WordPiece":
		prefix := "##"
		if m.prefixSet {
			prefix = m.prefix
		}
		return newWordPiece(m.vocab, unk, prefix, m.maxWord)
	case "WordLevel":
		return &wordLevel{m.vocab, m.vocab.id(unk), unk}, nil
	case "Unigram":
		id := int32(-1)
		if m.unkID != nil {
			if *m.unkID < 0 || *m.unkID >= len(m.scores) {
				return nil, fmt.Errorf("unk_id %d, want 0 to %d", *m.unkID, len(m.scores)-1)
			}
			id = int32(*m.unkID)
		}
		if len(m.scores) != len(m.vocab.tokens) {
			return nil, fmt.Errorf("%d scores for %d tokens", len(m.scores), len(m.vocab.tokens))
		}
		u, err := newUnigram(m.vocab, m.scores, id, nil)
		if err != nil {
			return nil, err
		}
		if m.byteFallback {
			u.useFallback()
		}
		return u, nil
	}
	return nil, fmt.Errorf("unknown type %q", m.kind)
}

// readBytes switches a pipeline whose last step before the model is the
// byte-level alphabet to raw bytes, if it is one.
func readBytes(t *Tokenizer) bool {
	switch p := t.pretokenizer.(type) {
	case byteLevel:
		p.raw = true
		t.pretokenizer, t.rawInput = p, true
	case pretokenizers:
		if len(p) == 0 {
			return false
		}
		last, ok := p[len(p)-1].(byteLevel)
		if !ok {
			return false
		}
		for _, before := range p[:len(p)-1] {
			if b, ok := before.(byteLevel); ok && !b.raw {
				return false // the alphabet would be written twice
			}
		}
		last.raw = true
		p[len(p)-1] = last
		t.rawInput = true
	}
	return t.rawInput
}

// asksOrigin reports whether a pre-tokenizer treats the start of the input
// differently.
func asksOrigin(p pretokenizer) bool {
	switch p := p.(type) {
	case metaspace:
		return p.scheme == "first"
	case pretokenizers:
		return slices.ContainsFunc(p, asksOrigin)
	}
	return false
}
