package tokenize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// AddedToken is a token that is matched in the text as a whole, before
// anything else happens to it: <|endoftext|>, [MASK], and words added to a
// vocabulary after training.
type AddedToken struct {
	ID      int
	Content string

	Special    bool // left out of decoded text
	Normalized bool // matched in the text after normalisation, else before
	SingleWord bool // not matched inside a word
	LStrip     bool // takes the white space on its left along
	RStrip     bool // takes the white space on its right along
}

// addedTokens finds added tokens in text: leftmost first, the longest where
// several start.
type addedTokens struct {
	list  []AddedToken
	first [256]bool // a token starts with this byte
	words *trie     // content -> index in list
}

// newAddedTokens builds a matcher; pattern says what to look for for each token.
func newAddedTokens(list []AddedToken, pattern func(AddedToken) string) *addedTokens {
	if len(list) == 0 {
		return nil
	}
	a := &addedTokens{list: list, words: newTrie()}
	for i, t := range list {
		p := pattern(t)
		if p == "" {
			continue
		}
		a.first[p[0]] = true
		a.words.put(p, int32(i))
	}
	return a
}

// match is an added token found at s[start:end].
type match struct {
	token      *AddedToken
	start, end int
}

// next finds the first match in s at or after from. Text before taken belongs
// to an earlier match and is not stripped again. skip leaves special tokens as
// ordinary text.
func (a *addedTokens) next(s string, from, taken int, skip bool) (match, bool) {
	for i := from; i < len(s); i++ {
		if !a.first[s[i]] {
			continue
		}
		k, end := a.words.longest(s, i)
		if k < 0 {
			continue
		}
		t := &a.list[k]
		if skip && t.Special || t.SingleWord && (wordBefore(s, i) || wordAfter(s, end)) {
			i = end - 1
			continue
		}
		m := match{t, i, end}
		if t.LStrip {
			m.start = max(len(strings.TrimRightFunc(s[:i], unicode.IsSpace)), taken)
		}
		if t.RStrip {
			m.end = len(s) - len(strings.TrimLeftFunc(s[end:], unicode.IsSpace))
		}
		return m, true
	}
	return match{}, false
}

func wordBefore(s string, i int) bool {
	r, n := utf8.DecodeLastRuneInString(s[:i])
	return n > 0 && isWord(r)
}

func wordAfter(s string, i int) bool {
	r, n := utf8.DecodeRuneInString(s[i:])
	return n > 0 && isWord(r)
}

// isWord is \w of Unicode regular expressions (UTS #18, annex C).
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
