package generate

import (
	"context"
	"slices"
	"testing"

	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestSpeculativeDistribution: at T>0 speculation changes the tokens of a seed but not their distribution. The joint
// distribution of four tokens, computed exactly by running the model on every possible prefix, is compared with samples.
func TestSpeculativeDistribution(t *testing.T) {
	const samples, tokens, k = 1500, 4, 3
	ctx := context.Background()
	for _, g := range goldens(t)[1:4] { // qwen3, gpt2, mixtral: fast, and with distributions that are not all on one token
		m, start := open(t, g.dir), g.prompt[:4]
		sampling := sample.Options{Temperature: 3, TopK: k, Seed: 5}
		p, err := sample.NewPipeline(sampling)
		if err != nil {
			t.Fatal(err)
		}
		want := map[[tokens]int]float64{}
		var expand func(ids []int, mass float64)
		expand = func(ids []int, mass float64) {
			if n := len(ids) - len(start); n == tokens {
				want[[tokens]int(ids[len(start):])] = mass
				return
			}
			b := model.Batch{Seqs: []model.Sequence{{IDs: ids}}}
			if err := m.Forward(ctx, &b); err != nil {
				t.Fatal(err)
			}
			probs, err := p.Probs(b.Logits.Row(0), ids)
			if err != nil {
				t.Fatal(err)
			}
			for id, x := range probs {
				if x > 0 {
					expand(append(slices.Clone(ids), id), mass*x)
				}
			}
		}
		expand(start, 1)

		for _, d := range []struct {
			name  string
			draft *Draft
		}{
			{"none", nil},
			{"identical", &Draft{Model: m, Tokens: 2}},
			{"good", &Draft{Model: perturbed(t, g.dir, 0.1), Tokens: 2}},
			{"bad", &Draft{Model: perturbed(t, g.dir, 2), Tokens: 2}},
			{"prompt lookup", &Draft{Lookup: 1, Tokens: 2}},
		} {
			rs, err := RunN(ctx, m, start, samples, Options{MaxNewTokens: tokens, EOS: none, Sampling: sampling, Draft: d.draft})
			if err != nil {
				t.Fatal(err)
			}
			count := map[[tokens]int]float64{}
			proposed, accepted := 0, 0
			for _, r := range rs {
				key := [tokens]int(r.IDs)
				if want[key] == 0 {
					t.Fatalf("%s: %v has probability 0", g.name, key)
				}
				count[key]++
				proposed, accepted = proposed+r.Proposed, accepted+r.Accepted
			}
			x2, classes, restC, restE := 0.0, 0, 0.0, 0.0
			add := func(c, e float64) { x2 += (c - e) * (c - e) / e; classes++ }
			for key, q := range want {
				if e := q * samples; e < 5 {
					restC, restE = restC+count[key], restE+e
				} else {
					add(count[key], e)
				}
			}
			if restE >= 5 {
				add(restC, restE)
			}
			chi := distuv.ChiSquared{K: float64(classes - 1)}.Survival(x2)
			t.Logf("%-8s draft %-13s %d sequences of %d tokens in %d classes: chi-square probability %.3f, accepted %d of %d",
				g.name, d.name, samples, tokens, classes, chi, accepted, proposed)
			if chi < 1e-3 {
				t.Errorf("%s: draft %s: the samples are not distributed as the model says", g.name, d.name)
			}
			if d.draft != nil && proposed == 0 && d.name != "prompt lookup" {
				t.Errorf("%s: draft %s proposed nothing", g.name, d.name)
			}
		}
	}
}
