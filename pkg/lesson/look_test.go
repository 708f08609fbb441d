package lesson_test

import (
	"math"
	"slices"
	"testing"

	"forwardpass/pkg/lesson"
	"forwardpass/pkg/tokenize"
)

// TestLook: what lessons look at is what the model computes.
func TestLook(t *testing.T) {
	lm, err := lesson.OpenFirst("no such model", "storyland")
	if err != nil {
		t.Fatal(err)
	}
	defer lm.Close()
	ids, err := lm.Tok.Encode("I love")
	if err != nil {
		t.Fatal(err)
	}
	logits, err := lm.Logits(ids)
	if err != nil {
		t.Fatal(err)
	}
	tokens, probs, err := lm.Top(logits.Row(len(ids)-1), 3)
	if err != nil || len(tokens) != 3 || tokens[0] != "·datawhale" || math.Abs(probs[0]-0.903) > 1e-3 || probs[1] < probs[2] {
		t.Errorf("want ·datawhale 0.903 first of three, got %q %v (%v)", tokens, probs, err)
	}
	stages, err := lm.Stages(ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range logits.Data { // the trace takes the naive form of attention, which rounds otherwise
		if got := stages["logits"].Data[i]; math.Abs(float64(got-want)) > 1e-4 {
			t.Fatalf("logit %d of Stages: want %g, got %g", i, want, got)
		}
	}
	w := stages["layers.2.attention.weights"] // [H, T, T]
	head := lesson.Head(w, 5)
	if len(head) != len(ids) || head[0][0] != 1 || !math.IsInf(float64(head[0][1]), -1) {
		t.Errorf("want a causal map of %d rows, got %v", len(ids), head)
	}
	for i, row := range head {
		for j, v := range row {
			if j <= i && v != w.Data[(5*len(ids)+i)*len(ids)+j] {
				t.Fatalf("row %d, column %d is not that of head 5", i, j)
			}
		}
	}
	half, err := lm.Tok.EncodeWith("我\n", tokenize.Options{NoSpecial: true})
	if got := lm.Tokens(half.IDs); err != nil || !slices.Equal(got, []string{`\xe6`, `\x88`, `\x91`, `\n`}) {
		t.Errorf(`want the bytes of half characters and \n, got %q (%v)`, got, err)
	}
	if _, err := lesson.OpenFirst("no such model"); err == nil {
		t.Error("want an error when there is none")
	}
}
