package tokenize

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe is the byte-pair-encoding model: start from single symbols, and as long
// as two neighbours are in the merge table, merge the pair learned first,
// leftmost first. (Sennrich et al. 2016, "Neural Machine Translation of Rare
// Words with Subword Units", section 3.2; over bytes: Radford et al. 2019.)
//
// Vocabularies differ in how they write the table down. GPT-2's list merges:
// a pair of tokens, its rank, what it becomes. SentencePiece's and tiktoken's give
// every token a rank, and two neighbours merge if together they are a token.
type bpe struct {
	vocab  *vocab
	merges *pairTable // nil if tokens have ranks of their own
	ranks  []int32    // by id: the rank of merging into this token, noRank for never

	byteIDs  [256]int32 // byte-level: the token of each byte, or -1; <0xNN> otherwise
	bytes    bool       // pieces are raw bytes, and vocab is in the byte-level alphabet
	fallback bool       // write unknown characters as <0xNN> tokens

	unk     int32 // -1: unknown characters are dropped
	fuseUnk bool  // one unk for a run of unknown characters
	prefix  string
	suffix  string

	ignoreMerges bool // a piece that is a token is that token, whatever the merges say
	cache        *pieceCache

	raw    bool      // the vocabulary holds the bytes themselves, not their alphabet
	pieces *spPieces // SentencePiece's own rules; nil for all others
	joined *bigrams  // pairs of characters inside tokens; nil: don't cut pieces into words
}

// token is one token of a piece: its id and the bytes of the piece it covers.
type token struct {
	id         int32
	start, end int32
}

// model turns one pre-tokenized piece into tokens.
type model interface {
	// encode appends the tokens of piece to dst.
	encode(dst []token, piece string) ([]token, error)
}

// newBPE builds the merge table. Merge i joins pairs[2i] and pairs[2i+1], and
// has rank i.
func newBPE(v *vocab, pairs []string, prefix, suffix string) (*bpe, error) {
	m := &bpe{vocab: v, merges: newPairTable(len(pairs) / 2), unk: -1, prefix: prefix, suffix: suffix}
	var joined []byte
	for i := 0; i < len(pairs); i += 2 {
		left, right := pairs[i], pairs[i+1]
		l, r := v.id(left), v.id(right)
		joined = append(append(joined[:0], left...), strings.TrimPrefix(right, prefix)...)
		to := v.idBytes(joined)
		for _, part := range []struct {
			token string
			id    int32
		}{{left, l}, {right, r}, {string(joined), to}} {
			if part.id < 0 {
				return nil, fmt.Errorf("merge %d (%q + %q): %q is not in the vocabulary", i/2, left, right, part.token)
			}
		}
		m.merges.put(l, r, int32(i/2), to)
	}
	m.cache = newPieceCache()
	return m, nil
}

// newRankedBPE builds a model from the rank of every token.
func newRankedBPE(v *vocab, ranks []int32) *bpe {
	return &bpe{vocab: v, ranks: ranks, unk: -1, cache: newPieceCache()}
}

// useBytes makes the model read raw bytes: it looks tokens up in the byte-level
// alphabet once, here, instead of rewriting every text.
func (m *bpe) useBytes() {
	m.bytes = true
	for b := range m.byteIDs {
		if m.raw {
			m.byteIDs[b] = m.vocab.id(string([]byte{byte(b)}))
		} else {
			m.byteIDs[b] = m.vocab.id(string(byteChars[b]))
		}
	}
}

// useFallback prepares the <0x00> … <0xFF> tokens; without all of them a
// character falls back only if its own bytes are there.
func (m *bpe) useFallback() {
	m.fallback = true
	for b := range m.byteIDs {
		m.byteIDs[b] = m.vocab.id(fmt.Sprintf("<0x%02X>", b))
	}
}

func (m *bpe) encode(dst []token, piece string) ([]token, error) {
	if m.joined == nil {
		return m.encodeWord(dst, piece, 0), nil
	}
	start := 0
	for i := 1; i < len(piece); i++ {
		if piece[i] >= firstCut && m.joined.cut(piece, i) {
			dst = m.encodeWord(dst, piece[start:i], start)
			start = i
		}
	}
	return m.encodeWord(dst, piece[start:], start), nil
}

// encodeWord appends the tokens of a part of a piece that starts at byte at.
func (m *bpe) encodeWord(dst []token, piece string, at int) []token {
	if piece == "" {
		return dst
	}
	n := len(dst)
	cached, hash := m.cache.get(piece)
	if cached != nil {
		dst = append(dst, cached...)
	} else {
		dst = m.merge(dst, piece)
		m.cache.put(hash, piece, dst[n:])
	}
	if at > 0 {
		for i := range dst[n:] {
			dst[n+i].start += int32(at)
			dst[n+i].end += int32(at)
		}
	}
	return dst
}

// rank returns the rank and the result of merging two neighbours of piece, or
// noRank.
func (m *bpe) rank(piece string, left, right token) (rank, to int32) {
	if m.merges != nil {
		return m.merges.get(left.id, right.id)
	}
	if (left.id|right.id)&frozenSymbol != 0 {
		return noRank, -1
	}
	if to = m.vocab.id(piece[left.start:right.end]); to < 0 {
		return noRank, -1
	}
	return m.ranks[to], to
}

// whole returns the token that is exactly piece, or -1.
func (m *bpe) whole(piece string) int32 {
	if !m.bytes || m.raw {
		return m.vocab.id(piece)
	}
	var buf [128]byte
	return m.vocab.idBytes(appendByteChars(buf[:0], piece))
}

func (m *bpe) merge(dst []token, piece string) []token {
	if m.ignoreMerges {
		if id := m.whole(piece); id >= 0 {
			return append(dst, token{id, 0, int32(len(piece))})
		}
	}
	var buf [shortPiece]token
	symbols := m.symbols(buf[:0], piece)
	if symbols = m.mergeTo(1, piece, symbols); m.pieces != nil {
		return m.finish(dst, piece, symbols)
	}
	return append(dst, symbols...)
}

// mergeTo merges until nothing can be merged or only so many symbols are left.
func (m *bpe) mergeTo(least int, piece string, symbols []token) []token {
	if len(symbols) <= least {
		return symbols
	}
	if len(symbols) <= shortPiece {
		return m.mergeShort(least, piece, symbols)
	}
	return m.mergeLong(least, piece, symbols)
}

// symbols cuts a piece into the smallest parts that are tokens.
func (m *bpe) symbols(dst []token, piece string) []token {
	if m.pieces != nil {
		return m.pieces.symbols(dst, m.vocab, piece)
	}
	if m.bytes {
		for i := 0; i < len(piece); i++ {
			if id := m.byteIDs[piece[i]]; id >= 0 {
				dst = append(dst, token{id, int32(i), int32(i + 1)})
			} else if m.unk >= 0 {
				dst = m.appendUnk(dst, i, i+1)
			}
		}
		return dst
	}
	for i := 0; i < len(piece); {
		_, n := utf8.DecodeRuneInString(piece[i:])
		c := piece[i : i+n]
		if m.prefix != "" && i > 0 {
			c = m.prefix + c
		}
		if m.suffix != "" && i+n == len(piece) {
			c += m.suffix
		}
		start := i
		i += n
		if id := m.vocab.id(c); id >= 0 {
			dst = append(dst, token{id, int32(start), int32(i)})
		} else if m.fallback && m.hasBytes(c) {
			for k := 0; k < len(c); k++ {
				dst = append(dst, token{m.byteIDs[c[k]], int32(min(start+k, i-1)), int32(min(start+k+1, i))})
			}
		} else if m.unk >= 0 {
			dst = m.appendUnk(dst, start, i)
		}
	}
	return dst
}

// appendUnk appends the unknown token for piece[start:end], or makes the one
// before it longer.
func (m *bpe) appendUnk(dst []token, start, end int) []token {
	if n := len(dst) - 1; m.fuseUnk && n >= 0 && dst[n].id == m.unk && int(dst[n].end) == start {
		dst[n].end = int32(end)
		return dst
	}
	return append(dst, token{m.unk, int32(start), int32(end)})
}

// allBytes reports whether every unknown character can be written in bytes.
func (m *bpe) allBytes() bool {
	for _, id := range m.byteIDs {
		if id < 0 {
			return false
		}
	}
	return m.fallback
}

// joinsNoBytes reports whether the merges leave <0xNN> tokens alone.
func (m *bpe) joinsNoBytes(pairs []string) bool {
	for _, token := range pairs {
		if _, ok := fallbackByte(token); ok {
			return false
		}
	}
	return true
}

func (m *bpe) hasBytes(c string) bool {
	for k := 0; k < len(c); k++ {
		if m.byteIDs[c[k]] < 0 {
			return false
		}
	}
	return true
}
