//go:build linux && cuda && cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"unsafe"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tensor"
)

// Sample chooses a token for each row of logits [n, V] that a backend with Options.KeepLogits left on the device, by the numbers
// u in [0, 1), one a row: greedy, or temperature, top-k and top-p, as sample.Choose of sample.Probs does. Only the ids come to the
// host. Other settings of o are refused.
func (b *Backend) Sample(logits *tensor.Tensor, o sample.Options, u []float64) ([]int, error) {
	if err := supported(o); err != nil {
		return nil, err
	}
	if len(logits.Shape) != 2 || logits.Device == nil {
		return nil, fmt.Errorf("cuda: sample: want logits [n, V] on the device (Options.KeepLogits), got %v", logits.Shape)
	}
	n, v := logits.Shape[0], logits.Shape[1]
	if o.Temperature > 0 && len(u) != n {
		return nil, fmt.Errorf("cuda: sample: want a random number for each of %d rows, got %d", n, len(u))
	}
	if n == 0 {
		return nil, nil
	}
	ids := make([]int32, n)
	err := b.work(func() error {
		out, err := b.resize(b.picked, n)
		if err != nil {
			return err
		}
		if o.Temperature == 0 {
			err = b.dev.launch("greedy", dim{n, 1, 1}, 1024, 0, out, at(logits), v)
		} else {
			p := 1.0
			if o.TopP > 0 && o.TopP < 1 {
				p = o.TopP - min(1e-7, (1-o.TopP)/2) // as package sample
			}
			var random ptr
			if random, err = b.put(unsafe.Pointer(&u[0]), 8*n); err != nil {
				return err
			}
			err = b.dev.launch("sample", dim{n, 1, 1}, 1024, 0, out, at(logits), v, float32(o.Temperature), o.TopK, p, random)
		}
		if err != nil {
			return err
		}
		return b.dev.fetch(unsafe.Pointer(&ids[0]), out, 4*int64(n))
	})
	if err != nil {
		return nil, err
	}
	list := make([]int, n)
	for i, id := range ids {
		if id < 0 {
			return nil, fmt.Errorf("cuda: sample: row %d: a logit is NaN, or all are -Inf: %w", i, sample.ErrNoToken)
		}
		list[i] = int(id)
	}
	return list, nil
}

// supported reports settings that the device doesn't sample by.
func supported(o sample.Options) error {
	if err := o.Validate(0); err != nil {
		return err
	}
	for name, set := range map[string]bool{
		"min-p": o.MinP > 0, "typical-p": o.TypicalP > 0 && o.TypicalP < 1, "penalties": o.RepetitionPenalty > 0 && o.RepetitionPenalty != 1 || o.PresencePenalty != 0 || o.FrequencyPenalty != 0,
		"no-repeat n-grams": o.NoRepeatNGram > 0, "a logit bias": len(o.LogitBias) > 0, "bad words": len(o.BadWords) > 0,
		"an order of steps": o.Order != "" && o.Order != sample.Transformers,
	} {
		if set {
			return fmt.Errorf("cuda: sample: %s is not supported on the device", name)
		}
	}
	return nil
}

// Generate adds n tokens to a prompt with everything on the device: a decode step moves one token id each way. m must run on
// a backend of this package that was opened with Options.KeepLogits.
func Generate(ctx context.Context, m *model.Model, prompt []int, n int, o sample.Options) ([]int, error) {
	b, ok := m.Backend().(*Backend)
	if !ok || !b.opts.KeepLogits {
		return nil, errors.New("cuda: generate: the model must run on this package's backend, opened with KeepLogits")
	}
	cache, err := m.NewCache(kvcache.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { cache.Free(); cache.Pool().Close() }()
	rng := rand.New(rand.NewPCG(o.Seed, o.Stream))
	batch := model.Batch{Seqs: []model.Sequence{{IDs: prompt, Cache: cache}}}
	var ids []int
	for range n {
		if err := m.Forward(ctx, &batch); err != nil {
			return ids, err
		}
		var u []float64
		if o.Temperature > 0 {
			u = []float64{rng.Float64()}
		}
		next, err := b.Sample(batch.Logits, o, u)
		if err != nil {
			return ids, err
		}
		ids = append(ids, next...)
		batch.Seqs[0].IDs = next
	}
	return ids, nil
}
