package tokenize

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"unicode"
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

// stageType returns the "type" of a stage, "" if there is no stage.
func stageType(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var s struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	if s.Type == "" {
		return "", fmt.Errorf("a stage without a type: %.100s", raw)
	}
	return s.Type, nil
}

func buildNormalizer(raw json.RawMessage) (normalizer, error) {
	kind, err := stageType(raw)
	if err != nil || kind == "" {
		return nil, err
	}
	var s struct {
		Normalizers        []json.RawMessage `json:"normalizers"`
		Prepend            string            `json:"prepend"`
		Pattern            hfPattern         `json:"pattern"`
		Content            string            `json:"content"`
		StripLeft          bool              `json:"strip_left"`
		StripRight         bool              `json:"strip_right"`
		CleanText          bool              `json:"clean_text"`
		HandleChineseChars bool              `json:"handle_chinese_chars"`
		StripAccents       *bool             `json:"strip_accents"`
		Lowercase          bool              `json:"lowercase"`
		Charsmap           string            `json:"precompiled_charsmap"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	switch kind {
	case "Sequence":
		var ns normalizers
		for _, r := range s.Normalizers {
			n, err := buildNormalizer(r)
			if err != nil {
				return nil, err
			}
			if n != nil {
				ns = append(ns, n)
			}
		}
		if len(ns) == 0 {
			return nil, nil
		}
		return ns, nil
	case "NFC":
		return normalizerFunc(nfc), nil
	case "NFD":
		return normalizerFunc(nfd), nil
	case "NFKC":
		return normalizerFunc(nfkc), nil
	case "NFKD":
		return normalizerFunc(nfkd), nil
	case "Lowercase":
		return normalizerFunc(lowercase), nil
	case "StripAccents":
		return normalizerFunc(stripAccents), nil
	case "Nmt":
		return normalizerFunc(nmt), nil
	case "ByteLevel":
		return normalizerFunc(byteLevelText), nil
	case "Strip":
		return strip{s.StripLeft, s.StripRight}, nil
	case "Prepend":
		return prepend(s.Prepend), nil
	case "Replace":
		p, err := s.Pattern.compile()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return replace{p, s.Content}, nil
	case "BertNormalizer":
		n := bertNormalizer{clean: s.CleanText, cjk: s.HandleChineseChars, accents: s.Lowercase, lower: s.Lowercase}
		if s.StripAccents != nil {
			n.accents = *s.StripAccents
		}
		return n, nil
	case "Precompiled":
		blob, err := base64.StdEncoding.DecodeString(s.Charsmap)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		table, err := parseCharsmap(blob)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return precompiled{table}, nil
	}
	return nil, fmt.Errorf("unknown type %q", kind)
}

// hfPattern is {"String": "…"} or {"Regex": "…"}.
type hfPattern struct {
	String *string
	Regex  *string
}

func (p hfPattern) compile() (pattern, error) {
	switch {
	case p.String != nil:
		return literal(*p.String), nil
	case p.Regex != nil:
		return newPattern(*p.Regex)
	}
	return nil, fmt.Errorf("no pattern")
}

var behaviours = map[string]behaviour{
	"Isolated": isolated, "Removed": removed, "MergedWithPrevious": mergedBefore,
	"MergedWithNext": mergedAfter, "Contiguous": contiguous,
}

func buildPretokenizer(raw json.RawMessage) (pretokenizer, error) {
	kind, err := stageType(raw)
	if err != nil || kind == "" {
		return nil, err
	}
	s := struct {
		Pretokenizers    []json.RawMessage `json:"pretokenizers"`
		AddPrefixSpace   *bool             `json:"add_prefix_space"`
		UseRegex         bool              `json:"use_regex"`
		Pattern          json.RawMessage   `json:"pattern"`
		Behavior         string            `json:"behavior"`
		Invert           bool              `json:"invert"`
		IndividualDigits bool              `json:"individual_digits"`
		Replacement      string            `json:"replacement"`
		PrependScheme    string            `json:"prepend_scheme"`
		Split            bool              `json:"split"`
		Delimiter        string            `json:"delimiter"`
		Length           int               `json:"length"`
	}{UseRegex: true, Behavior: "Isolated", Replacement: "▁", PrependScheme: "always", Split: true, Length: 5}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	do, known := behaviours[s.Behavior]
	if !known {
		return nil, fmt.Errorf("%s: unknown behavior %q", kind, s.Behavior)
	}
	switch kind {
	case "Sequence":
		ps := pretokenizers{}
		for _, r := range s.Pretokenizers {
			p, err := buildPretokenizer(r)
			if err != nil {
				return nil, err
			}
			if p != nil {
				ps = append(ps, p)
			}
		}
		return ps, nil
	case "ByteLevel":
		return byteLevel{prefixSpace: s.AddPrefixSpace == nil || *s.AddPrefixSpace, cut: s.UseRegex}, nil
	case "Split":
		var hp hfPattern
		if err := json.Unmarshal(s.Pattern, &hp); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		p, err := hp.compile()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return splitter{p, do, s.Invert}, nil
	case "Digits":
		if s.IndividualDigits {
			return splitter{pattern: scanner(scanDigits(1))}, nil
		}
		return splitter{pattern: scanner(scanDigits(1)), do: contiguous}, nil
	case "Punctuation":
		return splitter{pattern: charPattern(isPunctuation), do: do}, nil
	case "Whitespace":
		return splitter{scanner(scanWords), removed, true}, nil
	case "WhitespaceSplit":
		return splitter{pattern: charPattern(unicode.IsSpace), do: removed}, nil
	case "CharDelimiterSplit":
		return splitter{pattern: literal(s.Delimiter), do: removed}, nil
	case "BertPreTokenizer":
		return splitBERT, nil
	case "Metaspace":
		if s.AddPrefixSpace != nil && !*s.AddPrefixSpace {
			s.PrependScheme = "never"
		}
		switch s.PrependScheme {
		case "always", "first", "never":
		default:
			return nil, fmt.Errorf("%s: unknown prepend_scheme %q", kind, s.PrependScheme)
		}
		return metaspace{s.Replacement, s.PrependScheme, s.Split}, nil
	case "FixedLength":
		if s.Length < 1 {
			return nil, fmt.Errorf("%s: length %d, want at least 1", kind, s.Length)
		}
		return fixedLength(s.Length), nil
	}
	return nil, fmt.Errorf("unknown type %q", kind)
}

func buildDecoder(raw json.RawMessage) ([]decoder, error) {
	kind, err := stageType(raw)
	if err != nil || kind == "" {
		return nil, err
	}
	s := struct {
		Decoders       []json.RawMessage `json:"decoders"`
		Pattern        json.RawMessage   `json:"pattern"`
		Content        string            `json:"content"`
		Start          int               `json:"start"`
		Stop           int               `json:"stop"`
		Prefix         string            `json:"prefix"`
		Suffix         string            `json:"suffix"`
		Cleanup        bool              `json:"cleanup"`
		Replacement    string            `json:"replacement"`
		AddPrefixSpace *bool             `json:"add_prefix_space"`
		PrependScheme  string            `json:"prepend_scheme"`
		Pad            string            `json:"pad_token"`
		Delimiter      string            `json:"word_delimiter_token"`
	}{Prefix: "##", Suffix: "</w>", Cleanup: true, Replacement: "▁", PrependScheme: "always"}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	switch kind {
	case "Sequence":
		var ds []decoder
		for _, r := range s.Decoders {
			d, err := buildDecoder(r)
			if err != nil {
				return nil, err
			}
			ds = append(ds, d...)
		}
		return ds, nil
	case "ByteLevel":
		return []decoder{decoderFunc(decodeByteLevel)}, nil
	case "ByteFallback":
		return []decoder{decodeByteFallback{}}, nil
	case "Fuse":
		return []decoder{decoderFunc(decodeFuse)}, nil
	case "Replace":
		var hp hfPattern
		if err := json.Unmarshal(s.Pattern, &hp); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		p, err := hp.compile()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return []decoder{decodeReplace{p, s.Content}}, nil
	case "Strip":
		if s.Content == "" {
			return nil, fmt.Errorf("%s: no character to strip", kind)
		}
		return []decoder{decodeStrip{s.Content, s.Start, s.Stop}}, nil
	case "Metaspace":
		prefixed := s.PrependScheme != "never" && (s.AddPrefixSpace == nil || *s.AddPrefixSpace)
		return []decoder{decodeMetaspace{s.Replacement, prefixed}}, nil
	case "WordPiece":
		return []decoder{decodeWordPiece{s.Prefix, s.Cleanup}}, nil
	case "BPEDecoder":
		return []decoder{decodeSuffix(s.Suffix)}, nil
	case "CTC":
		return []decoder{decodeCTC{s.Pad, s.Delimiter, s.Cleanup}}, nil
	}
	return nil, fmt.Errorf("unknown type %q", kind)
}

// hfMarker is a named token and its id, written ["[SEP]", 102].
type hfMarker struct {
	token string
	id    int
}

func (m *hfMarker) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&m.token, &m.id})
}

func buildPost(raw json.RawMessage, t *Tokenizer) ([]postProcessor, error) {
	kind, err := stageType(raw)
	if err != nil || kind == "" {
		return nil, err
	}
	s := struct {
		Processors     []json.RawMessage `json:"processors"`
		AddPrefixSpace bool              `json:"add_prefix_space"`
		TrimOffsets    bool              `json:"trim_offsets"`
		Cls            hfMarker          `json:"cls"`
		Sep            hfMarker          `json:"sep"`
		Single         []struct {
			SpecialToken *struct {
				ID string `json:"id"`
			}
			Sequence *struct {
				ID string `json:"id"`
			}
		} `json:"single"`
		SpecialTokens map[string]struct {
			IDs []int `json:"ids"`
		} `json:"special_tokens"`
	}{AddPrefixSpace: true, TrimOffsets: true}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	switch kind {
	case "Sequence":
		var ps []postProcessor
		for _, r := range s.Processors {
			p, err := buildPost(r, t)
			if err != nil {
				return nil, err
			}
			ps = append(ps, p...)
		}
		return ps, nil
	case "ByteLevel":
		if !s.TrimOffsets {
			return nil, nil
		}
		return []postProcessor{trimSpace{s.AddPrefixSpace}}, nil
	case "BertProcessing":
		return []postProcessor{template{[]int{s.Cls.id}, []int{s.Sep.id}}}, nil
	case "RobertaProcessing":
		ps := []postProcessor{template{[]int{s.Cls.id}, []int{s.Sep.id}}}
		if s.TrimOffsets {
			ps = append([]postProcessor{trimSpace{s.AddPrefixSpace}}, ps...)
		}
		return ps, nil
	case "TemplateProcessing":
		var p template
		seen := false
		for _, piece := range s.Single {
			switch {
			case piece.SpecialToken != nil:
				special, ok := s.SpecialTokens[piece.SpecialToken.ID]
				if !ok {
					return nil, fmt.Errorf("%s: special token %q is not defined", kind, piece.SpecialToken.ID)
				}
				if seen {
					p.after = append(p.after, special.IDs...)
				} else {
					p.before = append(p.before, special.IDs...)
				}
			case piece.Sequence != nil && piece.Sequence.ID == "A" && !seen:
				seen = true
			default:
				return nil, fmt.Errorf("%s: want special tokens around one sequence A", kind)
			}
		}
		return []postProcessor{p}, nil
	}
	return nil, fmt.Errorf("unknown type %q", kind)
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
