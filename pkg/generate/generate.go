// Package generate is the autoregressive loop (chapter 3.3 and 4): run the model, choose a token from the logits of the last
// position, append it, and again, until something says stop.
//
//	prefill   ids x_1…x_T          -> logits [1, V], cache of T tokens     the whole prompt at once, or in chunks
//	decode    x_{T+i-1} and cache  -> logits [1, V], cache one longer      one token a step
//
// One step is one forward pass over a ragged batch: sequences that still read their prompt and sequences that decode share it
// ([Run] has one sequence, [RunN] several samples of one prompt, [RunBatch] several prompts). Everything but the forward pass
// is in [Sequence]: choosing, log-probabilities, stop conditions, streaming; package serve drives the same Sequence.
//
// [Beam] and [Contrastive] search instead of drawing. Speculative decoding (a [Draft] in the options) changes how many tokens a
// step yields, never which (greedy) or with what probability (sampling).
package generate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
)

// Reason says why a sequence ended.
type Reason string

const (
	ReasonEOS       Reason = "eos"                // an end-of-sequence token was chosen
	ReasonLength    Reason = "length"             // MaxNewTokens reached
	ReasonContext   Reason = "context"            // the maximum context length reached
	ReasonStop      Reason = "stop string"        // a stop string appeared
	ReasonStructure Reason = "structure complete" // the constraint allows nothing more
	ReasonCancelled Reason = "cancelled"          // interrupted from outside
	ReasonError     Reason = "error"              // something failed, such as the room for keys and values; the error is returned beside it
)

// ErrStop is what a Stream function returns to end the generation without an error.
var ErrStop = errors.New("generate: stopped by the stream")

// Token is one new token, as it is streamed and kept in the result.
type Token struct {
	Sample  int              // which sequence of RunN or RunBatch
	ID      int              // token id
	Text    string           // text that became certain with it: whole characters, and nothing that may begin a stop string
	LogProb float64          // ln p under the model's own distribution; 0 unless Options.LogProbs asks for it
	Top     []sample.LogProb // the most probable tokens at this position, best first
}

// Result is what a sequence has become.
type Result struct {
	IDs    []int  // new tokens only, the EOS token included
	Text   string // their text, without special tokens and stop string; empty without Options.Tokenizer
	Reason Reason
	Stop   string // the stop string that was found

	Tokens   []Token   // each new token
	LogProbs []float64 // of each new token, if asked for
	Timings  Timings

	Proposed, Accepted int // tokens that a draft proposed, and that were accepted

	Cache *kvcache.Cache // with CacheOptions.Keep: keys and values of all tokens but the last; the caller frees it
}

// Timings of a sequence, from the call on.
type Timings struct {
	TTFT  time.Duration   // time to first token: prefill and the choice of the first token
	TPOT  time.Duration   // time per output token: the mean over all tokens but the first
	ITL   []time.Duration // inter-token latencies: between each token and the one before
	Total time.Duration

	PrefillTokens int     // prompt tokens that were run (those of a shared prefix are not)
	PrefillRate   float64 // prompt tokens a second, up to the first token
	DecodeRate    float64 // tokens a second after the first
}

// Run continues ids [T] by new tokens, one sequence. The zero Options is greedy decoding to the end of the context.
//
// Cancelling ctx is no error: the result has what there is, with the reason "cancelled". Options that make no sense, a token
// outside the vocabulary and a prompt that does not fit are errors, before any work is done. An error later on, such as
// [kvcache.ErrNoBlocks] from a pool that is full, comes with what there is, and with the reason "error". The cache's blocks are
// given back in every case.
func Run(ctx context.Context, m *model.Model, ids []int, opts Options) (*Result, error) {
	return first(RunN(ctx, m, ids, 1, opts))
}

func first(r []*Result, err error) (*Result, error) {
	if len(r) == 0 {
		return nil, err
	}
	return r[0], err
}

// RunN draws n continuations of one prompt. The prompt is run once; its cache is forked, and the sequences decode together, each
// with a random generator of its own (Sampling.Stream counts up).
func RunN(ctx context.Context, m *model.Model, ids []int, n int, opts Options) ([]*Result, error) {
	if n < 1 {
		return nil, fmt.Errorf("generate: want at least one sample, got %d", n)
	}
	l, err := newLoop(m, [][]int{ids}, opts)
	if err != nil {
		return nil, err
	}
	defer l.free()
	if err := l.prefill(ctx, n); err != nil {
		return l.end(ctx, err)
	}
	return l.end(ctx, l.run(ctx))
}

// RunBatch continues several prompts at once, whatever their lengths. Each gets the tokens that Run would give it alone with
// Sampling.Stream increased by its place.
func RunBatch(ctx context.Context, m *model.Model, prompts [][]int, opts Options) ([]*Result, error) {
	l, err := newLoop(m, prompts, opts)
	if err != nil {
		return nil, err
	}
	defer l.free()
	return l.end(ctx, l.run(ctx))
}
