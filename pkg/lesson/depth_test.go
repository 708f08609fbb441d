package lesson_test

import (
	"math"
	"testing"

	"forwardpass/pkg/lesson"
)

// TestDepth: without residuals the signal dies out, without norms it explodes, with both it grows slowly.
func TestDepth(t *testing.T) {
	const layers = 32
	for wiring, want := range map[string][2]float64{"plain": {0, 1e-3}, "residual": {100, 1e4}, "post-norm": {0.999, 1.001}, "pre-norm": {2, 10}} {
		stream, err := lesson.Depth(wiring, layers)
		if err != nil || len(stream) != layers+1 {
			t.Fatalf("%s: want %d vectors, got %d, %v", wiring, layers+1, len(stream), err)
		}
		if got := lesson.Scale(stream[layers])[0]; got < want[0] || got > want[1] {
			t.Errorf("%s: scale after %d layers: want between %g and %g, got %g", wiring, layers, want[0], want[1], got)
		}
		if c := lesson.Cosine(stream[0].Data, stream[0].Data); math.Abs(c-1) > 1e-6 {
			t.Errorf("cosine of a vector with itself: want 1, got %g", c)
		}
	}
	pre, _ := lesson.Depth("pre-norm", layers)
	post, _ := lesson.Depth("post-norm", layers)
	if a, b := lesson.Cosine(pre[0].Data, pre[layers].Data), lesson.Cosine(post[0].Data, post[layers].Data); a < b+0.1 {
		t.Errorf("pre-norm should keep more of the input in the stream, got %g and %g", a, b)
	}
	if _, err := lesson.Depth("sideways", 1); err == nil {
		t.Error("want an error for an unknown wiring")
	}
}
