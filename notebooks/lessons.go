package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// findLessons turns what the learner typed (04, 04-attention, a path) into notebooks, in the order
// of the course; nothing typed means all of them.
func findLessons(root string, typed []string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(root, "notebooks", "*.ipynb"))
	if err != nil {
		return nil, err
	}
	sort.Strings(all)
	if len(typed) == 0 {
		return all, nil
	}
	var files []string
	seen := make(map[string]bool)
	for _, t := range typed {
		found := match(all, t)
		if len(found) == 0 && strings.HasSuffix(t, ".ipynb") {
			path, err := filepath.Abs(t)
			if err != nil {
				return nil, err
			}
			if _, err := os.Stat(path); err == nil {
				found = []string{path}
			}
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no lesson %q: there are %s", t, strings.Join(names(all), ", "))
		}
		for _, f := range found {
			if !seen[f] {
				seen[f] = true
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// match finds the lessons that a number, a name or a path means.
func match(all []string, typed string) []string {
	name := strings.TrimSuffix(filepath.Base(typed), ".ipynb")
	if dir := filepath.Dir(typed); dir != "." && filepath.Base(dir) != "notebooks" {
		return nil // a notebook elsewhere
	}
	var found []string
	for _, f := range all {
		if lesson := lessonName(f); lesson == name || strings.HasPrefix(lesson, name+"-") {
			found = append(found, f)
		}
	}
	return found
}

func lessonName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), ".ipynb")
}

func names(files []string) []string {
	var list []string
	for _, f := range files {
		list = append(list, lessonName(f))
	}
	if len(list) == 0 {
		return []string{"none yet"}
	}
	return list
}
