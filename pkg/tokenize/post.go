package tokenize

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// postProcessor finishes an encoding.
type postProcessor interface {
	process(t *Tokenizer, e *Encoding, o Options)
}

// template puts markers around the tokens: "[CLS] $A [SEP]".
type template struct{ before, after []int }

func (p template) process(_ *Tokenizer, e *Encoding, o Options) {
	if o.NoSpecial {
		return
	}
	none := len(e.Offsets) == 0 && len(e.IDs) > 0 // offsets weren't asked for
	e.IDs = slices.Concat(p.before, e.IDs, p.after)
	if !none {
		e.Offsets = slices.Concat(make([][2]int, len(p.before)), e.Offsets, make([][2]int, len(p.after)))
	}
}

// trimSpace takes the spaces that byte-level tokens start or end with out of
// their offsets.
type trimSpace struct {
	prefixed bool // the first token's single space may not have been in the text
}

func (p trimSpace) process(t *Tokenizer, e *Encoding, _ Options) {
	for i := range e.Offsets {
		o := &e.Offsets[i]
		token := t.name(e.IDs[i])
		lead, leading := spaces(strings.TrimLeftFunc(token, isMarkedSpace), token, true)
		trail, trailing := spaces(strings.TrimRightFunc(token, isMarkedSpace), token, false)
		if first := i == 0 || o[0] == 0; first && p.prefixed && leading == 1 {
			lead = 0
		}
		o[0] = min(o[0]+lead, o[1])
		if trailing > 0 && o[1] >= trail {
			o[1] = max(o[1]-trail, o[0])
		}
	}
}

// spaces returns the bytes of text and the number of the characters that
// trimming took off one end of a token.
func spaces(trimmed, token string, left bool) (size, count int) {
	cut := token[len(trimmed):]
	if left {
		cut = token[:len(token)-len(trimmed)]
	}
	for _, r := range cut {
		count++
		if r == byteChars[' '] {
			size++ // written with two bytes, stands for one
		} else {
			size += utf8.RuneLen(r)
		}
	}
	return size, count
}

func isMarkedSpace(r rune) bool { return r == byteChars[' '] || unicode.IsSpace(r) }
