//go:build !(linux && cuda && cgo)

package cuda

import (
	"errors"
	"strings"
	"testing"

	"forwardpass/pkg/model"
)

// TestWithoutTag: a program that was built without the GPU says how to build it with one.
func TestWithoutTag(t *testing.T) {
	_, opened := Open(Options{})
	_, listed := Devices()
	_, measured := Measure("", Options{})
	for _, err := range []error{opened, listed, measured} {
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "-tags cuda") {
			t.Errorf("want ErrUnavailable with the way to build it, got %v", err)
		}
	}
	if _, ok := StatsOf(model.NewCPU()); ok {
		t.Error("the CPU has no such figures")
	}
}
