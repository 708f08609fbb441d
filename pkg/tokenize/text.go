package tokenize

import "unicode/utf8"

// span is a half-open range of bytes of the input.
type span struct{ start, end int32 }

// text is a piece of the input on its way through the pipeline: how it reads
// now, and which bytes of the input each of its bytes stands for.
//
// Until something rewrites it, a text is a plain slice of the input (at is
// nil). A rewritten one carries one span per byte, so that the tokens can
// still be traced back: the four bytes of " love" after lower-casing
// "ＬＯＶＥ" each point at three bytes of the input.
type text struct {
	s     string
	start int    // at == nil: byte i of s is byte start+i of the input
	at    []span // else: byte i of s stands for input[at[i].start:at[i].end]
	loose bool   // nobody will ask where the bytes came from: at stays nil
}

// slice returns t.s[i:j] with its origin.
func (t text) slice(i, j int) text {
	if t.at == nil {
		return text{s: t.s[i:j], start: t.start + i, loose: t.loose}
	}
	from := t.start
	if i < j {
		from = int(t.at[i].start)
	}
	return text{s: t.s[i:j], start: from, at: t.at[i:j]}
}

// origin returns the input bytes that t.s[i:j] stands for, widened to whole
// characters: half a character has no offset of its own that a string index
// could use.
func (t text) origin(i, j int) (int, int) {
	if i >= j {
		if t.at == nil {
			return t.start + i, t.start + i
		}
		return t.start, t.start
	}
	if t.at != nil {
		return int(t.at[i].start), int(t.at[j-1].end)
	}
	for i > 0 && !utf8.RuneStart(t.s[i]) && inRune(t.s, i) {
		i--
	}
	for j < len(t.s) && !utf8.RuneStart(t.s[j]) && inRune(t.s, j) {
		j++
	}
	return t.start + i, t.start + j
}

// inRune reports whether byte i continues a valid multi-byte character.
func inRune(s string, i int) bool {
	for k := 1; k <= 3 && i-k >= 0; k++ {
		if utf8.RuneStart(s[i-k]) {
			_, n := utf8.DecodeRuneInString(s[i-k:])
			return n > k
		}
	}
	return false
}

// aligned returns t's spans, one a byte, computing them for a plain slice. For a
// loose text it returns nil, which the helpers below take for spans that don't
// matter.
func (t text) aligned() []span {
	if t.at != nil || t.loose {
		return t.at
	}
	at := make([]span, len(t.s))
	for i := 0; i < len(t.s); {
		_, n := utf8.DecodeRuneInString(t.s[i:])
		sp := span{int32(t.start + i), int32(t.start + i + n)}
		for k := 0; k < n; k++ {
			at[i+k] = sp
		}
		i += n
	}
	return at
}

// rewriter builds the next version of a text, character by character.
type rewriter struct {
	out []byte
	at  []span
}

// newRewriter returns a rewriter for t whose result will have about size bytes.
func newRewriter(t text, size int) *rewriter {
	w := &rewriter{out: make([]byte, 0, size)}
	if !t.loose {
		w.at = make([]span, 0, size)
	}
	return w
}

// spanAt returns at[i], or the empty span of a loose text.
func spanAt(at []span, i int) span {
	if at == nil {
		return span{}
	}
	return at[i]
}

// put appends r, which stands for the input bytes from.
func (w *rewriter) put(r rune, from span) {
	n := len(w.out)
	w.out = utf8.AppendRune(w.out, r)
	for ; w.at != nil && n < len(w.out); n++ {
		w.at = append(w.at, from)
	}
}

// puts appends every character of s, all standing for the same input bytes.
func (w *rewriter) puts(s string, from span) {
	w.out = append(w.out, s...)
	for k := 0; w.at != nil && k < len(s); k++ {
		w.at = append(w.at, from)
	}
}

// keep appends t.s[i:j] unchanged.
func (w *rewriter) keep(t text, at []span, i, j int) {
	w.out = append(w.out, t.s[i:j]...)
	if w.at != nil {
		w.at = append(w.at, at[i:j]...)
	}
}

func (w *rewriter) text(old text) text {
	return text{s: string(w.out), start: old.start, at: w.at, loose: old.loose}
}

// change is one character of a rewritten text, and how many characters more
// (positive) or fewer (negative) than one the step that made it used up: 0
// replaces the next character, 1 inserts, -2 replaces the next and drops two.
type change struct {
	r    rune
	more int
}

// apply rewrites t as the changes say. An inserted character stands for the
// same input as the one before it; a replaced one for the first that it
// replaces. skip characters are dropped first.
func (t text) apply(changes []change, skip int) text {
	at := t.aligned()
	w := newRewriter(t, len(t.s))
	i := 0
	drop := func(n int) {
		for ; n > 0 && i < len(t.s); n-- {
			_, size := utf8.DecodeRuneInString(t.s[i:])
			i += size
		}
	}
	drop(skip)
	for _, c := range changes {
		from := span{int32(t.start), int32(t.start)}
		switch {
		case c.more > 0 && i > 0:
			from = spanAt(at, i-1)
		case c.more <= 0 && i < len(t.s):
			from = spanAt(at, i)
		}
		w.put(c.r, from)
		if c.more <= 0 {
			drop(1 - c.more)
		}
	}
	return w.text(t)
}

// filter drops the characters that keep refuses.
func (t text) filter(keep func(rune) bool) text {
	return t.rewrite(func(w *rewriter, r rune, from span) {
		if keep(r) {
			w.put(r, from)
		}
	})
}

// rewrite calls f for each character, with the input it stands for, to write
// what replaces it. A text that comes out the same is returned as it was.
func (t text) rewrite(f func(w *rewriter, r rune, from span)) text {
	at := t.aligned()
	w := newRewriter(t, len(t.s))
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		f(w, r, spanAt(at, i))
		i += n
	}
	if string(w.out) == t.s {
		return t
	}
	return w.text(t)
}
