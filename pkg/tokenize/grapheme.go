package tokenize

import (
	"unicode"
	"unicode/utf8"
)

// graphemeLen returns the length of the user-perceived character that s starts
// with: a character and the marks on it (Unicode Standard Annex #29, extended
// grapheme clusters). It leaves out the rules that only ever join characters of
// six bytes or more together (Hangul jamo, flags, emoji joined to emoji,
// conjuncts): precompiled treats longer clusters character by character.
func graphemeLen(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if n == len(s) || r < utf8.RuneSelf && s[n] < utf8.RuneSelf && r != '\r' {
		return n
	}
	if r == '\r' {
		if s[n] == '\n' {
			return n + 1
		}
		return n
	}
	for prepended := isPrepend(r); !isBreakAround(r) && n < len(s); {
		next, size := utf8.DecodeRuneInString(s[n:])
		if isBreakAround(next) || !prepended && !isExtend(next) {
			break
		}
		prepended = isPrepend(next)
		r = next
		n += size
	}
	return n
}

// isBreakAround reports whether r is a control character, alone in its cluster.
func isBreakAround(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7F
	}
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) || unicode.Is(unicode.Cf, r) && !isExtend(r) && !isPrepend(r)
}

// isExtend reports whether r belongs to the character before it.
func isExtend(r rune) bool {
	switch {
	case r < 0x300:
		return false
	case r == 0x200C, r == 0x200D, r >= 0xE0020 && r <= 0xE007F, r >= 0x1F3FB && r <= 0x1F3FF, r == 0x0E33, r == 0x0EB3:
		return true
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Grapheme_Extend):
		return true
	}
	return unicode.Is(unicode.Mc, r) && !unicode.Is(apart, r)
}

// apart are the spacing marks that start a cluster of their own.
var apart = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x102B, 0x102C, 1}, {0x1038, 0x1038, 1}, {0x1062, 0x1064, 1}, {0x1067, 0x106D, 1}, {0x1083, 0x1083, 1},
		{0x1087, 0x108C, 1}, {0x108F, 0x108F, 1}, {0x109A, 0x109C, 1}, {0x1A61, 0x1A61, 1}, {0x1A63, 0x1A64, 1},
		{0xAA7B, 0xAA7B, 1}, {0xAA7D, 0xAA7D, 1},
	},
	R32: []unicode.Range32{{0x11720, 0x11721, 1}},
}

// isPrepend reports whether the character after r belongs to it.
func isPrepend(r rune) bool {
	return r >= 0x600 && (unicode.Is(unicode.Prepended_Concatenation_Mark, r) || r == 0x0D4E ||
		r == 0x111C2 || r == 0x111C3 || r == 0x1193F || r == 0x11941 || r == 0x11A3A ||
		r >= 0x11A84 && r <= 0x11A89 || r == 0x11D46 || r == 0x11F02)
}
