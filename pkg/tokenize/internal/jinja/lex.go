package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// segment is a part of a template: text, or what is between a pair of delimiters.
type segment struct {
	kind byte // 't' text, 'v' {{ }}, 'b' {% %}
	text string
	line int
}

// split cuts a template at its delimiters and settles white space: a block or
// comment takes the line break after it and the indentation before it along,
// "-" all white space on its side, and "+" nothing.
func split(src string) ([]segment, error) {
	src = strings.TrimSuffix(src, "\n")
	var out []segment
	line := 1
	atLineStart := true // what comes next begins a line
	for src != "" {
		k := strings.IndexByte(src, '{')
		for k >= 0 && (k+1 == len(src) || !strings.ContainsRune("{%#", rune(src[k+1]))) {
			next := strings.IndexByte(src[k+1:], '{')
			if next < 0 {
				k = -1
			} else {
				k += 1 + next
			}
		}
		if k < 0 {
			out = append(out, segment{'t', src, line})
			break
		}
		text, open := src[:k], src[k+1]
		line += strings.Count(text, "\n")
		tag := src[k+2:]
		switch {
		case strings.HasPrefix(tag, "-"):
			tag = tag[1:]
			text = strings.TrimRightFunc(text, unicode.IsSpace)
		case strings.HasPrefix(tag, "+"):
			tag = tag[1:]
		case open != '{':
			start := strings.LastIndexByte(text, '\n') + 1
			if (start > 0 || atLineStart) && strings.Trim(text[start:], " \t\v\f\r") == "" {
				text = text[:start]
			}
		}
		if text != "" {
			out = append(out, segment{'t', text, line})
		}
		shut := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[open]
		end := closing(tag, shut, open == '#')
		if end < 0 {
			return nil, fmt.Errorf("line %d: {%c has no end", line, open)
		}
		body, rest := tag[:end], tag[end+2:]
		lines := strings.Count(body, "\n")
		atLineStart = false
		trimmed := rest
		switch {
		case strings.HasSuffix(body, "-"):
			body = body[:len(body)-1]
			trimmed = strings.TrimLeftFunc(rest, unicode.IsSpace)
		case strings.HasSuffix(body, "+") && open != '{':
			body = body[:len(body)-1]
		case open != '{':
			trimmed = strings.TrimPrefix(rest, "\n")
		}
		if cut := rest[:len(rest)-len(trimmed)]; cut != "" {
			atLineStart = cut[len(cut)-1] == '\n'
			lines += strings.Count(cut, "\n")
		}
		switch open {
		case '{':
			out = append(out, segment{'v', body, line})
		case '%':
			out = append(out, segment{'b', body, line})
			if strings.TrimSpace(body) == "raw" {
				return nil, fmt.Errorf("line %d: unknown block %q", line, "raw")
			}
		}
		line += lines
		src = trimmed
	}
	return out, nil
}

// closing finds the closing delimiter, which may not be inside a string.
func closing(s, shut string, comment bool) int {
	if comment {
		return strings.Index(s, shut)
	}
	quote := byte(0)
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case depth <= 0 && s[i:i+2] == shut:
			return i
		case c == '{' || c == '(' || c == '[':
			depth++
		case c == '}' || c == ')' || c == ']':
			depth--
		}
	}
	return -1
}

// lexeme is a token of the expression language.
type lexeme struct {
	kind byte // 'n' name, 's' string, 'i' integer, 'f' float, 'o' operator, 0 the end
	text string
}

var operators = []string{"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ":", ".", "|"}

// lex cuts an expression or a block's body into lexemes.
func lex(s string) ([]lexeme, error) {
	var out []lexeme
	for i := 0; i < len(s); {
		c := s[i]
		r, _ := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case c == '\'' || c == '"':
			text, n, err := quoted(s[i:])
			if err != nil {
				return nil, err
			}
			out = append(out, lexeme{'s', text})
			i += n
		case c >= '0' && c <= '9':
			j := i
			kind := byte('i')
			for j < len(s) && (s[j] >= '0' && s[j] <= '9' || s[j] == '_' ||
				s[j] == '.' && kind == 'i' && j+1 < len(s) && s[j+1] >= '0' && s[j+1] <= '9') {
				if s[j] == '.' {
					kind = 'f'
				}
				j++
			}
			out = append(out, lexeme{kind, strings.ReplaceAll(s[i:j], "_", "")})
			i = j
		case c == '_' || unicode.IsLetter(r):
			j := i
			for j < len(s) {
				r, n := utf8.DecodeRuneInString(s[j:])
				if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
					break
				}
				j += n
			}
			out = append(out, lexeme{'n', s[i:j]})
			i = j
		default:
			found := ""
			for _, op := range operators {
				if strings.HasPrefix(s[i:], op) {
					found = op
					break
				}
			}
			if found == "" {
				return nil, fmt.Errorf("unexpected character %q", r)
			}
			out = append(out, lexeme{'o', found})
			i += len(found)
		}
	}
	return append(out, lexeme{}), nil
}

// quoted reads a string literal and returns its value and length.
func quoted(s string) (string, int, error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0]:
			return b.String(), i + 1, nil
		case c == '\\' && i+1 < len(s):
			i++
			if r, n, ok := escape(s[i:]); ok {
				b.WriteRune(r)
				i += n - 1
			} else {
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, fmt.Errorf("string %.20s has no end", s)
}

// escape reads what follows a backslash.
func escape(s string) (r rune, n int, ok bool) {
	simple := map[byte]rune{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', 'v': '\v', 'a': '\a', '0': 0, '\\': '\\', '\'': '\'', '"': '"'}
	if r, ok := simple[s[0]]; ok {
		return r, 1, true
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if digits == 0 || len(s) <= digits {
		return 0, 0, false
	}
	for _, c := range []byte(s[1 : 1+digits]) {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 {
			return 0, 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, 1 + digits, utf8.ValidRune(r)
}
