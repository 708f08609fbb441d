package tokenize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A pre-tokenizer cuts text into pieces that merges may not cross. The
// vocabularies in use do so by one of a few regular expressions with
// look-ahead, which Go's regexp cannot run and a backtracking engine runs
// slowly. Each is short enough to be a function; TestScanners proves them equal to
// regexp2 on random text, and unknown expressions go to regexp2.

// scanner returns the end of the piece that starts at s[i], or -1 if the
// expression doesn't match there.
type scanner func(table *[unicode.MaxRune + 1]class, s string, i int) int

// The expressions, as they stand in tokenizer.json files and tiktoken.
const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternCL100K = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternO200K  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternTekken = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	patternDigits   = `\p{N}`
	patternDigits3  = `\p{N}{1,3}`
	patternHan      = `[一-龥぀-ゟ゠-ヿ]+`
	patternDeepSeek = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

// scanners maps each known expression to its function.
var scanners = map[string]scanner{
	patternGPT2:           scanGPT2,
	patternCL100K:         scanCL100K,
	patternQwen2:          scanQwen2,
	patternO200K:          scanO200K,
	patternTekken:         scanTekken,
	patternCL100KTiktoken: scanCL100KTiktoken,
	patternDigits:         scanDigits(1),
	patternDigits3:        scanDigits(3),
	patternHan:            scanHan,
	patternDeepSeek:       scanDeepSeek,
}

type classes = [unicode.MaxRune + 1]class

// scanGPT2 matches, in this order: an English contraction; letters, numbers or
// other characters with at most one space in front; white space.
func scanGPT2(table *classes, s string, i int) int {
	if s[i] == '\'' {
		if n := contraction(s[i:], false); n > 0 {
			return i + n
		}
	}
	j := i
	if s[i] == ' ' && i+1 < len(s) {
		j++
	}
	c, n := classAt(table, s, j)
	switch {
	case c&classL != 0:
		return run(table, s, j+n, classL)
	case c&classN != 0:
		return run(table, s, j+n, classN)
	case c&classSpace == 0:
		return runNot(table, s, j+n, classL|classN|classSpace)
	}
	return scanSpace(table, s, i)
}

func scanCL100K(table *classes, s string, i int) int { return scanGPT4(table, s, i, 3) }
func scanQwen2(table *classes, s string, i int) int  { return scanGPT4(table, s, i, 1) }

// scanGPT4 matches: a contraction in either case; letters with at most one
// character that is neither letter, number nor line break in front; up to so
// many digits; other characters with at most one space in front and the line
// breaks that follow; white space, cut after its last line break.
func scanGPT4(table *classes, s string, i, digits int) int {
	if s[i] == '\'' {
		if n := contraction(s[i:], true); n > 0 {
			return i + n
		}
	}
	c, n := classAt(table, s, i)
	switch {
	case c&classL != 0:
		return run(table, s, i+n, classL)
	case c&classN != 0:
		return upTo(table, s, i, digits)
	case c&classNewline == 0 && i+n < len(s):
		if next, m := classAt(table, s, i+n); next&classL != 0 {
			return run(table, s, i+n+m, classL)
		}
	}
	if end := scanOther(table, s, i); end > i {
		return run(table, s, end, classNewline)
	}
	return scanBreaks(table, s, i)
}

func scanO200K(table *classes, s string, i int) int { return scanCased(table, s, i, 3, true) }
func scanTekken(table *classes, s string, i int) int {
	return scanCased(table, s, i, 1, false)
}

// scanCased is scanGPT4 with words cut where a capital follows a small letter:
// the two word forms are capitals* smalls+ and capitals+ smalls*, where
// letters without case and marks count as both.
func scanCased(table *classes, s string, i, digits int, contractions bool) int {
	c, n := classAt(table, s, i)
	end := -1
	if lead := c&(classNewline|classL|classN) == 0; lead && i+n < len(s) {
		end = lowerWord(table, s, i+n)
	}
	if end < 0 {
		end = lowerWord(table, s, i)
	}
	if lead := c&(classNewline|classL|classN) == 0; end < 0 && lead && i+n < len(s) {
		end = upperWord(table, s, i+n)
	}
	if end < 0 {
		end = upperWord(table, s, i)
	}
	if end >= 0 {
		if contractions && end < len(s) && s[end] == '\'' {
			end += contraction(s[end:], true)
		}
		return end
	}
	if c&classN != 0 {
		return upTo(table, s, i, digits)
	}
	if end := scanOther(table, s, i); end > i {
		for end < len(s) && (s[end] == '\r' || s[end] == '\n' || s[end] == '/') {
			end++
		}
		return end
	}
	return scanBreaks(table, s, i)
}

const (
	capitals = classLu | classLt | classLm | classLo | classM
	smalls   = classLl | classLm | classLo | classM
)

// lowerWord matches capitals* smalls+ at s[i], or returns -1. As a regular
// expression would, it first takes every capital, and gives back only as many
// as it must to leave something for smalls.
func lowerWord(table *classes, s string, i int) int {
	both := -1 // end of the last character so far that is in both sets
	j := i
	for j < len(s) {
		c, n := classAt(table, s, j)
		if c&capitals == 0 {
			if c&smalls != 0 {
				return run(table, s, j+n, smalls)
			}
			break
		}
		j += n
		if c&smalls != 0 {
			both = j
		}
	}
	return both
}

// upperWord matches capitals+ smalls* at s[i], or returns -1.
func upperWord(table *classes, s string, i int) int {
	if end := run(table, s, i, capitals); end > i {
		return run(table, s, end, smalls)
	}
	return -1
}

// scanDeepSeek matches: a punctuation mark and the Latin letters after it;
// letters and marks with at most one character that is neither letter,
// punctuation, symbol nor line break in front; punctuation and symbols with at
// most one space in front; white space.
func scanDeepSeek(table *classes, s string, i int) int {
	c, n := classAt(table, s, i)
	if s[i] < utf8.RuneSelf && c&(classP|classS) != 0 {
		j := i + 1
		for j < len(s) && (s[j]|0x20) >= 'a' && (s[j]|0x20) <= 'z' {
			j++
		}
		if j > i+1 {
			return j
		}
	}
	if c&(classNewline|classL|classP|classS) == 0 && i+n < len(s) {
		if end := run(table, s, i+n, classL|classM); end > i+n {
			return end
		}
	}
	if end := run(table, s, i, classL|classM); end > i {
		return end
	}
	j := i
	if s[i] == ' ' {
		j++
	}
	if end := run(table, s, j, classP|classS); end > j {
		return run(table, s, end, classNewline)
	}
	if c&classSpace == 0 {
		return -1
	}
	return scanBreaks(table, s, i)
}

func scanDigits(most int) scanner {
	return func(table *classes, s string, i int) int {
		if end := upTo(table, s, i, most); end > i {
			return end
		}
		return -1
	}
}

// scanHan matches runs of CJK ideographs, hiragana and katakana.
func scanHan(_ *classes, s string, i int) int {
	start := i
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !(r >= 0x4E00 && r <= 0x9FA5 || r >= 0x3040 && r <= 0x30FF) {
			break
		}
		i += n
	}
	if i == start {
		return -1
	}
	return i
}

// upTo matches between one and most numbers; it returns i if there is none.
func upTo(table *classes, s string, i, most int) int {
	for ; most > 0 && i < len(s); most-- {
		c, n := classAt(table, s, i)
		if c&classN == 0 {
			break
		}
		i += n
	}
	return i
}

// scanOther matches ` ?[^\s\p{L}\p{N}]+`, or returns i.
func scanOther(table *classes, s string, i int) int {
	j := i
	if s[i] == ' ' {
		j++
	}
	if end := runNot(table, s, j, classSpace|classL|classN); end > j {
		return end
	}
	return i
}

// scanBreaks matches `\s*[\r\n]+|\s+(?!\S)|\s+` where s[i] is white space.
func scanBreaks(table *classes, s string, i int) int {
	end := run(table, s, i, classSpace)
	if k := strings.LastIndexAny(s[i:end], "\r\n"); k >= 0 {
		return i + k + 1
	}
	return spaceBeforeWord(s, i, end)
}

// scanSpace matches `\s+(?!\S)|\s+` where s[i] is white space.
func scanSpace(table *classes, s string, i int) int {
	return spaceBeforeWord(s, i, run(table, s, i, classSpace))
}

// spaceBeforeWord leaves the last character of the white space s[i:end] to the
// word that follows, unless there is no word or nothing else in the run.
func spaceBeforeWord(s string, i, end int) int {
	if end == len(s) {
		return end
	}
	_, last := utf8.DecodeLastRuneInString(s[i:end])
	if end-last == i {
		return end
	}
	return end - last
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the
// start of s, or 0.
func contraction(s string, anyCase bool) int {
	if len(s) < 2 {
		return 0
	}
	a := s[1]
	if anyCase {
		if strings.HasPrefix(s[1:], "ſ") { // U+017F, the long s, folds to s
			return 3
		}
		a |= 0x20
	}
	switch a {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) < 3 {
		return 0
	}
	b := s[2]
	if anyCase {
		b |= 0x20
	}
	if a == 'r' && b == 'e' || a == 'v' && b == 'e' || a == 'l' && b == 'l' {
		return 3
	}
	return 0
}
