// Package lesson is what the notebooks share: it opens models by name, compares them with PyTorch's numbers, and checks
// exercises.
//
// A notebook cell is a program of its own, so opening a model has to be quick: storyland takes a millisecond, a
// real checkpoint a few (its file is mapped, not read).
//
//	lm := lesson.Must(lesson.Open("storyland"))
//	ids := lesson.Must(lm.Tok.Encode("I love datawhale")) // [T]
//	logits := lesson.Must(lm.Logits(ids))                 // [T, V]
package lesson

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"forwardpass/pkg/model"
	"forwardpass/pkg/tokenize"
)

// LM is a model with its tokenizer.
type LM struct {
	*model.Model
	Tok  *tokenize.Tokenizer
	Name string
}

// Must returns v, or ends the cell with the error in one line.
func Must[T any](v T, err error) T {
	OK(err)
	return v
}

// OK ends the cell with the error in one line, if there is one.
func OK(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Open opens a model by name: "storyland", which is in the repository; one that set-up has brought (go run ./notebooks
// -model smollm2, or -model owner/name); or any checkpoint by its path: a Hugging Face directory or a .gguf file.
func Open(name string) (*LM, error) {
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	m, err := model.Open(path)
	if err != nil {
		return nil, err
	}
	tok, err := tokenize.Open(path)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &LM{Model: m, Tok: tok, Name: name}, nil
}

// Tokens is the text of each id as charts show it on their axes: spaces as ·, and the bytes of half a character, such as
// one third of 我, as \xe6.
func (lm *LM) Tokens(ids []int) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		text := lm.Tok.Decode([]int{id})
		if lm.Tok.Special(id) {
			text = lm.Tok.Tokens([]int{id})[0]
		}
		var b strings.Builder
		for at, r := range text {
			switch {
			case r == ' ':
				b.WriteString("·")
			case r == '\n':
				b.WriteString(`\n`)
			case r == utf8.RuneError && !strings.HasPrefix(text[at:], "\ufffd"):
				fmt.Fprintf(&b, `\x%02x`, text[at])
			default:
				b.WriteRune(r)
			}
		}
		out[i] = b.String()
	}
	return out
}

// Available lists the models that Open finds by name.
func Available() []string {
	names := []string{"storyland"}
	models := os.DirFS(filepath.Join(Root(), ".forwardpass", "models"))
	for _, depth := range []string{"*", "*/*"} { // smollm2, owner/name
		found, _ := fs.Glob(models, depth)
		for _, name := range found {
			if brought(name) != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// Have says whether Open finds a model by this name; of paths it says no.
func Have(name string) bool { return slices.Contains(Available(), name) }

// find is the file or directory of a model.
func find(name string) (string, error) {
	root := Root()
	if name == "storyland" {
		return filepath.Join(root, "testdata", "storyland"), nil
	}
	if path := brought(name); path != "" {
		return path, nil
	}
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	return "", fmt.Errorf("lesson: no model %q here: `go run ./notebooks -model %s` brings it, if set-up knows it or it is on the Hugging Face hub as owner/name", name, name)
}

// brought is the file or directory of a model that set-up has brought, or "".
func brought(name string) string {
	dir := filepath.Join(Root(), ".forwardpass", "models", name)
	if files, _ := filepath.Glob(filepath.Join(dir, "*.gguf")); len(files) > 0 {
		return files[0]
	}
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		return dir
	}
	return ""
}

// Testdata is the path of a file under testdata, wherever the program runs.
func Testdata(elem ...string) string {
	return filepath.Join(append([]string{Root(), "testdata"}, elem...)...)
}

// Root is the repository: FORWARDPASS_ROOT, or where this file was compiled from.
func Root() string {
	if root := os.Getenv("FORWARDPASS_ROOT"); root != "" {
		return root
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}
