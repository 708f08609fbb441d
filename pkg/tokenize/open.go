package tokenize

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
	if what := neighbour(filepath.Base(path)); what != "" {
		return nil, fmt.Errorf("this is %s, not a vocabulary: %s", what, inPlaceOf(path))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, reason(err)
	}
	kind := sniff(filepath.Base(path), data)
	switch kind {
	case hfJSON:
		t, err = parseHF(string(data))
	case tekkenJSON:
		t, err = parseTekken(string(data))
	case vocabJSON:
		t, err = openGPT2(path, string(data))
	case vocabTxt:
		t, err = parseVocabTxt(string(data))
	case tiktokenRanks:
		t, err = openRanks(string(data))
	case sentencePiece:
		var m *spModel
		if m, err = parseSP(data); err == nil {
			t, err = m.build()
		}
	default:
		return nil, errors.New("not a vocabulary that can be read: want " + readable)
	}
	if err != nil {
		return nil, err
	}
	if err := t.configure(dir, kind); err != nil {
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

// readable names the files that Open reads.
const readable = "tokenizer.json, .model, vocab.txt, vocab.json, .tiktoken, tekken.json or .gguf"

// neighbour says what a checkpoint's file is that often lies beside the
// vocabulary but holds none; "" for others.
func neighbour(name string) string {
	if strings.HasSuffix(name, ".safetensors") {
		return "a file of weights"
	}
	return map[string]string{
		"config.json":                  "a model's configuration",
		"generation_config.json":       "the settings of a model's generation",
		"tokenizer_config.json":        "a tokenizer's settings",
		"special_tokens_map.json":      "a list of special tokens",
		"added_tokens.json":            "a list of added tokens",
		"model.safetensors.index.json": "an index of weights",
	}[name]
}

// inPlaceOf says which file to give instead of one that holds no vocabulary.
func inPlaceOf(path string) string {
	dir := filepath.Dir(path)
	if found, err := vocabularyIn(dir); err == nil {
		return "give " + found
	}
	return "want " + readable + ", and there is none in " + dir
}

func escapeGlob(dir string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(dir)
}

// fileKind is a kind of vocabulary file.
type fileKind int

const (
	unknownFile fileKind = iota
	hfJSON
	tekkenJSON
	vocabJSON
	vocabTxt
	tiktokenRanks
	sentencePiece
)

// sniff tells what kind of file data is, by how it starts where names mislead:
// a "tokenizer.model" may be SentencePiece's or tiktoken's, and a .json one of
// three.
func sniff(name string, data []byte) fileKind {
	switch {
	case strings.HasSuffix(name, ".json"):
		r := jsonReader{s: string(data)}
		kind := vocabJSON
		r.object(func(key string) error {
			switch key {
			case "model", "added_tokens", "version":
				kind = hfJSON
			case "config", "special_tokens", "image", "audio":
				kind = tekkenJSON
			}
			if r.peek() >= '0' && r.peek() <= '9' {
				return errEnough // a token and its id
			}
			if kind != vocabJSON {
				return errEnough
			}
			_, err := r.raw()
			return err
		})
		return kind
	case strings.HasSuffix(name, ".txt"):
		return vocabTxt
	case looksLikeRanks(data):
		return tiktokenRanks
	case len(data) > 0 && data[0] == 0x0A: // field 1, bytes: the first piece
		return sentencePiece
	}
	return unknownFile
}

var errEnough = errors.New("enough")

// looksLikeRanks reports whether the first line is base64, a space and a number.
func looksLikeRanks(data []byte) bool {
	line, _, _ := strings.Cut(string(data[:min(len(data), 1024)]), "\n")
	token, rank, ok := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
	if _, err := strconv.Atoi(rank); err != nil || !ok || token == "" {
		return false
	}
	return strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") == ""
}
