// Package tokenize turns text into token ids and back (chapter section 2.1).
//
// A model reads numbers, so text is cut into tokens and each token replaced by
// its row number in the vocabulary. Every tokenizer here is the same pipeline:
//
//	text → added tokens → normaliser → pre-tokenizer → model → post-processor → ids
//	"I love it" →            …           [I][Ġlove][Ġit]  [0, 512, 97]
//
// Added tokens such as <|endoftext|> are found first; the normaliser rewrites
// what is between (lower case, NFC, ▁ for spaces); the pre-tokenizer cuts it
// into pieces; the model, one of byte-pair encoding (Sennrich et al. 2016),
// WordPiece (Schuster and Nakajima 2012) and unigram (Kudo 2018), turns a piece
// into tokens; the post-processor adds markers such as BOS.
//
// Open reads the vocabulary of any checkpoint; Train… learns one from a text.
// Ids, tokens and offsets equal those of Hugging Face tokenizers, SentencePiece
// and tiktoken, whichever made the file.
package tokenize

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Tokenizer is a loaded or trained vocabulary with its rules. It is safe for
// concurrent use.
type Tokenizer struct {
	vocab    *vocab         // the model's tokens
	extra    map[int]string // added tokens that the model doesn't know
	extraIDs map[string]int
	normal   map[int]string // added tokens that normalisation changes, as it leaves them
	added    []AddedToken
	special  map[int]bool
	verbatim *addedTokens // matched in the text as it is
	normed   *addedTokens // matched after normalisation

	normalizer   normalizer   // nil: text stays as it is
	pretokenizer pretokenizer // nil: text is one piece
	model        model
	post         []postProcessor
	decoder      []decoder
	rawInput     bool // the pipeline reads bytes that are not UTF-8 as they are
	origins      bool // a stage asks where in the input its text starts
	rawNames     bool // the vocabulary holds bytes, to be named in the byte-level alphabet

	bos, eos []int
	chat     *chatTemplate
	json     []byte // of a trained tokenizer: its tokenizer.json
}

// Options changes how EncodeWith works. The zero value is what Encode does.
type Options struct {
	NoSpecial bool // don't add BOS, EOS, [CLS] and the like
	Ordinary  bool // read special tokens in the text as ordinary text
}

// Encoding is an encoded text: for each token its id, its name in the
// vocabulary and the bytes of the text that it covers.
type Encoding struct {
	IDs    []int
	Tokens []string
	// Offsets[i] is where token i stands: text[Offsets[i][0]:Offsets[i][1]].
	// A token that is part of a character has the offsets of the character;
	// one that was added (BOS) has 0, 0.
	Offsets [][2]int
}

// Encode returns the ids of text. Special tokens in the text become their ids,
// and the markers the vocabulary asks for (BOS, [CLS] … [SEP]) are added.
func (t *Tokenizer) Encode(text string) ([]int, error) {
	e, err := t.encode(text, Options{}, false)
	return e.IDs, err
}

// EncodeWith is Encode with options; it also returns tokens and offsets.
func (t *Tokenizer) EncodeWith(text string, o Options) (Encoding, error) {
	e, err := t.encode(text, o, true)
	if err != nil {
		return Encoding{}, err
	}
	e.Tokens = t.Tokens(e.IDs)
	return e, nil
}

// Offsets returns the byte range of text that each token of Encode(text) covers.
func (t *Tokenizer) Offsets(text string) ([][2]int, error) {
	e, err := t.encode(text, Options{}, true)
	return e.Offsets, err
}

// encode runs the pipeline; offsets are left out unless wanted.
func (t *Tokenizer) encode(input string, o Options, offsets bool) (Encoding, error) {
	if len(input) > 1<<30 {
		return Encoding{}, fmt.Errorf("tokenize: text of %d bytes, want at most %d", len(input), 1<<30)
	}
	run := encodeRun{t: t, options: o, offsets: offsets}
	run.out.IDs = make([]int, 0, len(input)/3+8)
	run.all(whole(input, t.rawInput, !offsets && !t.origins))
	if run.err != nil {
		return Encoding{}, fmt.Errorf("tokenize: %w", run.err)
	}
	for _, p := range t.post {
		p.process(t, &run.out, o)
	}
	return run.out, nil
}

// whole makes a text of the input. A pipeline of characters reads a byte that is
// not UTF-8 as U+FFFD, the replacement character; one of bytes takes it as it is.
func whole(input string, raw, loose bool) text {
	t := text{s: input, loose: loose}
	if raw || utf8.ValidString(input) {
		return t
	}
	w := newRewriter(t, len(input)+16)
	for i := 0; i < len(input); {
		r, n := utf8.DecodeRuneInString(input[i:])
		w.put(r, span{int32(i), int32(i + n)})
		i += n
	}
	return w.text(t)
}

// encodeRun is the state of one call of encode.
type encodeRun struct {
	t       *Tokenizer
	options Options
	offsets bool
	out     Encoding
	tokens  []token // of one piece, reused
	err     error
}

func (r *encodeRun) all(t text) {
	defer catchPattern(&r.err)
	r.addedTokens(r.t.verbatim, t, r.normalize)
}

// addedTokens appends the added tokens found in t and hands what is between
// them to rest.
func (r *encodeRun) addedTokens(added *addedTokens, t text, rest func(text)) {
	taken := 0
	if added != nil {
		for from := 0; ; {
			m, ok := added.next(t.s, from, taken, r.options.Ordinary)
			if !ok {
				break
			}
			if taken < m.start {
				rest(t.slice(taken, m.start))
			}
			r.append(t, token{int32(m.token.ID), int32(m.start), int32(m.end)})
			from, taken = m.end, m.end
		}
	}
	if taken < len(t.s) {
		rest(t.slice(taken, len(t.s)))
	}
}

func (r *encodeRun) normalize(t text) {
	if r.t.normalizer != nil {
		t = r.t.normalizer.normalize(t)
	}
	r.addedTokens(r.t.normed, t, r.pretokenize)
}

func (r *encodeRun) pretokenize(t text) {
	if r.t.pretokenizer == nil {
		r.piece(t)
		return
	}
	r.t.pretokenizer.split(t, r.piece)
}

func (r *encodeRun) piece(t text) {
	if r.err != nil || t.s == "" {
		return
	}
	r.tokens, r.err = r.t.model.encode(r.tokens[:0], t.s)
	for _, tok := range r.tokens {
		r.append(t, tok)
	}
}

// append adds one token, whose place is counted in t.
func (r *encodeRun) append(t text, tok token) {
	r.out.IDs = append(r.out.IDs, int(tok.id))
	if r.offsets {
		start, end := t.origin(int(tok.start), int(tok.end))
		r.out.Offsets = append(r.out.Offsets, [2]int{start, end})
	}
}

// Decode returns the text of ids, without special tokens. Unknown ids are
// left out. The result of a byte-level vocabulary is the bytes that the tokens
// stand for, which need not be UTF-8.
func (t *Tokenizer) Decode(ids []int) string { return t.decode(ids, false) }

// DecodeAll is Decode with special tokens kept.
func (t *Tokenizer) DecodeAll(ids []int) string { return t.decode(ids, true) }

func (t *Tokenizer) decode(ids []int, special bool) string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		if token, ok := t.token(id); ok && (special || !t.special[id]) {
			tokens = append(tokens, token)
		}
	}
	if len(t.decoder) == 0 {
		return strings.Join(tokens, " ")
	}
	for _, d := range t.decoder {
		tokens = d.decode(tokens)
	}
	return strings.Join(tokens, "")
}

// Tokens returns the names of ids in the vocabulary: "Ġlove" in a byte-level
// one, "▁love" in SentencePiece. An id outside it has the name "".
func (t *Tokenizer) Tokens(ids []int) []string {
	tokens := make([]string, len(ids))
	for i, id := range ids {
		tokens[i] = t.name(id)
	}
	return tokens
}

// name is the token as Tokens shows it.
func (t *Tokenizer) name(id int) string {
	token, _ := t.token(id)
	if _, added := t.extra[id]; t.rawNames && !added {
		return string(appendByteChars(nil, token))
	}
	return token
}

// token is the token as decoders read it.
func (t *Tokenizer) token(id int) (string, bool) {
	if token, ok := t.normal[id]; ok {
		return token, true
	}
	if token, ok := t.vocab.token(id); ok {
		return token, true
	}
	token, ok := t.extra[id]
	return token, ok
}

// VocabSize returns the number of tokens, added ones included.
func (t *Tokenizer) VocabSize() int { return t.vocab.count + len(t.extra) }

// ID returns the id of a token by its name in the vocabulary.
func (t *Tokenizer) ID(token string) (int, bool) {
	if id, ok := t.extraIDs[token]; ok {
		return id, true
	}
	if t.rawNames {
		b, ok := appendCharBytes(nil, token)
		if !ok {
			return -1, false
		}
		token = string(b)
	}
	id := int(t.vocab.id(token))
	return id, id >= 0
}

// Special reports whether an id is a special token, which Decode leaves out.
func (t *Tokenizer) Special(id int) bool { return t.special[id] }

// EOS returns the ids that end a text or a chat turn, if the files name any.
func (t *Tokenizer) EOS() []int { return slices.Clone(t.eos) }

// BOS returns the id that starts a text, if the files name one.
func (t *Tokenizer) BOS() []int { return slices.Clone(t.bos) }

// Added returns the added tokens in the order of their ids.
func (t *Tokenizer) Added() []AddedToken { return slices.Clone(t.added) }

// addTokens enters added tokens, giving those that are new to the vocabulary
// their ids, and prepares to find them in text.
func (t *Tokenizer) addTokens(list []AddedToken) (err error) {
	defer catchPattern(&err)
	for _, a := range list {
		if a.Content == "" {
			continue
		}
		if a.ID < 0 || a.ID >= maxVocab {
			return fmt.Errorf("added token %q has id %d, want 0 to %d", a.Content, a.ID, maxVocab-1)
		}
		if id, ok := t.ID(a.Content); ok && id != a.ID {
			return fmt.Errorf("added token %q has id %d, but the vocabulary gives it %d", a.Content, a.ID, id)
		} else if !ok {
			if other, taken := t.token(a.ID); taken {
				return fmt.Errorf("id %d is given to both %q and the added token %q", a.ID, other, a.Content)
			}
			if t.extra == nil {
				t.extra, t.extraIDs = map[int]string{}, map[string]int{}
			}
			t.extra[a.ID], t.extraIDs[a.Content] = a.Content, a.ID
		}
		t.added = append(t.added, a)
	}
	slices.SortStableFunc(t.added, func(a, b AddedToken) int { return a.ID - b.ID })
	t.special = map[int]bool{}
	var verbatim, normed []AddedToken
	for _, a := range t.added {
		if a.Special {
			t.special[a.ID] = true
		}
		if a.Normalized {
			normed = append(normed, a)
		} else {
			verbatim = append(verbatim, a)
		}
	}
	t.verbatim = newAddedTokens(verbatim, func(a AddedToken) string { return a.Content })
	t.normed = newAddedTokens(normed, func(a AddedToken) string {
		if t.normalizer == nil {
			return a.Content
		}
		n := t.normalizer.normalize(text{s: a.Content}).s
		if n != a.Content {
			if t.normal == nil {
				t.normal = map[int]string{}
			}
			t.normal[a.ID] = n
		}
		return n
	})
	return nil
}
