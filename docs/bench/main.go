// Command bench measures this project's speed beside that of what people would use instead: llama.cpp on the
// same GGUF file, transformers on PyTorch, and a llama2.c binary if one is given. The engines take turns, one
// measurement each, round after round, so that whatever else the machine does falls on all of them; the tables
// show medians. Run it from the repository's root:
//
//	docs/bench/setup.sh                        # llama.cpp, built for this machine (minutes)
//	go run ./docs/bench -threads 2             # all tables, as Markdown
//	go run ./docs/bench -parts speed -engines ours/q8_0,llama.cpp/q8_0 -rounds 9
//
// transformers comes from the reference environment, which testdata/reference/setup.sh makes. An engine whose
// environment is missing is left out, with a note.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

type options struct {
	root, gguf, files string
	threads, prompts  []int
	contexts          []int
	rounds, gen       int
	engines           []string

	llama2cBin, llama2cModel, llama2cTokenizer string
}

func main() {
	var o options
	ours := flag.String("ours", "", "be the worker process of our engine for this model")
	machine := flag.Bool("machine", false, "be the process that measures the machine with the kernels of FORWARDPASS_KERNELS")
	threads := flag.String("threads", "1,2", "numbers of threads")
	prompts := flag.String("prompts", "128,512", "prompt lengths of the speed table, in tokens")
	contexts := flag.String("contexts", "128,512,1024,2048,4096,8000", "prompt lengths of the context table")
	engines := flag.String("engines", "", "engines to run, such as ours/f32,llama.cpp/q8_0; empty: all there are")
	parts := flag.String("parts", "machine,speed,start,context,batch,exact,llama2c", "tables to make")
	flag.StringVar(&o.gguf, "model", "", "the GGUF file that all others are made from; empty: SmolLM2 from the set-up")
	flag.IntVar(&o.rounds, "rounds", 3, "measurements of each engine")
	flag.IntVar(&o.gen, "gen", 64, "tokens to decode")
	flag.StringVar(&o.llama2cBin, "llama2c", "", "a llama2.c run binary to compare with")
	flag.StringVar(&o.llama2cModel, "llama2c-model", "", "its model file")
	flag.StringVar(&o.llama2cTokenizer, "llama2c-tokenizer", "", "its tokenizer file; empty: its default")
	flag.Parse()

	var err error
	switch {
	case *ours != "":
		err = serveOurs(*ours)
	case *machine:
		err = serveMachine()
	default:
		o.threads, o.prompts, o.contexts = numbers(*threads), numbers(*prompts), numbers(*contexts)
		if *engines != "" {
			o.engines = strings.Split(*engines, ",")
		}
		err = o.bench(strings.Split(*parts, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func numbers(s string) []int {
	var ns []int
	for f := range strings.SplitSeq(s, ",") {
		if n, err := strconv.Atoi(f); err == nil && n > 0 {
			ns = append(ns, n)
		}
	}
	return ns
}

func (o *options) bench(parts []string) error {
	o.root = ".forwardpass"
	o.files = filepath.Join(o.root, "bench", "models")
	if o.gguf == "" {
		found, _ := filepath.Glob(filepath.Join(o.root, "models", "smollm2", "*.gguf"))
		if len(found) == 0 {
			return fmt.Errorf("bench: no model: set-up has not brought SmolLM2, and -model is not given")
		}
		o.gguf = found[0]
	}
	if err := o.prepare(); err != nil {
		return err
	}
	for _, t := range o.threads {
		if t > runtime.NumCPU() {
			return fmt.Errorf("bench: %d threads on %d cores", t, runtime.NumCPU())
		}
		fmt.Printf("\n### %d thread%s\n", t, map[bool]string{true: "s"}[t > 1])
		for _, p := range []struct {
			name string
			run  func(threads int) error
		}{{"machine", o.machine}, {"speed", o.speed}, {"start", o.cold}, {"context", o.context}, {"batch", o.batch}, {"exact", o.exact}, {"llama2c", o.llama2c}} {
			if slices.Contains(parts, p.name) {
				if err := p.run(t); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// prompt is n token ids that mean nothing, the same in every run.
func prompt(n int) []int {
	x, ids := uint32(12345), make([]int, n)
	for i := range ids {
		x = x*1103515245 + 12345
		ids[i] = 10 + int(x>>9)%40000
	}
	return ids
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}
