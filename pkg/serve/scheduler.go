package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
)

// ErrFull is returned, wrapped, by Submit when too many requests wait.
var ErrFull = errors.New("too many requests are waiting")

// Scheduler runs requests step by step. It belongs to one goroutine; [Start] puts channels around one.
type Scheduler struct {
	opts   Options
	run    Runner
	memory *memory

	waiting []*sequence // as before() has them, preempted ones first
	running []*sequence // in the order of admission
	jobs    int         // submitted so far
	now     func() time.Duration

	batch   model.Batch
	plan    []item
	step    Step
	decodes int // steps since the last prefill (PrefillFirst)
}

// item is one sequence's part of a step.
type item struct {
	s     *sequence // nil: padding
	n     int       // tokens to run, proposals not counted
	draft []int
	last  bool // logits are wanted
}

// New makes a scheduler.
func New(r Runner, opts Options) (*Scheduler, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if d := opts.Draft; d != nil {
		if err := d.Validate(r.context()); err != nil {
			return nil, fmt.Errorf("serve: %w", err)
		}
	}
	if opts.Prefix != NoPrefix && r.changes(1, r.context()) {
		return nil, errUnstable(opts.Prefix)
	}
	m, err := newMemory(opts, r.context(), r.newPool)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	return &Scheduler{opts: opts, run: r, memory: m, now: func() time.Duration { return time.Since(start) }}, nil
}

// Options are the scheduler's options with the defaults filled in.
func (s *Scheduler) Options() Options { return s.opts }

// Idle says that there is nothing to do.
func (s *Scheduler) Idle() bool { return len(s.waiting) == 0 && len(s.running) == 0 }

// Pool is the blocks of paged memory.
func (s *Scheduler) Pool() *kvcache.Pool { return s.memory.pool }

// Submit checks a request and puts it in the queue. onToken is called with each new token (Token.Sample says of which
// continuation), onDone when the last continuation has ended or failed (Job.Err). Both may be nil; they must not call the scheduler.
func (s *Scheduler) Submit(r *Request, onToken func(generate.Token), onDone func(*Job)) (*Job, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if s.opts.MaxWaiting > 0 && len(s.waiting) >= s.opts.MaxWaiting {
		return nil, fmt.Errorf("serve: %w: %d", ErrFull, len(s.waiting))
	}
	n := max(1, r.Samples)
	if n > s.opts.MaxBatch {
		return nil, fmt.Errorf("serve: request: %d samples are more than the largest batch of %d", n, s.opts.MaxBatch)
	}
	job := &Job{ID: s.jobs, Request: r, onToken: onToken, onDone: onDone}
	job.Record = Record{ID: job.ID, Arrival: s.now(), Prompt: len(r.Prompt)}
	limit := s.run.context()
	if m := r.Options.MaxContext; m > 0 {
		limit = min(limit, m)
	}
	if m := r.Options.MaxNewTokens; m > 0 {
		limit = min(limit, len(r.Prompt)+min(m, limit))
	}
	for i := range n {
		q := &sequence{job: job, index: i, limit: limit}
		own := r.Options
		own.Sampling.Stream += uint64(i)
		own.Draft = s.opts.Draft
		own.Stream = func(t generate.Token) error {
			t.Sample = i
			q.fresh = append(q.fresh, t)
			if r.Options.Stream != nil {
				return r.Options.Stream(t)
			}
			return nil
		}
		g, err := s.run.newGenerator(r.Prompt, own, s.memory.pool)
		if err != nil {
			return nil, err
		}
		if q.generator = g; r.probe != nil {
			q.generator = &probed{generator: g, see: r.probe}
		}
		job.seqs = append(job.seqs, q)
	}
	if !s.memory.fits(limit) {
		return nil, fmt.Errorf("serve: request: prompt and new tokens may take %d blocks, there are %d", s.memory.blocks(limit), s.opts.Blocks)
	}
	s.jobs++
	for _, q := range job.seqs {
		if q.Done() { // the prompt fills the context
			continue
		}
		job.left++
		if q.index > 0 && s.opts.Memory == Paged {
			job.seqs[0].waits = append(job.seqs[0].waits, q)
			continue
		}
		s.wait(q)
	}
	if job.left == 0 {
		job.finish(s.now(), nil)
	}
	return job, nil
}

// Cancel ends a request; its blocks are free at once.
func (s *Scheduler) Cancel(j *Job) {
	if j.Done() {
		return
	}
	j.cancelled = true
	s.end(j, nil)
}

// end stops all of a job's sequences from outside.
func (s *Scheduler) end(j *Job, err error) {
	for _, q := range j.seqs {
		switch {
		case q.Done():
		case err != nil:
			q.Fail()
		default:
			q.Cancel()
		}
		s.forget(q)
		q.waits = nil
	}
	j.left = 0
	j.finish(s.now(), err)
}

// forget takes a sequence out of all lists and gives its room back.
func (s *Scheduler) forget(q *sequence) {
	s.memory.release(q)
	q.Free()
	q.running, q.fresh = false, nil
	s.waiting = without(s.waiting, q)
	s.running = without(s.running, q)
}

// without takes a sequence out of a list; cheaply where it is the first of a long queue.
func without(list []*sequence, q *sequence) []*sequence {
	switch i := slices.Index(list, q); i {
	case -1:
		return list
	case 0:
		list[0] = nil
		return list[1:]
	default:
		return slices.Delete(list, i, i+1)
	}
}

// wait puts a sequence in the queue.
func (s *Scheduler) wait(q *sequence) {
	at, _ := slices.BinarySearchFunc(s.waiting, q, func(a, b *sequence) int {
		if a.ahead(b) {
			return -1
		}
		return 1
	})
	s.waiting = slices.Insert(s.waiting, at, q)
}

// ahead is the order of the queue: of the same priority, those that were preempted come first.
func (s *sequence) ahead(t *sequence) bool {
	if s.job.Request.Priority == t.job.Request.Priority && s.out != t.out {
		return s.out
	}
	return s.before(t)
}

// Step plans and runs one step. It reports whether there was anything to do. An error of the context leaves everything as it
// was; any other error of the forward pass ends the requests that took part, and is theirs.
func (s *Scheduler) Step(ctx context.Context) (bool, error) {
	if s.Idle() {
		return false, nil
	}
	s.run.begin()
	s.step = Step{Start: s.now()}
	if err := s.makePlan(ctx); err != nil {
		return false, err
	}
	if len(s.plan) == 0 {
		if s.step.Preempted > 0 {
			s.finishStep()
			return true, nil
		}
		return false, fmt.Errorf("serve: nothing can run: %d sequences wait, %d have room", len(s.waiting), len(s.running))
	}
	s.fill()
	s.step.Running, s.step.Counts = len(s.running), countsOf(&s.batch)
	err := s.run.forward(ctx, &s.batch)
	switch {
	case err == nil:
		s.step.Tokens, s.step.Slots = s.memory.usage(s.running)
		err = s.choose()
	case ctx.Err() != nil:
		s.unreserve()
		return false, err
	default:
		s.unreserve()
		s.fail(err)
		err = nil
	}
	s.finishStep()
	return true, err
}

// unreserve takes back the room of a step that was not run.
func (s *Scheduler) unreserve() {
	for _, it := range s.plan {
		if it.s != nil && it.s.memory.cache != nil {
			it.s.memory.cache.Unreserve()
		}
	}
}

// fail ends all requests of the step with an error.
func (s *Scheduler) fail(err error) {
	for _, it := range s.plan {
		if it.s != nil && !it.s.job.Done() {
			s.end(it.s.job, err)
		}
	}
}

// fill makes the batch of the plan.
func (s *Scheduler) fill() {
	b := &s.batch
	b.Seqs = b.Seqs[:0]
	for _, it := range s.plan {
		if it.s == nil {
			b.Seqs = append(b.Seqs, model.Sequence{IDs: it.draft, Logits: model.Last})
			continue
		}
		q := model.Sequence{Cache: it.s.memory.cache, Logits: model.None}
		ids := it.s.IDs()
		from := q.Cache.Len()
		q.IDs = ids[from : from+it.n]
		if len(it.draft) > 0 {
			q.IDs = slices.Concat(q.IDs, it.draft)
			q.Logits = model.All
		} else if it.last {
			q.Logits = model.Last
		}
		b.Seqs = append(b.Seqs, q)
	}
}

// choose gives each sequence the logits of its rows, and ends those that are done.
func (s *Scheduler) choose() error {
	row := 0
	logits := func(i int) []float32 {
		if s.batch.Logits == nil {
			return nil
		}
		return s.batch.Logits.Row(row + i)
	}
	for _, it := range s.plan {
		q := it.s
		if q == nil {
			row++
			continue
		}
		if it.last && !q.Done() {
			// The proposals are taken as long as each is the token that the sequence itself chooses at that place. So the tokens
			// are those it would have had without a draft, random draws included.
			q.job.Record.Proposed += len(it.draft)
			err := q.push(logits(0))
			for i := 0; err == nil && i < len(it.draft) && !q.Done(); i++ {
				if ids := q.IDs(); ids[len(ids)-1] != it.draft[i] {
					break
				}
				s.step.Accepted++
				q.job.Record.Accepted++
				err = q.push(logits(i + 1))
			}
			if c := q.memory.cache; err == nil && len(it.draft) > 0 && c.Len() >= len(q.IDs()) {
				err = c.Truncate(len(q.IDs()) - 1)
			}
			if err == nil {
				err = s.begin(q, logits(0))
			}
			if errors.Is(err, generate.ErrStop) { // the request's own Stream function has had enough
				q.job.cancelled = true
				s.end(q.job, nil)
			} else if err != nil {
				s.end(q.job, err)
			}
		}
		if it.last {
			row += 1 + len(it.draft)
		}
	}
	now := s.now()
	for _, it := range s.plan {
		if it.s != nil {
			for _, q := range it.s.job.seqs {
				if err := s.settle(q, now); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// begin starts the further samples of a sequence whose prompt has just been computed: each gets the same logits, shares the
// blocks, and chooses for itself.
func (s *Scheduler) begin(q *sequence, logits []float32) error {
	for _, w := range q.waits {
		c := q.memory.cache
		if c.Len() > len(q.job.Request.Prompt) {
			return fmt.Errorf("serve: the prompt's logits are gone")
		}
		w.memory = place{cache: c.Fork()}
		w.running = true
		s.running = append(s.running, w)
		if err := w.push(logits); err != nil {
			return err
		}
	}
	q.waits = nil
	return nil
}

// settle hands out a sequence's new tokens, and ends it if it is done.
func (s *Scheduler) settle(q *sequence, now time.Duration) error {
	job := q.job
	rec := &job.Record
	for _, t := range q.fresh {
		if rec.New == 0 {
			rec.First = now
		}
		rec.New++
		rec.last(q.index, now)
		s.step.Chosen++
		if job.onToken != nil {
			job.onToken(t)
		}
	}
	q.fresh = q.fresh[:0]
	if !q.running {
		return nil
	}
	if !q.Done() {
		return s.memory.keep(q, len(job.Request.Prompt)) // for requests that come while this one still runs
	}
	if err := s.memory.keep(q, q.limit); err != nil {
		return err
	}
	s.memory.release(q)
	q.Free()
	q.running = false
	s.step.Finished++
	if s.opts.Policy != Static { // a static batch keeps its place
		s.running = without(s.running, q)
	}
	if job.left--; job.left == 0 {
		job.finish(now, nil)
	}
	return nil
}

// finish closes a job.
func (j *Job) finish(now time.Duration, err error) {
	j.err = err
	j.Record.Finish = now
	j.Record.Cancelled = j.cancelled
	if j.onDone != nil {
		j.onDone(j)
	}
}

// finishStep completes the step's record and shows it.
func (s *Scheduler) finishStep() {
	st := &s.step
	if s.opts.Policy == Static && !slices.ContainsFunc(s.running, func(q *sequence) bool { return q.running }) {
		s.running = s.running[:0] // the whole batch is done
	}
	st.Duration = s.now() - st.Start
	st.Waiting = len(s.waiting)
	if s.opts.Memory == Contiguous {
		st.Free, st.Hole = s.memory.arena.free()
	} else {
		p := s.memory.pool.Stats()
		st.Blocks, st.Idle = p.InUse, p.Idle
	}
	if s.opts.Observe != nil {
		s.opts.Observe(*st)
	}
}

// proposer is a generator with a draft.
type proposer interface {
	Propose(ctx context.Context, k int) ([]int, error)
}

// propose asks a sequence's draft for at most k tokens.
func propose(ctx context.Context, q *sequence, k int) ([]int, error) {
	p, ok := q.generator.(proposer)
	if !ok || k < 1 {
		return nil, nil
	}
	return p.Propose(ctx, k)
}
