package generate

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tokenize"
)

// TestSmolLM2 compares generation on a real checkpoint with transformers on the same weights, dequantised: greedy text, beam
// search, penalties; and the ways of the matrix that a real model makes interesting. FORWARDPASS_MODELS names the folder
// that holds smollm2/ (as .forwardpass/models does after the set-up).
func TestSmolLM2(t *testing.T) {
	dir := os.Getenv("FORWARDPASS_MODELS")
	if dir == "" {
		t.Skip("FORWARDPASS_MODELS is not set")
	}
	path := filepath.Join(dir, "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
	m := open(t, path)
	tok, err := tokenize.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	file := testdata + "/golden/smollm2"
	c, err := checkpoint.ReadSafetensors(file + ".safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	for _, entry := range []string{"story", "science", "code", "capital", "turns"} {
		g := load(t, "smollm2", path, file, entry)
		o := Options{MaxNewTokens: 64, Tokenizer: tok}
		r := run(t, m, g.prompt, o)
		same(t, entry, r.IDs, g.greedy)
		t.Logf("%-8s %d tokens, TTFT %v, %.1f tokens/s: %.60q", entry, len(r.IDs), r.Timings.TTFT, r.Timings.DecodeRate, r.Text)
		o.Chunk, o.Cache.BlockSize, o.Draft = 7, 16, &Draft{}
		r = run(t, m, g.prompt, o)
		same(t, entry+", chunks, small blocks, prompt lookup", r.IDs, g.greedy)
		t.Logf("%-8s prompt lookup: accepted %d of %d", entry, r.Accepted, r.Proposed)
	}
	var prompts, want [][]int
	for _, entry := range []string{"story", "science", "code"} {
		g := load(t, "smollm2", path, file, entry)
		prompts, want = append(prompts, g.prompt), append(want, g.greedy)
	}
	rs, err := RunBatch(context.Background(), m, prompts, Options{MaxNewTokens: 64})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rs {
		same(t, "batch row", r.IDs, want[i])
	}

	g := load(t, "smollm2", path, file, "story")
	for _, p := range g.Penalised {
		for _, c := range p.Results {
			r := run(t, m, p.IDs, Options{MaxNewTokens: c.Max, Sampling: sample.Options{RepetitionPenalty: c.Repetition, NoRepeatNGram: c.NGram}})
			same(t, "penalised", r.IDs, c.IDs)
		}
	}
	worst := 0.0
	for _, p := range g.Beams {
		for _, c := range p.Results {
			h := mustBeam(t, m, p.IDs, BeamOptions{Beams: c.Beams, MaxNewTokens: c.Max, LengthPenalty: c.Length, EarlyStopping: earlyStopping[c.Early]})
			for i := range h {
				same(t, "beam", h[i].IDs, c.Sequences[i])
				worst = max(worst, math.Abs(h[i].Score-c.Scores[i])/max(1, math.Abs(c.Scores[i]))) // sums of ln p go to −12
			}
		}
	}
	t.Logf("beam search: largest relative difference of a score %.1e", worst)
	if worst > 2e-5 {
		t.Error("the scores differ by more than 2e-5 of themselves")
	}

	// A schema, filled in by a real model.
	k, err := JSONSchema([]byte(schemas["animal"]))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tok.Encode("A dog called Rex is 7 years old and lives in a house. As JSON: ")
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, m, ids, Options{MaxNewTokens: 40, Constraint: k, Tokenizer: tok})
	if r.Reason != ReasonStructure || !k.Match(r.Text) {
		t.Errorf("reason %q, text %q", r.Reason, r.Text)
	}
	t.Logf("%s", r.Text)
}

var earlyStopping = map[any]EarlyStopping{false: StopHeuristic, true: StopEarly, "never": StopNever}

func mustBeam(t *testing.T, m *model.Model, ids []int, o BeamOptions) []Hypothesis {
	t.Helper()
	h, err := Beam(context.Background(), m, ids, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestBeamProperties: results come best first and without repeats, more beams find nothing worse, one beam is greedy, and the
// score is what the model says about the tokens.
func TestBeamProperties(t *testing.T) {
	for _, g := range goldens(t)[:4] {
		m := open(t, g.dir)
		ids := g.prompt[:6]
		last := math.Inf(-1)
		for _, beams := range []int{1, 2, 4, 8} {
			h := mustBeam(t, m, ids, BeamOptions{Beams: beams, MaxNewTokens: 6, EOS: none, EarlyStopping: StopNever})
			if len(h) != beams || !slices.IsSortedFunc(h, func(a, b Hypothesis) int { return int(math.Copysign(1, b.Score-a.Score)) }) {
				t.Errorf("%s: %d beams give %v", g.name, beams, h)
			}
			if beams == 1 {
				same(t, "one beam", h[0].IDs, run(t, m, ids, Options{MaxNewTokens: 6, EOS: none}).IDs)
			}
			lg, err := m.Logits(slices.Concat(ids, h[0].IDs))
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i, id := range h[0].IDs {
				p, _, err := sample.LogProbs(lg.Row(len(ids)-1+i), id, 0)
				if err != nil {
					t.Fatal(err)
				}
				sum += p
			}
			if math.Abs(sum-h[0].Score) > 1e-4 {
				t.Errorf("%s: %d beams: score %.6f, the tokens' ln p add up to %.6f", g.name, beams, h[0].Score, sum)
			}
			if h[0].Score < last-1e-5 { // the same text, summed in another order
				t.Errorf("%s: %d beams find %.6f, fewer found %.6f", g.name, beams, h[0].Score, last)
			}
			last = h[0].Score
			for i := range h {
				for j := range i {
					if slices.Equal(h[i].IDs, h[j].IDs) {
						t.Errorf("%s: hypotheses %d and %d are the same", g.name, j, i)
					}
				}
			}
		}
	}
}
