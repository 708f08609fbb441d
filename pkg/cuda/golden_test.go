//go:build linux && cuda && cgo

package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forwardpass/pkg/lesson"
	"forwardpass/pkg/model"
)

const testdata = "../../testdata"

// device opens a backend, or skips the test where there is no GPU. With FORWARDPASS_GPU=required that is a failure.
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

// golden lists the tiny checkpoints, one or more for each family.
func golden(t testing.TB) []string {
	files, err := filepath.Glob(testdata + "/golden/models/*.safetensors")
	if err != nil || len(files) < 25 {
		t.Fatalf("want at least 25 golden models, got %d (%v)", len(files), err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".safetensors")
	}
	return files
}

// file is where the golden model of that name is: a directory, or a file.
func file(path string) string {
	for _, ext := range []string{".gguf", ".bin"} {
		if _, err := os.Stat(path + ext); err == nil {
			return path + ext
		}
	}
	return path
}

func load(t testing.TB, path string, o Options) (*model.Model, *Backend) {
	t.Helper()
	b := gpu(t, o)
	m, err := model.OpenWith(file(path), model.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, b
}

// TestFamilies compares every stage of every family with PyTorch.
func TestFamilies(t *testing.T) {
	for _, path := range golden(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			m, _ := load(t, path, Options{})
			c, err := lesson.Compare(m, path+".safetensors", "prompt", 2e-5)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(c)
			if err := c.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}
