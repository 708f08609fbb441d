package tokenize

import (
	"unicode/utf8"
)

// Byte-level vocabularies (GPT-2 and after) are written down in an alphabet of
// 256 printable characters, one for each byte: a byte that is printable in
// Latin-1 stands for itself, and the other 68 are numbered from U+0100 on in
// order. So a space reads "Ġ" (U+0120), a newline "Ċ", and "é", two bytes in
// UTF-8, reads "Ã©". (Radford et al. 2019, "Language Models are Unsupervised
// Multitask Learners", section 2.2.)

// byteChars[b] is the character that stands for byte b.
var byteChars = func() (chars [256]rune) {
	next := rune(0x100)
	for b := range chars {
		printable := b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE
		if printable {
			chars[b] = rune(b)
		} else {
			chars[b] = next
			next++
		}
	}
	return chars
}()

// charBytes is the inverse of byteChars: charBytes[c] is the byte that
// character c stands for, or -1. Every such c is below 0x144.
var charBytes = func() (bytes [0x144]int16) {
	for c := range bytes {
		bytes[c] = -1
	}
	for b, c := range byteChars {
		bytes[c] = int16(b)
	}
	return bytes
}()

// appendByteChars appends b written in the byte-level alphabet.
func appendByteChars(dst []byte, b string) []byte {
	for i := 0; i < len(b); i++ {
		dst = utf8.AppendRune(dst, byteChars[b[i]])
	}
	return dst
}

// appendCharBytes appends the bytes that token stands for, or reports false if
// a character of it is outside the byte-level alphabet.
func appendCharBytes(dst []byte, token string) ([]byte, bool) {
	n := len(dst)
	for _, c := range token {
		if int(c) >= len(charBytes) || charBytes[c] < 0 {
			return dst[:n], false
		}
		dst = append(dst, byte(charBytes[c]))
	}
	return dst, true
}

// byteLevelText rewrites t in the byte-level alphabet. Each new character
// stands for the whole input character that its byte came from.
func byteLevelText(t text) text {
	at := t.aligned()
	w := newRewriter(t, 2*len(t.s))
	for i := 0; i < len(t.s); i++ {
		w.put(byteChars[t.s[i]], spanAt(at, i))
	}
	return w.text(t)
}
