package serve

import (
	"context"
	"fmt"
	"time"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
)

// Runner does the work of a step: [Model] by a forward pass, [Cost] by a formula that says how long it would take.
type Runner interface {
	newPool(kvcache.Options) (*kvcache.Pool, error)
	newGenerator(prompt []int, o generate.Options, p *kvcache.Pool) (generator, error)
	// forward runs a batch and leaves the logits of the wanted rows in b.Logits (nil: there are none).
	forward(ctx context.Context, b *model.Batch) error
	// moved tells that blocks were swapped out or in.
	moved(blocks int)
	// begin starts a step's clock; elapsed is the time since.
	begin()
	elapsed() time.Duration

	context() int // the longest sequence
	// changes says whether a sequence that grows from one length to another must run all its tokens again.
	changes(from, to int) bool
}

// Model makes a Runner of a model.
func Model(m *model.Model) Runner { return &modelRunner{m: m} }

type modelRunner struct {
	m     *model.Model
	start time.Time
}

func (r *modelRunner) newPool(o kvcache.Options) (*kvcache.Pool, error) { return r.m.NewPool(o) }

func (r *modelRunner) newGenerator(prompt []int, o generate.Options, p *kvcache.Pool) (generator, error) {
	o.Cache = generate.CacheOptions{Pool: p} // its own cache stays empty: the scheduler has the real one
	return generate.NewSequence(r.m, prompt, o)
}

func (r *modelRunner) forward(ctx context.Context, b *model.Batch) error { return r.m.Forward(ctx, b) }
func (r *modelRunner) moved(int)                                         {}
func (r *modelRunner) begin()                                            { r.start = time.Now() }
func (r *modelRunner) elapsed() time.Duration                            { return time.Since(r.start) }
func (r *modelRunner) context() int                                      { return r.m.Config.MaxPositions }

// changes: where the rotary embedding depends on the length of the sequence (dynamic NTK, LongRoPE), so does all that is cached.
func (r *modelRunner) changes(from, to int) bool {
	t := r.m.Layers[0].Rope
	return t != nil && from > 0 && t.Changes(from, to)
}

// errUnstable explains why there is no prefix cache for some models.
func errUnstable(p Prefix) error {
	return fmt.Errorf("serve: the prefix cache %q can't be used: this model's rotary embedding changes with the length of the sequence, and cached keys with it", p)
}
