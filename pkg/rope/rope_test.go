package rope

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/tensor"
)

func random(rng *rand.Rand, shape ...int) *tensor.Tensor {
	t := tensor.New(shape...)
	for i := range t.Data {
		t.Data[i] = float32(rng.NormFloat64())
	}
	return t
}

func table(t testing.TB, cfg Config) *Table {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// configs are tables of every kind, in both pairings.
func configs() []Config {
	long := make([]float64, 8)
	for i := range long {
		long[i] = 1 + float64(i)
	}
	var all []Config
	for _, s := range []Scaling{
		{},
		{Type: Linear, Factor: 4},
		{Type: Dynamic, Factor: 2},
		{Type: YaRN, Factor: 4, OriginalMax: 32},
		{Type: Llama3, Factor: 8, OriginalMax: 32, LowFreqFactor: 1, HighFreqFactor: 4},
		{Type: LongRoPE, Factor: 4, OriginalMax: 32, ShortFactor: long, LongFactor: long},
		{Type: Factors, ShortFactor: long},
	} {
		for _, interleaved := range []bool{false, true} {
			all = append(all, Config{HeadDim: 16, MaxPositions: 128, Interleaved: interleaved, Scaling: s})
		}
	}
	return all
}

// TestDistance: the product of a query and a key depends on how far apart they are only, and a rotation changes no length
// (but for the attention factor).
func TestDistance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, cfg := range configs() {
		r := table(t, cfg)
		f2 := r.AttentionFactor() * r.AttentionFactor()
		for range 50 {
			q, k := random(rng, 1, 1, 16), random(rng, 1, 1, 16)
			m, n, shift := rng.IntN(60), rng.IntN(60), rng.IntN(40)
			dot := func(m, n int) float64 {
				a, b := q.Clone(), k.Clone()
				if err := r.Apply(a, []int{m}, 100); err != nil {
					t.Fatal(err)
				}
				if err := r.Apply(b, []int{n}, 100); err != nil {
					t.Fatal(err)
				}
				return float64(tensor.Dot(a.Data, b.Data))
			}
			if a, b := dot(m, n), dot(m+shift, n+shift); math.Abs(a-b) > 2e-4 {
				t.Fatalf("%+v: positions %d, %d give %g; %d more of both give %g", cfg, m, n, a, shift, b)
			}
			before := float64(tensor.Dot(q.Data, q.Data))
			rotated := q.Clone()
			if err := r.Apply(rotated, []int{m}, 100); err != nil {
				t.Fatal(err)
			}
			if after := float64(tensor.Dot(rotated.Data, rotated.Data)) / f2; math.Abs(after-before) > 1e-4 {
				t.Fatalf("%+v: length² %g became %g", cfg, before, after)
			}
		}
	}
}

// TestPairings: half-split rotation of a vector is the interleaved rotation of its permutation.
func TestPairings(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, dim := range []int{16, 8, 4} {
		half, inter := table(t, Config{HeadDim: 16, Dim: dim}), table(t, Config{HeadDim: 16, Dim: dim, Interleaved: true})
		to, err := Permute(3, 16, dim, true)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Permute(3, 16, dim, false)
		if err != nil {
			t.Fatal(err)
		}
		x := random(rng, 5, 3, 16)
		turn := func(x *tensor.Tensor, rows []int) *tensor.Tensor {
			y := x.Clone()
			for i := range 5 {
				for j, from := range rows {
					y.Data[i*48+j] = x.Data[i*48+from]
				}
			}
			return y
		}
		pos := []int{0, 3, 4, 10, 11}
		want, got := x.Clone(), turn(x, to)
		if err := half.Apply(want, pos, 0); err != nil {
			t.Fatal(err)
		}
		if err := inter.Apply(got, pos, 0); err != nil {
			t.Fatal(err)
		}
		if got = turn(got, back); !slices.Equal(got.Data, want.Data) {
			t.Errorf("%d of 16 rotated: the pairings disagree", dim)
		}
		if !slices.Equal(want.Data[dim:16], x.Data[dim:16]) || dim < 16 && slices.Equal(want.Data[48:48+dim], x.Data[48:48+dim]) {
			t.Errorf("%d of 16 rotated: the first %d numbers should turn, the rest stay", dim, dim)
		}
	}
}

// TestScaling checks the scalings at points that their definitions fix.
func TestScaling(t *testing.T) {
	base := table(t, Config{HeadDim: 16}).Frequencies(0)
	last := len(base) - 1
	if base[0] != 1 || math.Abs(base[1]-math.Pow(10_000, -1.0/8)) > 1e-7 {
		t.Errorf("want frequencies 10000^(-2i/16), got %v", base)
	}
	linear := table(t, Config{HeadDim: 16, Scaling: Scaling{Type: Linear, Factor: 4}}).Frequencies(0)
	for i := range base {
		if linear[i] != base[i]/4 {
			t.Errorf("linear: pair %d: want %g, got %g", i, base[i]/4, linear[i])
		}
	}
	yarn := table(t, Config{HeadDim: 16, Scaling: Scaling{Type: YaRN, Factor: 4, OriginalMax: 4096}})
	if f := yarn.Frequencies(0); f[0] != base[0] || math.Abs(f[last]-base[last]/4) > 1e-9 {
		t.Errorf("yarn: want the fastest pair kept and the slowest divided by 4, got %v of %v", f, base)
	}
	if want := 0.1*math.Log(4) + 1; math.Abs(yarn.AttentionFactor()-want) > 1e-12 {
		t.Errorf("yarn: want attention factor %g, got %g", want, yarn.AttentionFactor())
	}
	llama := table(t, Config{HeadDim: 16, Scaling: Scaling{Type: Llama3, Factor: 8, OriginalMax: 4096, LowFreqFactor: 1, HighFreqFactor: 4}}).Frequencies(0)
	if llama[0] != base[0] || math.Abs(llama[last]-base[last]/8) > 1e-9 {
		t.Errorf("llama3: want the fastest pair kept and the slowest divided by 8, got %v", llama)
	}
	dynamic := table(t, Config{HeadDim: 16, MaxPositions: 32, Scaling: Scaling{Type: Dynamic, Factor: 2}})
	if !slices.Equal(dynamic.Frequencies(32), base) || dynamic.Changes(3, 32) || !dynamic.Changes(32, 33) || !dynamic.Changes(33, 34) {
		t.Error("dynamic: want the plain frequencies up to 32 positions, and new ones with every length beyond")
	}
	if f := dynamic.Frequencies(64); !(f[last] < base[last]) || f[0] != 1 {
		t.Errorf("dynamic: want slower slow pairs at 64 positions, got %v", f)
	}
	ones, twos := []float64{1, 1, 1, 1, 1, 1, 1, 1}, []float64{2, 2, 2, 2, 2, 2, 2, 2}
	lr := table(t, Config{HeadDim: 16, MaxPositions: 128, Scaling: Scaling{Type: LongRoPE, OriginalMax: 32, ShortFactor: ones, LongFactor: twos}})
	if f := lr.Frequencies(32); f[3] != base[3] {
		t.Errorf("longrope: want short factors up to 32 positions, got %v", f)
	}
	if f := lr.Frequencies(33); f[3] != base[3]/2 || !lr.Changes(32, 33) || lr.Changes(33, 34) {
		t.Errorf("longrope: want long factors from 33 positions on, got %v", f)
	}
	if want := math.Sqrt(1 + math.Log(4)/math.Log(32)); math.Abs(lr.AttentionFactor()-want) > 1e-12 {
		t.Errorf("longrope: want attention factor %g, got %g", want, lr.AttentionFactor())
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{HeadDim: 7}, "even, got 7"},
		{Config{HeadDim: 0}, "got 0 of 0"},
		{Config{HeadDim: 8, Dim: 10}, "got 10 of 8"},
		{Config{HeadDim: 8, Theta: math.NaN()}, "theta"},
		{Config{HeadDim: 8, Theta: -5}, "theta"},
		{Config{HeadDim: 8, Scaling: Scaling{Type: "spiral"}}, `"spiral"`},
		{Config{HeadDim: 8, Scaling: Scaling{Type: Linear}}, "linear scaling needs a factor"},
		{Config{HeadDim: 8, Scaling: Scaling{Type: YaRN, Factor: 2}}, "original number of positions"},
		{Config{HeadDim: 8, Scaling: Scaling{Type: Dynamic, Factor: 2}}, "MaxPositions"},
		{Config{HeadDim: 8, MaxPositions: 9, Scaling: Scaling{Type: Llama3, Factor: 2}}, "low_freq_factor"},
		{Config{HeadDim: 8, MaxPositions: 9, Scaling: Scaling{Type: LongRoPE}}, "short_factor for each of 4 pairs, got 0"},
		{Config{HeadDim: 4, MaxPositions: 9, Scaling: Scaling{Type: LongRoPE, ShortFactor: []float64{1, 0}, LongFactor: []float64{1, 1}}}, "must be positive, got 0"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: want an error with %q, got %v", c.cfg, c.want, err)
		}
	}
	r := table(t, Config{HeadDim: 4})
	if err := r.Apply(tensor.New(2, 1, 6), []int{0, 1}, 0); err == nil || !strings.Contains(err.Error(), "[2 1 6]") {
		t.Errorf("got %v", err)
	}
	if err := r.Apply(tensor.New(1, 1, 4), []int{-1}, 0); err == nil || !strings.Contains(err.Error(), "-1") {
		t.Errorf("got %v", err)
	}
	if err := r.Apply(tensor.New(1, 1, 4), []int{math.MaxInt}, 0); err == nil || !strings.Contains(err.Error(), "below 536870912") {
		t.Errorf("got %v", err)
	}
	if err := r.ApplyStrided(make([]float32, 7), 2, 8, 4, []int{0}, 0); err == nil || !strings.Contains(err.Error(), "not in 7 numbers") {
		t.Errorf("got %v", err)
	}
	if _, err := Permute(math.MaxInt/2, 4, 4, true); err == nil {
		t.Error("want an error for more rows than there can be")
	}
	if _, err := Permute(1, 4, 3, true); err == nil {
		t.Error("want an error for an odd dimension")
	}
}

// A query is turned by its position: one radian a step for the first pair, less for each further one.
func ExampleTable_Apply() {
	r, _ := New(Config{HeadDim: 4})
	q, _ := tensor.From([]float32{1, 1, 0, 0}, 1, 1, 4) // two pairs, (1,0) and (1,0), half-split
	_ = r.Apply(q, []int{3}, 4)
	fmt.Printf("angles %.2f\nrotated %.2f\n", r.Angles(3, 4), q.Data)
	// Output:
	// angles [3.00 0.03]
	// rotated [-0.99 1.00 0.14 0.03]
}
