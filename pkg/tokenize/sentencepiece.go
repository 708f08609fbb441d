package tokenize

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// SentencePiece (Kudo and Richardson 2018) reads raw text: a space is a
// character like any other, written "▁", and a sentence is one piece that the
// model cuts, by byte-pair encoding or by a unigram model. A .model file is a
// protocol buffer with the pieces, their scores and types, and the settings of
// trainer and normaliser.

// spModel is what matters of a .model file.
type spModel struct {
	pieces []spPiece

	kind         int // 1 unigram, 2 BPE, 3 word, 4 character
	byteFallback bool
	spaceAtEnd   bool // "▁" belongs to the word before it
	unkID        int
	bosID, eosID int
	unkSurface   string

	charsmap    []byte
	dummyPrefix bool // put a space in front of the text
	trimSpaces  bool // drop spaces at the ends, and all but one inside
	escape      bool // write spaces as "▁"
	denorm      []byte
}

type spPiece struct {
	text  string
	score float32
	kind  int // as in GGUF: normal, unknown, control, user-defined, unused, byte
}

// parseSP reads a .model file. Field numbers are those of sentencepiece_model.proto.
func parseSP(data []byte) (*spModel, error) {
	m := &spModel{kind: 1, unkID: 0, bosID: 1, eosID: 2, unkSurface: " \u2047 ", dummyPrefix: true, trimSpaces: true, escape: true}
	r := protoReader{b: data}
	err := r.fields(func(f protoField) error {
		sub := protoReader{b: f.bytes}
		switch f.number {
		case 1:
			p := spPiece{kind: ggufNormal}
			err := sub.fields(func(f protoField) error {
				switch f.number {
				case 1:
					p.text = string(f.bytes)
				case 2:
					p.score = f.float()
				case 3:
					p.kind = int(f.value)
				}
				return nil
			})
			m.pieces = append(m.pieces, p)
			return err
		case 2:
			return sub.fields(func(f protoField) error {
				switch f.number {
				case 3:
					m.kind = int(f.value)
				case 24:
					m.spaceAtEnd = f.value != 0
				case 35:
					m.byteFallback = f.value != 0
				case 40:
					m.unkID = int(int32(f.value))
				case 41:
					m.bosID = int(int32(f.value))
				case 42:
					m.eosID = int(int32(f.value))
				case 44:
					m.unkSurface = string(f.bytes)
				}
				return nil
			})
		case 3:
			return sub.fields(func(f protoField) error {
				switch f.number {
				case 2:
					m.charsmap = f.bytes
				case 3:
					m.dummyPrefix = f.value != 0
				case 4:
					m.trimSpaces = f.value != 0
				case 5:
					m.escape = f.value != 0
				}
				return nil
			})
		case 5:
			return sub.fields(func(f protoField) error {
				if f.number == 2 {
					m.denorm = f.bytes
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(m.pieces) == 0 {
		return nil, fmt.Errorf("no pieces in it")
	}
	return m, nil
}

// spPieces is what SentencePiece knows of its pieces beyond their text.
type spPieces struct {
	kinds []uint8 // by id
	user  *trie   // user-defined symbols, nil if there are none
	unk   int32
	bytes *[256]int32 // byte tokens, nil without byte fallback
}

// is reports whether a piece is of a kind.
func (p *spPieces) is(id int32, kind uint8) bool { return p != nil && p.kinds[id] == kind }

// reserved reports whether a piece never comes out of text.
func (p *spPieces) reserved(id int32) bool {
	return p.kinds[id] == ggufUnknown || p.kinds[id] == ggufControl || p.kinds[id] == ggufByte
}

// Marks on the ids of symbols while they are merged.
const (
	frozenSymbol  = 1 << 25 // user-defined: takes no part in merges
	unknownSymbol = 1 << 26 // not a piece by itself
)

// symbols cuts a piece into user-defined symbols and characters.
func (p *spPieces) symbols(dst []token, v *vocab, piece string) []token {
	for i := 0; i < len(piece); {
		if p.user != nil {
			if id, end := p.user.longest(piece, i); id >= 0 {
				dst = append(dst, token{id | frozenSymbol, int32(i), int32(end)})
				i = end
				continue
			}
		}
		_, n := utf8.DecodeRuneInString(piece[i:])
		id := v.id(piece[i : i+n])
		if id < 0 || p.reserved(id) {
			id = unknownSymbol
		}
		dst = append(dst, token{id, int32(i), int32(i + n)})
		i += n
	}
	return dst
}

// finish turns merged symbols into tokens: unused pieces are taken apart again,
// unknown characters become bytes or one unknown token for each run.
func (m *bpe) finish(dst []token, piece string, symbols []token) []token {
	p := m.pieces
	n := len(dst)
	for _, s := range symbols {
		s.id &^= frozenSymbol
		switch {
		case s.id&unknownSymbol == 0 && p.kinds[s.id] == ggufUnused:
			dst = m.takeApart(dst, n, piece, s)
		default:
			dst = p.emit(dst, n, piece, s)
		}
	}
	return dst
}

// emit appends one symbol; dst[n:] are the tokens of the same piece.
func (p *spPieces) emit(dst []token, n int, piece string, s token) []token {
	if s.id&unknownSymbol == 0 {
		return append(dst, s)
	}
	s.id = p.unk
	if p.bytes != nil {
		return appendBytes(dst, p.bytes, piece, s)
	}
	if k := len(dst) - 1; k >= n && dst[k].id == p.unk {
		dst[k].end = s.end
		return dst
	}
	return append(dst, s)
}

// takeApart appends the two parts that an unused piece was last merged from,
// and so on until they are used.
func (m *bpe) takeApart(dst []token, n int, piece string, s token) []token {
	part := piece[s.start:s.end]
	parts := m.mergeTo(2, part, m.pieces.symbols(nil, m.vocab, part))
	if len(parts) != 2 {
		return m.pieces.emit(dst, n, piece, token{unknownSymbol, s.start, s.end})
	}
	for _, t := range parts {
		t.start, t.end = t.start+s.start, t.end+s.start
		t.id &^= frozenSymbol
		if t.id&unknownSymbol == 0 && m.pieces.kinds[t.id] == ggufUnused {
			dst = m.takeApart(dst, n, piece, t)
		} else {
			dst = m.pieces.emit(dst, n, piece, t)
		}
	}
	return dst
}

// scoreRank orders merges by falling score.
func scoreRank(score float32) int32 {
	bits := math.Float32bits(score)
	if bits>>31 == 0 {
		return -int32(bits)
	}
	return int32(bits &^ (1 << 31))
}

// build makes the tokenizer.
func (m *spModel) build() (*Tokenizer, error) {
	v := newVocab(len(m.pieces))
	p := &spPieces{kinds: make([]uint8, len(m.pieces)), unk: -1}
	var added []AddedToken
	for id, piece := range m.pieces {
		if piece.text == "" {
			return nil, fmt.Errorf("piece %d is empty", id)
		}
		if !utf8.ValidString(piece.text) {
			return nil, fmt.Errorf("piece %d, %q: not valid UTF-8", id, piece.text)
		}
		if piece.kind < ggufNormal || piece.kind > ggufByte {
			return nil, fmt.Errorf("piece %d, %q: unknown type %d", id, piece.text, piece.kind)
		}
		if err := v.add(piece.text, id); err != nil {
			return nil, err
		}
		p.kinds[id] = uint8(piece.kind)
		switch piece.kind {
		case ggufUnknown:
			if p.unk >= 0 {
				return nil, fmt.Errorf("two unknown pieces, %d and %d", p.unk, id)
			}
			p.unk = int32(id)
		case ggufControl:
			added = append(added, AddedToken{ID: id, Content: piece.text, Special: true})
		case ggufUserDefined:
			if p.user == nil {
				p.user = newTrie()
			}
			p.user.put(piece.text, int32(id))
		}
	}
	if p.unk < 0 {
		return nil, fmt.Errorf("no unknown piece")
	}
	t := &Tokenizer{vocab: v, rawInput: true}
	var err error
	if t.normalizer, err = m.normalizer(p); err != nil {
		return nil, err
	}
	switch m.kind {
	case 1:
		err = m.unigram(t, p)
	case 2:
		err = m.bpe(t, p)
	case 3:
		err = fmt.Errorf("word models are not supported")
	case 4:
		err = fmt.Errorf("character models are not supported")
	default:
		err = fmt.Errorf("unknown model type %d", m.kind)
	}
	if err != nil {
		return nil, err
	}
	t.decoder = []decoder{decodeSentencePiece{
		unk: v.tokens[p.unk], surface: m.unkSurface, prefix: m.dummyPrefix || m.trimSpaces, trim: m.trimSpaces, bytes: p.bytes != nil,
	}}
	if len(m.denorm) > 0 {
		c, err := parseCharsmap(m.denorm)
		if err != nil {
			return nil, fmt.Errorf("denormalizer: %w", err)
		}
		t.decoder = append(t.decoder, decodeCharsmap{c})
	}
	if m.bosID >= 0 && m.bosID < len(m.pieces) && p.kinds[m.bosID] == ggufControl {
		t.bos = []int{m.bosID}
	}
	if m.eosID >= 0 && m.eosID < len(m.pieces) && p.kinds[m.eosID] == ggufControl {
		t.eos = []int{m.eosID}
	}
	// Control pieces are special when decoding, but SentencePiece does not look
	// for them in text.
	t.special = map[int]bool{}
	for _, a := range added {
		t.special[a.ID] = true
	}
	t.added = added
	return t, nil
}

// byteIDs finds the byte pieces of a model with byte fallback.
func (m *spModel) byteIDs(v *vocab) (*[256]int32, error) {
	if !m.byteFallback {
		return nil, nil
	}
	ids := new([256]int32)
	for b := range ids {
		name := fmt.Sprintf("<0x%02X>", b)
		if ids[b] = v.id(name); ids[b] < 0 || m.pieces[ids[b]].kind != ggufByte {
			return nil, fmt.Errorf("byte fallback, but no byte piece %s", name)
		}
	}
	return ids, nil
}

func (m *spModel) bpe(t *Tokenizer, p *spPieces) error {
	ranks := make([]int32, len(m.pieces))
	for id, piece := range m.pieces {
		if math.IsNaN(float64(piece.score)) {
			return fmt.Errorf("piece %d, %q: score is not a number", id, piece.text)
		}
		ranks[id] = scoreRank(piece.score)
		if p.reserved(int32(id)) {
			ranks[id] = noRank
		}
	}
	b := newRankedBPE(t.vocab, ranks)
	var err error
	p.bytes, err = m.byteIDs(t.vocab)
	b.pieces = p
	if m.escape && !m.spaceAtEnd {
		b.joined = newBigrams(t.vocab, p.bytes == nil)
	}
	t.model = b
	return err
}

func (m *spModel) unigram(t *Tokenizer, p *spPieces) error {
	scores := make([]float64, len(m.pieces))
	for id, piece := range m.pieces {
		scores[id] = float64(piece.score)
	}
	u, err := newUnigram(t.vocab, scores, p.unk, func(id int) bool { return p.reserved(int32(id)) })
	if err != nil {
		return err
	}
	lowest := float32(math.MaxFloat32)
	for _, piece := range m.pieces {
		if piece.kind == ggufNormal {
			lowest = min(lowest, piece.score)
		}
	}
	u.unkScore = float64(lowest - unkPenalty)
	u.single, u.pieces = true, p
	if p.bytes, err = m.byteIDs(t.vocab); p.bytes != nil {
		u.fallback, u.byteIDs = true, *p.bytes
	}
	t.model = u
	return err
}

func (m *spModel) normalizer(p *spPieces) (normalizer, error) {
	n := spNormalizer{user: p.user, dummyPrefix: m.dummyPrefix, trim: m.trimSpaces, atEnd: m.spaceAtEnd, mark: " "}
	if m.escape {
		n.mark = "▁"
	}
	if len(m.charsmap) > 0 {
		c, err := parseCharsmap(m.charsmap)
		if err != nil {
			return nil, fmt.Errorf("normalizer: %w", err)
		}
		n.table = c
	}
	return n, nil
}

// spNormalizer is SentencePiece's normaliser: the charsmap, then the rules for
// white space.
type spNormalizer struct {
	table       *charsmap // nil: characters stay as they are
	user        *trie     // user-defined symbols stay as they are
	dummyPrefix bool
	trim        bool
	atEnd       bool
	mark        string // what a space is written as
}

// prefix returns the normal form of a prefix of s and that prefix's length.
func (n spNormalizer) prefix(s string) (string, int) {
	if n.user != nil {
		if id, end := n.user.longest(s, 0); id >= 0 {
			return s[:end], end
		}
	}
	if n.table != nil {
		if with, size := n.table.lookup(s, true); size > 0 {
			return with, size
		}
	}
	r, size := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 {
		return "\uFFFD", 1
	}
	return s[:size], size
}

func (n spNormalizer) normalize(t text) text {
	at := t.aligned()
	pos := func(i int) int32 { // where byte i of t.s is in the input
		switch {
		case i < len(at):
			return at[i].start
		case len(at) == 0:
			return int32(t.start)
		}
		return at[len(at)-1].end
	}
	i := 0
	if n.trim {
		for i < len(t.s) {
			p, size := n.prefix(t.s[i:])
			if p != " " {
				break
			}
			i += size
		}
	}
	if i == len(t.s) {
		return text{start: t.start, at: []span{}, loose: t.loose}
	}
	var out []byte
	var from []int32 // for each byte of out, where in the input its source starts
	put := func(s string) {
		out = append(out, s...)
		for k := 0; !t.loose && k < len(s); k++ {
			from = append(from, pos(i))
		}
	}
	if n.dummyPrefix && !n.atEnd {
		put(n.mark)
	}
	space := n.trim // the last character written is a space
	for i < len(t.s) {
		p, size := n.prefix(t.s[i:])
		if space {
			p = strings.TrimLeft(p, " ")
		}
		if p != "" {
			for rest := p; rest != ""; {
				word, _, spaced := strings.Cut(rest, " ")
				put(word)
				if spaced {
					put(n.mark)
					word = rest[:len(word)+1]
				}
				rest = rest[len(word):]
			}
			space = strings.HasSuffix(p, " ")
		}
		i += size
		if !n.trim {
			space = false
		}
	}
	end := pos(len(t.s))
	if n.trim {
		for bytes.HasSuffix(out, []byte(n.mark)) {
			out = out[:len(out)-len(n.mark)]
			if !t.loose {
				end = from[len(out)]
				from = from[:len(out)]
			}
		}
	}
	if n.dummyPrefix && n.atEnd {
		out = append(out, n.mark...)
		for k := 0; k < len(n.mark); k++ {
			from = append(from, end)
		}
	}
	if t.loose {
		return text{s: string(out), start: t.start, loose: true}
	}
	spans := make([]span, len(out))
	for k := range spans {
		next := end
		if k+1 < len(from) {
			next = from[k+1]
		}
		spans[k] = span{from[k], next}
	}
	return text{s: string(out), start: t.start, at: spans}
}

// decodeSentencePiece writes pieces as text: "▁" is a space, except where the
// normaliser put one, unknown pieces have a surface of their own, and bytes
// that aren't characters are U+FFFD each.
type decodeSentencePiece struct {
	unk, surface string
	prefix       bool // the first space was put there
	trim         bool // all spaces at the start were
	bytes        bool
}

func (d decodeSentencePiece) decode(tokens []string) []string {
	var out, run []byte
	flush := func() {
		for len(run) > 0 {
			r, n := utf8.DecodeRune(run)
			out = utf8.AppendRune(out, r)
			run = run[n:]
		}
	}
	start, seen := true, false // no text yet; the space in front has been dropped
	for _, piece := range tokens {
		if b, ok := fallbackByte(piece); ok && d.bytes {
			run = append(run, b)
			continue
		}
		flush()
		if seen || len(out) > 0 {
			start = false
		}
		seen = false
		if piece == d.unk {
			out = append(out, d.surface...)
			continue
		}
		if start && d.prefix {
			piece, seen = strings.CutPrefix(piece, "▁")
			seen = seen && !d.trim
		}
		out = append(out, strings.ReplaceAll(piece, "▁", " ")...)
	}
	flush()
	return []string{string(out)}
}

// decodeCharsmap is SentencePiece's denormaliser.
type decodeCharsmap struct{ table *charsmap }

func (d decodeCharsmap) decode(tokens []string) []string {
	s := strings.Join(tokens, "")
	return []string{spNormalizer{table: d.table, mark: " "}.normalize(text{s: s}).s}
}
