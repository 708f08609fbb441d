package tokenize

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a set of Unicode general categories (and white space), one bit each.
type class uint16

const (
	classLu      class = 1 << iota // upper-case letter
	classLl                        // lower-case letter
	classLt                        // title-case letter
	classLm                        // modifier letter
	classLo                        // other letter
	classM                         // mark
	classN                         // number
	classP                         // punctuation
	classS                         // symbol
	classSpace                     // the White_Space property, \s
	classNewline                   // \r and \n

	classL = classLu | classLl | classLt | classLm | classLo
)

// classTable holds the class of every code point. It is built once, on first
// use, in about two milliseconds: a binary search in unicode's range tables
// for every character would cost more than the rest of a pre-tokenizer.
var classTable = sync.OnceValue(func() *[unicode.MaxRune + 1]class {
	table := new([unicode.MaxRune + 1]class)
	mark := func(rt *unicode.RangeTable, bit class) {
		for _, r := range rt.R16 {
			for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
				table[c] |= bit
			}
		}
		for _, r := range rt.R32 {
			for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
				table[c] |= bit
			}
		}
	}
	mark(unicode.Lu, classLu)
	mark(unicode.Ll, classLl)
	mark(unicode.Lt, classLt)
	mark(unicode.Lm, classLm)
	mark(unicode.Lo, classLo)
	mark(unicode.M, classM)
	mark(unicode.N, classN)
	mark(unicode.P, classP)
	mark(unicode.S, classS)
	for _, newer := range []struct {
		table *unicode.RangeTable
		bit   class
	}{
		{newLu, classLu}, {newLl, classLl}, {newLm, classLm}, {newLo, classLo},
		{newM, classM}, {newN, classN}, {newP, classP}, {newS, classS},
	} {
		mark(newer.table, newer.bit)
	}
	mark(unicode.White_Space, classSpace)
	table['\r'] |= classNewline
	table['\n'] |= classNewline
	return table
})

// classAt returns the class of the character at s[i] and its length in bytes.
// A byte that is not UTF-8 counts as U+FFFD, a symbol, of length one.
func classAt(table *[unicode.MaxRune + 1]class, s string, i int) (class, int) {
	if c := s[i]; c < utf8.RuneSelf {
		return table[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return table[r], n
}

// run returns the end of the longest run of characters from s[i] on that have
// a class in the set.
func run(table *[unicode.MaxRune + 1]class, s string, i int, set class) int {
	for i < len(s) {
		c, n := classAt(table, s, i)
		if c&set == 0 {
			return i
		}
		i += n
	}
	return i
}

// runNot is run for characters that have none of the classes.
func runNot(table *[unicode.MaxRune + 1]class, s string, i int, set class) int {
	for i < len(s) {
		c, n := classAt(table, s, i)
		if c&set != 0 {
			return i
		}
		i += n
	}
	return i
}
