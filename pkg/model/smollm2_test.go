package model_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"forwardpass/pkg/checkpoint"
)

// TestSmolLM2 compares a real checkpoint, read from its quantised file, with transformers on the dequantised weights:
// logits, and greedy text token for token. FORWARDPASS_MODELS names the folder that `go run ./notebooks -model
// smollm2` fills (.forwardpass/models).
func TestSmolLM2(t *testing.T) {
	dir := os.Getenv("FORWARDPASS_MODELS")
	if dir == "" {
		t.Skip("FORWARDPASS_MODELS is not set")
	}
	start := time.Now()
	m := open(t, filepath.Join(dir, "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"))
	t.Logf("opened %d parameters in %v", m.Parameters(), time.Since(start))
	file, err := checkpoint.ReadSafetensors(testdata + "/golden/smollm2.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cases := 0
	for _, key := range file.Names() {
		name, ok := strings.CutSuffix(key, "/greedy")
		if !ok {
			continue
		}
		cases++
		ids, err := file.Ints(name + "/ids")
		if err != nil {
			t.Fatal(err)
		}
		want, err := file.Ints(key)
		if err != nil {
			t.Fatal(err)
		}
		lg, err := m.Logits(ids)
		if err != nil {
			t.Fatal(err)
		}
		top, err := file.Ints(name + "/top.ids")
		if err != nil {
			t.Fatal(err)
		}
		values, err := file.Floats(name+"/top.logits", -1, -1)
		if err != nil {
			t.Fatal(err)
		}
		n := values.Dim(-1)
		var worst, sum float64
		for i := range values.Rows() {
			row := lg.Row(len(ids) - values.Rows() + i)
			for j, w := range values.Row(i) {
				d := math.Abs(float64(row[top[i*n+j]] - w))
				worst, sum = max(worst, d), sum+d
			}
		}
		if !(worst <= 1e-3) {
			t.Errorf("%s: logits differ by %g", name, worst)
		}
		got := greedy(t, m, ids, len(want))
		t.Logf("%s: logits differ by %.1e at most, %.1e in the mean", name, worst, sum/float64(len(top)))
		if !slices.Equal(got, want) {
			t.Errorf("%s: want %v, got %v", name, want, got)
		}
	}
	if cases < 5 {
		t.Errorf("want 5 prompts, got %d", cases)
	}
	if _, err := m.Logits(make([]int, m.Config.MaxPositions+1)); err == nil {
		t.Error("want an error for a prompt longer than the context")
	}
}
