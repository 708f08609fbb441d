package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// progress shows steps that run at the same time. On a terminal each has a line that is redrawn;
// elsewhere (CI, a file) a line is printed when a step starts to take long and when it ends.
type progress struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	steps    []*step
	drawn    int // lines on the screen that the next drawing overwrites
	done     chan struct{}
	stopped  sync.WaitGroup
}

// step is one line of progress.
type step struct {
	name    string
	detail  string
	started time.Time
	took    time.Duration
	ended   bool
	failed  bool
	told    time.Time // when a line about it was last printed, off a terminal
}

const (
	redraw    = 200 * time.Millisecond
	heartbeat = 15 * time.Second
	patience  = time.Second // a step that takes less is not worth a line
)

func newProgress(out *os.File) *progress {
	info, err := out.Stat()
	pr := &progress{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb", done: make(chan struct{})}
	pr.stopped.Go(pr.loop)
	return pr
}

func (pr *progress) loop() {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-pr.done:
			return
		case <-tick.C:
			pr.mu.Lock()
			pr.draw(false)
			pr.mu.Unlock()
		}
	}
}

// start adds a step; end must be called for it.
func (pr *progress) start(name string) *step {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	now := time.Now()
	s := &step{name: name, started: now, told: now}
	pr.steps = append(pr.steps, s)
	return s
}

// say replaces what is shown beside a step.
func (pr *progress) say(s *step, format string, args ...any) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	s.detail = oneLine(fmt.Sprintf(format, args...))
}

func (pr *progress) end(s *step, err error) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	s.ended, s.failed, s.took = true, err != nil, time.Since(s.started)
	if !pr.terminal && (s.took >= patience || err != nil) {
		fmt.Fprintln(pr.out, s.line(0))
	}
}

// close ends the display, leaving the last state of every step that took long on the screen.
func (pr *progress) close() {
	close(pr.done)
	pr.stopped.Wait()
	pr.mu.Lock()
	defer pr.mu.Unlock()
	pr.draw(true)
}

func (pr *progress) draw(last bool) {
	now := time.Now()
	if !pr.terminal {
		for _, s := range pr.steps {
			if !s.ended && now.Sub(s.told) >= heartbeat {
				s.told = now
				fmt.Fprintln(pr.out, s.line(now.Sub(s.started)))
			}
		}
		return
	}
	var b strings.Builder
	if pr.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", pr.drawn)
	}
	n := 0
	for _, s := range pr.steps {
		if spent := now.Sub(s.started); s.ended && s.took < patience && !s.failed || !s.ended && spent < patience {
			continue
		}
		fmt.Fprintf(&b, "\x1b[2K%s\n", s.line(now.Sub(s.started)))
		n++
	}
	b.WriteString("\x1b[J")
	pr.drawn = n
	if last {
		pr.drawn = 0
	}
	io.WriteString(pr.out, b.String())
}

// line is a step as shown: a mark, its name, the seconds, and what it is doing.
func (s *step) line(spent time.Duration) string {
	mark := "…"
	switch {
	case s.failed:
		mark = "✗"
	case s.ended:
		mark = "✓"
	}
	if s.ended {
		spent = s.took
	}
	return strings.TrimRight(fmt.Sprintf("%s %-12s %6.1f s  %s", mark, s.name, spent.Seconds(), s.detail), " ")
}

// oneLine is the last line of text, short enough not to wrap on a narrow terminal.
func oneLine(text string) string {
	text = strings.TrimSpace(text)
	if i := strings.LastIndexAny(text, "\r\n"); i >= 0 {
		text = text[i+1:]
	}
	const width = 52
	if utf8.RuneCountInString(text) > width {
		text = string([]rune(text)[:width-1]) + "…"
	}
	return text
}
