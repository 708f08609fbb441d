package generate

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/sample"
	"forwardpass/pkg/tokenize"
)

// TestStopper: however a text is cut, what is shown is the text up to the stop string that is complete first, and nothing of a
// stop string is shown before that.
func TestStopper(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	letters := "aab \n"
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return string(b)
	}
	found := 0
	for range 20000 {
		text := random(1 + rng.IntN(24))
		var stops []string
		for range 1 + rng.IntN(3) {
			stops = append(stops, random(1+rng.IntN(4)))
		}
		// The stop string that ends first, found the slow way.
		want, wantStop := text, ""
	search:
		for end := 1; end <= len(text); end++ {
			for begin := range end {
				if slices.Contains(stops, text[begin:end]) {
					want, wantStop = text[:begin], text[begin:end]
					break search
				}
			}
		}
		s := stopper{stops: stops}
		var got, stopped string
		for rest := text; rest != "" && stopped == ""; {
			n := 1 + rng.IntN(len(rest))
			var show string
			show, stopped = s.push(rest[:n])
			got += show
			rest = rest[n:]
			if !strings.HasPrefix(want, got) {
				t.Fatalf("text %q, stops %q: shown %q, which is not a prefix of %q", text, stops, got, want)
			}
		}
		if stopped == "" {
			got += s.flush()
		} else {
			found++
		}
		if got != want || stopped != wantStop {
			t.Fatalf("text %q, stops %q: got %q and stop %q, want %q and %q", text, stops, got, stopped, want, wantStop)
		}
	}
	if found < 5000 {
		t.Errorf("only %d of 20000 texts held a stop string", found)
	}
}

// bytesTokenizer has one token a byte: characters and stop strings are always spread over several.
type bytesTokenizer struct{}

func (bytesTokenizer) Decode(ids []int) string {
	b := make([]byte, len(ids))
	for i, id := range ids {
		b[i] = byte(id)
	}
	return string(b)
}

// TestStopConditions: each of the chapter's, on storyland, with what is streamed.
func TestStopConditions(t *testing.T) {
	m, tok := storyland(t)
	once := prompt(t, tok, "Once upon a time there was a cat named")
	whole := run(t, m, once, Options{MaxNewTokens: 40, Tokenizer: tok, EOS: none})
	t.Logf("%q", whole.Text)
	middle := whole.Text[len(whole.Text)/3:][:9] // some nine bytes, wherever tokens begin
	short := prompt(t, tok, "I love")
	room := m.Config.MaxPositions

	for _, c := range []struct {
		name   string
		ids    []int
		o      Options
		reason Reason
		tokens int    // -1: any
		text   string // "*": any
	}{
		{"eos", short, Options{MaxNewTokens: 50}, ReasonEOS, 3, " datawhale."},
		{"eos of one's own", once, Options{MaxNewTokens: 50, EOS: []int{1, whole.IDs[5]}}, ReasonEOS, slices.Index(whole.IDs, whole.IDs[5]) + 1, "*"},
		{"length", once, Options{MaxNewTokens: 5, EOS: none}, ReasonLength, 5, "*"},
		{"context", once, Options{MaxContext: 20, EOS: none}, ReasonContext, 20 - len(once), "*"},
		{"the model's context", once, Options{EOS: none}, ReasonContext, room - len(once), "*"},
		{"length before context", once, Options{MaxContext: len(once) + 3, MaxNewTokens: 3, EOS: none}, ReasonLength, 3, "*"},
		{"prompt fills the context", once, Options{MaxContext: len(once), EOS: none}, ReasonContext, 0, ""},
		{"stop string", once, Options{MaxNewTokens: 40, EOS: none, Stop: []string{"never there", middle}}, ReasonStop, -1, whole.Text[:strings.Index(whole.Text, middle)]},
		{"stop string that only begins", once, Options{MaxNewTokens: 40, EOS: none, Stop: []string{middle + "\x00"}}, ReasonLength, 40, whole.Text},
		{"stop string begun at the end", once, Options{MaxNewTokens: 40, EOS: none, Stop: []string{whole.Text[len(whole.Text)-4:] + "!"}}, ReasonLength, 40, whole.Text},
	} {
		for _, spec := range []*Draft{nil, {}} {
			var streamed strings.Builder
			var ids []int
			o := c.o
			o.Tokenizer, o.Draft = tok, spec
			o.Stream = func(tk Token) error {
				streamed.WriteString(tk.Text)
				ids = append(ids, tk.ID)
				for _, s := range o.Stop {
					if strings.Contains(streamed.String(), s) {
						t.Errorf("%s: a stop string was shown: %q", c.name, streamed.String())
					}
				}
				return nil
			}
			r := run(t, m, c.ids, o)
			if r.Reason != c.reason || c.tokens >= 0 && len(r.IDs) != c.tokens || c.text != "*" && r.Text != c.text {
				t.Errorf("%s: reason %q, %d tokens, %q; want %q, %d, %q", c.name, r.Reason, len(r.IDs), r.Text, c.reason, c.tokens, c.text)
			}
			if streamed.String() != r.Text || !slices.Equal(ids, r.IDs) {
				t.Errorf("%s: streamed %q and %v, the result has %q and %v", c.name, streamed.String(), ids, r.Text, r.IDs)
			}
			if c.reason == ReasonStop && r.Stop != middle {
				t.Errorf("%s: found %q", c.name, r.Stop)
			}
		}
	}
}

// TestContextPolicies: when the context moves on, each token is the one that a full pass over what is left gives.
func TestContextPolicies(t *testing.T) {
	m, tok := storyland(t)
	ids := prompt(t, tok, "Once upon a time there was a cat named")
	const limit, n = 24, 60
	for _, c := range []struct {
		name   string
		policy Context
		keep   int
	}{{"truncate", ContextTruncate, limit / 2}, {"slide", ContextSlide, limit}} {
		for _, chunk := range []int{0, 5} {
			r := run(t, m, ids, Options{MaxNewTokens: n, MaxContext: limit, Context: c.policy, EOS: none, Chunk: chunk, Draft: &Draft{}})
			if len(r.IDs) != n || r.Reason != ReasonLength {
				t.Fatalf("%s: %d tokens, reason %q", c.name, len(r.IDs), r.Reason)
			}
			all, start := slices.Clone(ids), 0
			for i, id := range r.IDs {
				if len(all)-start > limit {
					start = len(all) - c.keep
				}
				lg, err := m.Logits(all[start:])
				if err != nil {
					t.Fatal(err)
				}
				want, err := sample.Probs(lg.Row(lg.Rows()-1), sample.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if want[id] != 1 {
					t.Fatalf("%s: new token %d is %d, want %d", c.name, i, id, slices.Index(want, 1))
				}
				all = append(all, id)
			}
		}
	}
	// A prompt that is too long for the context begins with its end.
	r := run(t, m, ids, Options{MaxNewTokens: 5, MaxContext: 6, Context: ContextSlide, EOS: none})
	want := run(t, m, ids[len(ids)-6:], Options{MaxNewTokens: 1, EOS: none})
	if r.IDs[0] != want.IDs[0] {
		t.Errorf("long prompt: got %d, want %d", r.IDs[0], want.IDs[0])
	}
}

// TestLogProbs: they are those of the model's own distribution, whatever the sampler does to it.
func TestLogProbs(t *testing.T) {
	m, tok := storyland(t)
	ids := prompt(t, tok, "cat chases dog.")
	c, err := Regex(`[a-z .]*`)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"greedy":      {},
		"sampled":     {Sampling: sample.Options{Temperature: 2, TopK: 20, RepetitionPenalty: 1.3}},
		"constrained": {Constraint: c, Tokenizer: tok},
		"speculative": {Draft: &Draft{}},
	} {
		o.MaxNewTokens, o.LogProbs, o.EOS = 12, 3, none
		r := run(t, m, ids, o)
		lg, err := m.Logits(append(slices.Clone(ids), r.IDs...))
		if err != nil {
			t.Fatal(err)
		}
		for i, tk := range r.Tokens {
			want, top, err := sample.LogProbs(lg.Row(len(ids)-1+i), tk.ID, 3)
			if err != nil {
				t.Fatal(err)
			}
			if d := tk.LogProb - want; d > 1e-4 || d < -1e-4 || r.LogProbs[i] != tk.LogProb || len(tk.Top) != 3 || tk.Top[0].ID != top[0].ID {
				t.Errorf("%s: token %d: ln p %.6f and top %v, want %.6f and %v", name, i, tk.LogProb, tk.Top, want, top)
			}
		}
		if len(r.Tokens) != len(r.IDs) || len(r.LogProbs) != len(r.IDs) {
			t.Errorf("%s: %d ids, %d tokens, %d log-probabilities", name, len(r.IDs), len(r.Tokens), len(r.LogProbs))
		}
	}
}

func TestTimings(t *testing.T) {
	m, tok := storyland(t)
	ids := prompt(t, tok, "Once upon a time there was a cat named")
	r := run(t, m, ids, Options{MaxNewTokens: 20, EOS: none})
	x := r.Timings
	if x.PrefillTokens != len(ids) || len(x.ITL) != 19 || x.TTFT <= 0 || x.TPOT <= 0 || x.Total < x.TTFT || x.PrefillRate <= 0 || x.DecodeRate <= 0 {
		t.Errorf("%+v", x)
	}
	sum := x.TTFT
	for _, d := range x.ITL {
		sum += d
	}
	if sum != x.Total {
		t.Errorf("TTFT and the latencies add up to %v, total %v", sum, x.Total)
	}
	r = run(t, m, ids, Options{MaxNewTokens: 1, EOS: none})
	if x := r.Timings; x.TPOT != 0 || x.DecodeRate != 0 || len(x.ITL) != 0 || x.Total != x.TTFT {
		t.Errorf("one token: %+v", x)
	}
	if _, err := Run(context.Background(), m, ids, Options{MaxNewTokens: 1, EOS: none, Stream: func(Token) error { return nil }}); err != nil {
		t.Error(err)
	}
}

// TestByteFallback: a byte token that was text by itself may stand in front of a character that is spread over several.
func TestByteFallback(t *testing.T) {
	m, _ := storyland(t)
	tok, err := tokenize.Open(testdata + "/tokenizers/spbpe.json")
	if err != nil {
		t.Fatal(err)
	}
	encode := func(text string) []int {
		ids, err := tok.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	const before, after = "The cat", "\n🦀\n\n鸞鸟 dog\n🦀🦀"
	ids := encode(before + after)
	n := len(encode(before))
	if tokens := tok.Tokens(ids[n:]); tokens[0] != "<0x0A>" || tokens[1] != "<0xF0>" {
		t.Fatalf("tokens %q: no test", tokens)
	}
	for from := n; from < len(ids); from++ {
		want, ok := strings.CutPrefix(tok.Decode(ids), tok.Decode(ids[:from]))
		if !ok {
			continue // inside a character
		}
		s, err := NewSequence(m, []int{0}, Options{Tokenizer: tok})
		if err != nil {
			t.Fatal(err)
		}
		s.ids, s.prompt = slices.Clone(ids[:from]), from
		s.begin()
		for _, id := range ids[from:] {
			if err := s.commit(id, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Result().Text; got != want {
			t.Errorf("behind %q: got %q, want %q", tok.Decode(ids[:from]), got, want)
		}
		s.Free()
	}
}
