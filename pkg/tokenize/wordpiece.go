package tokenize

import (
	"fmt"
	"unicode/utf8"
)

// wordPiece is BERT's model (Schuster and Nakajima 2012; Devlin et al. 2019): a
// word is cut from the left into the longest tokens that fit, those inside the
// word written with ## in front. A word that doesn't come out is unknown whole.
type wordPiece struct {
	vocab   *vocab
	first   *trie // tokens that may start a word
	rest    *trie // tokens that may follow, without their prefix
	unk     int32 // -1 if the vocabulary has none
	unkName string
	maxWord int // longest word, in characters
}

func newWordPiece(v *vocab, unk, prefix string, maxWord int) (*wordPiece, error) {
	m := &wordPiece{vocab: v, first: newTrie(), rest: newTrie(), unk: v.id(unk), unkName: unk, maxWord: maxWord}
	size := 0
	for id, token := range v.tokens {
		if !v.used[id] || token == "" {
			continue
		}
		if size += len(token); size > 1<<24 {
			return nil, fmt.Errorf("tokens of more than %d bytes in all", 1<<24)
		}
		m.first.put(token, int32(id))
		if len(token) > len(prefix) && token[:len(prefix)] == prefix {
			m.rest.put(token[len(prefix):], int32(id))
		}
	}
	return m, nil
}

func (m *wordPiece) encode(dst []token, word string) ([]token, error) {
	n := len(dst)
	known := utf8.RuneCountInString(word) <= m.maxWord
	words := m.first
	for i := 0; known && i < len(word); {
		id, end := words.longest(word, i)
		if known = id >= 0; known {
			dst = append(dst, token{id, int32(i), int32(end)})
			i, words = end, m.rest
		}
	}
	if known {
		return dst, nil
	}
	if m.unk < 0 {
		return dst[:n], fmt.Errorf("%q is not in the vocabulary, which lacks the unknown token %q", word, m.unkName)
	}
	return append(dst[:n], token{m.unk, 0, int32(len(word))}), nil
}

// wordLevel gives every piece the token that it is, or the unknown one.
type wordLevel struct {
	vocab   *vocab
	unk     int32
	unkName string
}

func (m *wordLevel) encode(dst []token, word string) ([]token, error) {
	id := m.vocab.id(word)
	if id < 0 {
		if id = m.unk; id < 0 {
			return dst, fmt.Errorf("%q is not in the vocabulary, which lacks the unknown token %q", word, m.unkName)
		}
	}
	return append(dst, token{id, 0, int32(len(word))}), nil
}
