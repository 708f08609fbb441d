package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
)

// llama2c compares with a llama2.c run binary that the user has built, on its own model file: it has no prefill,
// every token of prompt and answer is a decode step. It prints its own speed.
func (o *options) llama2c(threads int) error {
	if o.llama2cBin == "" {
		fmt.Print("\nllama2.c left out: no -llama2c binary given.\n")
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	n := strconv.Itoa(threads)
	w, err := startWorker("ours/llama2c", threads, []string{"GOMAXPROCS=" + n}, self, "-ours", o.llama2cModel)
	if err != nil {
		return err
	}
	defer w.stop()
	const steps = 256
	var theirs, ours []float64
	for range o.rounds {
		args := []string{o.llama2cModel, "-t", "0", "-n", strconv.Itoa(steps)}
		if o.llama2cTokenizer != "" {
			args = append(args, "-z", o.llama2cTokenizer)
		}
		cmd := exec.Command(o.llama2cBin, args...)
		cmd.Env = append(os.Environ(), "OMP_NUM_THREADS="+n)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("bench: llama2.c: %w\n%s", err, out)
		}
		rate, err := achieved(out)
		if err != nil {
			return err
		}
		theirs = append(theirs, rate)
		got, err := w.run(request{Prompt: []int{1}, Gen: steps - 1})
		if err != nil {
			return err
		}
		ours = append(ours, (steps-1)/got.Decode)
	}
	fmt.Printf("\nllama2.c's own model file, %d tokens one by one, tokens a second, medians of %d in turn.\n\n", steps, o.rounds)
	fmt.Printf("| engine | decode |\n|---|---:|\n| ours | %s |\n| llama2.c | %s |\n", span(ours), span(theirs))
	return nil
}

var achievedLine = regexp.MustCompile(`achieved tok/s: ([0-9.]+)`)

// achieved finds the speed in what the binary printed.
func achieved(out []byte) (float64, error) {
	m := achievedLine.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("bench: llama2.c printed no speed")
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
