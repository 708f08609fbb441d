// Package pieces decodes a growing list of token ids, as a model produces them, and never gives out half a character.
//
// The text of a list is not the sum of its tokens' texts: a vocabulary may drop the space in front of the first one, and a character
// may be spread over several. So each piece is the difference of two decodings that begin at the same earlier token:
//
//	piece = decode(before + new)[len(decode(before)):]   before: the tokens of the piece in front
package pieces

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Decoder gives the text of ids piece by piece. All pieces together, with the last Flush, are the text of all ids.
type Decoder struct {
	decode func(ids []int) string
	ids    []int // from the token where the piece in front began
	read   int   // how many of ids belong to pieces that are out
	shown  int   // bytes of decode(ids) that are out
}

// New makes a decoder that continues the tokens of seen: their text is not given out, but what follows is decoded behind it.
func New(decode func(ids []int) string, seen ...int) *Decoder {
	return &Decoder{decode: decode, ids: slices.Clone(seen), read: len(seen), shown: len(decode(seen))}
}

// Add adds an id whose text depends on what will follow.
func (d *Decoder) Add(id int) { d.ids = append(d.ids, id) }

// Next adds an id and returns the text that is certain with it, often "".
func (d *Decoder) Next(id int) string {
	d.Add(id)
	text := d.decode(d.ids)
	if len(text) <= d.shown {
		return ""
	}
	return d.give(text, d.shown+complete(text[d.shown:]))
}

// Flush returns what was held back: bytes that are no character by now never become one.
func (d *Decoder) Flush() string {
	text := d.decode(d.ids)
	return d.give(text, len(text))
}

// give hands out text up to a byte. When that is all of it, the tokens before its own are forgotten, unless its own are only spaces,
// which some vocabularies drop at the start of a text.
func (d *Decoder) give(text string, end int) string {
	if end <= d.shown {
		return ""
	}
	out := text[d.shown:end]
	d.shown = end
	if end == len(text) {
		if alone := d.decode(d.ids[d.read:]); strings.Trim(alone, " ") != "" {
			d.ids = append(d.ids[:0], d.ids[d.read:]...)
			d.shown = len(alone)
		}
		d.read = len(d.ids)
	}
	return out
}

// complete returns the length of s without what may be the start of a character: an unfinished one at the end, or U+FFFD, which
// vocabularies with byte fallback show for bytes that aren't a character yet.
func complete(s string) int {
	for strings.HasSuffix(s, "\uFFFD") {
		s = s[:len(s)-len("\uFFFD")]
	}
	for k := 1; k <= utf8.UTFMax && k <= len(s); k++ {
		if tail := s[len(s)-k:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				return len(s) - k
			}
			break
		}
	}
	return len(s)
}
