package lesson

import (
	_ "embed"
	"strings"
)

// stories.txt is `testdata/storyland/generate.py 3 60 stories.txt`: another seed than those of training and validation.
//
//go:embed stories.txt
var stories string

// Stories are sixty texts of storyland's grammar that the model was not trained on.
func Stories() []string { return strings.Split(strings.TrimSpace(stories), "\n") }
