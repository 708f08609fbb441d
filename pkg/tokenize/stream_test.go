package tokenize

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// smallFiles are the project's own vocabularies, one of each kind.
var smallFiles = []string{"bpe.json", "spbpe.json", "wordpiece.json", "vocab.txt", "unigram.json", "unigram.model", "bpe.model"}

func openSmall(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := Open(small + name)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestStream: piece by piece gives the same text as all at once, every piece is
// whole characters, for the golden strings and for random ids.
func TestStream(t *testing.T) {
	var texts struct{ Strings []string }
	readGolden(t, "strings.json", &texts)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, name := range smallFiles {
		tok := openSmall(t, name)
		var lists [][]int
		for _, s := range texts.Strings {
			ids, err := tok.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			lists = append(lists, ids)
		}
		for range 200 {
			ids := make([]int, rng.IntN(60))
			for i := range ids {
				ids[i] = rng.IntN(tok.VocabSize())
			}
			lists = append(lists, ids)
		}
		for i, ids := range lists {
			var got strings.Builder
			stream := tok.Stream()
			valid := utf8.ValidString(tok.Decode(ids))
			for _, id := range ids {
				part := stream.Next(id)
				if valid && !utf8.ValidString(part) {
					t.Fatalf("%s: list %d: part %q is not whole characters", name, i, part)
				}
				got.WriteString(part)
			}
			got.WriteString(stream.Flush())
			if want := tok.Decode(ids); got.String() != want {
				t.Fatalf("%s: list %d: streamed %q, want %q", name, i, got.String(), want)
			}
		}
	}
}

// TestStreamHoldsBack: the bytes of one character come out together.
func TestStreamHoldsBack(t *testing.T) {
	for _, name := range []string{"bpe.json", "bpe.model"} {
		tok := openSmall(t, name)
		e, err := tok.EncodeWith("a🦀b", Options{})
		if err != nil {
			t.Fatal(err)
		}
		stream := tok.Stream()
		var parts []string
		for _, id := range e.IDs {
			if part := stream.Next(id); part != "" {
				parts = append(parts, part)
			}
		}
		parts = append(parts, stream.Flush())
		if got := strings.Join(parts, "|"); !strings.Contains(got, "|🦀|") {
			t.Errorf("%s: parts %q of tokens %q", name, parts, e.Tokens)
		}
	}
}
