package tokenize

import "unicode/utf8"

// A SentencePiece vocabulary merges whole sentences, which takes longer than
// merging words, and no two sentences are alike, so nothing can be remembered.
// But a merge across two neighbouring characters makes a token that has them as
// neighbours. Where a text has a pair of characters that is inside no token,
// nothing can cross, and the text can be cut there without changing the result:
// before most words, and often in Chinese.

// bigrams is a set of pairs of characters, as bits chosen by a hash. Two pairs
// may share a bit: then a cut is missed, and nothing else.
type bigrams struct {
	bits      []uint64
	marksOnly bool // cut in front of "▁" only
}

const (
	bigramBits = 22
	firstCut   = 0xE2 // where it is looked for a cut: characters of three bytes and more
)

// newBigrams collects the pairs inside the tokens of a vocabulary.
func newBigrams(v *vocab, marksOnly bool) *bigrams {
	if marksOnly && v.id("▁") < 0 {
		return nil
	}
	b := &bigrams{bits: make([]uint64, 1<<bigramBits/64), marksOnly: marksOnly}
	for _, token := range v.tokens {
		last := rune(-1)
		for _, r := range token {
			if last >= 0 && r >= 0x800 {
				k := bigramHash(last, r)
				b.bits[k/64] |= 1 << (k % 64)
			}
			last = r
		}
	}
	return b
}

func bigramHash(a, b rune) uint64 {
	return (uint64(a)<<32 | uint64(b)) * 0x9E3779B97F4A7C15 >> (64 - bigramBits)
}

// cut reports whether a piece can be cut in front of piece[i], the first byte of
// a character.
func (b *bigrams) cut(piece string, i int) bool {
	next, _ := utf8.DecodeRuneInString(piece[i:])
	if b.marksOnly && next != '▁' {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(piece[:i])
	k := bigramHash(last, next)
	return b.bits[k/64]>>(k%64)&1 == 0
}
