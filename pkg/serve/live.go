package serve

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"forwardpass/pkg/generate"
)

// ErrClosed is returned by Submit once the loop shuts down.
var ErrClosed = errors.New("serve: shutting down")

// Loop runs a scheduler in a goroutine of its own. Its methods may be called from any goroutine; what they ask for happens
// between two steps.
type Loop struct {
	s *Scheduler

	mu       sync.Mutex
	commands []func()
	closing  bool
	stats    Stats

	wake chan struct{} // there are commands; capacity 1
	done chan struct{} // the goroutine has ended
	live map[*Job]*Stream
}

// Stats are a loop's counts since its start, and what it holds now.
type Stats struct {
	Requests, Finished, Cancelled, Failed int
	Steps, Preempted                      int
	Prompt, Cached, New                   int // tokens
	Busy                                  time.Duration

	Last Step // the latest step
}

// Start makes a scheduler and runs it until Shutdown.
func Start(r Runner, opts Options) (*Loop, error) {
	l := &Loop{wake: make(chan struct{}, 1), done: make(chan struct{}), live: map[*Job]*Stream{}}
	observe := opts.Observe
	opts.Observe = func(st Step) {
		l.mu.Lock()
		l.stats.Steps++
		l.stats.Preempted += st.Preempted
		l.stats.Busy += st.Duration
		l.stats.Last = st
		l.mu.Unlock()
		if observe != nil {
			observe(st)
		}
	}
	var err error
	if l.s, err = New(r, opts); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// run is the goroutine: commands, a step, commands, a step …
func (l *Loop) run() {
	defer close(l.done)
	for {
		l.mu.Lock()
		commands := l.commands
		l.commands = nil
		closing := l.closing
		l.mu.Unlock()
		for _, f := range commands {
			f()
		}
		if l.s.Idle() {
			if len(commands) > 0 {
				continue
			}
			if closing {
				l.s.memory.close()
				return
			}
			<-l.wake
			continue
		}
		if _, err := l.s.Step(context.Background()); err != nil {
			for job := range l.live { // a mistake of the scheduler's own: nobody can go on
				l.s.end(job, err)
			}
		}
	}
}

// do has f called by the loop's goroutine; false: it has ended or accepts nothing new.
func (l *Loop) do(evenClosing bool, f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing && !evenClosing {
		return false
	}
	l.commands = append(l.commands, f)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

// Stats are the counts so far.
func (l *Loop) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Blocks is the number of blocks in use by requests: not those that only the prefix cache keeps.
func (l *Loop) Blocks() int {
	s := l.s.memory.pool.Stats()
	return s.InUse - s.Idle
}

// Stream is the tokens of one request, as they come. Tokens that nobody has read yet wait here, so that a slow reader delays
// nobody; there are never more of them than the request may have.
type Stream struct {
	mu      sync.Mutex
	tokens  []generate.Token
	ended   bool
	err     error
	results []*generate.Result
	record  Record
	wake    chan struct{} // capacity 1
}

// Submit hands a request over. When ctx ends before the request does, it is cancelled and its blocks are free before the next step.
func (l *Loop) Submit(ctx context.Context, r *Request) (*Stream, error) {
	st := &Stream{wake: make(chan struct{}, 1)}
	reply := make(chan error, 1)
	ok := l.do(false, func() {
		if err := ctx.Err(); err != nil {
			reply <- err
			return
		}
		stop := func() bool { return true }
		job, err := l.s.Submit(r, st.add, func(j *Job) {
			stop()
			delete(l.live, j)
			l.count(j)
			st.end(j)
		})
		if err != nil {
			reply <- err
			return
		}
		l.mu.Lock()
		l.stats.Requests++
		l.stats.Prompt += len(r.Prompt)
		l.mu.Unlock()
		if !job.Done() {
			l.live[job] = st
			stop = context.AfterFunc(ctx, func() { l.do(true, func() { l.s.Cancel(job) }) })
		}
		reply <- nil
	})
	if !ok {
		return nil, ErrClosed
	}
	if err := <-reply; err != nil {
		return nil, err
	}
	return st, nil
}

func (l *Loop) count(j *Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case j.Err() != nil:
		l.stats.Failed++
	case j.Record.Cancelled:
		l.stats.Cancelled++
	default:
		l.stats.Finished++
	}
	l.stats.Cached += j.Record.Cached
	l.stats.New += j.Record.New
}

func (st *Stream) add(t generate.Token) {
	st.mu.Lock()
	st.tokens = append(st.tokens, t)
	st.mu.Unlock()
	st.signal()
}

func (st *Stream) end(j *Job) {
	st.mu.Lock()
	st.ended, st.err, st.results, st.record = true, j.Err(), j.Results(), j.Record
	st.mu.Unlock()
	st.signal()
}

func (st *Stream) signal() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// Next waits for the next token. io.EOF says that there are no more.
func (st *Stream) Next(ctx context.Context) (generate.Token, error) {
	for {
		st.mu.Lock()
		if len(st.tokens) > 0 {
			t := st.tokens[0]
			st.tokens = st.tokens[1:]
			st.mu.Unlock()
			return t, nil
		}
		ended, err := st.ended, st.err
		st.mu.Unlock()
		if ended {
			if err == nil {
				err = io.EOF
			}
			return generate.Token{}, err
		}
		select {
		case <-st.wake:
		case <-ctx.Done():
			return generate.Token{}, ctx.Err()
		}
	}
}

// Wait reads all tokens and returns the continuations.
func (st *Stream) Wait(ctx context.Context) ([]*generate.Result, error) {
	for {
		if _, err := st.Next(ctx); errors.Is(err, io.EOF) {
			return st.results, nil
		} else if err != nil {
			return nil, err
		}
	}
}

// Results are the continuations, once Next has said io.EOF.
func (st *Stream) Results() []*generate.Result { return st.results }

// Record is the request's history, once Next has said io.EOF.
func (st *Stream) Record() Record { return st.record }

// Shutdown refuses new requests and waits until those that are there have finished. When ctx ends first, they are cancelled.
func (l *Loop) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.do(true, func() {})
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
	}
	l.do(true, func() {
		for job := range l.live {
			l.s.Cancel(job)
		}
	})
	<-l.done
	return ctx.Err()
}
