package model

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"forwardpass/pkg/block"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/tensor"
)

// ErrContext is returned, wrapped, when a sequence would become longer than the model's maximum context length.
var ErrContext = errors.New("maximum context length")

// Want says for which of a sequence's new tokens the logits are computed.
type Want uint8

const (
	Last Want = iota // the last one: generation
	All              // every one: training, scoring, speculative verification
	None             // none: all chunks of a prompt but the last
)

// Sequence is one sequence's part of a batch.
type Sequence struct {
	IDs    []int          // new tokens
	Cache  *kvcache.Cache // holds what came before, and gets the new tokens; nil: nothing came before
	Logits Want

	again int // so many of the ids are in the cache already, but have to run again
}

// Batch is what Forward works on. It may be reused from step to step, which saves allocations.
type Batch struct {
	Seqs  []Sequence
	Trace *Trace

	// Logits is set by Forward: the wanted rows of all sequences, in order. [rows, V]
	Logits *tensor.Tensor

	seqs []Sequence // as they run
	step Step
}

// Logits returns the scores for the next token at every position of one text. ids [T] → [T, V]
func (m *Model) Logits(ids []int) (*tensor.Tensor, error) {
	b := Batch{Seqs: []Sequence{{IDs: ids, Logits: All}}}
	if err := m.Forward(context.Background(), &b); err != nil {
		return nil, err
	}
	return b.Logits, nil
}

// Forward runs the new tokens of all sequences through the model, appends their keys and values to the
// caches and sets b.Logits. On an error, cancellation included, every cache is as it was.
func (m *Model) Forward(ctx context.Context, b *Batch) (err error) {
	if err := m.check(b); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errors.New("model: want an open model, this one is closed")
	}
	b.seqs = append(b.seqs[:0], b.Seqs...)
	for i := range b.seqs {
		if err := m.reserve(&b.seqs[i]); err != nil {
			b.rollback(i)
			return fmt.Errorf("model: sequence %d: %w", i, err)
		}
	}
	b.plan()
	if b.Logits == nil {
		b.Logits = &tensor.Tensor{}
	}
	if err = m.backend.Begin(&b.step); err == nil {
		err = errors.Join(m.forward(ctx, b), m.backend.End())
	}
	if err != nil {
		b.rollback(len(b.seqs))
		return err
	}
	for i, q := range b.seqs {
		if q.Cache == nil {
			continue
		}
		err = errors.Join(err, q.Cache.Advance(q.IDs))
		if old := b.Seqs[i].Cache; old != q.Cache {
			err = errors.Join(err, old.Take(q.Cache))
		}
	}
	return err
}

// reserve makes room for a sequence's new tokens. Where the new length changes the rotation of all positions (dynamic NTK,
// LongRoPE), nothing that is cached is of use: the whole sequence runs again, into a fresh cache.
func (m *Model) reserve(q *Sequence) error {
	if q.Cache == nil {
		return nil
	}
	n := q.Cache.Len()
	if r := m.Layers[0].Rope; n > 0 && r != nil && r.Changes(n, n+len(q.IDs)) {
		q.IDs = slices.Concat(q.Cache.IDs(), q.IDs)
		q.again = n
		q.Cache = q.Cache.Pool().NewCache()
	}
	return q.Cache.Reserve(len(q.IDs))
}

// rollback takes back what a failed step has reserved for the first n sequences.
func (b *Batch) rollback(n int) {
	for _, q := range b.seqs[:n] {
		if q.Cache != nil {
			q.Cache.Unreserve()
		}
	}
}

// check reports input that can't be run.
func (m *Model) check(b *Batch) error {
	if m == nil || b == nil || len(m.Layers) == 0 {
		return errors.New("model: want a model from Open and a batch, got none")
	}
	if len(b.Seqs) == 0 {
		return errors.New("model: the batch has no sequence")
	}
	dims := m.CacheDims()
	for i, q := range b.Seqs {
		if len(q.IDs) == 0 {
			return fmt.Errorf("model: sequence %d has no tokens: a prompt needs at least one", i)
		}
		start := 0
		if q.Cache != nil {
			if q.Cache.Pool() == nil {
				return fmt.Errorf("model: sequence %d: want a cache from NewCache, got an empty one", i)
			}
			start = q.Cache.Len()
			if got := q.Cache.Pool().Dims(); got != dims {
				return fmt.Errorf("model: sequence %d: the cache is for another model: want %+v, got %+v", i, dims, got)
			}
			for j := range i {
				if b.Seqs[j].Cache == q.Cache {
					return fmt.Errorf("model: sequences %d and %d share a cache; use Fork", j, i)
				}
			}
		}
		if end := start + len(q.IDs); end > m.Config.MaxPositions {
			return fmt.Errorf("model: sequence %d: %d tokens stored and %d new are more than the %w of %d", i, start, len(q.IDs), ErrContext, m.Config.MaxPositions)
		}
		for j, id := range q.IDs {
			if id < 0 || id >= m.Config.VocabSize {
				return fmt.Errorf("model: sequence %d: token %d is id %d, want 0…%d", i, j, id, m.Config.VocabSize-1)
			}
		}
		if q.Logits > None {
			return fmt.Errorf("model: sequence %d: logits %d is not Last, All or None", i, q.Logits)
		}
	}
	return nil
}

// plan lays the sequences one after the other.
func (b *Batch) plan() {
	s := &b.step
	s.IDs, s.Pos, s.Seqs, s.Rows = s.IDs[:0], s.Pos[:0], s.Seqs[:0], s.Rows[:0]
	for _, q := range b.seqs {
		span := Span{Row: len(s.IDs), T: len(q.IDs), Cache: q.Cache}
		if q.Cache != nil {
			span.Start = q.Cache.Len()
		}
		for i := range q.IDs {
			s.Pos = append(s.Pos, span.Start+i)
			if q.Logits == All && i >= q.again || q.Logits == Last && i == len(q.IDs)-1 {
				s.Rows = append(s.Rows, span.Row+i)
			}
		}
		s.IDs = append(s.IDs, q.IDs...)
		s.Seqs = append(s.Seqs, span)
	}
}

// buffers are the tensors of a forward pass, kept from step to step.
type buffers struct {
	x, h, add *tensor.Tensor // [T, C] residual stream, normalised stream, what a sublayer adds
	second    *tensor.Tensor // [T, C] the other sublayer's, in a parallel block
	q, k, v   *tensor.Tensor
	low       *tensor.Tensor // [T, rank] of latent attention
	turned    *tensor.Tensor // [T, 1, rope] its rotated key
	mixed     *tensor.Tensor // [T, H, Dv] attention's output
	products  []tensor.Product
	attend    Attend
}

// forward is the forward pass: the stages, in the order of the chapter's diagram.
func (m *Model) forward(ctx context.Context, b *Batch) error {
	be, s := m.backend, &b.step
	if m.buf.x == nil {
		for _, t := range []**tensor.Tensor{&m.buf.x, &m.buf.h, &m.buf.add, &m.buf.second, &m.buf.q, &m.buf.k, &m.buf.v, &m.buf.low, &m.buf.turned, &m.buf.mixed} {
			*t = be.NewTensor()
		}
	}
	x := m.buf.x

	// Token ids become vectors.
	if err := be.Embed(x, m.Embedding, s); err != nil { // [T, C]
		return err
	}
	if m.EmbedScale != 0 {
		if err := be.Scale(x, m.EmbedScale); err != nil {
			return err
		}
	}
	if m.Positions != nil {
		if err := be.AddPositions(x, m.Positions, s); err != nil { // [T, C]
			return err
		}
	}
	if m.EmbedNorm != nil {
		if err := be.Norm(x, x, m.EmbedNorm); err != nil {
			return err
		}
	}
	if err := m.see(b.Trace, StageEmbed, -1, x); err != nil {
		return err
	}

	// N rounds of exchanging information and working on it.
	for i := range m.Layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.block(i, &m.Layers[i], b); err != nil {
			return fmt.Errorf("model: layer %d: %w", i, err)
		}
		if err := m.see(b.Trace, StageLayer, i, x); err != nil { // [T, C]
			return err
		}
	}

	// Vectors become scores, where somebody wants them.
	if len(s.Rows) == 0 {
		b.Logits.Resize(0, m.Config.VocabSize)
		return nil
	}
	h := m.buf.h
	if err := be.Gather(h, x, s.Rows); err != nil { // [rows, C]
		return err
	}
	if m.FinalNorm != nil {
		if err := be.Norm(h, h, m.FinalNorm); err != nil {
			return err
		}
	}
	if err := m.see(b.Trace, StageFinal, -1, h); err != nil {
		return err
	}
	if err := be.Logits(b.Logits, h, m.Head, m.SoftCap); err != nil { // [rows, V]
		return err
	}
	if b.Trace != nil && b.Trace.See != nil {
		b.Trace.See(StageLogits, -1, b.Logits)
	}
	return nil
}

// block is one Transformer block around the residual stream.
func (m *Model) block(i int, l *Layer, b *Batch) error {
	be, buf := m.backend, &m.buf
	x, h, add := buf.x, buf.h, buf.add

	in := x
	if l.Residual != block.PostNorm && l.AttnNorm != nil {
		if err := be.Norm(h, x, l.AttnNorm); err != nil { // [T, C]
			return err
		}
		in = h
	}
	if err := m.see(b.Trace, StageAttnNorm, i, in); err != nil {
		return err
	}
	if err := m.attention(add, in, i, l, b); err != nil { // [T, C]
		return fmt.Errorf("attention: %w", err)
	}
	if l.AttnPost != nil {
		if err := be.Norm(add, add, l.AttnPost); err != nil {
			return err
		}
	}
	if err := m.see(b.Trace, StageAttention, i, add); err != nil {
		return err
	}
	out := add
	if l.Residual == block.Parallel {
		out = buf.second // attention's part waits in add
	} else {
		if err := be.Add(x, add); err != nil { // [T, C]
			return err
		}
		if l.Residual == block.PostNorm && l.AttnNorm != nil {
			if err := be.Norm(x, x, l.AttnNorm); err != nil {
				return err
			}
		}
		in = x
	}

	if l.Residual != block.PostNorm && l.MLPNorm != nil {
		if err := be.Norm(h, x, l.MLPNorm); err != nil { // [T, C]
			return err
		}
		in = h
	}
	if err := m.see(b.Trace, StageMLPNorm, i, in); err != nil {
		return err
	}
	if err := m.feedForward(out, in, i, l, b); err != nil { // [T, C]
		return fmt.Errorf("mlp: %w", err)
	}
	if l.MLPPost != nil {
		if err := be.Norm(out, out, l.MLPPost); err != nil {
			return err
		}
	}
	if err := m.see(b.Trace, StageMLP, i, out); err != nil {
		return err
	}
	if l.Residual == block.Parallel {
		if err := be.Add(x, add); err != nil {
			return err
		}
	}
	if err := be.Add(x, out); err != nil { // [T, C]
		return err
	}
	if l.Residual == block.PostNorm && l.MLPNorm != nil {
		return be.Norm(x, x, l.MLPNorm)
	}
	return nil
}

// attention lets the tokens look at each other: in [T, C] → out [T, C].
func (m *Model) attention(out, in *tensor.Tensor, i int, l *Layer, b *Batch) error {
	be, buf, s := m.backend, &m.buf, &b.step
	q, k, v, mixed := buf.q, buf.k, buf.v, buf.mixed
	p := &l.Attention
	if l.Latent != nil {
		if err := m.latent(in, l, b); err != nil {
			return err
		}
		v = nil
	} else {
		buf.products = append(buf.products[:0], l.Q.To(q), l.K.To(k), l.V.To(v))
		if err := be.Linear(in, buf.products...); err != nil { // [T, H·D], [T, n_kv·D], [T, n_kv·Dv]
			return err
		}
		if l.Clip > 0 {
			if err := errors.Join(be.Clamp(q, l.Clip), be.Clamp(k, l.Clip), be.Clamp(v, l.Clip)); err != nil {
				return err
			}
		}
		if l.NormAll {
			if err := errors.Join(be.Norm(q, q, l.QNorm), be.Norm(k, k, l.KNorm)); err != nil {
				return err
			}
		}
		t := len(s.IDs)
		reshape(q, t, p.Heads, p.KDim)   // [T, H, D]
		reshape(k, t, p.KVHeads, p.KDim) // [T, n_kv, D]
		reshape(v, t, p.KVHeads, p.VDim) // [T, n_kv, Dv]
		if l.QNorm != nil && !l.NormAll {
			if err := errors.Join(be.Norm(q, q, l.QNorm), be.Norm(k, k, l.KNorm)); err != nil {
				return err
			}
		}
		if l.Rope != nil {
			if err := errors.Join(be.Rope(q, l.Rope, 0, s), be.Rope(k, l.Rope, 0, s)); err != nil {
				return err
			}
		}
		if b.Trace != nil {
			if err := errors.Join(m.see(b.Trace, StageQ, i, q), m.see(b.Trace, StageK, i, k), m.see(b.Trace, StageV, i, v)); err != nil {
				return err
			}
		}
	}
	if err := be.Store(i, k, v, s); err != nil {
		return err
	}
	buf.attend = Attend{Index: i, Layer: l, Q: q, K: k, V: v}
	if b.Trace != nil && b.Trace.Weights {
		buf.attend.Weights = func(_ int, w *tensor.Tensor) error {
			b.Trace.See(StageWeights, i, w) // [H, T, S]
			return nil
		}
	}
	if err := be.Attend(mixed, &buf.attend, s); err != nil { // [T, H, Dv]
		return err
	}
	if l.Latent != nil {
		if err := be.Expand(buf.v, mixed, l); err != nil { // [T, H, Dv]
			return err
		}
		mixed = buf.v
	}
	reshape(mixed, len(s.IDs), mixed.Shape[1]*mixed.Shape[2]) // [T, H·Dv]
	buf.products = append(buf.products[:0], l.O.To(out))
	return be.Linear(mixed, buf.products...) // [T, C]
}

// latent makes the queries and the compressed keys of multi-head latent attention: buf.q [T, H, rank+rope] and
// buf.k [T, 1, rank+rope].
func (m *Model) latent(in *tensor.Tensor, l *Layer, b *Batch) error {
	be, buf, s, d := m.backend, &m.buf, &b.step, l.Latent
	t := len(s.IDs)
	q, low, turned := buf.v, buf.low, buf.turned // the value buffer is free until Expand
	qIn := in
	if l.QDown != nil {
		buf.products = append(buf.products[:0], l.QDown.To(low))
		if err := be.Linear(in, buf.products...); err != nil { // [T, q_lora_rank]
			return err
		}
		if err := be.Norm(low, low, l.QLora); err != nil {
			return err
		}
		qIn = low
	}
	buf.products = append(buf.products[:0], l.Q.To(q))
	if err := be.Linear(qIn, buf.products...); err != nil { // [T, H·(nope+rope)]
		return err
	}
	reshape(q, t, d.Heads, d.Nope+d.Rope)
	buf.products = append(buf.products[:0], l.KVDown.To(low), l.KRope.To(turned))
	if err := be.Linear(in, buf.products...); err != nil { // [T, rank], [T, rope]
		return err
	}
	if err := be.Norm(low, low, l.KVLora); err != nil {
		return err
	}
	reshape(turned, t, 1, d.Rope)
	if err := errors.Join(be.Rope(q, l.Rope, d.Nope, s), be.Rope(turned, l.Rope, 0, s)); err != nil {
		return err
	}
	reshape(turned, t, d.Rope)
	return errors.Join(be.Absorb(buf.q, q, l), be.Concat(buf.k, low, turned)) // [T, H, rank+rope], [T, 1, rank+rope]
}

// feedForward works on each token alone: in [T, C] → out [T, C].
func (m *Model) feedForward(out, in *tensor.Tensor, i int, l *Layer, b *Batch) error {
	if l.MoE == nil {
		return m.backend.MLP(out, in, l.MLP)
	}
	var router func(*tensor.Tensor) error
	if b.Trace != nil {
		router = func(logits *tensor.Tensor) error {
			b.Trace.See(StageRouter, i, logits)
			return nil
		}
	}
	return m.backend.MoE(out, in, l.MoE, router)
}

// see shows a tensor to the trace, if there is one.
func (m *Model) see(tr *Trace, stage string, layer int, t *tensor.Tensor) error {
	if tr == nil || tr.See == nil {
		return nil
	}
	host, err := m.backend.Read(t)
	if err != nil {
		return err
	}
	tr.See(stage, layer, host)
	return nil
}

// reshape gives a tensor another shape of the same size.
func reshape(t *tensor.Tensor, shape ...int) { t.Shape = append(t.Shape[:0], shape...) }
