package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// engine is something that runs a model, and the file it runs.
type engine struct {
	name string // engine/type or engine/type/variant
	argv func(threads int) []string
	env  func(threads int) []string
	file string
}

// available lists the engines whose environment and files are there, and says what is missing.
func (o *options) available() []engine {
	self, _ := os.Executable()
	threadEnv := func(extra ...string) func(int) []string {
		return func(t int) []string {
			n := strconv.Itoa(t)
			return append([]string{"GOMAXPROCS=" + n, "OMP_NUM_THREADS=" + n, "MKL_NUM_THREADS=" + n}, extra...)
		}
	}
	base := strings.ToLower(strings.TrimPrefix(filepath.Ext(strings.TrimSuffix(o.gguf, ".gguf")), "."))
	files := map[string]string{base: o.gguf}
	order := []string{"f32", "bf16", "f16", "q8_0"}
	for _, t := range order {
		files[t] = filepath.Join(o.files, t+".gguf")
	}
	if !slices.Contains(order, base) {
		order = append(order, base)
	}
	var es []engine
	add := func(name, file string, env func(int) []string, argv ...string) {
		if o.engines != nil && !slices.Contains(o.engines, name) {
			return
		}
		for _, need := range []string{argv[0], file} {
			if _, err := os.Stat(need); err != nil {
				fmt.Printf("%s left out: %v\n", name, err)
				return
			}
		}
		es = append(es, engine{name: name, file: file, env: env, argv: func(t int) []string {
			out := slices.Clone(argv)
			for i, a := range out {
				out[i] = strings.ReplaceAll(a, "THREADS", strconv.Itoa(t))
			}
			return out
		}})
	}
	for _, t := range order {
		add("ours/"+t, files[t], threadEnv(), self, "-ours", files[t])
	}
	for _, v := range []struct{ name, env string }{{"avx2", "FORWARDPASS_KERNELS=avx2"}, {"int8", "FORWARDPASS_ACTIVATIONS=int8"}, {"go", "FORWARDPASS_KERNELS=go"}} {
		for _, t := range order {
			name := "ours/" + t + "/" + v.name
			if o.engines == nil && !slices.Contains([]string{"ours/f32/avx2", "ours/q8_0/avx2", "ours/q8_0/int8", "ours/" + base + "/int8", "ours/f32/go"}, name) {
				continue // on request only
			}
			add(name, files[t], threadEnv(v.env), self, "-ours", files[t])
		}
	}
	py := filepath.Join(o.root, "bench", "bin", "python")
	for _, t := range order {
		add("llama.cpp/"+t, files[t], threadEnv(), py, "docs/bench/llamacpp.py", files[t], "THREADS")
	}
	py = filepath.Join(o.root, "reference", "bin", "python")
	for _, t := range []string{"f32", "bf16"} {
		dir := filepath.Join(o.files, "hf-"+t)
		add("transformers/"+t, dir, threadEnv(), py, "docs/bench/torch_worker.py", dir, "THREADS")
	}
	return es
}

func (e engine) start(threads int) (*worker, error) {
	return startWorker(e.name, threads, e.env(threads), e.argv(threads)...)
}

// prepare makes the files of the other types that are not there yet.
func (o *options) prepare() error {
	for _, p := range []struct {
		python string
		args   []string
		made   string
	}{
		{filepath.Join(o.root, "bench", "bin", "python"), []string{"docs/bench/prepare.py"}, "q8_0.gguf"},
		{filepath.Join(o.root, "reference", "bin", "python"), []string{"docs/bench/prepare.py", "--hf"}, "hf-bf16"},
	} {
		if _, err := os.Stat(filepath.Join(o.files, p.made)); err == nil {
			continue
		}
		if _, err := os.Stat(p.python); err != nil {
			continue // available reports it
		}
		cmd := exec.Command(p.python, append(p.args, o.gguf, o.files)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("bench: %v: %w\n%s", cmd.Args, err, out)
		}
	}
	return nil
}
