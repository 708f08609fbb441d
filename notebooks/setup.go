package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// requirements are the Python packages of the virtual environment.
var requirements = []string{
	"pip==26.3",
	"jupyterlab==4.6.6",
	"nbclient==0.11.0",
	"nbconvert==7.17.2",
	"nbformat==5.11.1",
}

// room is the disk space that a set-up from nothing takes, with Go's build cache.
const room = 1500 << 20

// setUp brings what is missing. Its parts run at the same time: Python's packages come over the
// network while the Go tools are compiled.
func setUp(ctx context.Context, p places) error {
	start := time.Now()
	unlock, err := lockHome(ctx, p, func() { fmt.Println("waiting for another set-up of this clone to end") })
	if err != nil {
		return diskFull(err)
	}
	defer unlock()
	parts, err := p.parts(ctx)
	if err != nil {
		return err
	}
	todo := 0
	for _, part := range parts {
		if !part.stamp.done() {
			todo++
		}
	}
	if todo == 0 {
		return nil
	}
	if free, err := freeBytes(p.home); err == nil && free < room && !parts[0].stamp.done() {
		return fmt.Errorf("%s has %d MB free and the set-up needs about %d: free some and run the same command again", p.home, free>>20, room>>20)
	}
	pr := newProgress(os.Stdout)
	errs := make([]error, len(parts))
	ends := make(map[string]chan struct{})
	for _, part := range parts {
		ends[part.name] = make(chan struct{})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() {
			defer close(ends[part.name])
			for _, name := range part.after {
				<-ends[name]
			}
			if ctx.Err() != nil || part.stamp.done() {
				return
			}
			s := pr.start(part.name)
			err := part.stamp.renew(func() error { return part.work(ctx, func(line string) { pr.say(s, "%s", line) }) })
			if err != nil && part.optional != "" && ctx.Err() == nil {
				pr.say(s, "left out: %s", part.optional)
				err = nil
			} else if err == nil {
				pr.say(s, "%s", part.made)
			}
			pr.end(s, err)
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", part.name, diskFull(err))
				cancel() // the others need not go on
			}
		})
	}
	wg.Wait()
	pr.close()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if spent := time.Since(start); spent > patience {
		fmt.Printf("set up in %.1f s\n", spent.Seconds())
	}
	return nil
}

// part is one part of the set-up.
type part struct {
	name     string
	made     string   // shown when it ends
	after    []string // parts that must end before
	optional string   // what its absence means to the learner, when the course works without it
	stamp    stamp
	work     func(ctx context.Context, say func(string)) error
}

// parts lists what a set-up consists of, and for which versions of everything.
func (p places) parts(ctx context.Context) ([]part, error) {
	place := "folder " + p.root
	jupyter := part{
		name: "jupyter", made: "JupyterLab in its own virtual environment",
		stamp: p.stamp("jupyter", append([]string{place}, requirements...), p.python, filepath.Join(p.venv, "bin", "jupyter-lab")),
	}
	if !jupyter.stamp.done() { // only then is the system's Python needed
		py, err := findPython(ctx)
		if err != nil {
			return nil, err
		}
		jupyter.work = func(ctx context.Context, say func(string)) error { return makeVenv(ctx, p, py, say) }
	}
	pins, err := toolPins(p.root)
	if err != nil {
		return nil, err
	}
	kernel := part{
		name: "kernel", made: "GoNB and goimports, built from go.mod",
		stamp: p.stamp("kernel", append([]string{p.goversion}, pins...), filepath.Join(p.bin, "gonb"), filepath.Join(p.bin, "goimports")),
		work:  func(ctx context.Context, say func(string)) error { return buildTools(ctx, p, say) },
	}
	warm := part{
		name: "packages", made: "the lessons' packages, compiled once so that the first cell is quick", after: []string{"kernel"},
		optional: "a package does not compile; a cell that uses it will say why",
		stamp:    p.stamp("packages", append([]string{p.goversion}, pins...)),
		work: func(ctx context.Context, say func(string)) error {
			return runTool(ctx, p.root, os.Environ(), fetched(say), "go", "build", "./pkg/...")
		},
	}
	spec, err := kernelSpec(p)
	if err != nil {
		return nil, err
	}
	register := part{
		name: "kernelspec", made: "the kernel is known to this JupyterLab", after: []string{"jupyter", "kernel"},
		stamp: p.stamp("kernelspec", append([]string{place}, strings.Split(string(spec), "\n")...), specPath(p), overridesPath(p)),
		work: func(context.Context, func(string)) error {
			return errors.Join(writeFile(specPath(p), spec, 0o644), writeFile(overridesPath(p), []byte(overrides), 0o644))
		},
	}
	parts := []part{jupyter, kernel, warm, register}
	if files, facts := committed(ctx, p); len(facts) > 0 {
		parts = append(parts, part{
			name: "trust", made: "the committed lessons may show live charts", after: []string{"jupyter"},
			optional: "lessons show pictures until they are run",
			stamp:    p.stamp("trust", append([]string{place}, facts...)),
			work:     func(ctx context.Context, _ func(string)) error { return sign(ctx, p, files) },
		})
	}
	if npm, err := exec.LookPath("npm"); err == nil {
		parts = append(parts, part{
			name: "echarts", made: "ECharts " + echartsVersion + " for charts without internet",
			optional: "charts load ECharts from its public host",
			stamp:    p.stamp("echarts", []string{echartsVersion, echartsSum}, filepath.Join(p.static, "echarts.min.js")),
			work:     func(ctx context.Context, say func(string)) error { return bringECharts(ctx, p, npm, say) },
		})
	}
	source := filepath.Join(p.root, "pkg", "sample")
	if _, err := os.Stat(filepath.Join(source, "explorer")); err == nil {
		sum, err := hashTree(source)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{
			name: "explorer", made: "the live explorer of lesson 08, as WebAssembly", after: []string{"kernel"},
			optional: "lesson 08 shows a picture in place of the live explorer",
			stamp:    p.stamp("explorer", []string{p.goversion, sum}, filepath.Join(p.static, "sample.wasm"), filepath.Join(p.static, "wasm_exec.js")),
			work:     func(ctx context.Context, say func(string)) error { return buildExplorer(ctx, p, say) },
		})
	}
	return parts, nil
}

func makeVenv(ctx context.Context, p places, py interpreter, say func(string)) error {
	// A venv that was interrupted, moved or made by another Python cannot be mended from outside.
	if err := os.RemoveAll(p.venv); err != nil {
		return err
	}
	say("a virtual environment of Python " + py.version)
	if err := runTool(ctx, p.root, p.environ(), nil, py.path, "-m", "venv", p.venv); err != nil {
		return err
	}
	args := []string{"-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"}
	return runTool(ctx, p.root, p.environ(), say, p.python, append(args, requirements...)...)
}

func buildTools(ctx context.Context, p places, say func(string)) error {
	say("compiling; this takes a minute or two the first time")
	if err := os.MkdirAll(p.bin, 0o755); err != nil {
		return err
	}
	return runTool(ctx, p.root, os.Environ(), fetched(say), "go", "build", "-ldflags=-s -w", "-o", p.bin+string(filepath.Separator),
		"github.com/janpfeifer/gonb", "golang.org/x/tools/cmd/goimports")
}

// fetched shows the modules that go brings before it compiles, which takes longer and prints nothing.
func fetched(say func(string)) func(string) {
	return func(line string) {
		if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
			say("compiling; brought " + module)
			return
		}
		say(line)
	}
}

// toolPins are the lines of go.mod that say which kernel is built.
func toolPins(root string) ([]string, error) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	var pins []string
	for line := range strings.Lines(string(mod)) {
		f := strings.Fields(line)
		if len(f) >= 2 && (f[0] == "github.com/janpfeifer/gonb" || f[0] == "golang.org/x/tools") {
			pins = append(pins, f[0]+" "+f[1])
		}
	}
	if len(pins) != 2 {
		return nil, errors.New("go.mod must require github.com/janpfeifer/gonb and golang.org/x/tools: take the committed go.mod again")
	}
	return pins, nil
}

// buildExplorer compiles pkg/sample for the browser, beside the loader that comes with Go.
func buildExplorer(ctx context.Context, p places, say func(string)) error {
	say("compiling pkg/sample for the browser")
	env := append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=")
	err := runTool(ctx, p.root, env, say, "go", "build", "-ldflags=-s -w", "-o", filepath.Join(p.static, "sample.wasm"), "./pkg/sample/explorer")
	if err != nil {
		return err
	}
	loader, err := os.ReadFile(filepath.Join(p.goroot, "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(p.static, "wasm_exec.js"), loader, 0o644)
}

// runTool runs a program, shows its last line while it runs, and explains its failure.
func runTool(ctx context.Context, dir string, env []string, say func(string), program string, args ...string) error {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env = dir, env
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 5 * time.Second
	var log bytes.Buffer
	r, w := io.Pipe()
	c.Stdout, c.Stderr = w, w
	read := make(chan struct{})
	go func() {
		defer close(read)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			log.WriteString(line)
			if line = strings.TrimSpace(line); line != "" && say != nil {
				say(line)
			}
			if err != nil {
				return
			}
		}
	}()
	err := c.Run()
	w.Close()
	<-read
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return failure(filepath.Base(program), err, log.String())
	}
	return nil
}

// hashTree is a digest of the Go files below a folder.
func hashTree(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n", path, len(data))
		h.Write(data)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)), err
}
