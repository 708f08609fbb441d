package generate

import (
	"fmt"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// Regex makes a constraint: the whole text must match the regular expression (RE2 syntax, as in package regexp). Anchors at
// its ends are allowed and change nothing; word boundaries and anchors inside it are refused.
func Regex(expr string) (*Constraint, error) {
	f, err := regexFragment(expr, runes)
	if err == nil {
		var c *Constraint
		if c, err = newConstraint(f); err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("generate: regular expression %q: %w", expr, err)
}

// regexFragment builds the automaton of an expression; class builds that of a class of characters lo, hi, lo, hi …
func regexFragment(expr string, class func([]rune) fragment) (fragment, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return compile(trimAnchors(re.Simplify()), class)
}

// trimAnchors removes ^ at the start and $ at the end of an expression, which always matches as a whole.
func trimAnchors(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpBeginText, syntax.OpEndText:
		return &syntax.Regexp{Op: syntax.OpEmptyMatch}
	case syntax.OpConcat:
		subs := re.Sub
		if len(subs) > 0 && subs[0].Op == syntax.OpBeginText {
			subs = subs[1:]
		}
		if len(subs) > 0 && subs[len(subs)-1].Op == syntax.OpEndText {
			subs = subs[:len(subs)-1]
		}
		return &syntax.Regexp{Op: syntax.OpConcat, Sub: subs}
	}
	return re
}

func compile(re *syntax.Regexp, class func([]rune) fragment) (fragment, error) {
	var subs []fragment
	for _, s := range re.Sub {
		f, err := compile(s, class)
		if err != nil {
			return nil, err
		}
		subs = append(subs, f)
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return literal(""), nil
	case syntax.OpNoMatch:
		return either(), nil
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			forms := []rune{r, r}
			for f := unicode.SimpleFold(r); f != r && re.Flags&syntax.FoldCase != 0; f = unicode.SimpleFold(f) {
				forms = append(forms, f, f)
			}
			subs = append(subs, class(forms))
		}
		return sequence(subs...), nil
	case syntax.OpCharClass:
		return class(re.Rune), nil
	case syntax.OpAnyChar:
		return class([]rune{0, unicode.MaxRune}), nil
	case syntax.OpAnyCharNotNL:
		return class([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune}), nil
	case syntax.OpCapture:
		return subs[0], nil
	case syntax.OpStar:
		return repeat(subs[0], 0, -1), nil
	case syntax.OpPlus:
		return repeat(subs[0], 1, -1), nil
	case syntax.OpQuest:
		return optional(subs[0]), nil
	case syntax.OpRepeat:
		return repeat(subs[0], re.Min, re.Max), nil
	case syntax.OpConcat:
		return sequence(subs...), nil
	case syntax.OpAlternate:
		return either(subs...), nil
	}
	return nil, fmt.Errorf("%q is not supported", re.String())
}

// runes reads one character of the classes lo, hi, lo, hi … as UTF-8.
func runes(class []rune) fragment {
	var parts []fragment
	for i := 0; i+1 < len(class); i += 2 {
		lo, hi := class[i], class[i+1]
		// The surrogates U+D800 to U+DFFF have no UTF-8.
		for _, r := range [][2]rune{{lo, min(hi, 0xD7FF)}, {max(lo, 0xE000), hi}} {
			if r[0] <= r[1] {
				parts = utf8Ranges(parts, r[0], r[1])
			}
		}
	}
	return either(parts...)
}

// utf8Ranges appends sequences of byte ranges that together are the UTF-8 of lo … hi. A range is cut where the length of the
// encoding changes, and then until all but the last differing byte run over their full range.
func utf8Ranges(parts []fragment, lo, hi rune) []fragment {
	for _, max := range []rune{0x7F, 0x7FF, 0xFFFF} {
		if lo <= max && max < hi {
			return utf8Ranges(utf8Ranges(parts, lo, max), max+1, hi)
		}
	}
	for i := 1; i < utf8.RuneLen(lo); i++ {
		low := rune(1)<<(6*i) - 1 // the bits of the last i bytes
		if lo&^low == hi&^low {
			continue
		}
		if lo&low != 0 {
			return utf8Ranges(utf8Ranges(parts, lo, lo|low), (lo|low)+1, hi)
		}
		if hi&low != low {
			return utf8Ranges(utf8Ranges(parts, lo, hi&^low-1), hi&^low, hi)
		}
	}
	a, b := string(lo), string(hi)
	var bytes []fragment
	for i := range len(a) {
		bytes = append(bytes, bytesRange(a[i], b[i]))
	}
	return append(parts, sequence(bytes...))
}
