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

// runs decodes like a SentencePiece vocabulary where a whole run of byte tokens is text or not; "\n" is one of them.
func runs(ids []int) string {
	var out, run strings.Builder
	flush := func() {
		if s := run.String(); utf8.ValidString(s) {
			out.WriteString(s)
		} else {
			out.WriteString(strings.Repeat("\uFFFD", len(s)))
		}
		run.Reset()
	}
	for _, id := range ids {
		if id == '\n' || id >= utf8.RuneSelf {
			run.WriteByte(byte(id))
			continue
		}
		flush()
		out.WriteByte(byte(id))
	}
	flush()
	return strings.TrimPrefix(out.String(), " ")
}

func list(s string) (ids []int) {
	for _, b := range []byte(s) {
		ids = append(ids, int(b))
	}
	return ids
}

// TestPieces: wherever the prompt ends, the pieces are whole characters and together the text behind it.
func TestPieces(t *testing.T) {
	const all = " déjà  vu,\n我爱 datawhale\n\n🙂👩‍🚀\n end"
	for name, decode := range map[string]func([]int) string{"bytes": raw, "byte fallback": fallback, "runs": runs, "trimming": trimming} {
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

// A byte takes back what is out as text before it, until the bytes are a character, or never: then what follows comes at once all
// the same.
func TestTakenBack(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"w\n😀w", []string{"w", "\n", "", "", "", "😀", "w"}},
		{"w\n\xF0w!", []string{"w", "\n", "", "\uFFFD\uFFFDw", "!"}},
		{"w\n\xF0", []string{"w", "\n", "", "\uFFFD\uFFFD"}},
		{"é\xC3w", []string{"", "é", "", "\uFFFD\uFFFD\uFFFDw"}},
	} {
		d := New(runs)
		var got []string
		for _, id := range list(c.text) {
			got = append(got, d.Next(id))
		}
		if rest := d.Flush(); rest != "" {
			got = append(got, rest)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: pieces %q, want %q", c.text, got, c.want)
		}
	}
}

// However long nothing but spaces comes, or nothing at all, a step decodes few tokens, and the text behind is right.
func TestBounded(t *testing.T) {
	silent := func(decode func([]int) string) func([]int) string { // 0 has no text
		return func(ids []int) string {
			return decode(slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return id == 0 }))
		}
	}
	for name, decode := range map[string]func([]int) string{"bytes": silent(raw), "byte fallback": silent(fallback), "runs": silent(runs), "trimming": silent(trimming)} {
		for n := range 2 * most {
			all := list("w" + strings.Repeat("\x00", n) + "🙂")
			d, got := New(decode), ""
			for _, id := range all {
				got += d.Next(id)
			}
			if want := decode(all); got != want {
				t.Errorf("%s: a character behind %d tokens without text: got %q, want %q", name, n, got, want)
			}
		}
		for _, before := range []string{"", "w", " ", "\n"} {
			for _, between := range []string{" ", "\x00", " \x00", "\xFF", "é"} {
				longest := 0
				d := New(func(ids []int) string {
					longest = max(longest, len(ids))
					return decode(ids)
				})
				all := list(before + strings.Repeat(between, 1000) + " w")
				got := ""
				for _, id := range all {
					got += d.Next(id)
				}
				got += d.Flush()
				if want := decode(all); got != want && between != "\xFF" {
					t.Errorf("%s: %q and 1000 of %q: got %q, want %q", name, before, between, got, want)
				}
				if !strings.HasSuffix(got, "w") || longest > 3*most {
					t.Errorf("%s: %q and 1000 of %q: %d tokens were decoded at once, and the end is %q", name, before, between, longest, got[max(0, len(got)-3):])
				}
			}
		}
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
