package tokenize

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Open reads a vocabulary: a tokenizer.json, a SentencePiece .model, BERT's
// vocab.txt, GPT-2's vocab.json with merges.txt beside it, tiktoken ranks,
// Mistral's tekken.json, a .gguf, or a directory with one of them. A
// tokenizer_config.json beside the file is honoured: chat template, BOS, EOS.
func Open(path string) (*Tokenizer, error) {
	t, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("tokenize: %s: %w", path, err)
	}
	return t, nil
}

func open(path string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, reason(err)
	}
	dir := filepath.Dir(path)
	if info.IsDir() {
		dir = path
		if path, err = vocabularyIn(dir); err != nil {
			return nil, err
		}
	}
	var t *Tokenizer
	if strings.HasSuffix(path, ".gguf") {
		return openGGUF(path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, reason(err)
	}
	switch kind := sniff(filepath.Base(path), data); kind {
	case "tokenizer.json":
		t, err = parseHF(string(data))
	default:
		return nil, errors.New("not a vocabulary that can be read: want tokenizer.json, .model, vocab.txt, vocab.json, .tiktoken, tekken.json or .gguf")
	}
	if err != nil {
		return nil, err
	}
	if err := t.configure(dir); err != nil {
		return nil, err
	}
	return t, nil
}

// reason drops the path from a file error: the caller has named it.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// vocabularyIn finds the vocabulary of a directory. A tokenizer.json comes
// first: it alone holds the whole pipeline.
func vocabularyIn(dir string) (string, error) {
	for _, pattern := range []string{
		"tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "encoder.json", "vocab.txt",
		"*.tiktoken", "*.model", "*.gguf",
	} {
		found, err := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		if err != nil {
			return "", err
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return "", fmt.Errorf("several vocabularies (%s and %s): name one", filepath.Base(found[0]), filepath.Base(found[1]))
		}
	}
	return "", errors.New("no vocabulary in this directory")
}

func escapeGlob(dir string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(dir)
}

// sniff tells what kind of file data is, by name and by how it starts.
func sniff(name string, data []byte) string {
	switch {
	case strings.HasSuffix(name, ".json"):
		return "tokenizer.json"
	}
	return ""
}
