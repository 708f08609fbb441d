package lesson_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/lesson"
)

var link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

// checkLinks reports relative links of a text in a file of the repository that lead nowhere.
func checkLinks(t *testing.T, path, text string) (n int) {
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		n++
		if _, err := os.Stat(filepath.Join(lesson.Root(), filepath.Dir(path), filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("%s: link to %s, which is not there", path, m[1])
		}
	}
	return n
}

func page(t *testing.T, path string) string {
	data, err := os.ReadFile(filepath.Join(lesson.Root(), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestGlossary: the line that defines a concept is in the file that the glossary names, and all key concepts of the chapter
// are there.
func TestGlossary(t *testing.T) {
	text := page(t, "docs/glossary.md")
	checkLinks(t, "docs/glossary.md", text)
	sections := strings.Split(text, "\n## ")[1:]
	for _, s := range sections {
		name, _, _ := strings.Cut(s, "\n")
		file, code := link.FindStringSubmatch(s), goBlock.FindStringSubmatch(s)
		if file == nil || code == nil {
			t.Errorf("%s: want a link to a file and a line of it", name)
			continue
		}
		if source := page(t, filepath.Join("docs", file[1])); !strings.Contains(source, strings.TrimSpace(code[1])) {
			t.Errorf("%s: %s has no line %q", name, file[1], strings.TrimSpace(code[1]))
		}
	}
	for _, concept := range []string{"Hidden state", "Causal mask", "MLP / FFN", "LM head", "Logits", "Softmax", "Sampling", "Stopping conditions",
		"EOS", "max_new_tokens", "Maximum context length", "Time to first token (TTFT)", "Time per output token (TPOT)"} {
		if !slices.ContainsFunc(sections, func(s string) bool { return strings.HasPrefix(s, concept) }) {
			t.Errorf("the glossary lacks %q", concept)
		}
	}
}

var testLink = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(([^)]+)\\)")

// TestChapterMap: the tests that the map names are in the files that it names, and every lesson is in it.
func TestChapterMap(t *testing.T) {
	text := page(t, "docs/chapter-map.md")
	checkLinks(t, "docs/chapter-map.md", text)
	for _, m := range testLink.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(page(t, filepath.Join("docs", m[2])), "func "+m[1]+"(") {
			t.Errorf("%s has no %s", m[2], m[1])
		}
	}
	for _, nb := range notebooks(t, "notebooks") {
		if !strings.Contains(text, filepath.Base(nb.path)) {
			t.Errorf("the chapter map lacks %s", nb.path)
		}
	}
}

// TestLessons: short cells that import nothing of charts or kernels, the same code in both languages, links that lead
// somewhere, and an exercise in every lesson.
func TestLessons(t *testing.T) {
	english, chinese := notebooks(t, "notebooks"), notebooks(t, filepath.Join("notebooks", "zh"))
	if len(english) != len(chinese) {
		t.Fatalf("%d lessons in English, %d in Chinese", len(english), len(chinese))
	}
	exercises := exerciseCells(t)
	for i, en := range english {
		zh := chinese[i]
		if len(en.Cells) != len(zh.Cells) {
			t.Errorf("%s has %d cells, %s has %d", en.path, len(en.Cells), zh.path, len(zh.Cells))
			continue
		}
		var sizes []int
		links := 0
		for j, c := range en.Cells {
			source, twin := strings.Join(c.Source, ""), strings.Join(zh.Cells[j].Source, "")
			if c.Kind != zh.Cells[j].Kind || c.Kind == "code" && source != twin {
				t.Errorf("%s: cell %s: the code is not that of the Chinese edition", en.path, c.ID)
			}
			if c.Kind != "code" {
				links += checkLinks(t, en.path, source)
				checkLinks(t, zh.path, twin)
				continue
			}
			sizes = append(sizes, len(c.Source))
			if len(c.Source) > 20 {
				t.Errorf("%s: cell %s has %d lines, want 20 at most", en.path, c.ID, len(c.Source))
			}
			for _, foreign := range []string{"janpfeifer", "go-echarts", "gonum.org"} {
				if strings.Contains(source, foreign) {
					t.Errorf("%s: cell %s names %s", en.path, c.ID, foreign)
				}
			}
		}
		if slices.Sort(sizes); sizes[len(sizes)/2] > 10 {
			t.Errorf("%s: the median cell has %d lines, want 10 at most", en.path, sizes[len(sizes)/2])
		}
		if links == 0 {
			t.Errorf("%s has no link to the code that does the work", en.path)
		}
		number := filepath.Base(en.path)[:2]
		if !slices.ContainsFunc(exercises, func(c exerciseCell) bool { return c.lesson == number }) {
			t.Errorf("%s has no exercise", en.path)
		}
	}
}

// TestSolutions: the pages of solutions have links that lead somewhere, and every exercise is in some lesson.
func TestSolutions(t *testing.T) {
	pages, _ := filepath.Glob(filepath.Join(lesson.Root(), "docs", "solutions", "*.md"))
	for _, p := range pages {
		path := filepath.Join("docs", "solutions", filepath.Base(p))
		checkLinks(t, path, page(t, path))
	}
	cells := exerciseCells(t)
	for _, name := range lesson.Exercises() {
		if !slices.ContainsFunc(cells, func(c exerciseCell) bool { return c.name == name }) {
			t.Errorf("exercise %q is in no lesson", name)
		}
	}
}
