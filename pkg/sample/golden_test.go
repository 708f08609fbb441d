package sample

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
)

const goldenDir = "../../testdata/golden/sample"

// TestTransformers compares every processor, alone and in chains, with transformers' on 1,000 random logit vectors.
// testdata/reference/sample_processors.py describes the file. The vectors have no ties, for which the rules differ on purpose, so
// the kept sets must be equal.
func TestTransformers(t *testing.T) {
	var g struct {
		N, Vocab, History, Full int
		Cases                   []json.RawMessage
	}
	header, err := os.ReadFile(filepath.Join(goldenDir, "processors.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(header, &g); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join(goldenDir, "processors.bin"))
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(body)
	logits := read(t, r, make([]float32, g.N*g.Vocab))
	history := read(t, r, make([]uint8, g.N*g.History))
	w1, w2 := make([]float64, g.Vocab), make([]float64, g.Vocab)
	for i := range w1 {
		w1[i], w2[i] = float64(i+1), float64(7*i%g.Vocab)/float64(g.Vocab)
	}
	if len(g.Cases) < 30 || g.N != 1000 {
		t.Fatalf("golden file holds %d cases of %d vectors", len(g.Cases), g.N)
	}

	for c, raw := range g.Cases {
		kept := read(t, r, make([]uint64, g.N))
		sums := read(t, r, make([]float32, g.N*3))
		full := read(t, r, make([]float32, g.Full*g.Vocab))
		var o Options
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		o.Order = map[Order]Order{"": "", "VLLM": VLLM, "LlamaCpp": LlamaCpp}[o.Order]
		p, err := NewPipeline(o)
		if err != nil {
			t.Fatalf("case %d: %v", c, err)
		}
		worst := 0.0
		for i := range g.N {
			h := make([]int, g.History)
			for j := range h {
				h[j] = int(history[i*g.History+j])
			}
			probs, err := p.Probs(logits[i*g.Vocab:(i+1)*g.Vocab], h)
			if err != nil {
				t.Fatalf("%v, vector %d: %v", p, i, err)
			}
			var bits uint64
			for _, id := range p.kept {
				bits |= 1 << id
			}
			if bits != kept[i] {
				t.Fatalf("%v, vector %d:\nkept %061b\nwant %061b", p, i, bits, kept[i])
			}
			for k, got := range []float64{dot(probs, w1), dot(probs, w2), Entropy(probs)} {
				d := math.Abs(got-float64(sums[3*i+k])) / max(1, math.Abs(got))
				worst = max(worst, d)
				if d > 3e-6 {
					t.Fatalf("%v, vector %d: sum %d is %.8g, want %.8g", p, i, k, got, sums[3*i+k])
				}
			}
			if i < g.Full {
				for id, got := range probs {
					d := math.Abs(got - float64(full[i*g.Vocab+id]))
					worst = max(worst, d)
					if d > 1e-6 {
						t.Fatalf("%v, vector %d: p[%d] = %.8g, want %.8g", p, i, id, got, full[i*g.Vocab+id])
					}
				}
			}
		}
		t.Logf("%-140v max difference %.1e  OK", p, worst)
	}
	if r.Len() != 0 {
		t.Errorf("%d bytes of the golden file were not read", r.Len())
	}
}

func read[T any](t *testing.T, r io.Reader, into []T) []T {
	t.Helper()
	if err := binary.Read(r, binary.LittleEndian, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func dot(a, b []float64) (s float64) {
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}
