// Package serve answers many requests at once with one model, as serving engines do (chapter notes: generation in production).
//
//	requests → waiting → running → one forward pass over a ragged batch a step → tokens
//
// A [Scheduler] decides before each step which sequences take part and with how many tokens: a piece of a prompt (prefill), one
// token (decode), or one token and a draft's proposals. Continuous batching (Orca, Yu et al. 2022) lets requests join and leave
// between steps; [Static] batching, the baseline, waits for the longest. Keys and values live in blocks (PagedAttention,
// arXiv:2309.06180); when they run out, a running sequence is preempted, by recomputing or by swapping. A prefix cache
// ([RadixTree] as in SGLang, arXiv:2312.07104; [HashedBlocks] as in vLLM) keeps what finished requests have computed.
//
// Whatever the policy, the tokens of a request are those it gets alone: tests hold every policy to that.
//
// [Replay] runs a trace of requests; with a [Cost] in place of the model it is a simulation by the same scheduler. [Start] runs
// a scheduler for live requests, and [ListenAndServe] answers the OpenAI protocol with it. Letters: B batch, T new tokens.
package serve

import (
	"fmt"
	"slices"
	"time"

	"forwardpass/pkg/generate"
)

// Policy says when requests join the running batch.
type Policy uint8

const (
	Mixed        Policy = iota // at every step; prompts are cut into chunks that share steps with decoding (Sarathi, vLLM)
	PrefillFirst               // at every step; new prompts run whole in a step of their own while decoding waits (TGI, Orca)
	Static                     // when the whole batch before is done
)

func (p Policy) String() string { return [...]string{"mixed", "prefill first", "static"}[p] }

// Preemption says what happens to a running sequence when there are no blocks left for a more important one.
type Preemption uint8

const (
	Recompute Preemption = iota // its blocks are freed; later it runs all its tokens again
	Swap                        // its blocks are copied out and brought back later
)

func (p Preemption) String() string { return [...]string{"recompute", "swap"}[p] }

// Memory says how room for keys and values is given to sequences.
type Memory uint8

const (
	Paged      Memory = iota // block by block, as tokens come
	Contiguous               // in one piece, for the longest that the sequence may become, when it is admitted
)

func (m Memory) String() string { return [...]string{"paged", "contiguous"}[m] }

// Prefix says how computed prefixes are kept for later requests.
type Prefix uint8

const (
	NoPrefix     Prefix = iota
	RadixTree           // a tree of token sequences; any common prefix is shared
	HashedBlocks        // a table of full blocks by the hash of all tokens up to their end
)

func (p Prefix) String() string { return [...]string{"none", "radix tree", "hashed blocks"}[p] }

// Order says which waiting request is next. Higher priority always goes before lower.
type Order uint8

const (
	FirstCome     Order = iota
	LongestPrefix       // the one with the longest cached prefix (SGLang's cache-aware scheduling); first come among equals
	ShortestFirst       // the one with the fewest prompt tokens to run
)

func (o Order) String() string {
	return [...]string{"first come", "longest prefix", "shortest first"}[o]
}

// Options of a scheduler. The zero value is continuous batching with chunked prefill over paged memory without limit.
type Options struct {
	Policy      Policy
	MaxBatch    int // sequences that run at once; 0: 64
	TokenBudget int // new tokens a step, prefill and decode together; 0: 512
	MaxWaiting  int // requests that may wait; 0: no limit

	// PrefillFirst only: new prompts wait until there are WaitRatio times as many as running sequences, but no more than
	// MaxWait steps (TGI's waiting_served_ratio and max_waiting_tokens). 0: they never wait for others.
	WaitRatio float64
	MaxWait   int

	Memory     Memory
	BlockSize  int     // tokens a block; 0: 16
	Blocks     int     // blocks there are; 0: no limit
	Watermark  float64 // part of the blocks that must stay free when a request is admitted; 0: 0.01, negative: none
	Preemption Preemption
	SwapBlocks int // blocks that may be swapped out at once; 0: no limit

	Prefix Prefix
	Order  Order

	Draft *generate.Draft // speculative decoding of every sequence that decodes

	// Observe is called after each step.
	Observe func(Step)
}

// complete fills in the defaults and checks the rest.
func (o Options) complete() (Options, error) {
	for _, n := range []struct {
		name string
		v    int
	}{
		{"MaxBatch", o.MaxBatch}, {"TokenBudget", o.TokenBudget}, {"MaxWaiting", o.MaxWaiting}, {"MaxWait", o.MaxWait},
		{"BlockSize", o.BlockSize}, {"Blocks", o.Blocks}, {"SwapBlocks", o.SwapBlocks},
	} {
		if n.v < 0 {
			return o, fmt.Errorf("serve: %s must not be negative, got %d", n.name, n.v)
		}
	}
	if o.Policy > Static || o.Preemption > Swap || o.Memory > Contiguous || o.Prefix > HashedBlocks || o.Order > ShortestFirst {
		return o, fmt.Errorf("serve: unknown policy %d, preemption %d, memory %d, prefix cache %d or order %d", o.Policy, o.Preemption, o.Memory, o.Prefix, o.Order)
	}
	if !(o.WaitRatio >= 0) {
		return o, fmt.Errorf("serve: WaitRatio must not be negative, got %v", o.WaitRatio)
	}
	if !(o.Watermark < 1) {
		return o, fmt.Errorf("serve: Watermark is a part of the blocks and must be below 1, got %v", o.Watermark)
	}
	for _, d := range []struct {
		v   *int
		def int
	}{{&o.MaxBatch, 64}, {&o.TokenBudget, 512}, {&o.BlockSize, 16}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.Watermark == 0 {
		o.Watermark = 0.01
	}
	o.Watermark = max(0, o.Watermark)
	if o.Memory == Contiguous && o.Prefix != NoPrefix {
		return o, fmt.Errorf("serve: a prefix cache shares blocks: it needs paged memory")
	}
	if o.Memory == Contiguous && o.Blocks == 0 {
		return o, fmt.Errorf("serve: contiguous memory needs a size: set Blocks")
	}
	if o.Policy != PrefillFirst && (o.WaitRatio != 0 || o.MaxWait != 0) {
		return o, fmt.Errorf("serve: WaitRatio and MaxWait belong to the policy %q, not to %q", PrefillFirst, o.Policy)
	}
	return o, nil
}

// Request is what a client asks for.
type Request struct {
	Prompt   []int
	Options  generate.Options // its Context, Chunk, Cache and Draft are the scheduler's matter and must be zero
	Samples  int              // continuations of the prompt, sharing its blocks; 0: 1
	Priority int              // higher goes first, and may preempt lower

	// For Replay: when it comes, and after how many new tokens its answer ends of itself, although Options allow more (0: it doesn't).
	Arrival time.Duration
	Length  int

	// probe, where it is set, gets the logits after the prompt, and the request ends: a step of a search that decides for itself.
	probe func(logits []float32)

	// Then makes the request that follows when this one is done, for Replay: a user who reads the answer and writes the next
	// message. nil, or a nil request: none.
	Then func(results []*generate.Result) *Request
}

func (r *Request) check() error {
	o := r.Options
	if o.Context != generate.ContextStop || o.Chunk != 0 || o.Draft != nil || o.Cache.Pool != nil || o.Cache.Prefix != nil || o.Cache.Off || o.Cache.Keep || o.Cache.Contiguous {
		return fmt.Errorf("serve: request: Context, Chunk, Cache and Draft are the scheduler's matter")
	}
	if r.Samples < 0 {
		return fmt.Errorf("serve: request: Samples must not be negative, got %d", r.Samples)
	}
	if r.Arrival < 0 || r.Length < 0 {
		return fmt.Errorf("serve: request: Arrival and Length must not be negative, got %v and %d", r.Arrival, r.Length)
	}
	return nil
}

// generator is one sequence's own side: which tokens it has and which comes next. *generate.Sequence is one; a simulation has
// another, which knows only how many there will be.
type generator interface {
	IDs() []int
	Done() bool
	Push(logits []float32) error
	Cancel()
	Fail()
	Result() *generate.Result
	Free()
}

// sequence is one generator with its place in memory and in the schedule.
type sequence struct {
	generator
	job   *Job
	index int // of the job's samples
	limit int // the most tokens that it may have in the cache

	memory  place
	fresh   []generate.Token // chosen in this step
	waits   []*sequence      // further samples, which begin when the prompt is computed
	cached  int              // tokens that the prefix cache gave it at its last admission
	kept    int              // tokens that it has given to the prefix cache
	out     bool             // it has been preempted and waits
	running bool
}

// Job is a request that has been submitted.
type Job struct {
	ID      int
	Request *Request
	Record  Record

	seqs      []*sequence
	left      int // sequences that are not done
	cancelled bool
	onToken   func(generate.Token)
	onDone    func(*Job)
	err       error
}

// Results are the continuations so far, one for each sample.
func (j *Job) Results() []*generate.Result {
	out := make([]*generate.Result, len(j.seqs))
	for i, s := range j.seqs {
		out[i] = s.Result()
	}
	return out
}

// Done says that nothing more will come.
func (j *Job) Done() bool { return j.left == 0 }

// Err is what went wrong, if anything did.
func (j *Job) Err() error { return j.err }

// before is the order of sequences that are equal in the scheduler's other respects: priority, then arrival.
func (s *sequence) before(t *sequence) bool {
	if a, b := s.job.Request.Priority, t.job.Request.Priority; a != b {
		return a > b
	}
	if s.job.ID != t.job.ID {
		return s.job.ID < t.job.ID
	}
	return s.index < t.index
}

// pending is how many tokens the cache lacks.
func (s *sequence) pending() int { return len(s.IDs()) - s.memory.len() }

// decoding says that only the last token is to be run.
func (s *sequence) decoding() bool {
	return s.pending() == 1 && len(s.IDs()) > len(s.job.Request.Prompt)
}

// push chooses the next token from its logits.
func (s *sequence) push(logits []float32) error {
	if err := s.Push(logits); err != nil {
		return err
	}
	if n := s.job.Request.Length; n > 0 && len(s.IDs())-len(s.job.Request.Prompt) >= n && !s.Done() {
		s.Cancel()
	}
	return nil
}

func sorted(list []*sequence) []*sequence {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b *sequence) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	return out
}
