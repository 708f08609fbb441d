package tokenize

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Unicode normalisation (UAX #15) that keeps track of where each character came
// from. Text that is already normal, nearly all of it, comes back as it is. The
// composition tables are those of Unicode 9, which the references have.

func nfc(t text) text { return normalForm(t, norm.NFC, norm.NFD, true) }
func nfd(t text) text { return normalForm(t, norm.NFD, norm.NFD, false) }

func nfkc(t text) text { return normalForm(t, norm.NFKC, norm.NFKD, true) }
func nfkd(t text) text { return normalForm(t, norm.NFKD, norm.NFKD, false) }

// part is one character of a decomposition.
type part struct {
	r     rune
	class uint8 // canonical combining class
	more  int   // as in change
}

func normalForm(t text, form, decomposition norm.Form, composed bool) text {
	if form.IsNormalString(t.s) {
		return t
	}
	var parts []part
	sorted := 0 // parts before this index are in canonical order
	order := func() {
		slices.SortStableFunc(parts[sorted:], func(a, b part) int { return int(a.class) - int(b.class) })
		sorted = len(parts)
	}
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		more := 0
		for _, d := range decompose(decomposition, t.s[i:i+n], r) {
			class := combiningClass(d)
			if class == 0 {
				order()
			}
			parts = append(parts, part{d, class, more})
			more = 1
		}
		i += n
	}
	order()
	if composed {
		parts = compose(parts)
	}
	changes := make([]change, len(parts))
	for i, p := range parts {
		changes[i] = change{p.r, p.more}
	}
	return t.apply(changes, 0)
}

// decompose returns the full decomposition of r, whose UTF-8 form is s.
func decompose(form norm.Form, s string, r rune) []rune {
	if unicode.Is(afterUnicode9, r) {
		return []rune{r}
	}
	if d := form.PropertiesString(s).Decomposition(); d != nil {
		return []rune(string(d))
	}
	if r >= hangulBase && r < hangulEnd {
		return []rune(form.String(s))
	}
	return []rune{r}
}

const (
	hangulBase = 0xAC00
	hangulEnd  = 0xD7A4
)

func combiningClass(r rune) uint8 {
	if r < 0x300 || unicode.Is(afterUnicode9, r) {
		return 0
	}
	return norm.NFD.PropertiesString(string(r)).CCC()
}

// compose joins each starter with the marks after it that are not blocked.
func compose(parts []part) []part {
	out := make([]part, 0, len(parts))
	starter, last := -1, -1 // index in out; class of the part before, -1 right after the starter
	for _, p := range parts {
		if starter >= 0 && last < int(p.class) {
			if r, ok := composePair(out[starter].r, p.r); ok {
				out[starter].r = r
				out[starter].more += p.more - 1
				continue
			}
		}
		if p.class == 0 {
			starter, last = len(out), -1
		} else {
			last = int(p.class)
		}
		out = append(out, p)
	}
	return out
}

// composePair returns the primary composite of a and b.
func composePair(a, b rune) (rune, bool) {
	if b < 0x300 {
		return 0, false
	}
	joined := norm.NFC.String(string(a) + string(b))
	r, n := utf8.DecodeRuneInString(joined)
	return r, n == len(joined) && r != utf8.RuneError && !unicode.Is(afterUnicode9, r)
}
