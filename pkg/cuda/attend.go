//go:build linux && cuda && cgo

package cuda

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"forwardpass/pkg/attention"
	"forwardpass/pkg/model"
	"forwardpass/pkg/rope"
	"forwardpass/pkg/tensor"
)

// turns is a rotary table's cosines and sines of positions 0…n-1 on the device, [n, half] each.
type turns struct {
	n        int
	cos, sin ptr
}

// angles lists the cosines and sines of positions pos in a sequence of the given length, [len(pos), half] each: a pair (1, 0)
// turned is (cos, sin).
func angles(t *rope.Table, pos []int, length int) (cos, sin []float32, err error) {
	c := t.Config()
	half := c.Dim / 2
	first, second, step := 0, half, 1
	if c.Interleaved {
		second, step = 1, 2
	}
	x := make([]float32, len(pos)*c.Dim)
	for i := range pos {
		for p := range half {
			x[i*c.Dim+first+p*step] = 1
		}
	}
	if err := t.ApplyStrided(x, 1, c.Dim, 0, pos, length); err != nil {
		return nil, nil, err
	}
	for i := range pos {
		for p := range half {
			cos = append(cos, x[i*c.Dim+first+p*step])
			sin = append(sin, x[i*c.Dim+second+p*step])
		}
	}
	return cos, sin, nil
}

func positions(from, n int) []int {
	pos := make([]int, n)
	for i := range pos {
		pos[i] = from + i
	}
	return pos
}

// Rope rotates x [T, H, D] in place: of each head, the numbers from offset on.
func (b *Backend) Rope(x *tensor.Tensor, t *rope.Table, offset int, s *model.Step) error {
	cos, sin, index, err := b.turn(t, s)
	if err != nil {
		return err
	}
	c := t.Config()
	heads, d, half := x.Shape[1], x.Shape[2], c.Dim/2
	if offset+c.Dim > d {
		return fmt.Errorf("cuda: rotation of %d numbers from %d on, a head has %d", c.Dim, offset, d)
	}
	pairs := x.Shape[0] * heads * half
	return b.dev.launch("rope", each(pairs), 256, 0, at(x), cos, sin, index, heads, d, offset, half, c.Interleaved, pairs)
}

// turn is the table on the device, and the row of it for each token (0: the token's own number).
func (b *Backend) turn(t *rope.Table, s *model.Step) (cos, sin, index ptr, err error) {
	if k := t.Config().Scaling.Type; k == rope.Dynamic || k == rope.LongRoPE { // the angles depend on the sequence's length
		if p, ok := b.step.turns[t]; ok {
			return p[0], p[1], 0, nil
		}
		var c, n []float32 // [T, half]
		for _, q := range s.Seqs {
			qc, qn, err := angles(t, s.Pos[q.Row:q.Row+q.T], q.Len())
			if err != nil {
				return 0, 0, 0, err
			}
			c, n = append(c, qc...), append(n, qn...)
		}
		if cos, err = b.putFloats(c); err != nil {
			return 0, 0, 0, err
		}
		if sin, err = b.putFloats(n); err != nil {
			return 0, 0, 0, err
		}
		if b.step.turns == nil {
			b.step.turns = map[*rope.Table][2]ptr{}
		}
		b.step.turns[t] = [2]ptr{cos, sin}
		return cos, sin, 0, nil
	}
	have, need := b.turns[t], slices.Max(s.Pos)+1
	if have == nil || have.n < need {
		n := max(need, 256)
		if have != nil {
			n = max(n, 2*have.n)
		}
		c, sn, err := angles(t, positions(0, n), n)
		if err != nil {
			return 0, 0, 0, err
		}
		have = &turns{n: n}
		if have.cos, err = b.place(unsafe.Pointer(&c[0]), 4*int64(len(c))); err != nil {
			return 0, 0, 0, err
		}
		if have.sin, err = b.place(unsafe.Pointer(&sn[0]), 4*int64(len(sn))); err != nil {
			return 0, 0, 0, err
		}
		b.turns[t] = have
	}
	return have.cos, have.sin, b.step.pos, nil
}

// Store appends k [T, n_kv, D] and v [T, n_kv, Dv] (nil for latent attention) to the caches of the step's sequences.
func (b *Backend) Store(layer int, k, v *tensor.Tensor, s *model.Step) error {
	if len(b.step.tables) == 0 || b.step.blocks == 0 {
		return nil
	}
	view, index, err := b.view(s, layer)
	if err != nil {
		return err
	}
	var values ptr
	vd := 0
	if v != nil {
		values, vd = at(v), v.Shape[2]
	}
	kd := k.Shape[2]
	return b.dev.launch("store", dim{k.Shape[0], k.Shape[1], 1}, threads(max(kd, vd)), 0,
		at(k), values, b.step.blocks, view.at, b.step.seq, b.step.pos, index, k.Shape[1], kd, vd)
}

// attending is what the attention kernels of a layer need.
type attending struct {
	p       attention.Params
	k, v    ptr
	blocks  ptr
	seqs    ptr
	index   int // of the layer in its group
	cacheVD int // numbers of a value in the cache: 0 where the value is the front of the key
	scale   float32
	sinks   ptr
}

// Attend computes attention over cache and new tokens → dst [T, H, Dv].
func (b *Backend) Attend(dst *tensor.Tensor, a *model.Attend, s *model.Step) error {
	p := a.Layer.Attention
	if p.KDim > 576 || p.VDim > 512 {
		return fmt.Errorf("cuda: attention heads of %d numbers for keys and %d for values are not supported, want at most 576 and 512", p.KDim, p.VDim)
	}
	view, index, err := b.view(s, a.Index)
	if err != nil {
		return err
	}
	w := attending{p: p, k: at(a.K), blocks: b.step.blocks, seqs: view.at, index: index, scale: p.Scale}
	if w.scale == 0 {
		w.scale = float32(1 / math.Sqrt(float64(p.KDim)))
	}
	if a.V != nil {
		w.v, w.cacheVD = at(a.V), p.VDim
	}
	if w.sinks, err = b.vector(p.Sinks); err != nil {
		return err
	}
	if _, err := b.resize(dst, len(s.IDs), p.Heads, p.VDim); err != nil {
		return err
	}
	if err := b.flash(at(dst), at(a.Q), w, s); err != nil {
		return err
	}
	if a.Weights == nil {
		return nil
	}
	for i, q := range s.Seqs {
		m, err := b.resize(b.weightMatrix, p.Heads, q.T, q.Len())
		if err != nil {
			return err
		}
		err = b.dev.launch("attention_weights", dim{q.T, p.Heads, 1}, 128, 0, m, at(a.Q), w.k, w.blocks, w.seqs+ptr(4*seqInts*i),
			w.index, p.Heads, p.KVHeads, p.KDim, w.cacheVD, w.scale, p.Window, p.SoftCap, w.sinks)
		if err != nil {
			return err
		}
		host, err := b.Read(b.weightMatrix)
		if err != nil {
			return err
		}
		if err := a.Weights(i, host); err != nil {
			return err
		}
	}
	return nil
}

// flash runs the attention kernel that fits.
func (b *Backend) flash(dst, q ptr, w attending, s *model.Step) error {
	p := w.p
	tiles, err := b.tile(s, p)
	if err != nil {
		return err
	}
	chunks := 1 // of 64 numbers
	for chunks*64 < max(p.KDim, p.VDim) && chunks < 8 {
		chunks *= 2
	}
	// Few blocks over many keys are split over the keys too.
	seen := b.step.longest
	if p.Window > 0 {
		seen = min(seen, p.Window+tiles.rows/tiles.group+1)
	}
	splits := 1
	if blocks := tiles.n * p.KVHeads; blocks < b.fewBlocks {
		splits = max(1, min(seen/b.splitKeys, 2*b.fewBlocks/blocks, 128))
	}
	var part ptr
	if splits > 1 {
		if part, err = b.resize(b.parts, tiles.n, p.KVHeads, splits, tiles.rows, p.VDim+2); err != nil {
			return err
		}
	}
	err = b.dev.launch(fmt.Sprintf("flash_%d_%d", tiles.rows, chunks), dim{tiles.n, p.KVHeads, splits}, 128, 0, dst, q, w.k, w.v, w.blocks, w.seqs, tiles.at,
		w.index, p.Heads, p.KVHeads, p.KDim, p.VDim, w.cacheVD, w.scale, p.Window, p.SoftCap, w.sinks, part)
	if err != nil || splits == 1 {
		return err
	}
	return b.dev.launch("flash_join", dim{tiles.n, p.KVHeads, 1}, threads(4*p.VDim), 0, dst, part, w.seqs, tiles.at, tiles.rows, splits, p.Heads, p.KVHeads, p.VDim, w.sinks)
}
