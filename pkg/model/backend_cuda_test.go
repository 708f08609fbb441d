//go:build cuda

package model_test

import (
	"errors"
	"os"
	"testing"

	"forwardpass/pkg/cuda"
	"forwardpass/pkg/model"
)

// storyTol is how far storyland's stages may be from PyTorch's; see the CPU's.
const storyTol = 3e-4

// backend is the GPU, or the stand-in for its driver. Without either, tests that need a model are skipped, unless
// FORWARDPASS_GPU=required.
func backend(t testing.TB) model.Backend {
	b, err := cuda.Open(cuda.Options{})
	if errors.Is(err, cuda.ErrUnavailable) && os.Getenv("FORWARDPASS_GPU") != "required" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}
