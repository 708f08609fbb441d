package attention

import "sync/atomic"

// Traffic counts the bytes that attention reads from and writes to memory beyond the cache-sized tiles, which
// is what FlashAttention saves (arXiv:2205.14135, section 3.2). It may be read while attention runs.
type Traffic struct {
	read, written atomic.Int64
}

// Bytes is what has been moved so far.
func (t *Traffic) Bytes() (read, written int64) { return t.read.Load(), t.written.Load() }

// Reset starts again at zero.
func (t *Traffic) Reset() { t.read.Store(0); t.written.Store(0) }

// flash is a unit of Flash: the queries once, each tile of keys and values once for all its rows, the output once.
func (t *Traffic) flash(rows, keys int, p *Params) {
	t.read.Add(4 * int64(rows*p.KDim+keys*(p.KDim+p.VDim)))
	t.written.Add(4 * int64(rows*p.VDim))
}

// NaiveTraffic is the bytes that the formula moves when every step goes through memory: scores written,
// read by softmax, weights written, read again for the product with V. For T queries over S keys.
func NaiveTraffic(t, s int, p Params) (read, written int64) {
	q, kv, scores, out := int64(t*p.Heads*p.KDim), int64(s*p.KVHeads*(p.KDim+p.VDim)), int64(p.Heads)*int64(t)*int64(s), int64(t*p.Heads*p.VDim)
	return 4 * (q + kv + 2*scores), 4 * (2*scores + out)
}
