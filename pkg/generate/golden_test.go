package generate

import (
	"context"
	"math"
	"testing"

	"forwardpass/pkg/sample"
)

// TestGreedyEqualsTransformers: the tokens that transformers adds, on every golden model.
func TestGreedyEqualsTransformers(t *testing.T) {
	for _, g := range goldens(t) {
		r := run(t, open(t, g.dir), g.prompt, Options{MaxNewTokens: len(g.greedy), EOS: none})
		if same(t, g.name, r.IDs, g.greedy) {
			t.Logf("%-9s %d tokens equal  OK", g.name, len(r.IDs))
		}
	}
}

// TestPenalisedEqualsTransformers: greedy under a repetition penalty, a ban of repeated trigrams, and both.
func TestPenalisedEqualsTransformers(t *testing.T) {
	n := 0
	for _, g := range goldens(t) {
		for _, p := range g.Penalised {
			for _, c := range p.Results {
				eos := none
				if c.EOS != nil {
					eos = []int{*c.EOS}
				}
				r := run(t, open(t, g.dir), p.IDs, Options{
					MaxNewTokens: c.Max, EOS: eos, Sampling: sample.Options{RepetitionPenalty: c.Repetition, NoRepeatNGram: c.NGram},
				})
				same(t, g.name, r.IDs, c.IDs)
				n++
			}
		}
	}
	if n < 12 {
		t.Errorf("only %d cases in the golden files", n)
	}
}

// TestBeamEqualsTransformers: four beams, every pair of length penalty and early stopping; sequences exactly, scores to 1e-4.
func TestBeamEqualsTransformers(t *testing.T) {
	n := 0
	for _, g := range goldens(t) {
		worst, before := 0.0, n
		for _, p := range g.Beams {
			for _, c := range p.Results {
				early := earlyStopping[c.Early]
				h, err := Beam(context.Background(), open(t, g.dir), p.IDs, BeamOptions{
					Beams: c.Beams, MaxNewTokens: c.Max, EOS: []int{c.EOS}, LengthPenalty: c.Length, EarlyStopping: early,
				})
				if err != nil {
					t.Fatal(err)
				}
				if len(h) != len(c.Sequences) {
					t.Fatalf("%s: %d hypotheses, want %d", g.name, len(h), len(c.Sequences))
				}
				for i := range h {
					if !same(t, g.name, h[i].IDs, c.Sequences[i]) {
						t.Fatalf("length penalty %g, early stopping %v, hypothesis %d: score %g, want %g", c.Length, c.Early, i, h[i].Score, c.Scores[i])
					}
					d := math.Abs(h[i].Score - c.Scores[i])
					worst = max(worst, d)
					if d > 1e-4 {
						t.Errorf("%s: length penalty %g, early stopping %v, hypothesis %d: score %.6f, want %.6f", g.name, c.Length, c.Early, i, h[i].Score, c.Scores[i])
					}
				}
				n++
			}
		}
		if n > before {
			t.Logf("%-9s %d searches, largest difference of a score %.1e  OK", g.name, n-before, worst)
		}
	}
	if n < 36 {
		t.Errorf("only %d cases in the golden files", n)
	}
}
