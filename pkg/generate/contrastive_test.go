package generate

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tensor"
)

// TestContrastive compares with the definition written down without cache, batch or shortcuts; alpha 0 is greedy.
func TestContrastive(t *testing.T) {
	ctx := context.Background()
	// final runs all of ids: final hidden states [T, C] and the last logits [V].
	final := func(m *model.Model, ids []int) (*tensor.Tensor, []float32) {
		t.Helper()
		var h tensor.Tensor
		b := model.Batch{Seqs: []model.Sequence{{IDs: ids, Logits: model.All}}, Trace: &model.Trace{See: func(stage string, _ int, x *tensor.Tensor) {
			if stage == model.StageFinal {
				h = tensor.Tensor{Shape: slices.Clone(x.Shape), Data: slices.Clone(x.Data)}
			}
		}}}
		if err := m.Forward(ctx, &b); err != nil {
			t.Fatal(err)
		}
		return &h, slices.Clone(b.Logits.Row(len(ids) - 1))
	}
	cos := func(a, b []float32) float64 {
		var ab, aa, bb float64
		for i := range a {
			ab, aa, bb = ab+float64(a[i]*b[i]), aa+float64(a[i]*a[i]), bb+float64(b[i]*b[i])
		}
		return ab / math.Sqrt(aa*bb)
	}
	for _, g := range goldens(t)[:4] {
		m := open(t, g.dir)
		r, err := Contrastive(ctx, m, g.prompt, ContrastiveOptions{MaxNewTokens: 10, EOS: none})
		if err != nil {
			t.Fatal(err)
		}
		same(t, g.name+", alpha 0", r.IDs, g.greedy[:10])

		const alpha, k = 0.6, 5
		if r, err = Contrastive(ctx, m, g.prompt, ContrastiveOptions{MaxNewTokens: 10, TopK: k, Alpha: alpha, EOS: none, Cache: kvcache.Options{BlockSize: 3}}); err != nil {
			t.Fatal(err)
		}
		ids := slices.Clone(g.prompt)
		var want []int
		for range 10 {
			_, logits := final(m, ids)
			_, top, err := sample.LogProbs(logits, 0, k)
			if err != nil {
				t.Fatal(err)
			}
			best, bestScore := 0, math.Inf(-1)
			for _, c := range top {
				h, _ := final(m, append(slices.Clone(ids), c.ID))
				near := -1.0
				for j := range ids {
					near = max(near, cos(h.Row(len(ids)), h.Row(j)))
				}
				if score := (1-alpha)*math.Exp(c.LogProb) - alpha*near; score > bestScore {
					best, bestScore = c.ID, score
				}
			}
			ids, want = append(ids, best), append(want, best)
		}
		if same(t, g.name+", alpha 0.6", r.IDs, want) && slices.Equal(want, g.greedy[:10]) {
			t.Errorf("%s: the penalty changes nothing: no test", g.name)
		}
	}

	m, tok := storyland(t)
	ids := prompt(t, tok, "I love")
	for _, o := range []ContrastiveOptions{{Alpha: -0.1}, {Alpha: 1.1}, {Alpha: math.NaN()}, {TopK: -1}, {TopK: 641}, {MaxNewTokens: -1}} {
		if _, err := Contrastive(ctx, m, ids, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if r, err := Contrastive(gone, m, ids, ContrastiveOptions{MaxNewTokens: 3}); err != nil || r.Reason != ReasonCancelled {
		t.Errorf("cancelled: %+v, %v", r, err)
	}
	if _, err := Contrastive(ctx, m, ids, ContrastiveOptions{MaxNewTokens: 30, EOS: none, Cache: kvcache.Options{BlockSize: 4, Blocks: 3}}); !errors.Is(err, kvcache.ErrNoBlocks) {
		t.Errorf("no blocks: %v", err)
	}
}
