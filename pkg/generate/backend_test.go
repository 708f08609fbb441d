//go:build !cuda

package generate

import (
	"testing"

	"forwardpass/pkg/model"
)

// backend is where the tests' models run: nil, the CPU. Built with -tags cuda, the same tests run on the GPU.
func backend(testing.TB) model.Backend { return nil }
