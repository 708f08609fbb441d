package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forwardpass/pkg/lesson"
	"forwardpass/pkg/model"
)

const testdata = "../../testdata"

// golden lists the tiny checkpoints, one or more for each family.
func golden(t testing.TB) []string {
	files, err := filepath.Glob(testdata + "/golden/models/*.safetensors")
	if err != nil || len(files) < 25 {
		t.Fatalf("want at least 25 golden models, got %d (%v)", len(files), err)
	}
	var paths []string
	for _, f := range files {
		name := strings.TrimSuffix(f, ".safetensors")
		if !strings.Contains(name, "llama2c-v1") && !strings.Contains(name, "llama2c-v2") { // TestRefused has these
			paths = append(paths, name)
		}
	}
	return paths
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

func open(t testing.TB, path string) *model.Model {
	t.Helper()
	m, err := model.OpenWith(file(path), model.Options{Backend: backend(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestFamilies compares every stage of every family with PyTorch.
func TestFamilies(t *testing.T) {
	for _, path := range golden(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			c, err := lesson.Compare(open(t, path), path+".safetensors", "prompt", 2e-5)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: largest difference %.1e (logits %.1e)\n%s", t.Name(), c.Largest().Relative, c.Rows[len(c.Rows)-1].Max, c)
			if err := c.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLens: through the lens after the last layer one sees the logits, and something else before.
func TestLens(t *testing.T) {
	for _, path := range golden(t) {
		m, ids := open(t, path), prompt(t, path)
		want, err := m.Logits(ids)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := m.Lens(ids)
		if err != nil {
			t.Fatal(err)
		}
		if len(layers) != len(m.Layers)+1 {
			t.Fatalf("%s: want %d tensors, got %d", path, len(m.Layers)+1, len(layers))
		}
		if err := same(layers[len(m.Layers)], want, 0, 1e-5); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if err := same(layers[0], want, 0, 1e-2); err == nil {
			t.Errorf("%s: the embeddings already give the logits", path)
		}
	}
}
