package tokenize

import (
	"strings"
	"unicode/utf8"
)

// Stream turns ids into text one at a time, as a model produces them, and never
// gives out half a character: bytes that may still become one wait for the next
// ids. What it gives out, with the last Flush, is what Decode gives for all ids
// at once.
type Stream struct {
	t    *Tokenizer
	runs bool   // a run of byte tokens is text or not as a whole
	ids  []int  // the ids that what comes next still depends on
	sent string // what ids have given out so far, as Decode(ids) starts
}

// Stream returns a streaming decoder. Special tokens are left out.
func (t *Tokenizer) Stream() *Stream {
	s := &Stream{t: t}
	for _, d := range t.decoder {
		if _, ok := d.(decodeByteFallback); ok {
			s.runs = true
		}
	}
	return s
}

// window is how many ids Stream decodes together: enough for any decoder to
// see what came before.
const window = 16

// Next adds an id and returns the text that is complete with it, often "".
func (s *Stream) Next(id int) string {
	s.ids = append(s.ids, id)
	if s.runs && !s.settled(id) {
		return ""
	}
	text := s.t.Decode(s.ids)
	out := s.take(text, complete(text))
	if s.sent == text && len(s.ids) > window && s.settled(id) {
		// Everything is out: forget all but the last ids.
		s.ids = append(s.ids[:0], s.ids[len(s.ids)-2:]...)
		s.sent = s.t.Decode(s.ids)
	}
	return out
}

// settled reports whether what comes after id doesn't depend on what came
// before it. It may after a byte of a character, or after a special token,
// which no decoder sees.
func (s *Stream) settled(id int) bool {
	token, _ := s.t.token(id)
	_, isByte := fallbackByte(token)
	return !isByte && !s.t.special[id]
}

// Flush returns what is left, complete or not, and starts anew.
func (s *Stream) Flush() string {
	text := s.t.Decode(s.ids)
	out := s.take(text, len(text))
	s.ids, s.sent = s.ids[:0], ""
	return out
}

// take returns text[:end] without what has been sent.
func (s *Stream) take(text string, end int) string {
	if end <= len(s.sent) || !strings.HasPrefix(text, s.sent) {
		return ""
	}
	out := text[len(s.sent):end]
	s.sent = text[:end]
	return out
}

// complete returns the length of s without what may be the start of a
// character: an unfinished one at the end, or U+FFFD, which byte-fallback
// vocabularies show for bytes that aren't a character yet.
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
