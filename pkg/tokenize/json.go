package tokenize

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonReader walks a JSON text without building it in memory. A tokenizer.json
// is ten to thirty megabytes, nearly all of it one object and one array; this
// reads it several times faster than encoding/json, which takes care of the small
// parts.
type jsonReader struct {
	s   string
	pos int
}

func newJSONReader(s string) (*jsonReader, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("JSON is not valid UTF-8")
	}
	return &jsonReader{s: s}, nil
}

func (r *jsonReader) errorf(format string, args ...any) error {
	return fmt.Errorf("JSON, byte %d: %s", r.pos, fmt.Sprintf(format, args...))
}

// peek skips white space and returns the next byte, or 0 at the end.
func (r *jsonReader) peek() byte {
	for r.pos < len(r.s) {
		switch c := r.s[r.pos]; c {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

func (r *jsonReader) expect(c byte) error {
	if got := r.peek(); got != c {
		if got == 0 {
			return r.errorf("unexpected end, want %q", c)
		}
		return r.errorf("found %q, want %q", got, c)
	}
	r.pos++
	return nil
}

// object calls f for every key of an object; f must read the value.
func (r *jsonReader) object(f func(key string) error) error {
	if err := r.expect('{'); err != nil {
		return err
	}
	if r.peek() == '}' {
		r.pos++
		return nil
	}
	for {
		key, err := r.string()
		if err != nil {
			return err
		}
		if err := r.expect(':'); err != nil {
			return err
		}
		if err := f(key); err != nil {
			return err
		}
		if r.peek() != ',' {
			return r.expect('}')
		}
		r.pos++
	}
}

// array calls f before every element of an array; f must read it.
func (r *jsonReader) array(f func() error) error {
	if err := r.expect('['); err != nil {
		return err
	}
	if r.peek() == ']' {
		r.pos++
		return nil
	}
	for {
		if err := f(); err != nil {
			return err
		}
		if r.peek() != ',' {
			return r.expect(']')
		}
		r.pos++
	}
}

// string reads a string. One without escapes is a part of the input, not a copy.
func (r *jsonReader) string() (string, error) {
	if err := r.expect('"'); err != nil {
		return "", err
	}
	start := r.pos
	escaped := false
	for i := start; i < len(r.s); i++ {
		switch c := r.s[i]; {
		case c == '"':
			r.pos = i + 1
			if !escaped {
				return r.s[start:i], nil
			}
			return r.unescape(start, i)
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			r.pos = i
			return "", r.errorf("control character in a string")
		}
	}
	r.pos = len(r.s)
	return "", r.errorf("string has no end")
}

// unescape reads the escapes of r.s[start:end].
func (r *jsonReader) unescape(start, end int) (string, error) {
	var b strings.Builder
	for i := start; i < end; i++ {
		if r.s[i] != '\\' {
			b.WriteByte(r.s[i])
			continue
		}
		i++
		switch c := r.s[i]; c {
		case '"', '\\', '/':
			b.WriteByte(c)
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			c, n := r.hex(i+1, end)
			i += n
			if c >= 0xD800 && c < 0xDC00 && i+2 < end && r.s[i+1] == '\\' && r.s[i+2] == 'u' {
				low, n := r.hex(i+3, end)
				if low >= 0xDC00 && low < 0xE000 {
					c = 0x10000 + (c-0xD800)<<10 + (low - 0xDC00)
					i += 2 + n
				}
			}
			if c < 0 || c >= 0xD800 && c < 0xE000 {
				r.pos = i
				return "", r.errorf("bad \\u escape")
			}
			b.WriteRune(c)
		default:
			r.pos = i
			return "", r.errorf("bad escape \\%c", c)
		}
	}
	return b.String(), nil
}

// hex reads four hexadecimal digits at i, or returns -1.
func (r *jsonReader) hex(i, end int) (rune, int) {
	if i+4 > end {
		return -1, 0
	}
	var c rune
	for _, d := range []byte(r.s[i : i+4]) {
		h := hexDigit(d)
		if h < 0 {
			return -1, 0
		}
		c = c<<4 | rune(h)
	}
	return c, 4
}

// int reads an integer.
func (r *jsonReader) int() (int, error) {
	n, err := r.number()
	if err != nil {
		return 0, err
	}
	i, err := strconv.Atoi(n)
	if err != nil {
		return 0, r.errorf("%q is not an integer", n)
	}
	return i, nil
}

// float reads a number the way Hugging Face's JSON library does: all digits as
// one integer, then one multiplication or division by a power of ten. That may be
// off by the last bit, and which of two equally good segmentations a unigram
// model picks hangs on such bits.
func (r *jsonReader) float() (float64, error) {
	n, err := r.number()
	if err != nil {
		return 0, err
	}
	if _, err := strconv.ParseFloat(n, 64); err != nil {
		return 0, r.errorf("%q is not a number", n)
	}
	digits, power, _ := strings.Cut(strings.ToLower(n), "e")
	exponent, _ := strconv.Atoi(power)
	var sum uint64
	fraction, full := false, false
	for _, c := range strings.TrimLeft(digits, "+-") {
		switch {
		case c == '.':
			fraction = true
			continue
		case full || sum > (math.MaxUint64-uint64(c-'0'))/10: // no room for more digits
			full = true
			if !fraction {
				exponent++
			}
			continue
		}
		sum = sum*10 + uint64(c-'0')
		if fraction {
			exponent--
		}
	}
	f := float64(sum)
	for ; exponent < -308; exponent += 308 {
		f /= 1e308
	}
	if exponent < 0 {
		f /= math.Pow10(-exponent)
	} else {
		f *= math.Pow10(exponent)
	}
	if digits[0] == '-' {
		f = -f
	}
	return f, nil
}

func (r *jsonReader) number() (string, error) {
	r.peek()
	start := r.pos
	for r.pos < len(r.s) && strings.IndexByte("+-.0123456789eE", r.s[r.pos]) >= 0 {
		r.pos++
	}
	if start == r.pos {
		return "", r.errorf("want a number")
	}
	return r.s[start:r.pos], nil
}

// raw skips a value and returns its text.
func (r *jsonReader) raw() (string, error) {
	r.peek()
	start := r.pos
	for depth := 0; ; {
		switch c := r.peek(); c {
		case 0:
			return "", r.errorf("unexpected end")
		case '"':
			if _, err := r.string(); err != nil {
				return "", err
			}
		case '{', '[':
			depth++
			r.pos++
		case '}', ']':
			depth--
			r.pos++
		case ',', ':':
			r.pos++
		default:
			for r.pos < len(r.s) && strings.IndexByte(" \t\r\n,:]}\"{[", r.s[r.pos]) < 0 {
				r.pos++
			}
		}
		if depth <= 0 {
			return r.s[start:r.pos], nil
		}
	}
}

// value decodes a small value into v by encoding/json.
func (r *jsonReader) value(v any) error {
	at := r.pos
	s, err := r.raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(s), v); err != nil {
		r.pos = at
		return r.errorf("%v", err)
	}
	return nil
}

// end checks that nothing follows.
func (r *jsonReader) end() error {
	if c := r.peek(); c != 0 {
		return r.errorf("found %q after the end", c)
	}
	if r.pos < len(r.s) {
		return r.errorf("found a zero byte after the end")
	}
	return nil
}
