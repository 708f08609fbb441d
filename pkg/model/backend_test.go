//go:build !cuda

package model_test

import (
	"testing"

	"forwardpass/pkg/model"
)

// backend is where the tests' models run: nil, the CPU. Built with -tags cuda, the same tests run on the GPU.
func backend(testing.TB) model.Backend { return nil }

// storyTol is how far storyland's stages may be from PyTorch's. One position of its longest story, where large numbers cancel,
// magnifies the rounding of any order of summation: to 7e-5 with AVX2, 1.1e-4 with NEON, 1e-4 on the GPU.
var storyTol = neonTwice(1e-4)
