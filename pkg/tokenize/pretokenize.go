package tokenize

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// pretokenizer cuts a text into pieces and hands each to emit. Pieces may be
// rewritten on the way.
type pretokenizer interface {
	split(t text, emit func(text))
}

// pretokenizers cuts with each in turn: every piece of one goes through the next.
type pretokenizers []pretokenizer

func (ps pretokenizers) split(t text, emit func(text)) {
	if len(ps) == 0 {
		emit(t)
		return
	}
	ps[0].split(t, func(piece text) {
		if piece.s != "" {
			ps[1:].split(piece, emit)
		}
	})
}

// pattern finds the places in a text where a splitter acts.
type pattern interface {
	// each calls f with every match s[i:j], in order and without overlaps.
	each(s string, f func(i, j int))
}

// literal matches one string.
type literal string

func (p literal) each(s string, f func(i, j int)) {
	if p == "" {
		return
	}
	for at := 0; ; {
		k := strings.Index(s[at:], string(p))
		if k < 0 {
			return
		}
		f(at+k, at+k+len(p))
		at += k + len(p)
	}
}

// each makes a scanner a pattern.
func (scan scanner) each(s string, f func(i, j int)) {
	table := classTable()
	for i := 0; i < len(s); {
		if end := scan(table, s, i); end > i {
			f(i, end)
			i = end
			continue
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		i += n
	}
}

// charPattern matches single characters.
type charPattern func(rune) bool

func (p charPattern) each(s string, f func(i, j int)) {
	for i, r := range s {
		if p(r) {
			f(i, i+runeLen(s, i, r))
		}
	}
}

// runeLen is the length in s of the character r that was decoded at s[i].
func runeLen(s string, i int, r rune) int {
	if r == utf8.RuneError {
		_, n := utf8.DecodeRuneInString(s[i:])
		return n
	}
	return utf8.RuneLen(r)
}

// regexPattern matches any expression that no scanner is written for.
type regexPattern struct{ re *regexp2.Regexp }

func (p regexPattern) each(s string, f func(i, j int)) {
	runes := []rune(s)
	offsets := make([]int, 0, len(runes)+1) // of each rune in s
	for i := range s {
		offsets = append(offsets, i)
	}
	offsets = append(offsets, len(s))
	m, err := p.re.FindRunesMatch(runes)
	for m != nil && err == nil {
		f(offsets[m.Index], offsets[m.Index+m.Length])
		m, err = p.re.FindNextMatch(m)
	}
	if err != nil {
		panic(patternError{err}) // caught by encode and decodeReplace
	}
}

// patternError is an expression that took longer than regexTimeout: a
// backtracking engine needs exponential time for some.
type patternError struct{ error }

const regexTimeout = 10 * time.Second

// catchPattern turns the panic of a pattern into an error.
func catchPattern(err *error) {
	switch p := recover().(type) {
	case nil:
	case patternError:
		*err = p.error
	default:
		panic(p)
	}
}

// newPattern compiles a regular expression in the dialect of tokenizer.json.
func newPattern(expr string) (pattern, error) {
	if scan, ok := scanners[expr]; ok {
		return scan, nil
	}
	re, err := regexp2.Compile(expr, regexp2.None)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = regexTimeout
	return regexPattern{re}, nil
}

// behaviour says what becomes of the matches of a splitter's pattern.
type behaviour uint8

const (
	isolated     behaviour = iota // each match is a piece
	removed                       // matches are dropped
	mergedBefore                  // a match ends the piece before it
	mergedAfter                   // a match starts the piece after it
	contiguous                    // neighbouring matches are one piece
)

// splitter cuts at the matches of a pattern, or, inverted, between them.
type splitter struct {
	pattern pattern
	do      behaviour
	invert  bool
}

// stretch is a part of the text that is, or is not, a match.
type stretch struct {
	start, end int
	match      bool
}

func (p splitter) split(t text, emit func(text)) {
	last := 0
	if p.do == isolated || p.do == removed {
		between, match := !(p.do == removed && p.invert), !(p.do == removed && !p.invert)
		p.pattern.each(t.s, func(i, j int) {
			if last < i && between {
				emit(t.slice(last, i))
			}
			if i < j && match {
				emit(t.slice(i, j))
			}
			last = j
		})
		if last < len(t.s) && between {
			emit(t.slice(last, len(t.s)))
		}
		return
	}
	var parts []stretch
	p.pattern.each(t.s, func(i, j int) {
		if last < i {
			parts = append(parts, stretch{last, i, p.invert})
		}
		parts = append(parts, stretch{i, j, !p.invert})
		last = j
	})
	if last < len(t.s) {
		parts = append(parts, stretch{last, len(t.s), p.invert})
	}
	for _, s := range p.join(parts) {
		if s.start < s.end {
			emit(t.slice(s.start, s.end))
		}
	}
}

// join merges stretches with their neighbours.
func (p splitter) join(parts []stretch) []stretch {
	var out []stretch
	before := false // the stretch before was a match
	switch p.do {
	case contiguous, mergedBefore:
		for _, s := range parts {
			merge := s.match == before
			if p.do == mergedBefore {
				merge = s.match && !before
			}
			if merge && len(out) > 0 {
				out[len(out)-1].end = s.end
			} else {
				out = append(out, s)
			}
			before = s.match
		}
	case mergedAfter:
		for i, s := range parts {
			if i > 0 && before && !s.match {
				out[len(out)-1].end = s.end
			} else {
				out = append(out, s)
			}
			before = s.match
		}
	}
	return out
}

// byteLevel rewrites pieces in the byte-level alphabet, after cutting them as
// GPT-2 did if cut is set.
type byteLevel struct {
	prefixSpace bool // put a space in front of text that doesn't start with one
	cut         bool
	raw         bool // leave the bytes alone: the model reads them itself
}

func (p byteLevel) split(t text, emit func(text)) {
	if p.prefixSpace && !strings.HasPrefix(t.s, " ") {
		t = t.prepend(" ")
	}
	write := func(t text) {
		if !p.raw {
			t = byteLevelText(t)
		}
		emit(t)
	}
	if !p.cut {
		write(t)
		return
	}
	splitter{pattern: scanner(scanGPT2)}.split(t, write)
}

// metaspace writes spaces as a visible character, puts one in front, and cuts
// before each.
type metaspace struct {
	mark   string // "▁"
	scheme string // where to put one in front: "always", "first" (of the input), "never"
	cut    bool
}

func (p metaspace) split(t text, emit func(text)) {
	first := t.start == 0
	t = replace{literal(" "), p.mark}.normalize(t)
	if (p.scheme == "always" || p.scheme == "first" && first) && !strings.HasPrefix(t.s, p.mark) {
		t = t.prepend(p.mark)
	}
	if !p.cut {
		emit(t)
		return
	}
	splitter{pattern: literal(p.mark), do: mergedAfter}.split(t, emit)
}

// fixedLength cuts every so many characters.
type fixedLength int

func (n fixedLength) split(t text, emit func(text)) {
	start, count := 0, 0
	for i := range t.s {
		if count == int(n) {
			emit(t.slice(start, i))
			start, count = i, 0
		}
		count++
	}
	if start < len(t.s) {
		emit(t.slice(start, len(t.s)))
	}
}

// splitBERT drops white space and makes each punctuation mark a piece.
var splitBERT = pretokenizers{
	splitter{pattern: charPattern(unicode.IsSpace), do: removed},
	splitter{pattern: charPattern(isPunctuation)},
}

// isPunctuation counts ASCII symbols such as $ as punctuation, as BERT does.
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7F && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	return unicode.IsPunct(r) != unicode.Is(bertPunctuation, r)
}

// scanWords matches `\w+|[^\w\s]+`.
func scanWords(_ *classes, s string, i int) int {
	kind := func(r rune) int {
		switch {
		case isWord(r):
			return 1
		case unicode.IsSpace(r):
			return 0
		}
		return 2
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	first := kind(r)
	if first == 0 {
		return -1
	}
	for i += n; i < len(s); i += n {
		if r, n = utf8.DecodeRuneInString(s[i:]); kind(r) != first {
			break
		}
	}
	return i
}
