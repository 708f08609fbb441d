package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

//go:embed execute.py
var executor string

// event is what the executor reports.
type event struct {
	Event   string
	Cell    int // index among all cells of the notebook
	Seconds float64
	Problem string
	Outputs []output
	Count   json.Number
}

// outcome is one executed lesson.
type outcome struct {
	file     string
	saved    *notebook // as it was read, with the outputs of its last run
	nb       *notebook // with the new outputs
	ran      int       // code cells executed
	kernel   time.Duration
	took     time.Duration
	slowest  time.Duration
	slowCell int // number of the slowest code cell
	err      error
}

// finish is what happens to a lesson after it ran: it is saved, or compared. It returns what to say.
type finish func(ctx context.Context, p places, o outcome) (string, error)

// runLessons executes lessons, jobs at a time, each on a kernel of its own, and finishes each.
func runLessons(ctx context.Context, p places, files []string, cmd command, end finish) error {
	if len(files) == 0 {
		return errors.New("there is no lesson in notebooks/")
	}
	pr := newProgress(os.Stdout)
	start := time.Now()
	outcomes := make([]outcome, len(files))
	slots := make(chan struct{}, cmd.jobs)
	var wg sync.WaitGroup
	for i, file := range files {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			s := pr.start(lessonName(file))
			o := executeLesson(ctx, p, file, cmd.timeout, func(text string) { pr.say(s, "%s", text) })
			said := ""
			if o.err == nil {
				said, o.err = end(ctx, p, o)
			}
			switch {
			case o.err != nil:
				pr.say(s, "failed")
			default:
				pr.say(s, "%d cells, slowest %.1f s (cell %d)%s", o.ran, o.slowest.Seconds(), o.slowCell, said)
			}
			pr.end(s, o.err)
			outcomes[i] = o
		})
	}
	wg.Wait()
	pr.close()
	if err := ctx.Err(); err != nil {
		return err
	}
	failed, cells := 0, 0
	for _, o := range outcomes {
		cells += o.ran
		if o.err != nil {
			failed++
			fmt.Fprintln(os.Stderr, o.err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d lessons failed", failed, len(files))
	}
	fmt.Printf("%d lessons, %d cells in %.1f s\n", len(files), cells, time.Since(start).Seconds())
	return nil
}

// executeLesson runs a notebook's code cells in order, until one fails.
func executeLesson(ctx context.Context, p places, file string, timeout time.Duration, say func(string)) outcome {
	o := outcome{file: file}
	start := time.Now()
	var data []byte
	if data, o.err = os.ReadFile(file); o.err != nil {
		return o
	}
	if o.saved, o.err = parseNotebook(data); o.err == nil {
		o.nb, o.err = parseNotebook(data)
	}
	if o.err != nil {
		o.err = fmt.Errorf("%s: %w", relative(p.root, file), o.err)
		return o
	}
	numbers, total := o.nb.codeNumbers()
	say("starting the kernel")
	o.err = execute(ctx, p, file, data, timeout, func(e event) error {
		took := time.Duration(e.Seconds * float64(time.Second))
		switch e.Event {
		case "kernel":
			o.kernel = took
		case "start":
			say(fmt.Sprintf("cell %d of %d", numbers[e.Cell], total))
		case "end":
			c := o.nb.cells[e.Cell]
			c.setOutputs(e.Outputs, count(e.Count))
			o.ran++
			if took > o.slowest {
				o.slowest, o.slowCell = took, numbers[e.Cell]
			}
			if e.Problem != "" {
				return p.cellError(file, numbers[e.Cell], e)
			}
			if c.tagged("raises-exception") && !hasError(e.Outputs) {
				return fmt.Errorf("%s: cell %d: it is tagged raises-exception, but it ran without an error", relative(p.root, file), numbers[e.Cell])
			}
		case "broken":
			return fmt.Errorf("%s: %s", relative(p.root, file), e.Problem)
		}
		return nil
	})
	o.took = time.Since(start)
	return o
}

// execute starts the executor on a notebook and hands over its reports until it ends.
func execute(ctx context.Context, p places, file string, nb []byte, timeout time.Duration, report func(event) error) error {
	c := exec.CommandContext(ctx, p.python, "-c", executor, filepath.Dir(file), fmt.Sprint(timeout.Seconds()))
	c.Env, c.Stdin = p.environ(), bytes.NewReader(nb)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // the executor stops its kernel
	c.WaitDelay = 10 * time.Second
	var log bytes.Buffer
	c.Stderr = &log
	pipe, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	var bad error
	in := bufio.NewReader(pipe)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var e event
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		if err := dec.Decode(&e); err != nil {
			bad = errors.Join(bad, fmt.Errorf("executor: %w", err))
			continue
		}
		if err := report(e); err != nil && bad == nil {
			bad = err
		}
	}
	err = c.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bad != nil:
		return bad
	case err != nil:
		return fmt.Errorf("%s: %w", relative(p.root, file), failure("python", err, log.String()))
	}
	return nil
}

// codeNumbers gives each code cell its number, 1 for the first, as JupyterLab shows it beside the
// cell after Run All; empty cells are not numbered.
func (nb *notebook) codeNumbers() (numbers map[int]int, total int) {
	numbers = make(map[int]int)
	for i, c := range nb.cells {
		if c.isCode() && !blank(c.source()) {
			total++
			numbers[i] = total
		}
	}
	return numbers, total
}

func count(n json.Number) any {
	if n == "" {
		return nil
	}
	return n
}

func hasError(outs []output) bool {
	for _, o := range outs {
		if o.kind() == "error" {
			return true
		}
	}
	return false
}

func blank(s string) bool { return len(bytes.TrimSpace([]byte(s))) == 0 }

func relative(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
