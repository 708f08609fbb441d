package model_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
)

// TestSteadyDecode allocates nothing: buffers have grown after a few steps.
func TestSteadyDecode(t *testing.T) {
	for _, name := range []string{"storyland", "golden/models/gemma2", "golden/models/gpt2", "golden/models/deepseek-v3", "golden/models/mixtral", "golden/models/gguf-llama.gguf"} {
		m := open(t, filepath.Join(testdata, name))
		c, err := m.NewCache(kvcache.Contiguous(m.Config.MaxPositions, kvcache.F32))
		if err != nil {
			t.Fatal(err)
		}
		b := &model.Batch{Seqs: []model.Sequence{{IDs: []int{1}, Cache: c}}}
		run := func() {
			if err := m.Forward(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			if c.Len() > m.Config.MaxPositions-2 {
				if err := c.Truncate(1); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range m.Config.MaxPositions { // once through all lengths
			run()
		}
		if n := testing.AllocsPerRun(20, run); n != 0 {
			t.Errorf("%s: %g allocations a token", name, n)
		}
	}
}

// BenchmarkForward is prefill and decode of storyland, and of SmolLM2 where FORWARDPASS_MODELS has it.
func BenchmarkForward(b *testing.B) {
	paths := map[string]string{"storyland": filepath.Join(testdata, "storyland")}
	if dir := os.Getenv("FORWARDPASS_MODELS"); dir != "" {
		paths["smollm2"] = filepath.Join(dir, "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
	}
	for name, path := range paths {
		m := open(b, path)
		for _, c := range []struct{ batch, start, t int }{{1, 0, 128}, {1, 0, 511}, {1, 128, 1}, {1, 510, 1}, {8, 128, 1}} {
			b.Run(fmt.Sprintf("%s/batch=%d/start=%d/T=%d", name, c.batch, c.start, c.t), func(b *testing.B) {
				batch := &model.Batch{}
				for range c.batch {
					cache, err := m.NewCache(kvcache.Contiguous(c.start+c.t, kvcache.F32))
					if err != nil {
						b.Fatal(err)
					}
					if c.start > 0 {
						if err := m.Forward(context.Background(), &model.Batch{Seqs: []model.Sequence{{IDs: make([]int, c.start), Cache: cache}}}); err != nil {
							b.Fatal(err)
						}
					}
					batch.Seqs = append(batch.Seqs, model.Sequence{IDs: make([]int, c.t), Cache: cache})
				}
				for b.Loop() {
					if err := m.Forward(context.Background(), batch); err != nil {
						b.Fatal(err)
					}
					for _, q := range batch.Seqs {
						if err := q.Cache.Truncate(c.start); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.N*c.batch*c.t)/b.Elapsed().Seconds(), "tok/s")
			})
		}
	}
}
