// Package pieces decodes a growing list of token ids, as a model produces them, and never gives out half a character.
//
// The text of a list is not the sum of its tokens' texts: a vocabulary may drop the space in front of the first one, and a character
// may be spread over several. So each piece is the difference of two decodings that begin at the same earlier token:
//
//	piece = decode(before + new) − decode(before)   before: the tokens of the piece in front
//
// Vocabularies with byte fallback decode a whole run of byte tokens to a text or to U+FFFD, so that a byte can take back what was
// text before it: "\n" is a byte token in many of them, and with the first byte of an emoji behind it both are U+FFFD, until the
// emoji's last byte. Nothing is given out while the text doesn't begin with what is out and may yet do so.
package pieces

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// most is how many tokens may wait for what will follow: a character needs fewer.
const most = 64

// Decoder gives the text of ids piece by piece. All pieces together, with the last Flush, are the text of all ids, unless bytes that
// never become a character follow bytes that are out as text. It keeps a few ids: where they have no text, at most 3·most, besides
// those of Add.
type Decoder struct {
	decode func(ids []int) string
	ids    []int  // from the token where the latest piece that is more than spaces began
	base   int    // how many of ids belong to that piece
	read   int    // how many of ids belong to pieces that are out
	shown  string // what of the text of ids is out
}

// New makes a decoder that continues the tokens of seen: their text is not given out, but what follows is decoded behind it.
func New(decode func(ids []int) string, seen ...int) *Decoder {
	text := decode(seen)
	for from := 1; from < len(seen) && strings.HasPrefix(text, "\uFFFD"); from++ { // seen begins inside a character
		if t := decode(seen[from:]); !strings.HasPrefix(t, "\uFFFD") {
			seen, text = seen[from:], t
		}
	}
	return &Decoder{decode: decode, ids: slices.Clone(seen), base: len(seen), read: len(seen), shown: text}
}

// Add adds an id whose text depends on what will follow.
func (d *Decoder) Add(id int) { d.ids = append(d.ids, id) }

// Next adds an id and returns the text that is certain with it, often "".
func (d *Decoder) Next(id int) string {
	d.Add(id)
	text := d.decode(d.ids)
	from := shared(text, d.shown)
	end := from + complete(text[from:])
	switch waiting := len(d.ids) - d.read; {
	case waiting >= most:
		end = len(text)
	case waiting >= most/2 && end == len(text): // tokens without text are done with before a character may begin
	case end == from, end < len(text) && from < len(d.shown):
		return ""
	}
	return d.give(text, from, end)
}

// Flush returns what was held back: bytes that are no character by now never become one.
func (d *Decoder) Flush() string {
	text := d.decode(d.ids)
	return d.give(text, shared(text, d.shown), len(text))
}

// give hands out a part of text. When nothing is left behind it, the tokens before its own are forgotten, unless its own are only
// spaces, which some vocabularies drop at the start of a text: then only those between are.
func (d *Decoder) give(text string, from, end int) string {
	d.shown = text[:end]
	if end == len(text) && d.read < len(d.ids) {
		alone := d.decode(d.ids[d.read:])
		switch {
		case strings.Trim(alone, " ") != "":
			d.ids = slices.Delete(d.ids, 0, d.read)
			d.base, d.shown = len(d.ids), alone
		case d.base == 0: // the text begins with spaces
			d.base = len(d.ids)
		case d.base < d.read:
			d.ids = slices.Delete(d.ids, d.base, d.read)
			d.shown = d.decode(d.ids)
		}
		d.read = len(d.ids)
	}
	return text[from:end]
}

// shared returns how many bytes of out text begins with: all of them, or so many that the rest of text begins with a character.
func shared(text, out string) int {
	if strings.HasPrefix(text, out) {
		return len(out)
	}
	n := 0
	for n < min(len(text), len(out)) && text[n] == out[n] {
		n++
	}
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
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
