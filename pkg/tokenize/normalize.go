package tokenize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// normalizer rewrites text before it is cut into pieces.
type normalizer interface {
	normalize(t text) text
}

// normalizers applies several in turn.
type normalizers []normalizer

func (ns normalizers) normalize(t text) text {
	for _, n := range ns {
		t = n.normalize(t)
	}
	return t
}

// normalizerFunc is a normalizer without settings.
type normalizerFunc func(text) text

func (f normalizerFunc) normalize(t text) text { return f(t) }

// lowercase replaces each character by its full lower case.
func lowercase(t text) text {
	if isLowerASCII(t.s) {
		return t
	}
	return t.rewrite(func(w *rewriter, r rune, from span) {
		if r == 'İ' { // the only character whose lower case is two
			w.puts("i̇", from)
			return
		}
		if lower, ok := newLower[r]; ok {
			w.put(lower, from)
			return
		}
		w.put(unicode.ToLower(r), from)
	})
}

func isLowerASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf || s[i] >= 'A' && s[i] <= 'Z' {
			return false
		}
	}
	return true
}

// stripAccents drops combining marks.
func stripAccents(t text) text {
	return t.filter(func(r rune) bool { return unicode.Is(unicode.M, r) == unicode.Is(stripMarks, r) })
}

// nmt drops control characters and turns other separators into spaces, as the
// rules of SentencePiece's "nmt" charsmaps do.
func nmt(t text) text {
	return t.rewrite(func(w *rewriter, r rune, from span) {
		switch {
		case r >= 0x01 && r <= 0x08, r == 0x0B, r >= 0x0E && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F,
			r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			w.put(' ', from)
		default:
			w.put(r, from)
		}
	})
}

// strip drops white space at the ends.
type strip struct{ left, right bool }

func (n strip) normalize(t text) text {
	i, j := 0, len(t.s)
	if n.left {
		i = j - len(strings.TrimLeftFunc(t.s, unicode.IsSpace))
	}
	if n.right && i < j {
		j = i + len(strings.TrimRightFunc(t.s[i:], unicode.IsSpace))
	}
	if i == 0 && j == len(t.s) {
		return t
	}
	kept := t.slice(i, j)
	kept.start = t.start
	if at := t.aligned(); at != nil {
		kept.at = at[i:j]
	}
	return kept
}

// prepend puts a string in front of any text that isn't empty.
type prepend string

func (p prepend) normalize(t text) text { return t.prepend(string(p)) }

// prepend returns t with p in front, standing for t's first character.
func (t text) prepend(p string) text {
	if t.s == "" {
		return t
	}
	at := t.aligned()
	w := newRewriter(t, len(p)+len(t.s))
	w.puts(p, spanAt(at, 0))
	w.keep(t, at, 0, len(t.s))
	return w.text(t)
}

// replace replaces every match of a pattern.
type replace struct {
	pattern pattern
	with    string
}

func (n replace) normalize(t text) text {
	var w *rewriter
	var at []span
	last := 0
	n.pattern.each(t.s, func(i, j int) {
		if w == nil {
			w, at = newRewriter(t, len(t.s)+len(t.s)/2), t.aligned()
		}
		w.keep(t, at, last, i)
		from := span{int32(t.start), int32(t.start)}
		if j > 0 {
			from = spanAt(at, j-1)
		}
		w.puts(n.with, from)
		last = j
	})
	if w == nil {
		return t
	}
	w.keep(t, at, last, len(t.s))
	return w.text(t)
}

// bertNormalizer is BERT's basic clean-up (Devlin et al. 2019): drop control
// characters, make all white space one kind, put spaces around CJK
// ideographs, drop accents, lower the case.
type bertNormalizer struct {
	clean, cjk, accents, lower bool // accents: drop them
}

func (n bertNormalizer) normalize(t text) text {
	if n.clean {
		t = t.rewrite(func(w *rewriter, r rune, from span) {
			switch {
			case r == '\t' || r == '\n' || r == '\r' || unicode.IsSpace(r) && !bertControl(r):
				w.put(' ', from)
			case r != 0 && r != utf8.RuneError && !bertControl(r):
				w.put(r, from)
			}
		})
	}
	if n.cjk && !isASCII(t.s) {
		t = t.rewrite(func(w *rewriter, r rune, from span) {
			if isIdeograph(r) {
				w.put(' ', from)
				w.put(r, from)
				w.put(' ', from)
				return
			}
			w.put(r, from)
		})
	}
	if n.accents && !isASCII(t.s) {
		t = nfd(t).filter(func(r rune) bool { return unicode.Is(unicode.Mn, r) == unicode.Is(bertMarks, r) })
	}
	if n.lower {
		t = lowercase(t)
	}
	return t
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// bertControl reports whether BERT's normaliser drops r: control, format,
// surrogate and private-use characters.
func bertControl(r rune) bool {
	other := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co)
	return r != '\t' && r != '\n' && r != '\r' && other != unicode.Is(bertOther, r)
}

// isIdeograph reports whether BERT's normaliser puts spaces around r.
func isIdeograph(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF ||
		r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
