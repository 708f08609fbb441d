package embed

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/tensor"
)

func table(rows, cols int) *tensor.Matrix {
	f := make([]float32, rows*cols)
	for i := range f {
		f[i] = float32(i)
	}
	m, _ := tensor.FromFloats(f, rows, cols)
	return m
}

func TestLookup(t *testing.T) {
	x, err := Lookup(table(4, 3), []int{2, 0, 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{6, 7, 8, 0, 1, 2, 6, 7, 8}; !slices.Equal(x.Data, want) || !slices.Equal(x.Shape, []int{3, 3}) {
		t.Errorf("want %v, got %v %v", want, x.Shape, x.Data)
	}
	if err := AddLearned(x, table(9, 3), []int{0, 1, 8}, nil); err != nil {
		t.Fatal(err)
	}
	if want := []float32{6, 8, 10, 3, 5, 7, 30, 32, 34}; !slices.Equal(x.Data, want) {
		t.Errorf("want %v, got %v", want, x.Data)
	}
}

// TestSinusoidal: a step of k positions is the same rotation wherever it starts, so products depend on distances.
func TestSinusoidal(t *testing.T) {
	pe, err := Sinusoidal(64, 16)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pe.Row(0), []float32{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}) {
		t.Errorf("position 0 is %v", pe.Row(0))
	}
	if got, want := pe.Row(5)[2], float32(math.Sin(5/math.Pow(10_000, 2.0/16))); got != want {
		t.Errorf("PE(5, 2): want %g, got %g", want, got)
	}
	for k := range 20 {
		want := tensor.Dot(pe.Row(0), pe.Row(k))
		for p := range 40 {
			if got := tensor.Dot(pe.Row(p), pe.Row(p+k)); math.Abs(float64(got-want)) > 1e-5 {
				t.Fatalf("positions %d and %d: want %g, got %g", p, p+k, want, got)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  func() error
		want string
	}{
		{func() error { _, err := Lookup(table(4, 3), []int{0, 4}); return err }, "token 1 of the input is id 4, want 0…3"},
		{func() error { _, err := Lookup(table(4, 3), []int{-1}); return err }, "id -1"},
		{func() error { return AddLearned(tensor.New(1, 3), table(4, 3), []int{4}, nil) }, "position 4, the table has 4"},
		{func() error { return AddLearned(tensor.New(1, 2), table(4, 3), []int{0}, nil) }, "[1 3]"},
		{func() error { _, err := Sinusoidal(3, 5); return err }, "even"},
		{func() error { _, err := Sinusoidal(math.MaxInt, math.MaxInt-1); return err }, "too large"},
		{func() error { _, err := Lookup(nil, []int{0}); return err }, "got none"},
		{func() error { return AddLearned(tensor.New(1, 3), nil, []int{0}, nil) }, "got none"},
		{func() error { return AddLearned(&tensor.Tensor{Shape: []int{1, 3}}, table(4, 3), []int{0}, nil) }, "holds 3 numbers, got 0"},
	} {
		if err := c.err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

// The same id gets the same row, wherever it stands.
func ExampleLookup() {
	x, _ := Lookup(table(10, 2), []int{7, 1, 7})
	fmt.Println(x.Shape, x.Data)
	// Output: [3 2] [14 15 2 3 14 15]
}
