package tokenize

import "forwardpass/pkg/internal/pieces"

// Stream turns ids into text one at a time, as a model produces them, and never
// gives out half a character: bytes that may still become one wait for the next
// ids. What it gives out, with the last Flush, is what Decode gives for all ids
// at once.
type Stream struct {
	t    *Tokenizer
	runs bool // a run of byte tokens is text or not as a whole
	text *pieces.Decoder
}

// Stream returns a streaming decoder. Special tokens are left out.
func (t *Tokenizer) Stream() *Stream {
	s := &Stream{t: t, text: pieces.New(t.Decode)}
	for _, d := range t.decoder {
		if _, ok := d.(decodeByteFallback); ok {
			s.runs = true
		}
	}
	return s
}

// Next adds an id and returns the text that is complete with it, often "".
func (s *Stream) Next(id int) string {
	if s.runs && !s.settled(id) {
		s.text.Add(id)
		return ""
	}
	return s.text.Next(id)
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
	out := s.text.Flush()
	s.text = pieces.New(s.t.Decode)
	return out
}
