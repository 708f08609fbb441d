package attention

import (
	"forwardpass/pkg/tensor"
)

// Naive computes attention as the formula stands, with the matrix of weights for every head.
//
// q [T, H, D] → out [T, H, Dv], weights [H, T, S]
func Naive(q *tensor.Tensor, s Seq, p Params) (out, weights *tensor.Tensor, err error) {
	if err := p.Check(); err != nil {
		return nil, nil, err
	}
	if err := s.check(p); err != nil {
		return nil, nil, err
	}
	if err := tensor.CheckShape("attention: q", q, s.T, p.Heads, p.KDim); err != nil {
		return nil, nil, err
	}
	seen := s.Start + s.T // S
	out, weights = tensor.New(s.T, p.Heads, p.VDim), tensor.New(p.Heads, s.T, seen)
	group := p.Heads / p.KVHeads
	step := p.Heads * p.KDim // from token to token in q
	for h := range p.Heads {
		kv := h / group
		w := weights.Data[h*s.T*seen : (h+1)*s.T*seen] // [T, S]
		for _, r := range s.Runs {
			tensor.MulNT(w[r.Start:], seen, q.Data[h*p.KDim:], step, r.Keys(kv, 0), r.StepK, s.T, min(r.Len, seen-r.Start), p.KDim) // scores [T, run]
		}
		tensor.Scale(w, p.scale())
		if p.SoftCap > 0 {
			tensor.SoftCap(w, p.SoftCap)
		}
		for i := range s.T {
			row := w[i*seen : (i+1)*seen] // [S]
			from, to := Visible(s.Start+i, p.Window)
			clear(row[:from])
			clear(row[to:])
			softmaxSink(row[from:to], p, h)
		}
		for _, r := range s.Runs {
			tensor.MulNN(out.Data[h*p.VDim:], p.Heads*p.VDim, w[r.Start:], seen, r.Values(kv, 0), r.StepV, s.T, p.VDim, min(r.Len, seen-r.Start)) // [T, Dv]
		}
	}
	return out, weights, nil
}

// softmaxSink is softmax over the scores and, where the head has one, its sink, whose weight goes nowhere.
func softmaxSink(row []float32, p Params, head int) {
	if p.Sinks == nil {
		tensor.Softmax(row)
		return
	}
	m := max(tensor.Max(row), p.Sinks[head])
	sum := tensor.ExpSum(row, m)
	sink := []float32{p.Sinks[head]}
	tensor.Scale(row, 1/(sum+tensor.ExpSum(sink, m)))
}
