package generate_test

import (
	"context"
	"fmt"
	"math"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tokenize"
)

// open gives the examples the model of the repository and its tokenizer.
func open() (*model.Model, *tokenize.Tokenizer) {
	m, err := model.Open("../../testdata/storyland")
	if err != nil {
		panic(err)
	}
	tok, err := tokenize.Open("../../testdata/storyland")
	if err != nil {
		panic(err)
	}
	return m, tok
}

// ids is text as this model saw it in training: after token 0, <|endoftext|>.
func ids(tok *tokenize.Tokenizer, text string) []int {
	out, err := tok.Encode(text)
	if err != nil {
		panic(err)
	}
	return append([]int{0}, out...)
}

// The zero options are greedy decoding until EOS.
func ExampleRun() {
	m, tok := open()
	r, err := generate.Run(context.Background(), m, ids(tok, "dog chases cat."), generate.Options{Tokenizer: tok})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n%d tokens, reason: %s\n", r.Text, len(r.IDs), r.Reason)
	// Output:
	// " cat runs away from dog. The one who runs away is the cat."
	// 16 tokens, reason: eos
}

// Text is streamed as soon as it is certain. A stop string never shows, although its tokens are generated.
func ExampleRun_stream() {
	m, tok := open()
	r, err := generate.Run(context.Background(), m, ids(tok, "Once upon a time there was a cat named"), generate.Options{
		MaxNewTokens: 60, Tokenizer: tok, Stop: []string{"blue b"}, LogProbs: 1,
		Stream: func(t generate.Token) error {
			fmt.Printf("%-8q p = %.2f\n", t.Text, math.Exp(t.LogProb))
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q, reason: %s\n", r.Text, r.Reason)
	// Output:
	// " Anna"  p = 0.09
	// "."      p = 1.00
	// " She"   p = 1.00
	// " lives" p = 1.00
	// " in"    p = 0.59
	// " the"   p = 1.00
	// " field" p = 0.18
	// "."      p = 1.00
	// " Anna"  p = 0.51
	// " has"   p = 1.00
	// " a"     p = 1.00
	// " "      p = 0.17
	// ""       p = 0.12
	// " Anna. She lives in the field. Anna has a ", reason: stop string
}

// Several samples share one prefill; each has random numbers of its own.
func ExampleRunN() {
	m, tok := open()
	rs, err := generate.RunN(context.Background(), m, ids(tok, "The cat"), 3, generate.Options{
		MaxNewTokens: 8, Tokenizer: tok, Sampling: sample.Options{Temperature: 1.2, Seed: 3},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range rs {
		fmt.Printf("%q\n", r.Text)
	}
	// Output:
	// " scares the sheep. The sheep scares the"
	// " helps the frog. The frog helps the"
	// " chases the cat. The dog chases the"
}

// A JSON schema decides which tokens may come. The text is whole however few tokens there may be.
func ExampleJSONSchema() {
	m, tok := open()
	c, err := generate.JSONSchema([]byte(`{"type": "object", "properties": {
		"animal": {"enum": ["cat", "dog", "duck"]}, "apples": {"type": "integer"}}, "required": ["animal", "apples"]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := generate.Run(context.Background(), m, ids(tok, "The duck has two apples."), generate.Options{MaxNewTokens: 40, Tokenizer: tok, Constraint: c})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Text, r.Reason)
	// Output:
	// {"animal": "cat", "apples": 0} structure complete
}

// A draft proposes, the model verifies all proposals in one pass: the same tokens in fewer passes. Here the draft is prompt
// lookup: what followed the same words before.
func ExampleDraft() {
	m, tok := open()
	song := ids(tok, "The bird sings: la bo ki ta la bo. The frog sings the same song: la bo")
	plain, err := generate.Run(context.Background(), m, song, generate.Options{Tokenizer: tok})
	if err != nil {
		fmt.Println(err)
		return
	}
	fast, err := generate.Run(context.Background(), m, song, generate.Options{Tokenizer: tok, Draft: &generate.Draft{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plain.Text == fast.Text, fast.Text)
	fmt.Printf("%d tokens, accepted %d of %d proposals\n", len(fast.IDs), fast.Accepted, fast.Proposed)
	// Output:
	// true  ki ta la bo.
	// 6 tokens, accepted 4 of 4 proposals
}

// Beam search keeps the most probable sequences, which need not begin with the most probable token.
func ExampleBeam() {
	m, tok := open()
	h, err := generate.Beam(context.Background(), m, ids(tok, "The fox chases the"), generate.BeamOptions{Beams: 3, MaxNewTokens: 6, LengthPenalty: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, x := range h {
		fmt.Printf("%.3f %q\n", x.Score, tok.Decode(x.IDs))
	}
	// Output:
	// -0.542 " cat. The cat chases the"
	// -0.573 " bear. The bear chases the"
	// -0.576 " mouse. The mouse chases the"
}

// Several prompts share each forward pass, whatever their lengths.
func ExampleRunBatch() {
	m, tok := open()
	rs, err := generate.RunBatch(context.Background(), m, [][]int{ids(tok, "I love"), ids(tok, "cat chases dog.")}, generate.Options{Tokenizer: tok})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range rs {
		fmt.Printf("%q\n", r.Text)
	}
	// Output:
	// " datawhale."
	// " dog runs away from cat."
}

// The loop of chapter 3.3, written out: Pending says what to run, Push chooses a token from the logits.
func ExampleSequence() {
	m, tok := open()
	s, err := generate.NewSequence(m, ids(tok, "I love"), generate.Options{Tokenizer: tok})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Free()
	for !s.Done() {
		new, _ := s.Pending() // the prompt first (prefill), then one token at a time (decode)
		b := model.Batch{Seqs: []model.Sequence{{IDs: new, Cache: s.Cache}}}
		if err := m.Forward(context.Background(), &b); err != nil {
			fmt.Println(err)
			return
		}
		if err := s.Push(b.Logits.Row(0)); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("ran %d tokens, cache %d, chose %q\n", len(new), s.Cache.Len(), tok.Tokens(s.IDs()[len(s.IDs())-1:]))
	}
	fmt.Println(s.Result().Reason)
	// Output:
	// ran 4 tokens, cache 4, chose ["Ġdatawhale"]
	// ran 1 tokens, cache 5, chose ["."]
	// ran 1 tokens, cache 6, chose ["<|endoftext|>"]
	// eos
}

// A regular expression decides which tokens may come.
func ExampleRegex() {
	m, tok := open()
	c, err := generate.Regex(` (three|four) (apples|boxes)\.`)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := generate.Run(context.Background(), m, ids(tok, "Ben has two apples. He finds two more. Now Ben has"), generate.Options{Tokenizer: tok, Constraint: c})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q, reason: %s\n", r.Text, r.Reason)
	// Output:
	// " four apples.", reason: structure complete
}

// Greedy decoding repeats itself; contrastive search pays for saying the same again.
func ExampleContrastive() {
	m, tok := open()
	start := ids(tok, "Once upon a time there was a cat named")
	for _, alpha := range []float64{0, 0.6} {
		r, err := generate.Contrastive(context.Background(), m, start, generate.ContrastiveOptions{MaxNewTokens: 30, Alpha: alpha})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%.1f %q\n", alpha, tok.Decode(r.IDs))
	}
	// Output:
	// 0.0 " Anna. She lives in the field. Anna has a blue box. Anna has a friend named Finn. Finn is a fox. He lives in the"
	// 0.6 " Anna. She lives in the field. Anna goes to the field. Anna is happy to see Anna. Anna and Mia are goodad. After"
}
