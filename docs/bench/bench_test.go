package main

import (
	"slices"
	"testing"

	"forwardpass/pkg/model"
)

// The worker's measurement on the course's own model: as many tokens as asked for, the same alone and in a batch, no
// allocation in a steady decode step.
func TestMeasureOurs(t *testing.T) {
	m, err := model.Open("../../testdata/storyland")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := request{Prompt: prompt(20), Gen: 60}
	for i := range r.Prompt {
		r.Prompt[i] %= m.Config.VocabSize
	}
	one, err := measureOurs(m, r)
	if err != nil {
		t.Fatal(err)
	}
	if len(one.IDs) != 61 || one.Prefill <= 0 || one.Decode <= 0 {
		t.Errorf("%d tokens in %g s after %g s, want 61", len(one.IDs), one.Decode, one.Prefill)
	}
	if one.Allocs > 0.5 { // the runtime itself may allocate now and then
		t.Errorf("%g allocations a token, want 0", one.Allocs)
	}
	r.Batch = 3
	many, err := measureOurs(m, r)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(one.IDs, many.IDs) {
		t.Errorf("in a batch of 3: %v, alone: %v", many.IDs, one.IDs)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.xs); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.xs, got, c.want)
		}
	}
}

func TestSame(t *testing.T) {
	want := [][]int{{1, 2, 3}, {4, 5, 6}}
	for _, c := range []struct {
		got  [][]int
		text string
	}{
		{want, "2 of 2"},
		{[][]int{{1, 2, 3}, {4, 5, 7}}, "1 of 2 (2)"},
		{[][]int{{0, 2, 3}, {4}}, "0 of 2 (0, 1)"},
	} {
		if got := same(c.got, want); got != c.text {
			t.Errorf("same(%v) is %q, want %q", c.got, got, c.text)
		}
	}
}

func TestAchieved(t *testing.T) {
	if got, err := achieved([]byte("Once upon a time\nachieved tok/s: 123.456000\n")); err != nil || got != 123.456 {
		t.Errorf("got %v, %v, want 123.456", got, err)
	}
	if _, err := achieved([]byte("Once upon a time\n")); err == nil {
		t.Error("no speed printed, want an error")
	}
}
