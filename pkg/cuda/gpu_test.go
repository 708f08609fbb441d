//go:build linux && cuda && cgo

package cuda

import (
	"errors"
	"os"
	"testing"
)

// gpu opens a backend, or skips the test where there is no GPU. With FORWARDPASS_GPU=required that is a failure.
func gpu(t testing.TB, o Options) *Backend {
	t.Helper()
	b, err := open(o)
	if errors.Is(err, ErrUnavailable) && os.Getenv("FORWARDPASS_GPU") != "required" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}
