package attention

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"forwardpass/pkg/tensor"
)

const (
	tileRows = 64  // queries × heads of a group that are worked on together
	tileKeys = 128 // keys a tile
	splitMin = 512 // keys, at least, for a part of a decode step that is split over the keys
)

// Flash computes the attention of a ragged batch without ever holding a T×S matrix. Each task takes some
// queries of all heads that share a key/value head and goes through the keys in tiles, keeping for every query the
// running maximum m, the running sum l of exp(score-m) and the output so far:
//
//	m' = max(m, max(s)),  l' = l·e^(m-m') + Σ e^(s-m'),  o' = o·e^(m-m') + e^(s-m')·V,  at the end o/l
//
// It equals Naive up to rounding. A step with few queries over many keys is split over the keys as well, and the
// parts are joined by the same rule (Flash-Decoding).
//
// q [ΣT, H, D], the sequences' new tokens one after the other → dst [ΣT, H, Dv], resized
func Flash(dst, q *tensor.Tensor, seqs []Seq, p Params, ws *Workspace) error {
	if err := p.Check(); err != nil {
		return err
	}
	if dst == nil {
		return fmt.Errorf("attention: want a tensor to write to, got none")
	}
	rows := 0
	for _, s := range seqs {
		if err := s.check(p); err != nil {
			return err
		}
		rows += s.T
	}
	if err := tensor.CheckShape("attention: q", q, rows, p.Heads, p.KDim); err != nil {
		return err
	}
	if ws == nil {
		ws = &Workspace{}
	}
	dst.Resize(rows, p.Heads, p.VDim)
	ws.plan(seqs, p)
	ws.dst, ws.q, ws.seqs, ws.p = dst, q, seqs, p
	ws.next.Store(0)
	tensor.Parallel(len(ws.scratch), ws)
	ws.join()
	ws.dst, ws.q, ws.seqs = nil, nil, nil
	return nil
}

// Workspace holds the buffers of Flash from call to call, and counts the bytes that the calls moved.
type Workspace struct {
	Traffic Traffic

	units   []unit
	scratch []scratch // of each worker
	partial []partial // of units that were split over the keys
	next    atomic.Int64

	dst, q *tensor.Tensor
	seqs   []Seq
	p      Params
}

// unit is one task: queries t0…t1 of a sequence for one key/value head, over keys k0…k1.
type unit struct {
	seq, row int // sequence, and the row of q where it begins
	kv       int
	t0, t1   int
	k0, k1   int
	partial  int // where the result goes; -1: straight to dst
}

type scratch struct {
	q      []float32 // [rows, D], scaled
	scores []float32 // [rows, tileKeys]
	out    partial
}

// partial is what is known of rows of queries after some keys.
type partial struct {
	max, sum []float32 // [rows]
	acc      []float32 // [rows, Dv]
}

// plan lists the units. Nothing is allocated once the slices have grown.
func (ws *Workspace) plan(seqs []Seq, p Params) {
	workers := runtime.GOMAXPROCS(0)
	group := p.Heads / p.KVHeads
	step := max(1, tileRows/group) // tokens a unit
	ws.units = ws.units[:0]
	parts, row := 0, 0
	for i, s := range seqs {
		for t0 := 0; t0 < s.T; t0 += step {
			t1 := min(t0+step, s.T)
			from, _ := Visible(s.Start+t0, p.Window)
			_, to := Visible(s.Start+t1-1, p.Window)
			split := 1
			if len(seqs)*p.KVHeads*((s.T+step-1)/step) < 2*workers {
				split = max(1, min((to-from)/splitMin, 2*workers))
			}
			for kv := range p.KVHeads {
				for j := range split {
					u := unit{seq: i, row: row, kv: kv, t0: t0, t1: t1, k0: from + (to-from)*j/split, k1: from + (to-from)*(j+1)/split, partial: -1}
					if split > 1 {
						u.partial = parts
						parts++
					}
					ws.units = append(ws.units, u)
				}
			}
		}
		row += s.T
	}
	for len(ws.partial) < parts {
		ws.partial = append(ws.partial, partial{})
	}
	n := min(workers, len(ws.units))
	for len(ws.scratch) < n {
		ws.scratch = append(ws.scratch, scratch{})
	}
	ws.scratch = ws.scratch[:n]
}

// Run is a worker: it takes units until there are none.
func (ws *Workspace) Run(part int) {
	for {
		i := int(ws.next.Add(1)) - 1
		if i >= len(ws.units) {
			return
		}
		ws.attend(ws.units[i], &ws.scratch[part])
	}
}

// attend works one unit.
func (ws *Workspace) attend(u unit, sc *scratch) {
	p, s := &ws.p, &ws.seqs[u.seq]
	group := p.Heads / p.KVHeads
	rows := (u.t1 - u.t0) * group // row r is token t0+r/group, head kv·group+r%group
	sc.q, sc.scores = grow(sc.q, rows*p.KDim), grow(sc.scores, rows*tileKeys)
	out := &sc.out
	if u.partial >= 0 {
		out = &ws.partial[u.partial]
	}
	out.max, out.sum, out.acc = grow(out.max, rows), grow(out.sum, rows), grow(out.acc, rows*p.VDim)
	clear(out.sum)
	clear(out.acc)
	for r := range out.max {
		out.max[r] = float32(math.Inf(-1))
	}
	width := group * p.KDim
	for t := u.t0; t < u.t1; t++ {
		src := ws.q.Data[((u.row+t)*p.Heads+u.kv*group)*p.KDim:][:width]
		copy(sc.q[(t-u.t0)*width:], src)
	}
	tensor.Scale(sc.q, p.scale()) // [rows, D]

	keys := 0
	for _, run := range s.Runs {
		from, to := max(run.Start, u.k0), min(run.Start+run.Len, u.k1)
		for k := from; k < to; k += tileKeys {
			n := min(tileKeys, to-k)
			keys += n
			tensor.MulNT(sc.scores, n, sc.q, p.KDim, run.Keys(u.kv, k-run.Start), run.StepK, rows, n, p.KDim) // [rows, n]
			if p.SoftCap > 0 {
				tensor.SoftCap(sc.scores[:rows*n], p.SoftCap)
			}
			for r := range rows {
				row := sc.scores[r*n : (r+1)*n]
				lo, hi := Visible(s.Start+u.t0+r/group, p.Window)
				lo, hi = min(max(lo-k, 0), n), min(max(hi-k, 0), n)
				clear(row[:lo])
				clear(row[hi:])
				out.update(r, row[lo:hi], p.VDim)
			}
			tensor.MulNN(out.acc, p.VDim, sc.scores, n, run.Values(u.kv, k-run.Start), run.StepV, rows, p.VDim, n) // [rows, Dv]
		}
	}
	ws.Traffic.flash(rows, keys, p)
	if u.partial < 0 {
		ws.finish(u, out)
	}
}

// update moves row r to a new maximum and turns the scores into exp(score-max).
func (o *partial) update(r int, scores []float32, dim int) {
	if len(scores) == 0 {
		return
	}
	if m := tensor.Max(scores); m > o.max[r] {
		if o.sum[r] > 0 {
			shrink := float32(math.Exp(float64(o.max[r] - m)))
			o.sum[r] *= shrink
			tensor.Scale(o.acc[r*dim:(r+1)*dim], shrink)
		}
		o.max[r] = m
	}
	o.sum[r] += tensor.ExpSum(scores, o.max[r])
}

// join puts the parts of split units together.
func (ws *Workspace) join() {
	for i := 0; i < len(ws.units); i++ {
		u := ws.units[i]
		if u.partial < 0 {
			continue
		}
		first := &ws.partial[u.partial]
		for ; i+1 < len(ws.units); i++ {
			v := ws.units[i+1]
			if v.partial < 0 || v.row != u.row || v.kv != u.kv || v.t0 != u.t0 {
				break
			}
			first.add(&ws.partial[v.partial], ws.p.VDim)
		}
		ws.finish(u, first)
	}
}

// add joins two parts over different keys.
func (o *partial) add(b *partial, dim int) {
	for r := range o.max {
		if b.sum[r] == 0 {
			continue
		}
		acc, other := o.acc[r*dim:(r+1)*dim], b.acc[r*dim:(r+1)*dim]
		m := max(o.max[r], b.max[r])
		mine, theirs := float32(math.Exp(float64(o.max[r]-m))), float32(math.Exp(float64(b.max[r]-m)))
		tensor.Scale(acc, mine)
		tensor.Axpy(acc, theirs, other)
		o.sum[r] = o.sum[r]*mine + b.sum[r]*theirs
		o.max[r] = m
	}
}

// finish divides by the sums and writes the rows where they belong.
func (ws *Workspace) finish(u unit, o *partial) {
	p := &ws.p
	group := p.Heads / p.KVHeads
	for r := range o.max {
		token, head := u.row+u.t0+r/group, u.kv*group+r%group
		dst := ws.dst.Data[(token*p.Heads+head)*p.VDim:][:p.VDim]
		sum := o.sum[r]
		if p.Sinks != nil {
			sum += float32(math.Exp(float64(p.Sinks[head] - o.max[r])))
		}
		copy(dst, o.acc[r*p.VDim:(r+1)*p.VDim])
		tensor.Scale(dst, 1/sum)
	}
}

func grow(b []float32, n int) []float32 {
	if cap(b) < n {
		return make([]float32, n)
	}
	return b[:n]
}
