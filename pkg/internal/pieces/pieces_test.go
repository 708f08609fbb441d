package pieces

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// raw decodes a vocabulary with one token a byte: every character but ASCII is spread over several.
func raw(ids []int) string {
	b := make([]byte, len(ids))
	for i, id := range ids {
		b[i] = byte(id)
	}
	return string(b)
}

// fallback decodes like a SentencePiece vocabulary with byte fallback: no space in front of the first word, and U+FFFD for bytes
// that are no character.
func fallback(ids []int) string {
	var out strings.Builder
	for _, r := range raw(ids) {
		out.WriteRune(r)
	}
	return strings.TrimPrefix(out.String(), " ")
}

// trimming is raw for a vocabulary that drops all spaces at the start.
func trimming(ids []int) string { return strings.TrimLeft(raw(ids), " ") }

func list(s string) (ids []int) {
	for _, b := range []byte(s) {
		ids = append(ids, int(b))
	}
	return ids
}

// TestPieces: wherever the prompt ends, the pieces are whole characters and together the text behind it.
func TestPieces(t *testing.T) {
	const all = " déjà  vu, 我爱 datawhale 🙂👩‍🚀 end"
	for name, decode := range map[string]func([]int) string{"bytes": raw, "byte fallback": fallback, "trimming": trimming} {
		for from := range all { // at the start of each character
			prompt := list(all[:from])
			d := New(decode, prompt[max(0, len(prompt)-4):]...)
			got := ""
			for _, id := range list(all[from:]) {
				piece := d.Next(id)
				if !utf8.ValidString(piece) || strings.Contains(piece, "\uFFFD") {
					t.Fatalf("half a character came out: %q", piece)
				}
				got += piece
			}
			got += d.Flush()
			want := all[from:]
			if name != "bytes" && from == 0 {
				want = want[1:] // at the very start these vocabularies drop the space
			}
			if got != want {
				t.Fatalf("%s from %d: got %q, want %q", name, from, got, want)
			}
		}
	}
}

// Bytes that never become a character come out at the end; what stands in front of them at once, whichever token it belongs to.
func TestHeldBack(t *testing.T) {
	d := New(raw)
	if got := d.Next('a') + d.Next(0xE6) + d.Next(0x88); got != "a" {
		t.Errorf("got %q before the end", got)
	}
	if got := d.Flush(); got != "\xE6\x88" {
		t.Errorf("the end gives %q", got)
	}
	tokens := []string{" \xF0\x9F", "\xA6", "\x80", "!"}
	d = New(func(ids []int) (text string) {
		for _, id := range ids {
			text += tokens[id]
		}
		return text
	})
	var got []string
	for id := range tokens {
		got = append(got, d.Next(id))
	}
	if want := []string{" ", "", "🦀", "!"}; !slices.Equal(got, want) {
		t.Errorf("pieces %q, want %q", got, want)
	}
}

// A token that was only added is decoded with the next.
func TestAdd(t *testing.T) {
	d := New(raw)
	d.Add('a')
	if got := d.Next('b'); got != "ab" {
		t.Errorf("got %q, want both", got)
	}
	d.Add('c')
	if got := d.Flush(); got != "c" {
		t.Errorf("the end gives %q", got)
	}
}

func TestComplete(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, "a": 1, "aé": 3, "a\xC3": 1, "a\xE6\x88": 1, "我": 3, "\xF0\x9F\xA6": 0, "🦀": 4, "a\uFFFD\uFFFD": 1,
		"\x80\x80": 2, "a\xFF": 2, // never a character, whatever follows
	} {
		if got := complete(s); got != want {
			t.Errorf("complete(%q) = %d, want %d", s, got, want)
		}
	}
}
