package serve

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/model"
	"forwardpass/pkg/tokenize"
)

// SmolLM2 under every policy: the same tokens as alone, and what batching is worth when weights are large. FORWARDPASS_MODELS has
// the model.
func TestSmolLM2(t *testing.T) {
	dir := os.Getenv("FORWARDPASS_MODELS")
	if dir == "" {
		t.Skip("FORWARDPASS_MODELS is not set")
	}
	file := filepath.Join(dir, "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
	m, err := model.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tok, err := tokenize.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	system := "You are a helpful teacher who answers in one short and friendly sentence, and always gives an example."
	var trace []*Request
	var want [][]int
	ctx := context.Background()
	for i, question := range []string{
		"What is a verb?", "Why is the sky blue?", "Name three colors.", "What is 2+2?", "Who wrote Hamlet?", "What do bees make?", "How far is the moon?", "What is rain?",
		"Name a large animal.", "What is a noun?", "Where is Paris?", "What is snow?",
	} {
		text, err := tok.Chat([]tokenize.Message{{Role: "system", Content: system}, {Role: "user", Content: question}}, true)
		if err != nil {
			t.Fatal(err)
		}
		e, err := tok.EncodeWith(text, tokenize.Options{NoSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		q := &Request{Prompt: e.IDs, Options: generate.Options{MaxNewTokens: 6 + 3*(i%4), Tokenizer: tok}}
		r, err := Alone(ctx, Model(m), q)
		if err != nil {
			t.Fatal(err)
		}
		trace, want = append(trace, q), append(want, r[0].IDs)
	}
	out, err := Compare(ctx, Model(m), trace, SLO{},
		Case{"one at a time", Options{MaxBatch: 1}},
		Case{"static, 8", Options{Policy: Static, MaxBatch: 8}},
		Case{"continuous, 8", Options{MaxBatch: 8}},
		Case{"continuous, 8, few blocks", Options{MaxBatch: 8, Blocks: 24, Preemption: Swap}},
		Case{"continuous, 8, radix tree", Options{MaxBatch: 8, Prefix: RadixTree, TokenBudget: 64}},
		Case{"prompt lookup", Options{MaxBatch: 8, Draft: &generate.Draft{}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out)
	for _, o := range out {
		for i, j := range o.Run.Jobs {
			if got := j.Results()[0].IDs; !slices.Equal(got, want[i]) {
				t.Errorf("%s, request %d: got %v, alone %v", o.Name, i, got, want[i])
			}
		}
	}
}
