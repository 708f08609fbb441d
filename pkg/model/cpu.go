package model

import (
	"errors"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/block"
	"forwardpass/pkg/embed"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/lmhead"
	"forwardpass/pkg/rope"
	"forwardpass/pkg/tensor"
)

// CPU is the backend that calls the stage packages.
type CPU struct {
	flash   attention.Workspace
	scratch block.Scratch
	seqs    []attention.Seq
	runs    [][]kvcache.Run
	row     tensor.Tensor // of learned positions
}

// NewCPU makes a CPU backend. Each model needs one of its own.
func NewCPU() *CPU { return &CPU{} }

func (c *CPU) Name() string              { return "cpu" }
func (c *CPU) NewTensor() *tensor.Tensor { return &tensor.Tensor{} }
func (c *CPU) Begin(*Step) error         { return nil }
func (c *CPU) End() error                { return nil }
func (c *CPU) Close() error              { return nil }

func (c *CPU) NewStorage(d kvcache.Dims, blockSize int, t kvcache.Type) (kvcache.Storage, error) {
	return kvcache.NewHost(d, blockSize, t)
}

// Traffic is the bytes that attention has moved; see attention.Traffic.
func (c *CPU) Traffic() *attention.Traffic { return &c.flash.Traffic }

func (c *CPU) Embed(x *tensor.Tensor, table *tensor.Matrix, s *Step) error {
	return embed.LookupInto(x, table, s.IDs)
}

func (c *CPU) AddPositions(x *tensor.Tensor, table *tensor.Matrix, s *Step) error {
	return embed.AddLearned(x, table, s.Pos, &c.row)
}

func (c *CPU) Scale(x *tensor.Tensor, a float32) error {
	tensor.Scale(x.Data, a)
	return nil
}

func (c *CPU) Clamp(x *tensor.Tensor, limit float32) error {
	for i, v := range x.Data {
		x.Data[i] = max(-limit, min(limit, v))
	}
	return nil
}

func (c *CPU) Norm(dst, x *tensor.Tensor, n *block.Norm) error {
	rows, width := x.Rows(), x.Dim(-1)
	if rows < manyRows {
		return n.ForwardInto(dst, x)
	}
	if dst != x {
		dst.Resize(x.Shape...)
	}
	return inParts(rows, func(lo, hi int) error {
		from, err := tensor.From(x.Data[lo*width:hi*width], hi-lo, width)
		if err != nil {
			return err
		}
		to := from
		if dst != x {
			if to, err = tensor.From(dst.Data[lo*width:hi*width], hi-lo, width); err != nil {
				return err
			}
		}
		return n.ForwardInto(to, from)
	})
}

// manyRows are worth being shared between the workers: a prompt's, not a decode step's.
const manyRows = 32

// inParts calls f for rows lo…hi of n, in parallel.
func inParts(n int, f func(lo, hi int) error) error {
	parts := min(4*tensor.Workers(), (n+manyRows/2-1)/(manyRows/2))
	errs := make([]error, parts)
	tensor.Parallel(parts, tensor.Func(func(i int) { errs[i] = f(n*i/parts, n*(i+1)/parts) }))
	return errors.Join(errs...)
}

func (c *CPU) Linear(x *tensor.Tensor, ps ...tensor.Product) error { return tensor.MatMuls(x, ps...) }

func (c *CPU) Rope(x *tensor.Tensor, t *rope.Table, offset int, s *Step) error {
	heads, dim := x.Shape[1], x.Shape[2]
	for _, q := range s.Seqs {
		if q.T >= manyRows {
			row, length := q.Row, q.Len()
			err := inParts(q.T, func(lo, hi int) error {
				return t.ApplyStrided(x.Data[(row+lo)*heads*dim+offset:], heads, heads*dim, dim, s.Pos[row+lo:row+hi], length)
			})
			if err != nil {
				return err
			}
			continue
		}
		if err := t.ApplyStrided(x.Data[q.Row*heads*dim+offset:], heads, heads*dim, dim, s.Pos[q.Row:q.Row+q.T], q.Len()); err != nil {
			return err
		}
	}
	return nil
}

func (c *CPU) Concat(dst, a, b *tensor.Tensor) error {
	n, m := a.Dim(-1), b.Dim(-1)
	dst.Resize(a.Rows(), 1, n+m)
	for i := range a.Rows() {
		copy(dst.Row(i), a.Row(i))
		copy(dst.Row(i)[n:], b.Row(i))
	}
	return nil
}

func (c *CPU) Store(layer int, k, v *tensor.Tensor, s *Step) error {
	for _, q := range s.Seqs {
		if q.Cache == nil {
			continue
		}
		if err := q.Cache.Append(layer, k, v, q.Row, q.T); err != nil {
			return err
		}
	}
	return nil
}

func (c *CPU) Attend(dst *tensor.Tensor, a *Attend, s *Step) error {
	c.seqs = c.seqs[:0]
	for i, q := range s.Seqs {
		if i == len(c.runs) {
			c.runs = append(c.runs, nil)
		}
		c.runs[i] = c.history(c.runs[i][:0], a, q)
		c.seqs = append(c.seqs, attention.Seq{Start: q.Start, T: q.T, Runs: c.runs[i]})
	}
	if a.Weights == nil {
		return attention.Flash(dst, a.Q, c.seqs, a.Layer.Attention, &c.flash)
	}
	p := a.Layer.Attention
	dst.Resize(a.Q.Shape[0], p.Heads, p.VDim)
	for i, q := range s.Seqs {
		n := p.Heads * p.KDim
		rows, err := tensor.From(a.Q.Data[q.Row*n:(q.Row+q.T)*n], q.T, p.Heads, p.KDim)
		if err != nil {
			return err
		}
		out, w, err := attention.Naive(rows, c.seqs[i], p)
		if err != nil {
			return err
		}
		copy(dst.Data[q.Row*p.Heads*p.VDim:], out.Data)
		if err := a.Weights(i, w); err != nil {
			return err
		}
	}
	return nil
}

// history is where the keys and values of a sequence lie: in its cache, or in the step's own k and v.
func (c *CPU) history(runs []kvcache.Run, a *Attend, q Span) []kvcache.Run {
	if q.Cache != nil {
		return q.Cache.Runs(runs, a.Index, q.Len())
	}
	heads, kd := a.K.Shape[1], a.K.Shape[2]
	r := kvcache.Run{Len: q.T, K: a.K.Data[q.Row*heads*kd:], HeadK: kd, StepK: heads * kd}
	if a.V == nil { // latent: the value is the front of the key
		r.V, r.HeadV, r.StepV = r.K, r.HeadK, r.StepK
	} else {
		vd := a.V.Shape[2]
		r.V, r.HeadV, r.StepV = a.V.Data[q.Row*heads*vd:], vd, heads*vd
	}
	return append(runs, r)
}

func (c *CPU) Absorb(dst, q *tensor.Tensor, l *Layer) error { return l.Latent.Absorb(dst, q) }
func (c *CPU) Expand(dst, x *tensor.Tensor, l *Layer) error { return l.Latent.Expand(dst, x) }

func (c *CPU) MLP(dst, x *tensor.Tensor, m *block.MLP) error {
	return m.ForwardInto(dst, x, &c.scratch)
}

func (c *CPU) MoE(dst, x *tensor.Tensor, m *block.MoE, router func(*tensor.Tensor) error) error {
	if err := m.ForwardInto(dst, x, &c.scratch); err != nil {
		return err
	}
	if router != nil {
		return router(c.scratch.RouterLogits())
	}
	return nil
}

func (c *CPU) Add(x, y *tensor.Tensor) error {
	tensor.Add(x.Data, y.Data)
	return nil
}

func (c *CPU) Gather(dst, x *tensor.Tensor, rows []int) error {
	dst.Resize(len(rows), x.Dim(-1))
	for i, r := range rows {
		copy(dst.Row(i), x.Row(r))
	}
	return nil
}

func (c *CPU) Logits(dst, h *tensor.Tensor, head tensor.Linear, softCap float32) error {
	return lmhead.LogitsInto(dst, h, head, softCap)
}

func (c *CPU) Read(x *tensor.Tensor) (*tensor.Tensor, error) { return x, nil }
