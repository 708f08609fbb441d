package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// save writes a lesson's new outputs, and those of its Chinese twin, and lets Jupyter trust them.
func save(ctx context.Context, p places, o outcome) (string, error) {
	files, err := saveFiles(p, o)
	if err != nil {
		return "", err
	}
	return "", sign(ctx, p, files)
}

func saveFiles(p places, o outcome) (files []string, err error) {
	lesson := lessonName(o.file)
	now, err := readNotebook(o.file)
	if err != nil {
		return nil, err
	}
	// Someone may have written in the lesson meanwhile: text stays, other code makes the outputs wrong.
	if left := copyOutputs(now, o.nb); left > 0 {
		return nil, fmt.Errorf("%s: %d cells were changed while the lesson ran; nothing is saved, run it again", relative(p.root, o.file), left)
	}
	now.normalise(p, lesson)
	if err := writeNotebook(o.file, now); err != nil {
		return nil, err
	}
	twin, zh, err := readTwin(o.file)
	if zh == nil || err != nil {
		return []string{o.file}, err
	}
	if left := copyOutputs(zh, o.nb); left > 0 {
		return nil, fmt.Errorf("%s: %d cells hold other code than the lesson in English", relative(p.root, twin), left)
	}
	zh.normalise(p, lesson)
	return []string{o.file, twin}, writeNotebook(twin, zh)
}

// readTwin reads the Chinese edition of a lesson, nil where there is none.
func readTwin(file string) (path string, zh *notebook, err error) {
	path = filepath.Join(filepath.Dir(file), "zh", filepath.Base(file))
	if _, err := os.Stat(path); err != nil {
		return path, nil, nil
	}
	zh, err = readNotebook(path)
	return path, zh, err
}

func writeNotebook(path string, nb *notebook) error {
	data, err := nb.encode()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return writeFile(path, data, 0o644)
}

// copyOutputs gives the code cells of one notebook the outputs of the cells with the same code in
// another, the nth occurrence to the nth, and returns how many code cells found no such cell.
func copyOutputs(to, from *notebook) (left int) {
	bySource := make(map[string][]*cell)
	for _, c := range from.cells {
		if c.isCode() {
			bySource[c.source()] = append(bySource[c.source()], c)
		}
	}
	for _, c := range to.cells {
		if !c.isCode() || blank(c.source()) {
			continue
		}
		same := bySource[c.source()]
		if len(same) == 0 {
			left++
			continue
		}
		bySource[c.source()] = same[1:]
		c.setOutputs(same[0].outputs(), same[0].fields["execution_count"])
	}
	return left
}
