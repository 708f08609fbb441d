package tokenize

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDifferential compares the ids of many random strings with those that
// testdata/reference/tokenize_diff.py has written to the directory in
// FORWARDPASS_DIFF. There may be no difference.
func TestDifferential(t *testing.T) {
	dir := os.Getenv("FORWARDPASS_DIFF")
	if dir == "" {
		t.Skip("FORWARDPASS_DIFF is not set: run testdata/reference/tokenize_diff.py and set it to its output")
	}
	data, err := os.ReadFile(filepath.Join(dir, "strings.bin"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for len(data) > 0 {
		n := 4 + binary.LittleEndian.Uint32(data)
		texts, data = append(texts, string(data[4:n])), data[n:]
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.ids"))
	if len(files) == 0 {
		t.Fatalf("no .ids files in %s", dir)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".ids")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g goldenFile
			readGolden(t, name+".json", &g)
			tok, err := Open(vocabulary(t, g.File))
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for _, s := range texts {
				want := make([]int, binary.LittleEndian.Uint32(data))
				for i := range want {
					want[i] = int(binary.LittleEndian.Uint32(data[4+4*i:]))
				}
				data = data[4+4*len(want):]
				got, err := tok.Encode(s)
				if err != nil {
					t.Fatalf("%q: %v", s, err)
				}
				if slices.Equal(got, want) {
					continue
				}
				if wrong++; wrong <= 5 {
					k := 0
					for k < len(got) && k < len(want) && got[k] == want[k] {
						k++
					}
					t.Errorf("%q: token %d on\n ours %q\n want %q", s, k, tok.Tokens(got[k:]), tok.Tokens(want[k:]))
				}
			}
			if len(data) > 0 {
				t.Errorf("%d bytes left in %s", len(data), path)
			}
			t.Logf("%d strings, %d differences", len(texts), wrong)
			if wrong > 0 {
				t.Errorf("%d of %d strings differ", wrong, len(texts))
			}
		})
	}
}
