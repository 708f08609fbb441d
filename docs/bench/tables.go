package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// speed: prefill and decode of every engine, taking turns.
func (o *options) speed(threads int) error {
	ws, err := o.startAll(threads)
	if err != nil {
		return err
	}
	defer stopAll(ws)
	longest := prompt(slices.Max(o.prompts))
	type key struct{ worker, prompt int }
	prefill, decode := map[key][]float64{}, map[key][]float64{}
	last := map[int]reply{}
	text := map[int]string{}
	for round := -1; round < o.rounds; round++ { // round -1 warms up
		for i, w := range ws {
			for _, p := range o.prompts {
				gen := o.gen
				if round < 0 {
					gen = 4
				}
				got, err := w.run(request{Prompt: longest[:p], Gen: gen})
				if err != nil {
					return err
				}
				if round < 0 {
					continue
				}
				k := key{i, p}
				prefill[k] = append(prefill[k], float64(p)/got.Prefill)
				decode[k] = append(decode[k], float64(o.gen)/got.Decode)
				last[i] = got
				text[i] = fmt.Sprint(got.IDs)
			}
		}
	}
	fmt.Printf("\nTokens a second, medians of %d rounds in turn (smallest–largest); decode is %d tokens after the prompt.\n\n", o.rounds, o.gen)
	fmt.Print("| engine |")
	for _, p := range o.prompts {
		fmt.Printf(" prefill %d | decode after %d |", p, p)
	}
	fmt.Print(" peak memory | allocations a token | first tokens |\n|---|" + strings.Repeat("---:|", 2*len(o.prompts)+2) + "---|\n")
	for i, w := range ws {
		fmt.Printf("| %s |", w.name)
		for _, p := range o.prompts {
			k := key{i, p}
			fmt.Printf(" %s | %s |", span(prefill[k]), span(decode[k]))
		}
		allocs := ""
		if strings.HasPrefix(w.name, "ours") {
			allocs = fmt.Sprintf("%.2f", last[i].Allocs)
		}
		fmt.Printf(" %d MB | %s | %s |\n", last[i].Peak>>20, allocs, firstSame(text, i, ws))
	}
	fmt.Println()
	for _, w := range ws {
		fmt.Printf("%s: %s\n", w.name, w.ready.Version)
	}
	return nil
}

// firstSame names the first engine that chose the same tokens.
func firstSame(text map[int]string, i int, ws []*worker) string {
	for j := range i {
		if text[j] == text[i] {
			return "as " + ws[j].name
		}
	}
	return "its own"
}

func span(xs []float64) string {
	digits := 1
	if median(xs) >= 100 {
		digits = 0
	}
	return fmt.Sprintf("**%.*f** (%.*f–%.*f)", digits, median(xs), digits, slices.Min(xs), digits, slices.Max(xs))
}

func (o *options) startAll(threads int) ([]*worker, error) {
	var ws []*worker
	for _, e := range o.available() {
		w, err := e.start(threads)
		if err != nil {
			stopAll(ws)
			return nil, err
		}
		ws = append(ws, w)
	}
	if len(ws) == 0 {
		return nil, fmt.Errorf("bench: no engine to run")
	}
	return ws, nil
}

func stopAll(ws []*worker) {
	for _, w := range ws {
		w.stop()
	}
}

// cold: from starting the process to the first token after a prompt of 128, and the memory that took.
func (o *options) cold(threads int) error {
	es := o.available()
	total, peaks := map[string][]float64{}, map[string]int64{}
	for range o.rounds {
		for _, e := range es {
			w, err := e.start(threads)
			if err != nil {
				return err
			}
			got, err := w.run(request{Prompt: prompt(128)})
			took := time.Since(w.start)
			w.stop()
			if err != nil {
				return err
			}
			total[e.name] = append(total[e.name], took.Seconds())
			peaks[e.name] = got.Peak
		}
	}
	fmt.Printf("\nFrom starting the process to the first token after a prompt of 128 tokens (file in the page cache), and peak memory then; medians of %d.\n\n", o.rounds)
	fmt.Print("| engine | first token, s | peak memory, MB | file, MB |\n|---|---:|---:|---:|\n")
	for _, e := range es {
		size := ""
		if st, err := os.Stat(e.file); err == nil && !st.IsDir() {
			size = strconv.FormatInt(st.Size()>>20, 10)
		}
		fmt.Printf("| %s | %.2f | %d | %s |\n", e.name, median(total[e.name]), peaks[e.name]>>20, size)
	}
	return nil
}

// context: what a token costs after longer and longer prompts, for one engine of each kind.
func (o *options) context(threads int) error {
	var ws []*worker
	defer func() { stopAll(ws) }()
	for _, e := range o.available() {
		if name := strings.SplitN(e.name, "/", 2); name[1] != "f32" {
			continue
		}
		w, err := e.start(threads)
		if err != nil {
			return err
		}
		ws = append(ws, w)
	}
	const gen = 16
	times := map[[2]int][]float64{}
	fills := map[[2]int][]float64{}
	longest := prompt(slices.Max(o.contexts))
	for range o.rounds {
		for _, c := range o.contexts {
			for i, w := range ws {
				got, err := w.run(request{Prompt: longest[:c], Gen: gen})
				if err != nil {
					return err
				}
				times[[2]int{c, i}] = append(times[[2]int{c, i}], 1000*got.Decode/gen)
				fills[[2]int{c, i}] = append(fills[[2]int{c, i}], got.Prefill)
			}
		}
	}
	fmt.Printf("\nMilliseconds of a decode step (mean of %d steps) and seconds of the prefill, by context; medians of %d.\n\n| context |", gen, o.rounds)
	for _, w := range ws {
		fmt.Printf(" %s step | prefill |", w.name)
	}
	fmt.Print("\n|---:|" + strings.Repeat("---:|", 2*len(ws)) + "\n")
	for _, c := range o.contexts {
		fmt.Printf("| %d |", c)
		for i := range ws {
			fmt.Printf(" %.1f | %.2f |", median(times[[2]int{c, i}]), median(fills[[2]int{c, i}]))
		}
		fmt.Println()
	}
	return nil
}

// batch: tokens a second of many sequences that decode together.
func (o *options) batch(threads int) error {
	sizes := []int{1, 2, 4, 8, 16}
	fmt.Printf("\nDecoding several sequences at once: tokens a second of all together (times those of one), medians of %d.\n\n| engine |", o.rounds)
	for _, n := range sizes {
		fmt.Printf(" batch %d |", n)
	}
	fmt.Print("\n|---|" + strings.Repeat("---:|", len(sizes)) + "\n")
	for _, e := range o.available() {
		if !strings.HasPrefix(e.name, "ours/") || strings.Count(e.name, "/") > 1 {
			continue
		}
		w, err := e.start(threads)
		if err != nil {
			return err
		}
		rates := map[int][]float64{}
		for range o.rounds {
			for _, n := range sizes {
				got, err := w.run(request{Prompt: prompt(64), Gen: 24, Batch: n})
				if err != nil {
					w.stop()
					return err
				}
				rates[n] = append(rates[n], float64(24*n)/got.Decode)
			}
		}
		w.stop()
		fmt.Printf("| %s |", e.name)
		for _, n := range sizes {
			fmt.Printf(" %.0f (%.1f×) |", median(rates[n]), median(rates[n])/median(rates[1]))
		}
		fmt.Println()
	}
	return nil
}

// machine: the machine's limits and how near the kernels come, measured now.
func (o *options) machine(threads int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Print("\nThe machine and the kernels, each the best of many: reading 512 MiB, multiply–adds on registers, one matrix–matrix product (512 × 576 × 1536, F32), one matrix–vector product (49,152 rows of 576 or 512, each type).\n\n")
	fmt.Print("| kernels | read, GB/s | FMA peak, GFLOP/s | GEMM, GFLOP/s | of the peak | GEMV, GB/s of weights |\n|---|---:|---:|---:|---:|---|\n")
	for _, level := range map[string][]string{"amd64": {"avx512", "avx2", "go"}, "arm64": {"neon", "go"}}[runtime.GOARCH] {
		cmd := exec.Command(self, "-machine")
		cmd.Env = append(os.Environ(), "FORWARDPASS_KERNELS="+level, "GOMAXPROCS="+strconv.Itoa(threads))
		out, err := cmd.Output()
		if err != nil {
			return err
		}
		var l limits
		if err := json.Unmarshal(out, &l); err != nil {
			return err
		}
		if l.Kernels != level {
			continue // the machine doesn't have it
		}
		var gemv []string
		for _, g := range l.GEMV {
			gemv = append(gemv, fmt.Sprintf("%s %.1f", g.Type, g.GBs))
		}
		fmt.Printf("| %s | %.1f | %.0f | %.0f | %.0f%% | %s |\n", level, l.Read, l.FMA, l.GEMM, 100*l.GEMM/l.FMA, strings.Join(gemv, ", "))
	}
	return nil
}
