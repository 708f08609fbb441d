package generate

import (
	"strings"
	"unicode/utf8"
)

// Tokenizer is what generation needs of a tokenizer: the text of ids, without special tokens. *tokenize.Tokenizer has it.
type Tokenizer interface {
	Decode(ids []int) string
}

// text decodes a growing list of ids piece by piece, and never shows half a character.
//
// Decoding is not simply the sum of its tokens: a vocabulary may drop a space in front of the first one, and a character may be
// spread over several. So each piece is the difference of two decodings that begin at the same earlier token.
type text struct {
	t     Tokenizer
	ids   []int // from the token where the piece before began
	read  int   // how many of ids belong to pieces that are out
	shown int   // bytes of Decode(ids[:read])
}

// push adds a token and returns the text that is certain now.
func (d *text) push(id int) string {
	d.ids = append(d.ids, id)
	return d.next(false)
}

// flush returns what was held back; what is no whole character by now never becomes one.
func (d *text) flush() string { return d.next(true) }

func (d *text) next(last bool) string {
	all := d.t.Decode(d.ids)
	if len(all) <= d.shown || !last && !whole(all[d.shown:]) {
		return ""
	}
	out := all[d.shown:]
	d.ids = append(d.ids[:0], d.ids[d.read:]...)
	d.read = len(d.ids)
	d.shown = len(d.t.Decode(d.ids))
	return out
}

// whole says that text does not end within a character: in an unfinished sequence of bytes, or in the U+FFFD that tokenizers
// with byte fallback put for one.
func whole(text string) bool {
	for n := 1; n <= min(3, len(text)); n++ {
		if b := text[len(text)-n]; utf8.RuneStart(b) {
			if b >= 0xC0 && !utf8.FullRuneInString(text[len(text)-n:]) {
				return false
			}
			break
		}
	}
	return !strings.HasSuffix(text, "\uFFFD")
}
