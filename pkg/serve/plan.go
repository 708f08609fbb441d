package serve

import (
	"context"
	"errors"
	"slices"

	"forwardpass/pkg/kvcache"
)

// makePlan decides what the next step runs.
func (s *Scheduler) makePlan(ctx context.Context) error {
	s.plan = s.plan[:0]
	switch s.opts.Policy {
	case Static:
		return s.planStatic(ctx)
	case PrefillFirst:
		return s.planPrefillFirst(ctx)
	}
	return s.planMixed(ctx)
}

// planMixed: every decoding sequence runs one token; what is left of the budget goes to prompts, those that have begun first.
func (s *Scheduler) planMixed(ctx context.Context) error {
	budget := s.opts.TokenBudget
	order := sorted(s.running)
	slices.SortStableFunc(order, func(a, b *sequence) int { return min(a.pending(), 2) - min(b.pending(), 2) })
	for _, q := range order {
		if q.running && budget > 0 {
			if err := s.add(ctx, q, &budget); err != nil {
				return err
			}
		}
	}
	return s.admit(ctx, &budget)
}

// planPrefillFirst: a step either runs new prompts, whole, or decodes.
func (s *Scheduler) planPrefillFirst(ctx context.Context) error {
	s.decodes++
	wait := float64(len(s.waiting)) < s.opts.WaitRatio*float64(len(s.running)) && (s.opts.MaxWait == 0 || s.decodes <= s.opts.MaxWait)
	if len(s.running) == 0 || !wait {
		budget := s.opts.TokenBudget
		if err := s.admit(ctx, &budget); err != nil {
			return err
		}
		if len(s.plan) > 0 {
			s.decodes = 0
			return nil
		}
	}
	return s.addAll(ctx)
}

// planStatic: a batch is filled when there is none, and then runs until all of it is done. Sequences that are done before go on
// as padding, as the rows of a fixed batch tensor do.
func (s *Scheduler) planStatic(ctx context.Context) error {
	if len(s.running) == 0 {
		budget := int(^uint(0) >> 1)
		return s.admit(ctx, &budget)
	}
	for _, q := range s.running {
		if !q.running {
			ids := q.IDs()
			s.plan = append(s.plan, item{draft: ids[len(ids)-1:]})
			s.step.Padding++
		}
	}
	return s.addAll(ctx)
}

// addAll plans all running sequences, each with all it lacks.
func (s *Scheduler) addAll(ctx context.Context) error {
	for _, q := range sorted(s.running) {
		if q.running {
			all := q.limit
			if err := s.add(ctx, q, &all); err != nil {
				return err
			}
		}
	}
	// Static: who was preempted from this batch comes back to it.
	if s.opts.Policy == Static && len(s.waiting) > 0 && s.waiting[0].out && s.step.Preempted == 0 {
		if ok, err := s.start(s.waiting[0]); err != nil || !ok {
			return err
		}
		q := s.running[len(s.running)-1]
		all := q.limit
		return s.add(ctx, q, &all)
	}
	return nil
}

// add plans a running sequence with as many tokens as it lacks and the budget allows. When there is no room for them, others
// that are less important are preempted, in the last resort the sequence itself.
func (s *Scheduler) add(ctx context.Context, q *sequence, budget *int) error {
	it := item{s: q, n: min(q.pending(), *budget)}
	it.last = it.n == q.pending()
	c := q.memory.cache
	if q.decoding() && s.opts.Draft != nil {
		var err error
		if it.draft, err = propose(ctx, q, min(*budget-1, q.limit-1-len(q.IDs()))); err != nil {
			return err
		}
		if s.run.changes(c.Len(), c.Len()+it.n+len(it.draft)) {
			it.draft = nil // the proposals would change how the tokens before them look
		}
	}
	if s.run.changes(c.Len(), c.Len()+it.n) {
		it.n += c.Len() // all of it again, whatever the budget
		c.Free()
	}
	for {
		err := s.memory.grow(q, it.n+len(it.draft))
		if err == nil {
			break
		}
		if !errors.Is(err, kvcache.ErrNoBlocks) {
			return err
		}
		if len(it.draft) > 0 { // proposals are the first thing to go
			it.draft = nil
			continue
		}
		victim := s.worst()
		if victim == q && s.alone(q) {
			// All blocks are its own, but one of them is also the prefix cache's and would have to be copied.
			if s.memory.prefix != nil {
				s.memory.prefix.clear()
			}
			if err := s.memory.grow(q, it.n); err != nil {
				return err
			}
			break
		}
		if i := slices.IndexFunc(s.plan, func(x item) bool { return x.s == victim }); i >= 0 {
			*budget += s.plan[i].n + len(s.plan[i].draft)
			s.count(s.plan[i], -1)
			s.plan = slices.Delete(s.plan, i, i+1)
		}
		if err := s.preempt(victim); err != nil {
			return err
		}
		if victim == q {
			return nil
		}
	}
	*budget -= it.n + len(it.draft)
	s.count(it, 1)
	s.plan = append(s.plan, it)
	return nil
}

// count adds an item to the step's numbers, or takes it off.
func (s *Scheduler) count(it item, sign int) {
	if it.s.decoding() {
		s.step.Decode += sign * it.n
	} else {
		s.step.Prefill += sign * it.n
	}
	s.step.Proposed += sign * len(it.draft)
}

// admit lets waiting sequences begin, in the order of the policy, as long as there are places, tokens and blocks. It stops at the
// first that doesn't fit, so that a long request isn't overtaken for ever.
func (s *Scheduler) admit(ctx context.Context, budget *int) error {
	for *budget > 0 && len(s.waiting) > 0 && s.step.Preempted == 0 {
		q := s.next()
		need := 1 + len(q.waits)
		if len(s.running)+need > s.opts.MaxBatch {
			if ok, err := s.makeWay(q); err != nil || !ok {
				return err
			}
			return nil // the next step admits it
		}
		if s.opts.Policy == PrefillFirst && len(s.plan) > 0 && len(q.IDs()) > *budget {
			return nil
		}
		ok, err := s.start(q)
		if err != nil {
			return err
		}
		if !ok {
			_, err := s.makeWay(q)
			return err
		}
		left := *budget
		if s.opts.Policy == PrefillFirst {
			left = max(left, q.pending()) // whole
		}
		before := left
		if err := s.add(ctx, q, &left); err != nil {
			return err
		}
		*budget -= before - left
	}
	return nil
}

// start moves a waiting sequence to the running ones, if there is room for it.
func (s *Scheduler) start(q *sequence) (bool, error) {
	swapped := 0
	if q.memory.swapped != nil {
		swapped = q.memory.swapped.Blocks()
	}
	ok, err := s.memory.admit(q, !slices.ContainsFunc(s.running, func(x *sequence) bool { return x.running }))
	if err != nil || !ok {
		return false, err
	}
	if swapped > 0 {
		s.step.Swapped += swapped
		s.run.moved(swapped)
	}
	rec := &q.job.Record
	if !rec.scheduled {
		rec.scheduled, rec.Scheduled = true, s.step.Start
	}
	if n := len(rec.Away); q.out && n > 0 {
		rec.Away[n-1].To = s.step.Start
	}
	rec.Cached += q.cached
	s.step.Cached += q.cached
	s.step.Admitted++
	q.cached, q.out, q.running = 0, false, true
	s.waiting = without(s.waiting, q)
	s.running = append(s.running, q)
	return true, nil
}

// orderFrom is how many waiting requests are looked at to find the next: finding prefixes takes time, too.
const orderFrom = 128

// next is the waiting sequence whose turn it is.
func (s *Scheduler) next() *sequence {
	best := s.waiting[0]
	if best.out || s.opts.Order == FirstCome {
		return best
	}
	value := func(q *sequence) int {
		n := 0
		if s.memory.prefix != nil {
			n, _ = s.memory.prefix.match(q.IDs())
		}
		if s.opts.Order == LongestPrefix {
			return n
		}
		return n - len(q.IDs())
	}
	most := value(best)
	for _, q := range s.waiting[1:min(len(s.waiting), orderFrom)] {
		if q.job.Request.Priority < best.job.Request.Priority {
			break
		}
		if v := value(q); v > most {
			best, most = q, v
		}
	}
	return best
}

// worst is the running sequence that is preempted first: the lowest priority, then the latest.
func (s *Scheduler) worst() *sequence {
	var w *sequence
	for _, q := range s.running {
		if q.running && (w == nil || w.before(q)) {
			w = q
		}
	}
	return w
}

// alone says that no other sequence has blocks.
func (s *Scheduler) alone(q *sequence) bool {
	return !slices.ContainsFunc(s.running, func(x *sequence) bool { return x.running && x != q })
}

// makeWay preempts a running sequence for a waiting one of higher priority.
func (s *Scheduler) makeWay(q *sequence) (bool, error) {
	w := s.worst()
	if w == nil || s.opts.Policy == Static || w.job.Request.Priority >= q.job.Request.Priority {
		return false, nil
	}
	if i := slices.IndexFunc(s.plan, func(x item) bool { return x.s == w }); i >= 0 {
		s.count(s.plan[i], -1)
		s.plan = slices.Delete(s.plan, i, i+1)
	}
	return true, s.preempt(w)
}

// preempt takes a sequence out of the running ones; it waits to go on.
func (s *Scheduler) preempt(q *sequence) error {
	swapped, err := s.memory.preempt(q)
	if err != nil {
		return err
	}
	if swapped > 0 {
		s.step.Swapped += swapped
		s.run.moved(swapped)
	}
	s.step.Preempted++
	rec := &q.job.Record
	rec.Preemptions++
	rec.Away = append(rec.Away, Span{From: s.step.Start, To: s.step.Start})
	q.running, q.out = false, true
	s.running = without(s.running, q)
	s.wait(q)
	return nil
}
