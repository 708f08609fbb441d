package checkpoint

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestWriteNothing: a tensor that isn't there is refused, and leaves no file.
func TestWriteNothing(t *testing.T) {
	dir := t.TempDir()
	for name, err := range map[string]error{
		"safetensors": WriteSafetensors(filepath.Join(dir, "a.safetensors"), nil, []*Tensor{nil}),
		"gguf":        WriteGGUF(filepath.Join(dir, "a.gguf"), nil, []*Tensor{nil}),
	} {
		if err == nil || !strings.Contains(err.Error(), "one is nil") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
}
