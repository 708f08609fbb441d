package block

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

func linear(rng *rand.Rand, out, in int, bias bool) tensor.Linear {
	w, _ := tensor.FromFloats(random(rng, out, in).Data, out, in)
	l := tensor.Linear{W: w}
	if bias {
		l.Bias = random(rng, out).Data
	}
	return l
}

func mlp(rng *rand.Rand, c, inner int, gated bool) MLP {
	m := MLP{Up: linear(rng, inner, c, !gated), Down: linear(rng, c, inner, !gated), Act: GELUTanh}
	if gated {
		gate := linear(rng, inner, c, false)
		m.Gate, m.Act = &gate, SiLU
	}
	return m
}

func moments(x []float32) (mean, variance float64) {
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	return mean, variance
}

// TestNorm: LayerNorm gives mean 0 and variance 1, RMSNorm mean square 1; neither sees the scale of its input, and only
// LayerNorm is blind to a shift.
func TestNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := random(rng, 5, 33)
	forward := func(n Norm, x *tensor.Tensor) *tensor.Tensor {
		t.Helper()
		y, err := n.Forward(x)
		if err != nil {
			t.Fatal(err)
		}
		return y
	}
	close := func(a, b *tensor.Tensor, tol float64) bool {
		for i := range a.Data {
			if !(math.Abs(float64(a.Data[i]-b.Data[i])) <= tol) {
				return false
			}
		}
		return true
	}
	layer, rms := Norm{Center: true}, Norm{}
	bigger, shifted := x.Clone(), x.Clone()
	tensor.Scale(bigger.Data, 1000)
	for i := range shifted.Data {
		shifted.Data[i] += 3
	}
	for i := range 5 {
		mean, variance := moments(forward(layer, x).Row(i))
		if math.Abs(mean) > 1e-6 || math.Abs(variance-1) > 1e-5 {
			t.Errorf("LayerNorm: mean %g, variance %g", mean, variance)
		}
		mean, variance = moments(forward(rms, x).Row(i))
		if square := variance + mean*mean; math.Abs(square-1) > 1e-5 {
			t.Errorf("RMSNorm: mean square %g", square)
		}
	}
	if !close(forward(layer, bigger), forward(layer, x), 1e-5) || !close(forward(rms, bigger), forward(rms, x), 1e-5) {
		t.Error("a norm sees the scale of its input")
	}
	if !close(forward(layer, shifted), forward(layer, x), 1e-5) {
		t.Error("LayerNorm sees a shift")
	}
	if close(forward(rms, shifted), forward(rms, x), 0.1) {
		t.Error("RMSNorm doesn't see a shift")
	}
	w, b := random(rng, 33).Data, random(rng, 33).Data
	plain, full := forward(layer, x), forward(Norm{Center: true, Weight: w, Bias: b}, x)
	for i, v := range full.Data {
		if want := plain.Data[i]*w[i%33] + b[i%33]; math.Abs(float64(v-want)) > 1e-5 {
			t.Fatalf("number %d: want %g, got %g", i, want, v)
		}
	}
	if got := PlusOne([]float32{-1, 0, 0.5}); !slices.Equal(got, []float32{0, 1, 1.5}) {
		t.Errorf("PlusOne: %v", got)
	}
	zero := forward(Norm{Eps: 1e-6}, tensor.New(1, 4))
	if !slices.Equal(zero.Data, make([]float32, 4)) {
		t.Errorf("zeros become %v", zero.Data)
	}
}

func TestActivations(t *testing.T) {
	for _, c := range []struct {
		a    Activation
		x, y float64
	}{
		{SiLU, 1, 0.731058579}, {SiLU, -1, -0.268941421}, {SiLU, 0, 0}, {SiLU, -100, 0},
		{GELU, 1, 0.841344746}, {GELU, -1, -0.158655254}, {GELU, 100, 100},
		{GELUTanh, 1, 0.841191991}, {GELUTanh, -1, -0.158808009},
		{ReLU, 2, 2}, {ReLU, -2, 0},
	} {
		x := []float32{float32(c.x)}
		if c.a.Apply(x); math.Abs(float64(x[0])-c.y) > 2e-6 {
			t.Errorf("%v(%g): want %g, got %g", c.a, c.x, c.y, x[0])
		}
	}
}

// TestMLPAlone: a token's result doesn't depend on the tokens around it.
func TestMLPAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for _, gated := range []bool{false, true} {
		m, x := mlp(rng, 12, 20, gated), random(rng, 7, 12)
		all, err := m.Forward(x)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			row, _ := tensor.From(x.Row(i), 1, 12)
			one, err := m.Forward(row)
			if err != nil {
				t.Fatal(err)
			}
			for j, v := range one.Data {
				if math.Abs(float64(v-all.Row(i)[j])) > 1e-4 {
					t.Fatalf("gated %v: token %d alone: %g, among others: %g", gated, i, v, all.Row(i)[j])
				}
			}
		}
	}
}

// slow is the mixture by its definition: all experts for every token, weights by sorting.
func slow(m *MoE, x *tensor.Tensor) ([][]float64, error) {
	logits, err := m.Router.Forward(x)
	if err != nil {
		return nil, err
	}
	var outs []*tensor.Tensor
	for i := range m.Experts {
		y, err := m.Experts[i].Forward(x)
		if err != nil {
			return nil, err
		}
		outs = append(outs, y)
	}
	var shared *tensor.Tensor
	if m.Shared != nil {
		if shared, err = m.Shared.Forward(x); err != nil {
			return nil, err
		}
	}
	var res [][]float64
	for t := range x.Rows() {
		n := len(m.Experts)
		score, choice, order := make([]float64, n), make([]float64, n), make([]int, n)
		var sum float64
		for e := range n {
			order[e] = e
			score[e] = math.Exp(float64(logits.Row(t)[e]))
			sum += score[e]
		}
		for e := range n {
			if m.Sigmoid {
				score[e] = score[e] / (1 + score[e])
			} else {
				score[e] /= sum
			}
			choice[e] = score[e]
			if m.Correction != nil {
				choice[e] += float64(m.Correction[e])
			}
		}
		if m.Groups > 1 {
			size := n / m.Groups
			groups, value := make([]int, m.Groups), make([]float64, m.Groups)
			for g := range groups {
				groups[g] = g
				part := slices.Sorted(slices.Values(choice[g*size : (g+1)*size]))
				value[g] = part[size-1]
				if size > 1 {
					value[g] += part[size-2]
				}
			}
			slices.SortStableFunc(groups, func(a, b int) int { return -compare(value[a], value[b]) })
			for _, g := range groups[m.TopGroups:] {
				for e := g * size; e < (g+1)*size; e++ {
					choice[e] = math.Inf(-1)
				}
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return -compare(choice[a], choice[b]) })
		order = order[:m.TopK]
		sum = 0
		for _, e := range order {
			sum += score[e]
		}
		row := make([]float64, x.Dim(-1))
		for _, e := range order {
			w := score[e]
			if m.Normalize {
				w /= sum
			}
			if m.RoutedScale != 0 {
				w *= float64(m.RoutedScale)
			}
			for j, v := range outs[e].Row(t) {
				row[j] += w * float64(v)
			}
		}
		if shared != nil {
			for j, v := range shared.Row(t) {
				row[j] += float64(v)
			}
		}
		res = append(res, row)
	}
	return res, nil
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// TestMoE: experts that only see their own tokens add up to the definition, for all forms of routing.
func TestMoE(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, m := range []MoE{
		{TopK: 2, Normalize: true}, {TopK: 3}, {TopK: 1}, {TopK: 8, Normalize: true},
		{TopK: 3, Sigmoid: true, Normalize: true, RoutedScale: 2.5, Groups: 4, TopGroups: 2},
		{TopK: 2, Sigmoid: true, Groups: 8, TopGroups: 3},
	} {
		for i := range 8 {
			m.Experts = append(m.Experts, mlp(rng, 10, 6, i%2 == 0))
		}
		m.Router = linear(rng, 8, 10, false)
		if m.Sigmoid {
			shared := mlp(rng, 10, 6, true)
			m.Shared, m.Correction = &shared, random(rng, 8).Data
		}
		x := random(rng, 9, 10)
		got, logits, err := m.Forward(x)
		if err != nil {
			t.Fatal(err)
		}
		if logits.Rows() != 9 || logits.Dim(-1) != 8 {
			t.Errorf("router logits %v", logits.Shape)
		}
		want, err := slow(&m, x)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			for j, w := range want[i] {
				if math.Abs(w-float64(got.Row(i)[j])) > 1e-3 {
					t.Fatalf("%+v: token %d, feature %d: want %g, got %g", m.TopK, i, j, w, got.Row(i)[j])
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	if _, err := (&Norm{Weight: make([]float32, 3)}).Forward(tensor.New(2, 4)); err == nil || !strings.Contains(err.Error(), "rows of 4 numbers with 3 weights") {
		t.Errorf("got %v", err)
	}
	if _, err := (&Norm{}).Forward(tensor.New(2, 0)); err == nil {
		t.Error("want an error for rows of no numbers")
	}
	m := mlp(rng, 4, 6, true)
	if _, err := m.Forward(tensor.New(2, 5)); err == nil || !strings.Contains(err.Error(), "want 5 columns") && !strings.Contains(err.Error(), "4") {
		t.Errorf("got %v", err)
	}
	for _, x := range []*tensor.Tensor{nil, tensor.New(), {Shape: []int{2, 4}}, {Shape: []int{-2, 4}}} {
		if _, err := m.Forward(x); err == nil {
			t.Errorf("mlp of %+v: want an error", x)
		}
		if _, err := (&Norm{}).Forward(x); err == nil {
			t.Errorf("norm of %+v: want an error", x)
		}
	}
	uneven := m
	uneven.Up = linear(rng, 5, 4, false)
	if _, err := uneven.Forward(tensor.New(2, 4)); err == nil || !strings.Contains(err.Error(), "the gate makes 6 features, up 5") {
		t.Errorf("got %v", err)
	}
	if _, err := (&MLP{}).Forward(tensor.New(2, 4)); err == nil || !strings.Contains(err.Error(), "got none") {
		t.Errorf("got %v", err)
	}
	narrow := m
	narrow.Down = linear(rng, 3, 6, false)
	if _, _, err := (&MoE{Experts: []MLP{narrow}, Router: linear(rng, 1, 4, false), TopK: 1}).Forward(tensor.New(2, 4)); err == nil || !strings.Contains(err.Error(), "returns 3 features, want 4") {
		t.Errorf("got %v", err)
	}
	experts := []MLP{m, m, m, m}
	for _, c := range []struct {
		moe  MoE
		want string
	}{
		{MoE{Experts: experts, Router: linear(rng, 4, 4, false)}, "1…4 experts"},
		{MoE{Experts: experts, Router: linear(rng, 4, 4, false), TopK: 5}, "got 5"},
		{MoE{Experts: experts, Router: linear(rng, 3, 4, false), TopK: 1}, "score 4 experts"},
		{MoE{Experts: experts, Router: linear(rng, 4, 4, false), TopK: 1, Correction: make([]float32, 3)}, "correction"},
		{MoE{Experts: experts, Router: linear(rng, 4, 4, false), TopK: 1, Groups: 3, TopGroups: 1}, "3 groups"},
		{MoE{Experts: experts, Router: linear(rng, 4, 4, false), TopK: 3, Groups: 2, TopGroups: 1}, "can't give 3"},
	} {
		if _, _, err := c.moe.Forward(tensor.New(1, 4)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

// RMSNorm divides by the root of the mean square: the direction stays, the scale goes.
func ExampleNorm() {
	x, _ := tensor.From([]float32{3, 4, 0, 0}, 1, 4)
	y, _ := (&Norm{}).Forward(x)
	z, _ := (&Norm{Center: true}).Forward(x)
	fmt.Printf("RMSNorm   %.2f\nLayerNorm %.2f\n", y.Data, z.Data)
	// Output:
	// RMSNorm   [1.20 1.60 0.00 0.00]
	// LayerNorm [0.70 1.26 -0.98 -0.98]
}

// Two experts a token out of three; the router's scores become weights that sum to 1.
func ExampleMoE_Route() {
	m := MoE{TopK: 2, Normalize: true}
	logits, _ := tensor.From([]float32{2, 0, 1}, 1, 3)
	for _, p := range m.Route(nil, logits, &tensor.Tensor{}) {
		fmt.Printf("token %d → expert %d, weight %.3f\n", p.Token, p.Expert, p.Weight)
	}
	// Output:
	// token 0 → expert 0, weight 0.731
	// token 0 → expert 2, weight 0.269
}
