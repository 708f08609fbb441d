package kvcache

// Run is a stretch of consecutive tokens of one layer whose keys and values lie in memory at fixed
// strides: what attention reads. Token j of head h has its key at K[h*HeadK+j*StepK:] and its value at
// V[h*HeadV+j*StepV:].
type Run struct {
	Start, Len   int // positions Start … Start+Len-1
	K, V         []float32
	HeadK, StepK int
	HeadV, StepV int
}

// Keys is head h's keys of the run, from token j on.
func (r *Run) Keys(h, j int) []float32 { return r.K[h*r.HeadK+j*r.StepK:] }

// Values is head h's values of the run, from token j on.
func (r *Run) Values(h, j int) []float32 { return r.V[h*r.HeadV+j*r.StepV:] }

// dense is a layer's tokens decoded to float32, [n_kv, room, dim] each; the first valid tokens are up to date.
type dense struct {
	k, v        []float32
	room, valid int
}

// Runs appends to dst the stretches that hold the first n tokens of a layer (the tokens stored and those appended
// since), leaving out what has left the layer's window, and returns them. For a layer that isn't there, or more tokens than are
// reserved, it appends nothing.
func (c *Cache) Runs(dst []Run, layer, n int) []Run {
	if layer < 0 || layer >= c.pool.dims.Layers || n < 0 || n > c.reserved {
		return dst
	}
	g, index := c.pool.Place(layer)
	h, ok := c.pool.groups[g].store.(*host)
	if !ok {
		return dst
	}
	t, size, d := c.tables[g], c.pool.opts.BlockSize, c.pool.dims
	if h.typ != F32 {
		return append(dst, c.decode(layer, n))
	}
	kBase, vBase := h.layerBase(index)
	for i := t.dropped; i*size < n; i++ {
		f := h.floats[t.blocks[i]]
		r := Run{Start: i * size, Len: min(size, n-i*size), K: f[kBase:], HeadK: size * d.KDim, StepK: d.KDim}
		if d.VDim > 0 {
			r.V, r.HeadV, r.StepV = f[vBase:], size*d.VDim, d.VDim
		} else { // the value is the front of the key
			r.V, r.HeadV, r.StepV = r.K, r.HeadK, r.StepK
		}
		dst = append(dst, r)
	}
	return dst
}

// decode brings a layer's int8 tokens up to date as float32 in scratch memory and returns them as one run.
func (c *Cache) decode(layer, n int) Run {
	g, index := c.pool.Place(layer)
	h := c.pool.groups[g].store.(*host)
	t, size, d, s := c.tables[g], c.pool.opts.BlockSize, c.pool.dims, &c.scratch[layer]
	first := t.dropped * size
	if s.room < n {
		room := max(2*s.room, (n+size-1)/size*size)
		*s = dense{k: make([]float32, d.KVHeads*room*d.KDim), v: make([]float32, d.KVHeads*room*d.VDim), room: room, valid: 0}
	}
	kBase, vBase := h.layerBase(index)
	sk, sv := h.scaleBase(index)
	for pos := max(s.valid, first); pos < n; pos++ {
		b, slot := t.blocks[pos/size], pos%size
		for head := range d.KVHeads {
			at := head*size + slot
			decodeVector(s.k[(head*s.room+pos)*d.KDim:][:d.KDim], h.ints[b][kBase+at*d.KDim:], h.scales[b][sk+at])
			if d.VDim > 0 {
				decodeVector(s.v[(head*s.room+pos)*d.VDim:][:d.VDim], h.ints[b][vBase+at*d.VDim:], h.scales[b][sv+at])
			}
		}
	}
	s.valid = n
	r := Run{Start: first, Len: n - first, K: s.k[first*d.KDim:], HeadK: s.room * d.KDim, StepK: d.KDim}
	if d.VDim > 0 {
		r.V, r.HeadV, r.StepV = s.v[first*d.VDim:], s.room*d.VDim, d.VDim
	} else {
		r.V, r.HeadV, r.StepV = r.K, r.HeadK, r.StepK
	}
	return r
}

func decodeVector(dst []float32, q []int8, scale float32) {
	for i := range dst {
		dst[i] = scale * float32(q[i])
	}
}
