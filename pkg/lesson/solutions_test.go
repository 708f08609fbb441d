package lesson_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/lesson"
)

// notebook is what the tests read of a lesson.
type notebook struct {
	path  string // from the repository
	Cells []struct {
		Kind     string   `json:"cell_type"`
		ID       string   `json:"id"`
		Source   []string `json:"source"`
		Metadata struct {
			Tags []string `json:"tags"`
		} `json:"metadata"`
	} `json:"cells"`
}

// notebooks reads the lessons of a folder of the repository.
func notebooks(t *testing.T, folder string) []notebook {
	files, err := filepath.Glob(filepath.Join(lesson.Root(), folder, "*.ipynb"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no lessons in %s (%v)", folder, err)
	}
	var all []notebook
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		nb := notebook{path: filepath.Join(folder, filepath.Base(file))}
		if err := json.Unmarshal(data, &nb); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, nb)
	}
	return all
}

var (
	checks   = regexp.MustCompile(`lesson\.Check\(t, "([^"]+)", (\w+)\)`)
	testFunc = regexp.MustCompile(`(?m)^func (Test\w*)\(t \*testing\.T\)`)
	goBlock  = regexp.MustCompile("(?s)```go\n(.*?)```")
	comment  = regexp.MustCompile(`//.*`)
	imported = regexp.MustCompile(`\b(lesson|tensor|model|sample|kvcache|testing|math|slices|sort|fmt|strings|errors|cmp|maps|utf8|rand)\.[A-Z]`)
)

// exerciseCell is a cell of a lesson that a learner completes.
type exerciseCell struct {
	name, fn, test string // the exercise, the learner's function, the test that checks it
	lesson, source string
	failing        bool // tagged as one that fails
}

func exerciseCells(t *testing.T) []exerciseCell {
	var all []exerciseCell
	for _, nb := range notebooks(t, "notebooks") {
		for _, c := range nb.Cells {
			source := strings.Join(c.Source, "")
			m := checks.FindStringSubmatch(source)
			if m == nil || c.Kind != "code" {
				continue
			}
			first, rest, _ := strings.Cut(source, "\n")
			test := testFunc.FindStringSubmatch(source)
			if !strings.HasPrefix(first, "%test") || test == nil {
				t.Errorf("%s: cell %s: want %%test in the first line and a func Test…(t *testing.T)", nb.path, c.ID)
				continue
			}
			all = append(all, exerciseCell{name: m[1], fn: m[2], test: test[1], lesson: filepath.Base(nb.path)[:2], source: rest,
				failing: slices.Contains(c.Metadata.Tags, "raises-exception")})
		}
	}
	return all
}

// TestExercises proves that the stub of every exercise fails, by a check and not by a crash, and that its solution in
// docs/solutions passes. All of them are packages of one test program, which exists in an overlay only.
func TestExercises(t *testing.T) {
	cells := exerciseCells(t)
	overlay := overlay{Replace: map[string]string{}, dir: t.TempDir()}
	var imports, runs strings.Builder
	for i, c := range cells {
		if !c.failing {
			t.Errorf("lesson %s: the cell of exercise %q lacks the tag raises-exception", c.lesson, c.name)
		}
		solved, err := c.solved()
		if err != nil {
			t.Errorf("lesson %s: exercise %q: %v", c.lesson, c.name, err)
			continue
		}
		for kind, source := range map[string]string{"stub": c.source, "solution": solved} {
			pkg := fmt.Sprintf("%s%d", kind, i)
			overlay.add(t, pkg+"/exercise.go", "package "+pkg+"\n"+importsOf(source)+source)
			fmt.Fprintf(&imports, "import %q\n", overlayPath+"/"+pkg)
			fmt.Fprintf(&runs, "\tt.Run(%q, %s.%s)\n", kind+"/"+c.name, pkg, c.test)
		}
	}
	overlay.add(t, "all_test.go", "package exercises\nimport \"testing\"\n"+imports.String()+"func TestAll(t *testing.T) {\n"+runs.String()+"}\n")
	passed, output := overlay.run(t)
	for _, c := range cells {
		if passed, ran := passed["stub/"+c.name]; !ran || passed {
			t.Errorf("lesson %s: the stub of %q: want a failed check, got ran %t, passed %t\n%s", c.lesson, c.name, ran, passed, output["stub/"+c.name])
		} else if !strings.Contains(output["stub/"+c.name], "hint:") {
			t.Errorf("lesson %s: the stub of %q fails without a hint:\n%s", c.lesson, c.name, output["stub/"+c.name])
		}
		if passed, ran := passed["solution/"+c.name]; !ran || !passed {
			t.Errorf("lesson %s: the solution of %q: want it to pass, got ran %t, passed %t\n%s", c.lesson, c.name, ran, passed, output["solution/"+c.name])
		}
	}
	t.Logf("%d exercises: each stub fails, each solution passes", len(cells))
}

// solved is the cell with the declarations of the solution in place of the stub's.
func (c exerciseCell) solved() (string, error) {
	path := filepath.Join(lesson.Root(), "docs", "solutions", c.lesson+".md")
	page, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for _, m := range goBlock.FindAllStringSubmatch(string(page), -1) {
		names, _, err := declarations(m[1])
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if !slices.Contains(names, c.fn) {
			continue
		}
		stub, where, err := declarations(c.source)
		if err != nil {
			return "", err
		}
		source := c.source
		for i := len(stub) - 1; i >= 0; i-- {
			if slices.Contains(names, stub[i]) {
				source = source[:where[i][0]] + source[where[i][1]:]
			}
		}
		return source + "\n" + m[1], nil
	}
	return "", fmt.Errorf("%s has no ```go block with func %s", path, c.fn)
}

// declarations are the names that a piece of Go declares, and where.
func declarations(source string) (names []string, where [][2]int, err error) {
	const head = "package p\n"
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "exercise.go", head+source, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	add := func(name string, n ast.Node) {
		names = append(names, name)
		where = append(where, [2]int{files.Position(n.Pos()).Offset - len(head), files.Position(n.End()).Offset - len(head)})
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil { // a method belongs to its type
				name = fmt.Sprint(d.Recv.List[0].Type, ".", name)
			}
			add(name, d)
		case *ast.GenDecl:
			if spec, ok := d.Specs[0].(*ast.TypeSpec); ok {
				add(spec.Name.Name, d)
			} else if spec, ok := d.Specs[0].(*ast.ValueSpec); ok {
				add(spec.Names[0].Name, d)
			}
		}
	}
	return names, where, nil
}

// importsOf is what goimports would add in a notebook.
func importsOf(source string) string {
	paths := map[string]string{"utf8": "unicode/utf8", "rand": "math/rand/v2"}
	for _, own := range []string{"lesson", "tensor", "model", "sample", "kvcache"} {
		paths[own] = "forwardpass/pkg/" + own
	}
	var names []string
	for _, m := range imported.FindAllStringSubmatch(comment.ReplaceAllString(source, ""), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	var s strings.Builder
	for _, name := range slices.Compact(names) {
		path := name
		if p, ok := paths[name]; ok {
			path = p
		}
		fmt.Fprintf(&s, "import %q\n", path)
	}
	return s.String()
}

// overlayPath is the package that TestExercises adds to the module for one run.
const overlayPath = "forwardpass/pkg/lesson/exercises"

// overlay is a set of files that the go command sees in the module, though they lie elsewhere.
type overlay struct {
	Replace map[string]string
	dir     string
}

func (o overlay) add(t *testing.T, name, content string) {
	file := filepath.Join(o.dir, strings.ReplaceAll(name, "/", "_"))
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Replace[filepath.Join(lesson.Root(), "pkg", "lesson", "exercises", filepath.FromSlash(name))] = file
}

// run runs the tests of the overlay's package: for each, whether it passed and what it printed.
func (o overlay) run(t *testing.T) (passed map[string]bool, output map[string]string) {
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(o.dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(o.dir, "exercises.test")
	build := exec.Command("go", "test", "-c", "-o", program, "-vet=off", "-overlay", file, overlayPath)
	build.Dir = lesson.Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the exercises do not compile: %v\n%s", err, out)
	}
	run := exec.Command("go", "tool", "test2json", program, "-test.v=test2json")
	run.Dir = lesson.Root()
	out, err := run.Output()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	passed, output = map[string]bool{}, map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue
		}
		switch name := strings.TrimPrefix(event.Test, "TestAll/"); event.Action {
		case "pass", "fail":
			passed[name] = event.Action == "pass"
		case "output":
			output[name] += event.Output
		}
	}
	if len(passed) < 2 {
		t.Fatalf("the exercises did not run: %s", out)
	}
	return passed, output
}
