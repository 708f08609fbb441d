package tokenize

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/dlclark/regexp2"
)

// TestScanners proves the hand-written scanners equal to the expressions they
// stand for, run by regexp2, on random text.
func TestScanners(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for expr, scan := range scanners {
		// regexp2 has no Unicode case folding, and its tables are Go's: the long s is
		// left out, and so are characters that Go doesn't know. Nor has it possessive
		// quantifiers: where nothing could be given back they are the greedy ones.
		same := expr
		if expr == patternCL100KTiktoken {
			same = strings.NewReplacer("?+", "?", "++$", `+\z`, "++", "+", "*+", "*", "{1,3}+", "{1,3}").Replace(expr)
		}
		re, err := regexp2.Compile(same, regexp2.None)
		if err != nil {
			t.Fatal(err)
		}
		other := regexPattern{re}
		n := 3000
		if testing.Short() {
			n = 300
		}
		for range n {
			s := randomText(rng)
			var got, want []string
			scan.each(s, func(i, j int) { got = append(got, s[i:j]) })
			other.each(s, func(i, j int) { want = append(want, s[i:j]) })
			if strings.Join(got, "|") != strings.Join(want, "|") {
				t.Fatalf("%s\non %q\n ours %q\n want %q", expr, s, got, want)
			}
		}
	}
}

// randomText strings together what pre-tokenizers treat differently.
func randomText(rng *rand.Rand) string {
	parts := []string{
		" ", " ", " ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u0085", "'", "'s", "'S", "'ll", "'LL", "'Ve", "'re", "'d", "'t", "'m", "'x",
		"a", "b", "Z", "Hello", "HTTP", "iPhone", "é", "É", "ǅ", "ʰ", "中", "文字", "かな", "カ", "क", "ि", "\u0301", "\u20dd", "1", "22", "333", "½",
		"٣", "Ⅷ", ".", ",", "!", "/", "//", "_", "$", "+", "=", "€", "^", "😀", "\u200d", "\ufe0f", "\x00", "\x7f", "\u200b", "\ufffd", "\xff", "\xe4\xb8",
	}
	var b strings.Builder
	for range rng.IntN(24) {
		if rng.IntN(12) == 0 {
			r := rune(rng.IntN(unicode.MaxRune))
			if unicode.In(r, unicode.Cn, unicode.Cs) || newer(r) {
				continue
			}
			b.WriteRune(r)
			continue
		}
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	return b.String()
}

func newer(r rune) bool {
	return unicode.In(r, newLu, newLl, newLm, newLo, newM, newN, newP, newS)
}

// TestLongS pins the one letter that case folding adds to the contractions.
func TestLongS(t *testing.T) {
	table := classTable()
	if end := scanCL100K(table, "'ſ", 0); end != 3 {
		t.Errorf("cl100k: 'ſ ends at %d, want 3", end)
	}
	if end := scanGPT2(table, "'ſ", 0); end != 1 {
		t.Errorf("gpt2: 'ſ ends at %d, want 1", end)
	}
}

// TestUnicodeTables fails when Go's Unicode tables change, which the generated
// differences are relative to.
func TestUnicodeTables(t *testing.T) {
	if unicode.Version != goUnicode {
		t.Errorf("Go has Unicode %s, unicode.go was made for %s: run testdata/reference/tokenize_unicode.py", unicode.Version, goUnicode)
	}
}
