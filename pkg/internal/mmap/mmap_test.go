package mmap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	want := strings.Repeat("a token at a time ", 1000)
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(f.Data) != want {
		t.Errorf("mapped bytes differ from those written")
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		empty:                      "empty",
		dir:                        "not a regular file",
		filepath.Join(dir, "gone"): "no such file",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s) = %v, want an error with %q", path, err, want)
		}
	}
}
