package generate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"forwardpass/pkg/internal/pieces"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
)

// Sequence is everything of the loop but the forward pass: the ids so far, which of them the cache still lacks, the choice of
// the next token from logits, and whether that was the last one.
type Sequence struct {
	Cache *kvcache.Cache // nil without one

	opts   Options // completed
	index  int     // Token.Sample
	ids    []int   // prompt and new tokens
	prompt int     // how many are prompt
	start  int     // ids[start:] is what the model sees: more than 0 once the context has moved

	sampler    *sample.Sampler
	constraint *constraintState
	masked     []float32       // scratch: logits with the constraint's mask
	text       *pieces.Decoder // nil without a tokenizer
	stop       stopper
	draft      drafter

	began, last time.Time
	res         Result
	done        bool
}

// NewSequence checks the options for a prompt and makes a sequence that has run nothing yet, with a cache as the options say.
func NewSequence(m *model.Model, ids []int, opts Options) (*Sequence, error) {
	opts, err := opts.complete(m, [][]int{ids})
	if err != nil {
		return nil, err
	}
	return newSequence(m, ids, opts, 0)
}

// newSequence is NewSequence with completed options.
func newSequence(m *model.Model, ids []int, opts Options, index int) (*Sequence, error) {
	s := &Sequence{opts: opts, index: index, ids: slices.Clone(ids), prompt: len(ids), began: time.Now()}
	var err error
	if s.sampler, err = newSampler(opts, len(ids), index); err != nil {
		return nil, err
	}
	if opts.Constraint != nil {
		b, err := opts.Constraint.bind(opts.Tokenizer, m.Config.VocabSize)
		if err != nil {
			return nil, err
		}
		if b.need[0] > s.remaining() {
			return nil, fmt.Errorf("generate: constraint: the shortest text of it needs %d tokens, there may be only %d", b.need[0], s.remaining())
		}
		s.constraint = b.start()
	}
	s.begin()
	if s.Cache, err = opts.newCache(m, len(ids)); err != nil {
		return nil, err
	}
	s.res.Timings.PrefillTokens = len(ids)
	if s.Cache != nil {
		s.res.Timings.PrefillTokens -= s.Cache.Len()
	}
	s.draft, err = newDrafter(opts, index)
	if len(ids) >= opts.MaxContext && opts.Context == ContextStop {
		s.finish(ReasonContext)
	}
	return s, err
}

func newSampler(opts Options, prompt, index int) (*sample.Sampler, error) {
	o := opts.Sampling
	if o.PromptLen == 0 {
		o.PromptLen = prompt
	}
	o.Stream += uint64(index)
	s, err := sample.New(o)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	return s, nil
}

// begin prepares the text side. The last tokens of the prompt are read along, so that the first new one is decoded as a
// continuation.
func (s *Sequence) begin() {
	s.stop = stopper{stops: s.opts.Stop}
	if t := s.opts.Tokenizer; t != nil {
		s.text = pieces.New(t.Decode, s.ids[max(0, s.prompt-4):s.prompt]...)
	}
}

// fork makes another sample of the same prompt before the first new token, sharing the cache's blocks.
func (s *Sequence) fork(index int) (*Sequence, error) {
	f := &Sequence{opts: s.opts, index: index, ids: slices.Clone(s.ids), prompt: s.prompt, start: s.start, began: s.began, done: s.done, res: s.res}
	var err error
	if f.sampler, err = newSampler(s.opts, s.prompt, index); err != nil {
		return nil, err
	}
	if s.constraint != nil {
		f.constraint = s.constraint.b.start()
	}
	f.begin()
	if f.draft, err = newDrafter(s.opts, index); err != nil {
		return nil, err
	}
	if s.Cache != nil {
		f.Cache = s.Cache.Fork()
	}
	return f, nil
}

// IDs are the prompt and the new tokens. The slice must not be changed.
func (s *Sequence) IDs() []int { return s.ids }

// Done says that no more tokens are wanted.
func (s *Sequence) Done() bool { return s.done }

// Pending is what the next forward pass has to run: tokens that the cache does not hold yet, at most Options.Chunk of them, and
// whether they are the last, so that their logits are needed. When the context is full it moves the window first.
func (s *Sequence) Pending() (ids []int, last bool) {
	if n := len(s.ids) - s.start; n > s.opts.MaxContext {
		keep := s.opts.MaxContext
		if s.opts.Context == ContextTruncate {
			keep = max(1, keep/2)
		}
		s.start = len(s.ids) - keep
		if s.Cache != nil {
			s.Cache.Free() // positions have changed: all of it must be run again
		}
	}
	if s.Cache == nil {
		return s.ids[s.start:], true
	}
	todo := s.ids[s.start+s.Cache.Len():]
	if c := s.opts.Chunk; c > 0 && len(todo) > c {
		return todo[:c], false
	}
	return todo, true
}

// remaining is how many more tokens there may be.
func (s *Sequence) remaining() int {
	n := int(^uint(0) >> 1)
	if s.opts.MaxNewTokens > 0 {
		n = s.opts.MaxNewTokens - (len(s.ids) - s.prompt)
	}
	if s.opts.Context == ContextStop {
		n = min(n, s.opts.MaxContext-len(s.ids))
	}
	return n
}

// Push chooses the next token from logits [V] of the last position, appends and streams it. It returns the error of the
// Stream function, or one of the sampler; the caller then ends the sequence by [Sequence.Fail] or [Sequence.Cancel].
func (s *Sequence) Push(logits []float32) error {
	id, err := s.sampler.Next(s.allowed(logits), s.ids)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	return s.commit(id, logits)
}

// allowed is logits with the constraint's mask.
func (s *Sequence) allowed(logits []float32) []float32 {
	if s.constraint == nil {
		return logits
	}
	s.masked = append(s.masked[:0], logits...)
	s.constraint.mask(s.masked, s.remaining(), s.opts.EOS)
	return s.masked
}

// commit appends a chosen token, finds out whether it is the last, and streams it.
func (s *Sequence) commit(id int, logits []float32) error {
	now := time.Now()
	s.ids = append(s.ids, id)
	tok := Token{Sample: s.index, ID: id}
	if n := s.opts.LogProbs; n > 0 {
		var err error
		if tok.LogProb, tok.Top, err = sample.LogProbs(logits, id, n); err != nil {
			return fmt.Errorf("generate: %w", err)
		}
		s.res.LogProbs = append(s.res.LogProbs, tok.LogProb)
	}
	reason, err := s.judge(id)
	if err != nil {
		return err
	}
	if s.opts.Tokenizer != nil {
		piece, stopped := "", ""
		if reason != ReasonEOS { // an EOS token is no text, even where the vocabulary gives it one
			piece = s.text.Next(id)
		}
		if reason != "" {
			piece += s.text.Flush()
		}
		if tok.Text, stopped = s.stop.push(piece); stopped != "" {
			reason, s.res.Stop = ReasonStop, stopped
		}
		if reason != "" && reason != ReasonStop {
			tok.Text += s.stop.flush()
		}
		s.res.Text += tok.Text
	}
	s.clock(now)
	s.res.Tokens = append(s.res.Tokens, tok)
	if reason != "" {
		s.finish(reason)
	}
	if s.opts.Stream != nil {
		if err := s.opts.Stream(tok); err != nil {
			if errors.Is(err, ErrStop) {
				s.Cancel()
			}
			return err // whether it is a failure depends on the caller's context
		}
	}
	return nil
}

// judge says why a token is the last one, "" when it is not.
func (s *Sequence) judge(id int) (Reason, error) {
	if slices.Contains(s.opts.EOS, id) {
		return ReasonEOS, nil
	}
	if s.constraint != nil {
		if err := s.constraint.advance(id); err != nil {
			return "", err
		}
		if s.constraint.ended() || s.constraint.complete() && s.remaining() <= 0 {
			return ReasonStructure, nil
		}
	}
	switch {
	case s.opts.MaxNewTokens > 0 && len(s.ids)-s.prompt >= s.opts.MaxNewTokens:
		return ReasonLength, nil
	case s.opts.Context == ContextStop && len(s.ids) >= s.opts.MaxContext:
		return ReasonContext, nil
	}
	return "", nil
}

func (s *Sequence) clock(now time.Time) {
	t := &s.res.Timings
	if len(s.res.Tokens) == 0 {
		t.TTFT = now.Sub(s.began)
	} else {
		t.ITL = append(t.ITL, now.Sub(s.last))
	}
	s.last = now
}

// finish ends the sequence; text that was held back for a stop string or a half character comes out now.
func (s *Sequence) finish(r Reason) {
	s.done = true
	s.res.Reason = r
	if s.opts.Tokenizer != nil && (r == ReasonCancelled || r == ReasonError) {
		show, _ := s.stop.push(s.text.Flush())
		s.res.Text += show + s.stop.flush()
	}
}

// Cancel ends the sequence from outside.
func (s *Sequence) Cancel() {
	if !s.done {
		s.finish(ReasonCancelled)
	}
}

// Fail ends the sequence because of an error, which is the caller's to report.
func (s *Sequence) Fail() {
	if !s.done {
		s.finish(ReasonError)
	}
}

// abort ends the sequence because of an error, or without one from outside.
func (s *Sequence) abort(err error) {
	if err != nil {
		s.Fail()
	} else {
		s.Cancel()
	}
}

// Result sums up. It can be called at any time.
func (s *Sequence) Result() *Result {
	r := s.res
	r.IDs = slices.Clone(s.ids[s.prompt:])
	t := &r.Timings
	if len(r.Tokens) > 0 {
		t.Total = s.last.Sub(s.began)
		if t.TTFT > 0 {
			t.PrefillRate = float64(t.PrefillTokens) / t.TTFT.Seconds()
		}
	}
	if n := len(r.Tokens) - 1; n > 0 {
		t.TPOT = (t.Total - t.TTFT) / time.Duration(n)
		if t.Total > t.TTFT {
			t.DecodeRate = float64(n) / (t.Total - t.TTFT).Seconds()
		}
	}
	return &r
}

// Free gives the cache's blocks back, the draft's too.
func (s *Sequence) Free() {
	if s.Cache != nil {
		s.Cache.Free()
	}
	if s.draft != nil {
		s.draft.free()
	}
}
