package tokenize

import (
	"fmt"
	"slices"
	"strings"

	"forwardpass/pkg/internal/gguf"
)

// A GGUF file keeps the vocabulary among its key/value pairs, under
// tokenizer.ggml: the tokens by id, their types and scores, the merges, and the
// name of the rule that cuts text into pieces. The rule itself is not in the
// file: programs know it by that name.

func openGGUF(path string) (*Tokenizer, error) {
	f, err := gguf.ReadFile(path)
	if err != nil {
		return nil, reason(err)
	}
	return fromGGUF(f.Meta)
}

// FromGGUF reads the vocabulary from the key/value pairs of a GGUF file. Integers
// may be int64 or any smaller type; lists are slices of one type.
func FromGGUF(meta map[string]any) (*Tokenizer, error) {
	t, err := fromGGUF(meta)
	if err != nil {
		return nil, fmt.Errorf("tokenize: gguf: %w", err)
	}
	return t, nil
}

// Token types of tokenizer.ggml.token_type.
const (
	ggufNormal = 1 + iota
	ggufUnknown
	ggufControl
	ggufUserDefined
	ggufUnused
	ggufByte
)

// ggufMeta reads typed values of the tokenizer.ggml keys.
type ggufMeta map[string]any

func (m ggufMeta) strings(key string) []string {
	s, _ := m["tokenizer.ggml."+key].([]string)
	return s
}

func (m ggufMeta) string(key string) string {
	s, _ := m["tokenizer.ggml."+key].(string)
	return s
}

func (m ggufMeta) flag(key string, otherwise bool) bool {
	if b, ok := m["tokenizer.ggml."+key].(bool); ok {
		return b
	}
	return otherwise
}

func (m ggufMeta) int(key string) (int, bool) {
	switch n := m["tokenizer.ggml."+key].(type) {
	case int64:
		return int(n), true
	case uint32:
		return int(n), true
	case int32:
		return int(n), true
	case int:
		return n, true
	}
	return 0, false
}

func (m ggufMeta) ints(key string) []int64 {
	switch list := m["tokenizer.ggml."+key].(type) {
	case []int64:
		return list
	case []int32:
		out := make([]int64, len(list))
		for i, n := range list {
			out[i] = int64(n)
		}
		return out
	}
	return nil
}

func (m ggufMeta) floats(key string) []float64 {
	switch list := m["tokenizer.ggml."+key].(type) {
	case []float64:
		return list
	case []float32:
		out := make([]float64, len(list))
		for i, n := range list {
			out[i] = float64(n)
		}
		return out
	}
	return nil
}

func fromGGUF(meta map[string]any) (*Tokenizer, error) {
	m := ggufMeta(meta)
	tokens := m.strings("tokens")
	if len(tokens) == 0 {
		return nil, fmt.Errorf("no tokenizer.ggml.tokens")
	}
	types := m.ints("token_type")
	if types != nil && len(types) != len(tokens) {
		return nil, fmt.Errorf("%d tokens, but %d token types", len(tokens), len(types))
	}
	var t *Tokenizer
	var err error
	switch kind := m.string("model"); kind {
	case "gpt2":
		t, err = m.byteLevelBPE(tokens)
	case "llama":
		t, err = m.sentencePiece(tokens, types, 2)
	case "t5":
		t, err = m.sentencePiece(tokens, types, 1)
	case "bert":
		t, err = m.wordPiece(tokens)
	default:
		err = fmt.Errorf("unknown tokenizer.ggml.model %q", kind)
	}
	if err != nil {
		return nil, err
	}
	t.added = nil
	if err := t.addTokens(m.added(tokens, types)); err != nil {
		return nil, err
	}
	return t, m.markers(t)
}

// sentencePiece sets up a SentencePiece model, whose settings GGUF files keep
// under names of their own.
func (m ggufMeta) sentencePiece(tokens []string, types []int64, kind int) (*Tokenizer, error) {
	scores := m.floats("scores")
	if len(scores) != len(tokens) || len(types) != len(tokens) {
		return nil, fmt.Errorf("%d tokens, but %d scores and %d types", len(tokens), len(scores), len(types))
	}
	sp := &spModel{
		kind:        kind,
		pieces:      make([]spPiece, len(tokens)),
		dummyPrefix: m.flag("add_space_prefix", true),
		trimSpaces:  m.flag("remove_extra_whitespaces", false),
		escape:      true,
		bosID:       -1,
		eosID:       -1,
		unkSurface:  " \u2047 ",
	}
	for id := range tokens {
		sp.pieces[id] = spPiece{tokens[id], float32(scores[id]), int(types[id])}
		sp.byteFallback = sp.byteFallback || types[id] == ggufByte
	}
	switch list := m["tokenizer.ggml.precompiled_charsmap"].(type) {
	case []int64:
		for _, b := range list {
			sp.charsmap = append(sp.charsmap, byte(b))
		}
	case []uint8:
		sp.charsmap = list
	}
	return sp.build()
}

// wordPiece sets up BERT's tokenizer. GGUF files write the tokens that start a
// word with "▁" in front, and those inside one without "##".
func (m ggufMeta) wordPiece(tokens []string) (*Tokenizer, error) {
	marked := slices.ContainsFunc(tokens, func(s string) bool { return strings.HasPrefix(s, "▁") })
	lines := make([]string, len(tokens))
	for id, token := range tokens {
		if start, ok := strings.CutPrefix(token, "▁"); ok {
			token = start
		} else if special := strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]"); marked && !special {
			token = "##" + token
		}
		lines[id] = token
	}
	return wordPieceTokenizer(lines)
}

// added lists the tokens to be found in text whole.
func (m ggufMeta) added(tokens []string, types []int64) []AddedToken {
	var list []AddedToken
	for id, kind := range types {
		if kind == ggufControl || kind == ggufUserDefined || kind == ggufUnknown {
			if m.string("model") == "bert" {
				tokens[id] = strings.TrimPrefix(tokens[id], "▁")
			}
			list = append(list, AddedToken{ID: id, Content: tokens[id], Special: kind != ggufUserDefined})
		}
	}
	return list
}

// markers sets BOS, EOS and the chat template.
func (m ggufMeta) markers(t *Tokenizer) error {
	var before, after []int
	names := map[string]string{}
	for _, key := range []string{"bos", "eos", "eot"} {
		id, ok := m.int(key + "_token_id")
		if !ok {
			continue
		}
		token, ok := t.token(id)
		if !ok {
			return fmt.Errorf("tokenizer.ggml.%s_token_id is %d, want less than %d", key, id, t.VocabSize())
		}
		names[key] = token
		switch key {
		case "bos":
			t.bos = []int{id}
			if m.flag("add_bos_token", m.string("model") == "llama") {
				before = t.bos
			}
		case "eos":
			t.eos = []int{id}
			if m.flag("add_eos_token", false) {
				after = t.eos
			}
		default:
			if len(t.eos) > 0 && t.eos[0] != id {
				t.eos = append(t.eos, id)
			}
		}
	}
	if (before != nil || after != nil) && t.post == nil {
		t.post = []postProcessor{template{before, after}}
	}
	if source, ok := m["tokenizer.chat_template"].(string); ok && source != "" {
		t.chat = &chatTemplate{source: source, bos: names["bos"], eos: names["eos"]}
	}
	return nil
}

// ggufSplits gives the expressions behind the names of tokenizer.ggml.pre.
var ggufSplits = map[string][]string{
	"":                 {patternGPT2},
	"default":          {patternGPT2},
	"gpt-2":            {patternGPT2},
	"gpt2":             {patternGPT2},
	"phi-2":            {patternGPT2},
	"mpt":              {patternGPT2},
	"olmo":             {patternGPT2},
	"smollm":           {patternDigits, patternGPT2},
	"starcoder":        {patternDigits, patternGPT2},
	"refact":           {patternDigits, patternGPT2},
	"command-r":        {patternDigits, patternGPT2},
	"codeshell":        {patternDigits, patternGPT2},
	"llama-bpe":        {patternCL100K},
	"llama3":           {patternCL100K},
	"llama-v3":         {patternCL100K},
	"dbrx":             {patternCL100K},
	"smaug-bpe":        {patternCL100K},
	"qwen2":            {patternQwen2},
	"stablelm2":        {patternQwen2},
	"deepseek-v3":      {patternDigits3, patternHan, patternDeepSeek},
	"deepseek-r1":      {patternDigits3, patternHan, patternDeepSeek},
	"gpt-4o":           {patternO200K},
	"llama4":           {patternO200K},
	"tekken":           {patternTekken},
	"deepseek-r1-qwen": {patternQwen2},
}

// byteLevelBPE sets up GPT-2's kind of tokenizer.
func (m ggufMeta) byteLevelBPE(tokens []string) (*Tokenizer, error) {
	v := newVocab(len(tokens))
	for id, token := range tokens {
		if err := v.add(token, id); err != nil {
			return nil, err
		}
	}
	t := &Tokenizer{vocab: v}
	name := m.string("pre")
	exprs, ok := ggufSplits[name]
	if !ok {
		return nil, fmt.Errorf("unknown pre-tokenizer %q", name)
	}
	var ps pretokenizers
	for _, expr := range exprs {
		ps = append(ps, splitter{pattern: scanners[expr]})
	}
	ps = append(ps, byteLevel{prefixSpace: m.flag("add_space_prefix", false)})
	t.pretokenizer = ps
	if strings.HasPrefix(name, "qwen") || name == "deepseek-r1-qwen" {
		t.normalizer = normalizerFunc(nfc)
	}
	merges := m.strings("merges")
	pairs := make([]string, 0, 2*len(merges))
	for i, s := range merges {
		left, right, ok := splitMerge(s)
		if !ok {
			return nil, fmt.Errorf("merge %d: %q is not two tokens", i, s)
		}
		pairs = append(pairs, left, right)
	}
	b, err := newBPE(t.vocab, pairs, "", "")
	if err != nil {
		return nil, err
	}
	b.ignoreMerges = name == "llama-bpe" || name == "llama3" || name == "llama-v3" || name == "tekken"
	readBytes(t)
	b.useBytes()
	t.model = b
	t.decoder = []decoder{decoderFunc(decodeByteLevel)}
	return t, nil
}
