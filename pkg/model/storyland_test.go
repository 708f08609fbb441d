package model_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/lesson"
	"forwardpass/pkg/lmhead"
	"forwardpass/pkg/model"
)

// greedy continues ids with the arg-max, one cached step at a time.
func greedy(t testing.TB, m *model.Model, ids []int, n int) []int {
	t.Helper()
	c, err := m.NewCache(kvcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Free()
	b := model.Batch{Seqs: []model.Sequence{{IDs: ids, Cache: c}}}
	var out []int
	for range n {
		if err := m.Forward(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		best := 0
		for j, v := range b.Logits.Data {
			if v > b.Logits.Data[best] {
				best = j
			}
		}
		out = append(out, best)
		b.Seqs[0].IDs = out[len(out)-1:]
	}
	return out
}

func TestStoryland(t *testing.T) {
	m := open(t, testdata+"/storyland")
	file, err := checkpoint.ReadSafetensors(testdata + "/golden/storyland.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cases := 0
	for _, name := range file.Names() {
		name, ok := strings.CutSuffix(name, "/ids")
		if !ok {
			continue
		}
		cases++
		t.Run(name, func(t *testing.T) {
			c, err := lesson.Compare(m, testdata+"/golden/storyland.safetensors", name, storyTol)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: largest difference %.1e (logits %.1e)\n%s", t.Name(), c.Largest().Relative, c.Rows[len(c.Rows)-1].Max, c)
			if err := c.Err(); err != nil {
				t.Error(err)
			}
			ids, _ := file.Ints(name + "/ids")
			key := name + "/greedy_ignoring_eos"
			if !file.Has(key) {
				key = name + "/greedy"
			}
			want, err := file.Ints(key)
			if err != nil {
				t.Fatal(err)
			}
			if got := greedy(t, m, ids, len(want)); !slices.Equal(got, want) {
				t.Errorf("greedy: want %v, got %v", want, got)
			}
		})
	}
	if cases < 8 {
		t.Errorf("want at least 8 cases, got %d", cases)
	}
}

// TestGreedy: every family continues its prompts, step by cached step, as transformers does. Where transformers' cached
// and recomputed texts differ (dynamic NTK), the recomputed one is the model's, and ours.
func TestGreedy(t *testing.T) {
	for _, path := range golden(t) {
		file, err := checkpoint.ReadSafetensors(path + ".safetensors")
		if err != nil {
			t.Fatal(err)
		}
		m := open(t, path)
		for _, name := range file.Names() {
			name, ok := strings.CutSuffix(name, "/greedy")
			if !ok {
				continue
			}
			key := name + "/greedy"
			if file.Has(key + "_recomputed") {
				key += "_recomputed"
			}
			ids, err := file.Ints(name + "/ids")
			if err != nil {
				t.Fatal(err)
			}
			want, err := file.Ints(key)
			if err != nil {
				t.Fatal(err)
			}
			want = want[:min(len(want), m.Config.MaxPositions-len(ids)+1)] // transformers goes on beyond the context
			if got := greedy(t, m, ids, len(want)); !slices.Equal(got, want) {
				t.Errorf("%s: %s: want %v, got %v", path, name, want, got)
			}
		}
	}
}

// TestLoss: the mean cross-entropy of a padded batch (padding left out of the ragged batch) and of a ragged one equals
// PyTorch's. (Where the rotation depends on the length, padding a batch changes what transformers computes for its short rows;
// there the ragged loss is the one to equal.)
func TestLoss(t *testing.T) {
	files, _ := filepath.Glob(testdata + "/golden/models/*.json")
	files = append(files, testdata+"/golden/storyland.json")
	checked := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var g struct {
			Losses *struct {
				IDs, Labels [][]int
				PaddedMean  float64   `json:"padded_mean"`
				RaggedMean  float64   `json:"ragged_mean"`
				RaggedSums  []float64 `json:"ragged_sums"`
				Counted     int       `json:"labels_counted"`
			}
		}
		if err := json.Unmarshal(text, &g); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if g.Losses == nil {
			continue
		}
		checked++
		path := strings.TrimSuffix(f, ".json")
		if strings.HasSuffix(path, "/storyland") {
			path = testdata + "/storyland"
		}
		m := open(t, path)
		var b model.Batch
		var labels []int
		for i, ids := range g.Losses.IDs {
			b.Seqs = append(b.Seqs, model.Sequence{IDs: ids, Logits: model.All})
			labels = append(labels, lmhead.Shift(g.Losses.Labels[i])...)
		}
		if err := m.Forward(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		loss, err := lmhead.CrossEntropy(b.Logits, labels)
		if err != nil {
			t.Fatal(err)
		}
		if r := m.Layers[0].Rope; r != nil && r.Changes(1, len(g.Losses.IDs[0])) {
			g.Losses.PaddedMean = g.Losses.RaggedMean
		}
		if loss.Counted != g.Losses.Counted || math.Abs(loss.Mean-g.Losses.PaddedMean) > 1e-5 || math.Abs(loss.Mean-g.Losses.RaggedMean) > 1e-5 {
			t.Errorf("%s: want %d labels of mean loss %.6f and %.6f, got %d of %.6f", f, g.Losses.Counted, g.Losses.PaddedMean, g.Losses.RaggedMean, loss.Counted, loss.Mean)
		}
		at := 0
		for i, ids := range g.Losses.IDs {
			var sum float64
			for _, l := range loss.Each[at : at+len(ids)] {
				sum += l
			}
			at += len(ids)
			if math.Abs(sum-g.Losses.RaggedSums[i]) > 2e-4 {
				t.Errorf("%s: sequence %d: want loss %.5f, got %.5f", f, i, g.Losses.RaggedSums[i], sum)
			}
		}
	}
	if checked < 4 {
		t.Errorf("want losses for at least 4 models, got %d", checked)
	}
}
