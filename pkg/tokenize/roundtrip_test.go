package tokenize

import (
	"encoding/hex"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRoundTrip: for a byte-level vocabulary, decoding gives back any bytes.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	data, err := os.ReadFile(small + "ranks.tiktoken")
	if err != nil {
		t.Fatal(err)
	}
	ranks, err := FromRanks(string(data), Ranks{Pattern: patternCL100K, Special: map[string]int{"<|endoftext|>": 900}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range []*Tokenizer{openSmall(t, "bpe.json"), ranks} {
		for range 3000 {
			b := make([]byte, rng.IntN(80))
			for i := range b {
				b[i] = byte(rng.IntN(256))
			}
			s := string(b)
			if rng.IntN(2) == 0 {
				s += randomText(rng) + "<|endoftext|>"
			}
			e, err := tok.EncodeWith(s, Options{NoSpecial: true, Ordinary: true})
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			if got := tok.Decode(e.IDs); got != s {
				t.Fatalf("%q comes back as %q", s, got)
			}
			for i, o := range e.Offsets {
				if o[0] > o[1] || o[1] > len(s) || i > 0 && o[0] < e.Offsets[i-1][0] {
					t.Fatalf("%q: offsets %v", s, e.Offsets)
				}
			}
		}
	}
}

// TestInvalidUTF8 compares ids of bytes that are not UTF-8 with SentencePiece,
// which reads bytes, and with tiktoken on pieces cut as if each such byte were
// U+FFFD.
func TestInvalidUTF8(t *testing.T) {
	var g struct {
		Inputs []string // hexadecimal
		IDs    map[string][][]int
		Files  map[string]string
	}
	readGolden(t, "invalid.json", &g)
	for name, lists := range g.IDs {
		t.Run(name, func(t *testing.T) {
			tok, err := Open(vocabulary(t, g.Files[name]))
			if err != nil {
				t.Fatal(err)
			}
			for i, in := range g.Inputs {
				b, err := hex.DecodeString(in)
				if err != nil {
					t.Fatal(err)
				}
				got, err := tok.Encode(string(b))
				if err != nil || !slices.Equal(got, lists[i]) {
					t.Errorf("%q: ids %v, want %v (%v)", b, got, lists[i], err)
				}
			}
		})
	}
}

// TestNoBlowUp: a megabyte of one letter takes about as long as text.
func TestNoBlowUp(t *testing.T) {
	for _, name := range smallFiles {
		tok := openSmall(t, name)
		n := 1 << 20
		if name == "unigram.json" || name == "unigram.model" {
			n = 1 << 18 // linear, but the slowest a byte
		}
		start := time.Now()
		for _, c := range []string{"a", " ", "中", "="} {
			s := strings.Repeat(c, n/len(c)/4)
			if _, err := tok.Encode(s); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s: %v for a megabyte of four letters", name, took)
		}
	}
}

// TestMergeLong: the heap finds the same merges as the scan.
func TestMergeLong(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	m := openSmall(t, "bpe.json").model.(*bpe)
	for range 2000 {
		var b strings.Builder
		for b.Len() < 40 {
			b.WriteByte("abcdefghijklmnop  theisn"[rng.IntN(24)])
		}
		piece := b.String()[:40]
		short := m.mergeShort(1, piece, m.symbols(nil, piece))
		long := m.mergeLong(1, piece, m.symbols(nil, piece))
		if !slices.Equal(short, long) {
			t.Fatalf("%q: %v by scanning, %v by the heap", piece, short, long)
		}
	}
}

// TestConcurrent: one tokenizer, many goroutines (for the race detector).
func TestConcurrent(t *testing.T) {
	for _, name := range smallFiles {
		tok := openSmall(t, name)
		want, err := tok.Encode("I love datawhale, 我爱 datawhale")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan []int)
		for range 8 {
			go func() {
				var got []int
				for range 50 {
					got, _ = tok.Encode("I love datawhale, 我爱 datawhale")
				}
				done <- got
			}()
		}
		for range 8 {
			if got := <-done; !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
	}
}
