package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
)

// Jupyter runs the scripts in saved outputs, such as live charts, only for notebooks that it trusts.
// The course's own are trusted as its Go code is: those committed here and unchanged since, and those
// that -run has just executed. Any other notebook shows pictures until its reader runs it.

const signer = `import sys
import nbformat
from nbformat.sign import NotebookNotary
notary = NotebookNotary()
for path in sys.argv[1:]:
    notary.sign(nbformat.read(path, as_version=4))
`

// sign marks notebooks as trusted in this repository's own Jupyter.
func sign(ctx context.Context, p places, files []string) error {
	if len(files) == 0 {
		return nil
	}
	return runTool(ctx, p.root, p.environ(), nil, p.python, append([]string{"-c", signer}, files...)...)
}

// committed lists the notebooks that are as git has them, and what git has, a line for each notebook.
// A learner's own changes do not alter those lines, so that signing happens once a commit. Without git
// there are none.
func committed(ctx context.Context, p places) (files, facts []string) {
	git := func(args ...string) []string {
		c := exec.CommandContext(ctx, "git", append(args, "--", "notebooks")...)
		c.Dir = p.root
		out, err := c.Output()
		if err != nil {
			return nil
		}
		return strings.FieldsFunc(string(bytes.TrimSpace(out)), func(r rune) bool { return r == 0 })
	}
	changed := make(map[string]bool)
	for _, f := range git("diff", "--name-only", "-z", "HEAD") {
		changed[f] = true
	}
	for _, line := range git("ls-files", "-s", "-z") {
		_, f, _ := strings.Cut(line, "\t")
		if filepath.Ext(f) != ".ipynb" {
			continue
		}
		facts = append(facts, line)
		if !changed[f] {
			files = append(files, filepath.Join(p.root, f))
		}
	}
	return files, facts
}
