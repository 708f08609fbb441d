//go:build linux && cuda && cgo

package cuda

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tensor"
)

// TestSample: the device chooses what package sample chooses for the same random numbers. Where u falls within rounding of a
// boundary between two tokens, either is right.
func TestSample(t *testing.T) {
	p := newPair(t)
	for _, v := range []int{1, 5, 3099} {
		for _, o := range []sample.Options{
			{}, {Temperature: 1}, {Temperature: 0.3}, {Temperature: 5}, {Temperature: 1, TopK: 1}, {Temperature: 1, TopK: 3}, {Temperature: 2, TopK: 50}, {Temperature: 1, TopK: 2000},
			{Temperature: 1, TopP: 0.5}, {Temperature: 1, TopP: 0.95}, {Temperature: 0.7, TopK: 40, TopP: 0.9}, {Temperature: 1, TopP: 0.01}, {Temperature: 1, TopK: 10_000, TopP: 1},
		} {
			const rows = 8
			x := p.random(rows, v)
			for r := range rows {
				row := x.Row(r)
				switch r % 4 {
				case 1: // ties
					for i := range row {
						row[i] = float32(math.Round(float64(row[i])))
					}
				case 2: // all equal
					for i := range row {
						row[i] = -2.5
					}
				case 3: // tokens that are out
					for i := range row[1:] {
						if i%3 == 0 {
							row[1+i] = float32(math.Inf(-1))
						}
					}
				}
			}
			u := make([]float64, rows)
			for i := range u {
				u[i] = p.rng.Float64()
			}
			u[0], u[4] = 0, 1-1e-12
			got, err := p.sample(x, o, u)
			if err != nil {
				t.Fatalf("%+v: %v", o, err)
			}
			for r := range rows {
				probs, err := sample.Probs(x.Row(r), o)
				if err != nil {
					t.Fatal(err)
				}
				want := sample.Choose(probs, u[r])
				if o.Temperature == 0 {
					want = slices.Index(probs, 1)
				}
				if got[r] != want && sample.Choose(probs, u[r]-2e-6) != got[r] && sample.Choose(probs, u[r]+2e-6) != got[r] {
					t.Errorf("V %d, %+v, row %d, u %g: want token %d (p %g), got %d (p %g)", v, o, r, u[r], want, probs[want], got[r], probs[got[r]])
				}
				if probs[got[r]] == 0 {
					t.Errorf("V %d, %+v, row %d: token %d was cut", v, o, r, got[r])
				}
			}
		}
	}
}

// sample chooses by the device.
func (p *pair) sample(x *tensor.Tensor, o sample.Options, u []float64) ([]int, error) {
	var there *tensor.Tensor
	if err := p.gpu.dev.do(func() (err error) {
		there, err = p.gpu.upload(x)
		return err
	}); err != nil {
		return nil, err
	}
	return p.gpu.Sample(there, o, u)
}

func TestSampleEdges(t *testing.T) {
	p := newPair(t)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, o := range []sample.Options{{}, {Temperature: 1}, {Temperature: 1, TopK: 2, TopP: 0.5}} {
		for _, row := range [][]float32{{1, nan, 2}, {-inf, -inf, -inf}} {
			x, _ := tensor.From(row, 1, 3)
			if _, err := p.sample(x, o, []float64{0.5}); !errors.Is(err, sample.ErrNoToken) {
				t.Errorf("%v: want ErrNoToken, got %v", row, err)
			}
		}
		x, _ := tensor.From([]float32{1, inf, 2, inf}, 1, 4)
		if got, err := p.sample(x, o, []float64{0.2}); err != nil || got[0] != 1 {
			t.Errorf("infinite logits: want token 1, got %v, %v", got, err)
		}
	}
	x := p.random(2, 3)
	for _, o := range []sample.Options{{Temperature: 1, MinP: 0.1}, {RepetitionPenalty: 1.1}, {Temperature: 1, Order: sample.LlamaCpp}} {
		if _, err := p.sample(x, o, []float64{0, 0}); err == nil || !strings.Contains(err.Error(), "not supported") {
			t.Errorf("%+v: want a refusal, got %v", o, err)
		}
	}
	if _, err := p.sample(x, sample.Options{Temperature: 1}, []float64{0}); err == nil {
		t.Error("want an error: one random number for two rows")
	}
}

// TestGenerate: with everything on the device, the tokens are those that the CPU's logits give, and a step moves a few bytes.
func TestGenerate(t *testing.T) {
	b := gpu(t, Options{KeepLogits: true})
	const path = "../../testdata/storyland"
	m, err := model.OpenWith(path, model.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	cpu, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer cpu.Close()
	prompt := []int{1, 20, 31, 45, 8}
	for _, o := range []sample.Options{{}, {Temperature: 0.8, TopK: 20, TopP: 0.95, Seed: 3}} {
		got, err := Generate(context.Background(), m, prompt, 8, o)
		if err != nil {
			t.Fatal(err)
		}
		all := slices.Clone(prompt)
		rng := rand.New(rand.NewPCG(o.Seed, o.Stream))
		for _, id := range got {
			lg, err := cpu.Logits(all)
			if err != nil {
				t.Fatal(err)
			}
			probs, err := sample.Probs(lg.Row(len(all)-1), o)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Index(probs, 1)
			if o.Temperature > 0 {
				want = sample.Choose(probs, rng.Float64())
			}
			if id != want {
				t.Fatalf("%+v: after %v: want token %d, got %d", o, all, want, id)
			}
			all = append(all, id)
		}
	}
	before, _ := StatsOf(b)
	if _, err := Generate(context.Background(), m, prompt, 5, sample.Options{}); err != nil {
		t.Fatal(err)
	}
	after, _ := StatsOf(b)
	if after.Weights != before.Weights {
		t.Errorf("%d bytes of weights were copied again", after.Weights-before.Weights)
	}
	if n := after.Fetched - before.Fetched; n != 5*4 {
		t.Errorf("5 steps fetched %d bytes, want 20: one token id each", n)
	}
	if n := after.Uploaded - before.Uploaded; n > 5*400 {
		t.Errorf("5 steps copied %d bytes to the device", n)
	}
}
