package lesson

import (
	_ "embed"
	"strings"
)

// corpus.txt is what `testdata/storyland/generate.py 3 250` writes.
//
//go:embed corpus.txt
var corpus string

// Corpus is 250 stories of storyland's grammar, enough to learn a small vocabulary from. Stories are the first of them.
func Corpus() []string { return strings.Split(strings.TrimSuffix(corpus, "\n"), "\n") }
