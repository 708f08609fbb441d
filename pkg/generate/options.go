package generate

import (
	"fmt"
	"slices"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
)

// Options of a generation. The zero value is greedy decoding until EOS or the end of the context.
type Options struct {
	MaxNewTokens int            // 0: no limit but the context
	Sampling     sample.Options // the zero value is greedy

	Tokenizer Tokenizer // for text: Result.Text, Token.Text, Stop and Constraint need it
	Stop      []string  // texts that end the generation, wherever token borders fall; they are not part of the text
	EOS       []int     // token ids that end it; nil: the model's own, empty: none

	Context    Context // what happens when the context is full
	MaxContext int     // the context's length; 0: the model's

	LogProbs int // report ln p of each token and of the n most probable ones; 0: don't
	Chunk    int // prompt tokens a forward pass; 0: the whole prompt at once
	Cache    CacheOptions

	Constraint *Constraint // a regular expression or JSON schema that the text must match
	Draft      *Draft      // speculative decoding

	// Stream is called with each token as soon as it is there. An error ends the generation: ErrStop quietly, others are returned.
	Stream func(Token) error
}

// Context is what to do when prompt and new tokens fill the maximum context length.
type Context uint8

const (
	ContextStop     Context = iota // end with the reason "context"
	ContextTruncate                // forget the older half, run the newer half again and go on
	ContextSlide                   // forget the oldest token at each step: exact, but each step runs the whole window again
)

// CacheOptions say where keys and values are kept. The zero value is blocks of 64 tokens, as many as needed.
type CacheOptions struct {
	kvcache.Options // of a pool that is made for this call

	Contiguous bool           // one piece of memory for the longest that the sequence can become, instead of blocks
	Off        bool           // no cache: each step runs the whole sequence again
	Pool       *kvcache.Pool  // take blocks from this pool instead
	Prefix     *kvcache.Cache // already holds the first tokens of the prompt (not all); it is forked and stays as it is
	Keep       bool           // hand the cache over in the result
}

// Draft says how tokens are proposed. A step verifies all proposals in one forward pass (Leviathan et al. 2023).
type Draft struct {
	Model  *model.Model // proposes with its own forward passes; nil: prompt lookup
	Tokens int          // proposals a step, at most the model's context; 0: 4
	Lookup int          // prompt lookup: proposes what followed the last occurrence of the last Lookup tokens, or fewer; 0: 3
}

// Validate checks the numbers for a model whose context holds so many positions.
func (d Draft) Validate(positions int) error {
	if d.Tokens < 0 || d.Tokens > positions {
		return fmt.Errorf("generate: draft: Tokens must be from 1 to the context of %d, or 0 for 4, got %d", positions, d.Tokens)
	}
	if d.Lookup < 0 {
		return fmt.Errorf("generate: draft: Lookup must be at least 1, or 0 for 3, got %d", d.Lookup)
	}
	return nil
}

// complete fills in what follows from the model and checks all of it.
func (o Options) complete(m *model.Model, prompts [][]int) (Options, error) {
	if m == nil || len(m.Layers) == 0 {
		return o, fmt.Errorf("generate: want a model from model.Open, got none")
	}
	c := &m.Config
	for _, n := range []struct {
		name string
		v    int
	}{
		{"MaxNewTokens", o.MaxNewTokens}, {"MaxContext", o.MaxContext}, {"LogProbs", o.LogProbs}, {"Chunk", o.Chunk},
		{"Cache.BlockSize", o.Cache.BlockSize}, {"Cache.Blocks", o.Cache.Blocks},
	} {
		if n.v < 0 {
			return o, fmt.Errorf("generate: %s must not be negative, got %d", n.name, n.v)
		}
	}
	if o.MaxContext == 0 {
		o.MaxContext = c.MaxPositions
	}
	if o.MaxContext > c.MaxPositions {
		return o, fmt.Errorf("generate: MaxContext %d is more than the model's %d", o.MaxContext, c.MaxPositions)
	}
	if o.Context > ContextSlide {
		return o, fmt.Errorf("generate: unknown context policy %d", o.Context)
	}
	if o.Context != ContextStop && o.MaxNewTokens == 0 {
		return o, fmt.Errorf("generate: without the context as a limit, MaxNewTokens must be set")
	}
	if o.LogProbs > c.VocabSize {
		return o, fmt.Errorf("generate: LogProbs %d is more than the vocabulary of %d", o.LogProbs, c.VocabSize)
	}
	if o.EOS == nil {
		o.EOS = c.EOS
	}
	for _, id := range o.EOS {
		if id < 0 || id >= c.VocabSize {
			return o, fmt.Errorf("generate: EOS token %d is not in the vocabulary of %d", id, c.VocabSize)
		}
	}
	if slices.Contains(o.Stop, "") {
		return o, fmt.Errorf("generate: a stop string is empty")
	}
	if o.Tokenizer == nil && (len(o.Stop) > 0 || o.Constraint != nil) {
		return o, fmt.Errorf("generate: stop strings and constraints need a Tokenizer")
	}
	if err := o.Sampling.Validate(c.VocabSize); err != nil {
		return o, fmt.Errorf("generate: %w", err)
	}
	if err := o.checkDraft(c); err != nil {
		return o, err
	}
	if err := o.checkCache(m, prompts); err != nil {
		return o, err
	}
	if len(prompts) == 0 {
		return o, fmt.Errorf("generate: no prompt")
	}
	for i, ids := range prompts {
		if len(ids) == 0 {
			return o, fmt.Errorf("generate: prompt %d has no tokens", i)
		}
		for j, id := range ids {
			if id < 0 || id >= c.VocabSize {
				return o, fmt.Errorf("generate: prompt %d: token %d is id %d, want 0…%d", i, j, id, c.VocabSize-1)
			}
		}
		if o.Context == ContextStop && len(ids) > o.MaxContext {
			return o, fmt.Errorf("generate: prompt %d has %d tokens, more than the %w of %d", i, len(ids), model.ErrContext, o.MaxContext)
		}
	}
	return o, nil
}

func (o *Options) checkDraft(c *model.Config) error {
	if o.Draft == nil {
		return nil
	}
	d := *o.Draft
	o.Draft = &d
	if err := d.Validate(c.MaxPositions); err != nil {
		return err
	}
	if d.Tokens == 0 {
		o.Draft.Tokens = 4
	}
	if d.Lookup == 0 {
		o.Draft.Lookup = 3
	}
	if d.Model != nil && len(d.Model.Layers) == 0 {
		return fmt.Errorf("generate: draft: want a model from model.Open, got an empty one")
	}
	if d.Model != nil && d.Model.Config.VocabSize != c.VocabSize {
		return fmt.Errorf("generate: draft: its vocabulary has %d tokens, the model's %d: they must be the same", d.Model.Config.VocabSize, c.VocabSize)
	}
	if o.Cache.Off {
		return fmt.Errorf("generate: draft: speculative decoding needs a cache")
	}
	o.Cache.Slack = max(o.Cache.Slack, o.Draft.Tokens+1) // rejected tokens are taken back
	return nil
}

func (o *Options) checkCache(m *model.Model, prompts [][]int) error {
	k := &o.Cache
	set := 0
	for _, b := range []bool{k.Contiguous, k.Off, k.Pool != nil} {
		if b {
			set++
		}
	}
	if set > 1 {
		return fmt.Errorf("generate: cache: Contiguous, Off and Pool exclude each other")
	}
	if k.Off && (k.Prefix != nil || k.Keep) {
		return fmt.Errorf("generate: cache: without a cache there is no Prefix and nothing to Keep")
	}
	if k.Pool != nil && k.Pool.Dims() != m.CacheDims() {
		return fmt.Errorf("generate: cache: the pool is for another model: want %+v, got %+v", m.CacheDims(), k.Pool.Dims())
	}
	if p := k.Prefix; p != nil {
		if p.Pool() == nil || k.Pool != nil || k.Contiguous {
			return fmt.Errorf("generate: cache: a Prefix must hold tokens, and comes with its own pool: Pool and Contiguous exclude it")
		}
		if p.Pool().Dims() != m.CacheDims() {
			return fmt.Errorf("generate: cache: the prefix is of another model")
		}
		for i, ids := range prompts {
			if p.Len() >= len(ids) || len(ids) > o.MaxContext {
				return fmt.Errorf("generate: cache: the prefix has %d tokens, prompt %d only %d (of at most %d): at least one must be left to run", p.Len(), i, len(ids), o.MaxContext)
			}
			for j, id := range p.IDs() {
				if ids[j] != id {
					return fmt.Errorf("generate: cache: the prefix is of another text: its token %d is id %d, prompt %d has %d there", j, id, i, ids[j])
				}
			}
		}
	}
	return nil
}

// newCache makes the cache of a sequence with a prompt of n tokens.
func (o *Options) newCache(m *model.Model, n int) (*kvcache.Cache, error) {
	k := &o.Cache
	switch {
	case k.Off:
		return nil, nil
	case k.Prefix != nil:
		return k.Prefix.Fork(), nil
	case k.Pool != nil:
		return k.Pool.NewCache(), nil
	case k.Contiguous:
		p := k.Options
		p.BlockSize = o.MaxContext
		if o.MaxNewTokens > 0 {
			p.BlockSize = min(p.BlockSize, n+min(o.MaxNewTokens, p.BlockSize))
		}
		p.Windows = make([]int, m.Config.NumLayers)
		return m.NewCache(p)
	}
	return m.NewCache(k.Options)
}
