package tokenize

import (
	"strings"
	"unicode/utf8"
)

// decoder turns a list of tokens into a list of strings; the strings of the
// last decoder, joined, are the text.
type decoder interface {
	decode(tokens []string) []string
}

// decoderFunc is a decoder without settings.
type decoderFunc func([]string) []string

func (f decoderFunc) decode(tokens []string) []string { return f(tokens) }

// decodeByteLevel reads the byte-level alphabet. A token with other characters
// (an added token) stands for itself.
func decodeByteLevel(tokens []string) []string {
	var out []byte
	for _, token := range tokens {
		b, ok := appendCharBytes(out, token)
		if !ok {
			b = append(out, token...)
		}
		out = b
	}
	return []string{string(out)}
}

// decodeByteFallback turns runs of <0xNN> tokens into the characters that the
// bytes spell, or one U+FFFD a byte if they spell none.
type decodeByteFallback struct{}

func (decodeByteFallback) decode(tokens []string) []string {
	out := tokens[:0]
	var bytes []byte
	flush := func() {
		if utf8.Valid(bytes) && len(bytes) > 0 {
			out = append(out, string(bytes))
		} else if len(bytes) > 0 {
			out = append(out, strings.Repeat("\uFFFD", len(bytes)))
		}
		bytes = bytes[:0]
	}
	for _, token := range tokens {
		if b, ok := fallbackByte(token); ok {
			bytes = append(bytes, b)
			continue
		}
		flush()
		out = append(out, token)
	}
	flush()
	return out
}

// fallbackByte reads a token of the form <0xNN>.
func fallbackByte(token string) (byte, bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	hi, lo := hexDigit(token[3]), hexDigit(token[4])
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

// decodeFuse joins all tokens into one.
func decodeFuse(tokens []string) []string { return []string{strings.Join(tokens, "")} }

// decodeReplace replaces a pattern in every token.
type decodeReplace struct {
	pattern pattern
	with    string
}

func (d decodeReplace) decode(tokens []string) []string {
	for i, token := range tokens {
		var err error
		if s := d.one(token, &err); err == nil {
			tokens[i] = s
		}
	}
	return tokens
}

func (d decodeReplace) one(token string, err *error) string {
	defer catchPattern(err)
	return replace{d.pattern, d.with}.normalize(text{s: token}).s
}

// decodeStrip takes up to so many copies of a character off both ends of
// every token.
type decodeStrip struct {
	char        string
	start, stop int
}

func (d decodeStrip) decode(tokens []string) []string {
	for i, token := range tokens {
		for k := 0; k < d.start && strings.HasPrefix(token, d.char); k++ {
			token = token[len(d.char):]
		}
		for k := 0; k < d.stop && strings.HasSuffix(token, d.char); k++ {
			token = token[:len(token)-len(d.char)]
		}
		tokens[i] = token
	}
	return tokens
}

// decodeMetaspace turns ▁ into spaces, and drops the one put in front.
type decodeMetaspace struct {
	mark     string
	prefixed bool
}

func (d decodeMetaspace) decode(tokens []string) []string {
	for i, token := range tokens {
		space := " "
		if i == 0 && d.prefixed {
			space = ""
		}
		tokens[i] = strings.ReplaceAll(token, d.mark, space)
	}
	return tokens
}

// decodeWordPiece joins ## tokens to the one before and puts spaces between
// the others.
type decodeWordPiece struct {
	prefix  string
	cleanup bool
}

func (d decodeWordPiece) decode(tokens []string) []string {
	for i, token := range tokens {
		if i > 0 {
			if rest, ok := strings.CutPrefix(token, d.prefix); ok {
				token = rest
			} else {
				token = " " + token
			}
		}
		if d.cleanup {
			token = cleanUp(token)
		}
		tokens[i] = token
	}
	return tokens
}

// cleanUp takes out the spaces that English doesn't write, one rule after the other.
func cleanUp(s string) string {
	for _, rule := range [][2]string{
		{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
		{" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
	} {
		s = strings.ReplaceAll(s, rule[0], rule[1])
	}
	return s
}

// decodeSuffix turns the end-of-word suffix into spaces.
type decodeSuffix string

func (suffix decodeSuffix) decode(tokens []string) []string {
	for i, token := range tokens {
		space := " "
		if i == len(tokens)-1 {
			space = ""
		}
		tokens[i] = strings.ReplaceAll(token, string(suffix), space)
	}
	return tokens
}

// decodeCTC drops repeated and padding tokens.
type decodeCTC struct {
	pad, delimiter string
	cleanup        bool
}

func (d decodeCTC) decode(tokens []string) []string {
	var out []string
	for i, token := range tokens {
		if i > 0 && token == tokens[i-1] {
			continue
		}
		token = strings.ReplaceAll(token, d.pad, "")
		if d.cleanup {
			token = strings.ReplaceAll(cleanUp(token), d.delimiter, " ")
		}
		if token != "" {
			out = append(out, token)
		}
	}
	return out
}
