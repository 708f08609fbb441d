package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A part of the set-up is done when its stamp holds its key. The stamp is removed before the work
// begins and written after it ends, so that a part that was interrupted, or was made for other
// versions, another Go or another folder, is made again.
type stamp struct {
	path string
	key  string   // what the part depends on, one fact a line
	made []string // files that must be there as well: someone may have deleted them
}

func (p places) stamp(name string, facts []string, made ...string) stamp {
	return stamp{path: filepath.Join(p.stamps, name), key: strings.Join(facts, "\n") + "\n", made: made}
}

func (s stamp) done() bool {
	got, err := os.ReadFile(s.path)
	if err != nil || string(got) != s.key {
		return false
	}
	for _, f := range s.made {
		if _, err := os.Stat(f); err != nil { // follows links: a venv whose Python is gone is not there
			return false
		}
	}
	return true
}

// renew does the work unless it is done already.
func (s stamp) renew(work func() error) error {
	if s.done() {
		return nil
	}
	if err := os.Remove(s.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	for _, f := range s.made {
		if _, err := os.Stat(f); err != nil {
			return fmt.Errorf("finished without making %s", f)
		}
	}
	return writeFile(s.path, []byte(s.key), 0o644)
}

// writeFile puts a whole file in place or leaves what was there: never half of it.
func writeFile(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once the rename has happened
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
