package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

var (
	nan  = float32(math.NaN())
	pinf = float32(math.Inf(1))
	ninf = float32(math.Inf(-1))
)

// ln returns logits whose softmax is p.
func ln(p ...float64) []float32 {
	out := make([]float32, len(p))
	for i, x := range p {
		out[i] = float32(math.Log(x))
	}
	return out
}

func TestKeptTokens(t *testing.T) {
	half := ln(.5, .25, .125, .125)
	for _, c := range []struct {
		name   string
		logits []float32
		o      Options
		want   []int
	}{
		{"the crossing token of top-p is kept", ln(.5, .3, .2), Options{TopP: 0.6}, []int{0, 1}},
		{"top-p reached exactly", half, Options{TopP: 0.5}, []int{0}},
		{"top-p just missed", half, Options{TopP: 0.50001}, []int{0, 1}},
		{"top-p reached but for float32", ln(.4, .3, .2, .1), Options{TopP: 0.7}, []int{0, 1}},
		{"top-p keeps one at least", ln(.25, .25, .25, .25), Options{TopP: 1e-12}, []int{0}},
		{"top-p near 1 drops only what it must", ln(.5, .5-1e-9, 1e-9), Options{TopP: 1 - 1e-8}, []int{0, 1}},
		{"top-p nearer 1 keeps the tail", ln(.5, .5-1e-9, 1e-9), Options{TopP: 1 - 1e-10}, []int{0, 1, 2}},
		{"top-p tie: lowest id", ln(.2, .2, .2, .2, .2), Options{TopP: 0.4}, []int{0, 1}},
		{"top-k tie: lowest id", []float32{1, 3, 2, 2, 2}, Options{TopK: 3}, []int{1, 2, 3}},
		{"top-k over only -Inf", []float32{ninf, 1, ninf, 2}, Options{TopK: 3}, []int{1, 3}},
		{"min-p equal is kept", half, Options{MinP: 0.25}, []int{0, 1, 2, 3}},
		{"min-p just above", half, Options{MinP: 0.2501}, []int{0, 1}},
		{"min-p of 1 keeps ties of the maximum", []float32{2, 1, 2}, Options{MinP: 1}, []int{0, 2}},
		{"typical keeps what is nearest to the entropy", ln(.6, .1, .1, .1, .1), Options{TypicalP: 0.05}, []int{0}},
		{"typical can drop the likeliest", ln(.3, .175, .175, .175, .175), Options{TypicalP: 0.35}, []int{1, 2}},
		{"greedy tie: lowest id", []float32{1, 5, 5}, Options{Temperature: 0}, []int{1}},
		{"+Inf wins", []float32{1, pinf, 3, ninf}, Options{}, []int{1}},
		{"two +Inf share", []float32{1, pinf, 3, pinf}, Options{}, []int{1, 3}},
		{"-Inf is out", []float32{1, ninf, 3}, Options{}, []int{0, 2}},
		{"one token", []float32{-7}, Options{TopK: 3, TopP: 0.1, TypicalP: .5, MinP: 1}, []int{0}},
		{"huge logits", []float32{3e38, -3e38, 3e38}, Options{TopP: 0.9}, []int{0, 2}},
		{"bias forces", []float32{1, 2, 3}, Options{LogitBias: map[int]float32{0: pinf}}, []int{0}},
		{"bias bans", []float32{1, 2, 3}, Options{LogitBias: map[int]float32{0: ninf}}, []int{1, 2}},
		{"a bias does not bring back -Inf", []float32{ninf, 2, 3}, Options{LogitBias: map[int]float32{0: pinf}}, []int{1, 2}},
		{"a single bad word", []float32{1, 2, 3}, Options{BadWords: [][]int{{1}}}, []int{0, 2}},
		{"temperature before top-p (transformers)", []float32{3, 2, 1, 0}, Options{Temperature: 2, TopP: 0.8}, []int{0, 1, 2}},
		{"top-p before temperature (llama.cpp)", []float32{3, 2, 1, 0}, Options{Temperature: 2, TopP: 0.8, Order: LlamaCpp}, []int{0, 1}},
		{"an order of one's own", []float32{3, 2, 1, 0}, Options{Temperature: 2, TopP: 0.8, Order: "top-p temperature"}, []int{0, 1}},
	} {
		if c.o.Temperature == 0 && !strings.HasPrefix(c.name, "greedy") {
			c.o.Temperature = 1
		}
		p, err := Probs(c.logits, c.o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []int
		for id, x := range p {
			if x > 0 {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: kept %v, want %v (p = %.3f)", c.name, got, c.want, p)
		}
	}
}

func TestHistory(t *testing.T) {
	logits := []float32{2, -2, 1, 0.5, 0}
	for _, c := range []struct {
		name    string
		o       Options
		history []int
		want    []float32 // the logits that it amounts to
	}{
		{"repetition divides positive, multiplies negative, once a token", Options{RepetitionPenalty: 2}, []int{0, 0, 1, 0}, []float32{1, -4, 1, 0.5, 0}},
		{"repetition counts the prompt", Options{RepetitionPenalty: 2, PromptLen: 4}, []int{0, 0, 1, 0}, []float32{1, -4, 1, 0.5, 0}},
		{"repetition over the last two", Options{RepetitionPenalty: 2, PenaltyLastN: 2}, []int{0, 0, 1, 2}, []float32{2, -4, 0.5, 0.5, 0}},
		{"presence: once", Options{PresencePenalty: 0.5}, []int{0, 0, 2}, []float32{1.5, -2, 0.5, 0.5, 0}},
		{"presence: not the prompt", Options{PresencePenalty: 0.5, PromptLen: 2}, []int{0, 0, 2}, []float32{2, -2, 0.5, 0.5, 0}},
		{"presence: the prompt too, on request", Options{PresencePenalty: 0.5, PromptLen: -1}, []int{0, 0, 2}, []float32{1.5, -2, 0.5, 0.5, 0}},
		{"frequency: each time", Options{FrequencyPenalty: 0.5}, []int{0, 0, 2}, []float32{1, -2, 0.5, 0.5, 0}},
		{"frequency over the last n of the output", Options{FrequencyPenalty: 0.5, PromptLen: 1, PenaltyLastN: 3}, []int{0, 0, 0, 2}, []float32{1, -2, 0.5, 0.5, 0}},
		{"negative penalties encourage", Options{FrequencyPenalty: -1}, []int{4, 4}, []float32{2, -2, 1, 0.5, 2}},
		{"n-gram of 2", Options{NoRepeatNGram: 2}, []int{3, 0, 1, 3}, []float32{ninf, -2, 1, 0.5, 0}},
		{"n-gram of 3", Options{NoRepeatNGram: 3}, []int{3, 0, 1, 3, 0}, []float32{2, ninf, 1, 0.5, 0}},
		{"n-gram of 3, nothing repeats", Options{NoRepeatNGram: 3}, []int{3, 0}, []float32{2, -2, 1, 0.5, 0}},
		{"bad word completes", Options{BadWords: [][]int{{3, 0, 2}}}, []int{1, 3, 0}, []float32{2, -2, ninf, 0.5, 0}},
		{"bad word not begun", Options{BadWords: [][]int{{3, 0, 2}}}, []int{3, 1, 0}, []float32{2, -2, 1, 0.5, 0}},
		{"bad word longer than the history", Options{BadWords: [][]int{{3, 0, 2}}}, []int{0}, []float32{2, -2, 1, 0.5, 0}},
		{"all three penalties", Options{RepetitionPenalty: 2, PresencePenalty: 1, FrequencyPenalty: 0.5}, []int{0, 0}, []float32{-1, -2, 1, 0.5, 0}},
	} {
		c.o.Temperature = 1
		p, err := NewPipeline(c.o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for range 2 { // the second time shows that the scratch was left clean
			got, err := p.Probs(logits, c.history)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				break
			}
			if want := mustProbs(t, c.want, Options{Temperature: 1}); !same(got, want) {
				t.Errorf("%s:\n got %.4f\nwant %.4f", c.name, got, want)
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	x := math.NaN()
	ok := []float32{1, 2, 3}
	for _, c := range []struct {
		want   string
		logits []float32
		o      Options
	}{
		{"temperature must be 0 or more, got -1", ok, Options{Temperature: -1}},
		{"temperature must be 0 or more, got NaN", ok, Options{Temperature: x}},
		{"top-k must be at least 0, got -1", ok, Options{TopK: -1}},
		{"top-p must be in (0, 1]", ok, Options{TopP: -0.1}},
		{"top-p must be in (0, 1]", ok, Options{TopP: 1.0001}},
		{"top-p must be in (0, 1]", ok, Options{TopP: x}},
		{"min-p must be in", ok, Options{MinP: 2}},
		{"min-p must be in", ok, Options{MinP: x}},
		{"typical-p must be in", ok, Options{TypicalP: -1}},
		{"repetition penalty must be 0 or more", ok, Options{RepetitionPenalty: -1}},
		{"repetition penalty must be", ok, Options{RepetitionPenalty: math.Inf(1)}},
		{"presence penalty must be a finite number, got NaN", ok, Options{PresencePenalty: x}},
		{"frequency penalty must be a finite number, got -Inf", ok, Options{FrequencyPenalty: math.Inf(-1)}},
		{"no-repeat n-gram must be at least 0", ok, Options{NoRepeatNGram: -2}},
		{"penalty last n must be at least 0", ok, Options{PenaltyLastN: -2}},
		{"prompt length must be at least -1", ok, Options{PromptLen: -2}},
		{"logit bias: token id must not be negative", ok, Options{LogitBias: map[int]float32{-1: 1}}},
		{"logit bias: token 3 is not in the vocabulary of 3", ok, Options{LogitBias: map[int]float32{3: 1}}},
		{"logit bias of token 1 is NaN", ok, Options{LogitBias: map[int]float32{1: nan}}},
		{"bad word 1 is empty", ok, Options{BadWords: [][]int{{1}, {}}}},
		{"bad words: token 9 is not in the vocabulary of 3", ok, Options{BadWords: [][]int{{1, 9}}}},
		{`unknown step "top-q"`, ok, Options{Order: "top-k top-q"}},
		{`"top-k" appears twice`, ok, Options{Order: "top-k top-k temperature"}},
		{`the options ask for "top-p"`, ok, Options{Order: "top-k temperature", TopP: 0.5}},
		{`the options ask for "temperature"`, ok, Options{Order: "top-k", Temperature: 0.5}},
		{"logits are empty", nil, Options{}},
		{"logit of token 1 is NaN", []float32{1, nan}, Options{}},
		{ErrNoToken.Error(), []float32{ninf, ninf}, Options{}},
		{ErrNoToken.Error(), ok, Options{BadWords: [][]int{{0}, {1}, {2}}}},
	} {
		_, err := Probs(c.logits, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, logits %v: error %v, want one with %q", c.o, c.logits, err, c.want)
		}
	}
	p, _ := NewPipeline(Options{RepetitionPenalty: 1.5})
	if _, err := p.Probs(ok, []int{1, 7}); err == nil || !strings.Contains(err.Error(), "history: token 7") {
		t.Errorf("history beyond the vocabulary: %v", err)
	}
	p, _ = NewPipeline(Options{NoRepeatNGram: 1})
	if _, err := p.Probs(ok, []int{0, 1, 2}); !errors.Is(err, ErrNoToken) {
		t.Errorf("every token banned: %v", err)
	}
}

// TestChiSquare draws 100,000 tokens at fixed seeds and compares their frequencies with the distribution.
func TestChiSquare(t *testing.T) {
	const n = 100_000
	logits := random(1, 50)[0]
	for i, o := range []Options{
		{Temperature: 1}, {Temperature: 0.5}, {Temperature: 3}, {Temperature: 1, TopK: 10}, {Temperature: 1, TopP: 0.8},
		{Temperature: 1, MinP: 0.05}, {Temperature: 1, TypicalP: 0.7}, {Temperature: 1.3, TopK: 30, TopP: 0.95, MinP: 0.01},
		{Temperature: 1.3, TopK: 30, TopP: 0.95, RepetitionPenalty: 1.2, Order: LlamaCpp},
	} {
		o.Seed = uint64(i)
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		history := []int{1, 2, 3}
		p, err := s.Probs(logits, history)
		if err != nil {
			t.Fatal(err)
		}
		count := make([]float64, len(p))
		for range n {
			id, err := s.Next(logits, history)
			if err != nil {
				t.Fatal(err)
			}
			count[id]++
		}
		if q := chiSquare(t, count, p); q < 1e-3 || q > 1-1e-3 {
			t.Errorf("%v: chi-square probability %g", s, q)
		}
	}
}

// chiSquare returns the probability of a chi-square at least as large as that of the counts, if p is their distribution. Rare
// tokens (fewer than 5 expected) are one class.
func chiSquare(t *testing.T, count, p []float64) float64 {
	t.Helper()
	total := 0.0
	for _, c := range count {
		total += c
	}
	x2, classes, restC, restP := 0.0, 0, 0.0, 0.0
	add := func(c, e float64) { x2 += (c - e) * (c - e) / e; classes++ }
	for i, c := range count {
		switch {
		case p[i] == 0 && c > 0:
			t.Fatalf("token %d of probability 0 was drawn %g times", i, c)
		case p[i]*total < 5:
			restC, restP = restC+c, restP+p[i]
		default:
			add(c, p[i]*total)
		}
	}
	if restP*total >= 5 {
		add(restC, restP*total)
	}
	return distuv.ChiSquared{K: float64(classes - 1)}.Survival(x2)
}

// TestVerifyLengths: distributions of other lengths than the vocabulary's do no harm to the draws that follow.
func TestVerifyLengths(t *testing.T) {
	s, err := New(Options{Temperature: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range [][]float64{nil, {1}, {0.5, 0.5}} {
		if id, ok := s.Verify([]float64{0, 1}, q, 0); id != 1 || ok {
			t.Errorf("q %v: got %d, %t", q, id, ok)
		}
		if _, err := s.Next([]float32{1, 2, 3}, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestVerify: whatever the draft proposes, what comes out is distributed as the model's p (chi-square, 100,000 draws).
func TestVerify(t *testing.T) {
	l := random(3, 40)
	p := mustProbs(t, l[0], Options{Temperature: 1, TopK: 25})
	for name, q := range map[string][]float64{
		"good":      mustProbs(t, l[0], Options{Temperature: 1.3}),
		"bad":       mustProbs(t, l[1], Options{Temperature: 1}),
		"identical": p,
		"greedy":    mustProbs(t, l[0], Options{}),
		"disjoint":  mustProbs(t, l[2], Options{Temperature: 1, TopK: 3}),
	} {
		s, _ := New(Options{Seed: 3})
		rng := rand.New(rand.NewPCG(1, 2))
		count, accepted, expected := make([]float64, len(p)), 0, 0.0
		for i := range p {
			expected += min(p[i], q[i])
		}
		const n = 100_000
		for range n {
			id, ok := s.Verify(p, q, Draw(q, rng))
			count[id]++
			if ok {
				accepted++
			}
		}
		if c := chiSquare(t, count, p); c < 1e-3 {
			t.Errorf("%s draft: chi-square probability %g", name, c)
		}
		if got := float64(accepted) / n; math.Abs(got-expected) > 0.006 {
			t.Errorf("%s draft: accepted %.4f of the proposals, want Σ min(p, q) = %.4f", name, got, expected)
		}
		t.Logf("%-9s draft: accepted %.3f", name, float64(accepted)/n)
	}
}

// TestReproducible: seed and stream decide, and sequences do not disturb each other.
func TestReproducible(t *testing.T) {
	logits := random(64, 100)
	run := func(o Options, neighbours int) (out []int) {
		s, _ := New(o)
		var others []*Sampler
		for i := range neighbours {
			n, _ := New(Options{Temperature: 1, Seed: 99, Stream: uint64(i)})
			others = append(others, n)
		}
		for _, l := range logits {
			for _, n := range others {
				n.Next(l, nil)
			}
			id, err := s.Next(l, out)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, id)
		}
		return out
	}
	o := Options{Temperature: 1, TopP: 0.9, Seed: 5, FrequencyPenalty: 0.1}
	a := run(o, 0)
	if !slices.Equal(a, run(o, 0)) || !slices.Equal(a, run(o, 7)) {
		t.Error("the same seed gives other tokens")
	}
	o.Stream = 1
	if slices.Equal(a, run(o, 0)) {
		t.Error("another stream gives the same tokens")
	}
	o.Stream, o.Seed = 0, 6
	if slices.Equal(a, run(o, 0)) {
		t.Error("another seed gives the same tokens")
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	logits := random(1, 5000)[0]
	history := []int{4, 8, 15, 16, 23, 42}
	for _, o := range []Options{{}, {Temperature: 1}, {
		Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.01, TypicalP: 0.95, RepetitionPenalty: 1.1, PresencePenalty: 0.1,
		FrequencyPenalty: 0.1, NoRepeatNGram: 2, LogitBias: map[int]float32{3: 1}, BadWords: [][]int{{1, 2}},
	}} {
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(20, func() { s.Next(logits, history) }); n != 0 {
			t.Errorf("%v: %g allocations a token", s, n)
		}
	}
}

func TestSteps(t *testing.T) {
	p, err := NewPipeline(Options{Temperature: 2, TopK: 3, TopP: 0.6, BadWords: [][]int{{0}}})
	if err != nil {
		t.Fatal(err)
	}
	steps, err := p.Steps([]float32{9, 3, 2, 1, 0, ninf}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, s := range steps {
		got = append(got, fmt.Sprintf("%s kept %v dropped %v", s.Name, s.Kept, s.Dropped))
		sum := 0.0
		for id, x := range s.After {
			sum += x
			if _, kept := slices.BinarySearch(s.Kept, id); kept != (x > 0) {
				t.Errorf("%s: token %d kept %v with probability %g", s.Name, id, kept, x)
			}
		}
		if math.Abs(sum-1) > 1e-12 || s.Entropy != Entropy(s.After) {
			t.Errorf("%s: sum %g, entropy %g", s.Name, sum, s.Entropy)
		}
		if i > 0 && !slices.Equal(s.Before, steps[i-1].After) {
			t.Errorf("%s does not begin where %s ended", s.Name, steps[i-1].Name)
		}
	}
	want := []string{
		"bad-words kept [1 2 3 4] dropped [0]",
		"temperature kept [1 2 3 4] dropped []",
		"top-k kept [1 2 3] dropped [4]",
		"top-p kept [1 2] dropped [3]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	all, _ := p.Probs([]float32{9, 3, 2, 1, 0, ninf}, nil)
	if !same(all, steps[len(steps)-1].After) {
		t.Error("Steps and Probs differ")
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		p    []float64
		u    float64
		want int
	}{
		{[]float64{0.25, 0.25, 0.5}, 0, 0},
		{[]float64{0.25, 0.25, 0.5}, 0.2499, 0},
		{[]float64{0.25, 0.25, 0.5}, 0.25, 1},
		{[]float64{0.25, 0.25, 0.5}, 0.5, 2},
		{[]float64{0, 1, 0}, 0, 1},
		{[]float64{0, 1, 0}, math.Nextafter(1, 0), 1},
		{[]float64{1, 1, 2}, 0.3, 1}, // need not sum to 1
		{[]float64{0, 0}, 0.3, -1},
		{nil, 0.3, -1},
	} {
		if got := Choose(c.p, c.u); got != c.want {
			t.Errorf("Choose(%v, %g) = %d, want %d", c.p, c.u, got, c.want)
		}
	}
}

func TestLogProbs(t *testing.T) {
	l := ln(.1, .4, .05, .4, .05)
	got, top, err := LogProbs(l, 2, 3)
	if err != nil || math.Abs(got-math.Log(.05)) > 1e-6 {
		t.Fatalf("got %g, %v", got, err)
	}
	want := []LogProb{{1, math.Log(.4)}, {3, math.Log(.4)}, {0, math.Log(.1)}}
	for i, w := range want {
		if top[i].ID != w.ID || math.Abs(top[i].LogProb-w.LogProb) > 1e-6 {
			t.Errorf("top %d is %v, want %v", i, top[i], w)
		}
	}
	if _, top, _ := LogProbs(l, 0, 0); len(top) != 0 {
		t.Errorf("n = 0 gives %v", top)
	}
	if _, top, _ := LogProbs(l, 0, 99); len(top) != 5 {
		t.Errorf("n = 99 of 5 gives %v", top)
	}
	if got, _, _ := LogProbs([]float32{1, ninf}, 1, 1); !math.IsInf(got, -1) {
		t.Errorf("a token at -Inf has ln p = %g", got)
	}
	for _, bad := range [][]float32{{1, nan}, {ninf, ninf}, {pinf, 1}} {
		if _, _, err := LogProbs(bad, 0, 1); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	if _, _, err := LogProbs(l, 5, 1); err == nil {
		t.Error("token 5 of 5: no error")
	}
}

// FuzzProbs: any options and logits give an error or a distribution, from which Next takes a token that it allows.
func FuzzProbs(f *testing.F) {
	f.Add(0.8, 40, 0.95, 0.01, 0.9, 1.1, 0.2, 0.3, 2, uint64(1), []byte("the cat chases the dog"))
	f.Add(0.0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, uint64(0), []byte{0})
	f.Add(math.Inf(1), 1, 1.0, 1.0, 1.0, 1e30, -1e30, 1e30, 1, uint64(9), []byte{255, 0, 254, 253, 1})
	f.Fuzz(func(t *testing.T, temp float64, k int, topP, minP, typ, rep, pres, freq float64, gram int, seed uint64, raw []byte) {
		logits, history := make([]float32, len(raw)), make([]int, len(raw))
		for i, b := range raw {
			logits[i] = float32(int(b)-128) / 8
			history[i] = int(b) % len(raw)
			switch b {
			case 0:
				logits[i] = ninf
			case 254:
				logits[i] = 3e38
			case 255:
				logits[i] = pinf
			}
		}
		s, err := New(Options{Temperature: temp, TopK: k, TopP: topP, MinP: minP, TypicalP: typ, RepetitionPenalty: rep,
			PresencePenalty: pres, FrequencyPenalty: freq, NoRepeatNGram: gram, Seed: seed})
		if err != nil {
			return
		}
		p, err := s.Probs(logits, history)
		if err != nil {
			return
		}
		sum := 0.0
		for id, x := range p {
			if !(x >= 0 && x <= 1+1e-9) {
				t.Fatalf("p[%d] = %g", id, x)
			}
			sum += x
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("sum %g", sum)
		}
		if id, err := s.Next(logits, history); err != nil || p[id] == 0 {
			t.Fatalf("Next = %d, %v with probability %g", id, err, p[id])
		}
	})
}

func BenchmarkNext(b *testing.B) {
	logits := random(1, 49152)[0]
	for _, o := range []Options{{}, {Temperature: 1}, {Temperature: 0.8, TopK: 40, TopP: 0.95}, {Temperature: 1, TopP: 0.95}} {
		s, err := New(o)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(s.String(), func(b *testing.B) {
			for b.Loop() {
				s.Next(logits, nil)
			}
		})
	}
}
