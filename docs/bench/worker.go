package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A worker is a process with one engine and one model. It prints a line of JSON when it is ready, and one
// for each request it reads. Ours is this program again; the others are the Python scripts beside it.
type worker struct {
	name    string
	threads int
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	start   time.Time
	ready   ready
}

// ready is a worker's first line.
type ready struct {
	Version string  `json:"version"`
	Load    float64 `json:"load_s"` // from the engine's first call to the model being open
}

// request asks for one measurement: Prompt ids from an empty cache, then Gen tokens greedily, one by one.
// Batch > 1 decodes that many sequences at once instead (ours only).
type request struct {
	Prompt []int `json:"prompt"`
	Gen    int   `json:"gen"`
	Batch  int   `json:"batch,omitempty"`
}

// reply is what one took.
type reply struct {
	Prefill float64 `json:"prefill_s"` // the prompt, up to the choice of the first token
	Decode  float64 `json:"decode_s"`  // Gen tokens after that
	IDs     []int   `json:"ids"`       // the tokens chosen
	Peak    int64   `json:"peak_bytes"`
	Allocs  float64 `json:"allocs_per_token"` // ours only
	Error   string  `json:"error"`
}

func startWorker(name string, threads int, env []string, argv ...string) (*worker, error) {
	w := &worker{name: name, threads: threads, cmd: exec.Command(argv[0], argv[1:]...)}
	w.cmd.Env = append(append(os.Environ(), "OPENBLAS_CORETYPE=", "HF_HUB_OFFLINE=1"), env...)
	var tail strings.Builder
	w.cmd.Stderr = &tail
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.in, w.out = in, bufio.NewReaderSize(out, 1<<20)
	w.start = time.Now()
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if err := w.read(&w.ready); err != nil {
		w.stop()
		msg := tail.String()
		return nil, fmt.Errorf("bench: %s did not start: %w\n%s", name, err, msg[max(0, len(msg)-2000):])
	}
	return w, nil
}

// read skips lines that are not JSON: libraries like to talk.
func (w *worker) read(v any) error {
	for {
		line, err := w.out.ReadBytes('\n')
		if err != nil {
			return err
		}
		if len(line) > 0 && line[0] == '{' {
			return json.Unmarshal(line, v)
		}
	}
}

func (w *worker) run(r request) (reply, error) {
	var got reply
	b, err := json.Marshal(r)
	if err != nil {
		return got, err
	}
	if _, err := w.in.Write(append(b, '\n')); err != nil {
		return got, fmt.Errorf("bench: %s: %w", w.name, err)
	}
	if err := w.read(&got); err != nil {
		return got, fmt.Errorf("bench: %s: %w", w.name, err)
	}
	if got.Error != "" {
		return got, fmt.Errorf("bench: %s: %s", w.name, got.Error)
	}
	return got, nil
}

func (w *worker) stop() {
	w.in.Close()
	done := make(chan struct{})
	go func() { w.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		w.cmd.Process.Kill()
		<-done
	}
}
