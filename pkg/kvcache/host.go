package kvcache

import "math"

// host keeps blocks in the host's memory. A block holds, for each layer of the group, the keys
// [n_kv, blockSize, KDim] and then the values [n_kv, blockSize, VDim]: the tokens of a head lie one after
// the other, so that attention reads a head's keys as one matrix.
type host struct {
	dims   Dims
	size   int // tokens a block
	typ    Type
	floats [][]float32 // of each block, F32
	ints   [][]int8    // of each block, Int8
	scales [][]float32 // of each block, Int8: one for each vector [layer, K then V, n_kv, blockSize]
	blocks int
}

// NewHost is a group's storage in the host's memory.
func NewHost(d Dims, blockSize int, t Type) (Storage, error) {
	return &host{dims: d, size: blockSize, typ: t}, nil
}

func (h *host) numbers() int { return h.dims.PerToken() * h.size }

func (h *host) vectors() int {
	kv := 2
	if h.dims.VDim == 0 {
		kv = 1
	}
	return h.dims.Layers * kv * h.dims.KVHeads * h.size
}

func (h *host) BlockBytes() int64 {
	per := h.dims.Layers * h.dims.KVHeads * (h.typ.vectorBytes(h.dims.KDim) + h.typ.vectorBytes(h.dims.VDim))
	return int64(per) * int64(h.size)
}

func (h *host) Grow(blocks int) error {
	for ; h.blocks < blocks; h.blocks++ {
		if h.typ == F32 {
			h.floats = append(h.floats, make([]float32, h.numbers()))
		} else {
			h.ints = append(h.ints, make([]int8, h.numbers()))
			h.scales = append(h.scales, make([]float32, h.vectors()))
		}
	}
	return nil
}

func (h *host) Copy(dst, src int) error {
	if h.typ == F32 {
		copy(h.floats[dst], h.floats[src])
	} else {
		copy(h.ints[dst], h.ints[src])
		copy(h.scales[dst], h.scales[src])
	}
	return nil
}

func (h *host) Close() error {
	h.floats, h.ints, h.scales, h.blocks = nil, nil, nil, 0
	return nil
}

// layerBase is where a layer's keys and values begin in a block.
func (h *host) layerBase(index int) (k, v int) {
	d := h.dims
	k = index * d.KVHeads * h.size * (d.KDim + d.VDim)
	return k, k + d.KVHeads*h.size*d.KDim
}

// scaleBase is where a layer's scales of keys and values begin in a block.
func (h *host) scaleBase(index int) (k, v int) {
	n := h.dims.KVHeads * h.size
	if h.dims.VDim == 0 {
		return index * n, 0
	}
	return index * 2 * n, index*2*n + n
}

// write stores one token: k [n_kv, KDim], v [n_kv, VDim].
func (h *host) write(block, index, slot int, k, v []float32) {
	kBase, vBase := h.layerBase(index)
	sk, sv := h.scaleBase(index)
	d := h.dims
	for head := range d.KVHeads {
		at := head*h.size + slot
		h.put(block, kBase+at*d.KDim, sk+at, k[head*d.KDim:(head+1)*d.KDim])
		if d.VDim > 0 {
			h.put(block, vBase+at*d.VDim, sv+at, v[head*d.VDim:(head+1)*d.VDim])
		}
	}
}

func (h *host) put(block, at, scaleAt int, x []float32) {
	if h.typ == F32 {
		copy(h.floats[block][at:], x)
		return
	}
	var peak float32
	for _, v := range x {
		peak = max(peak, v, -v)
	}
	scale := peak / 127
	h.scales[block][scaleAt] = scale
	q := h.ints[block][at : at+len(x)]
	if scale == 0 {
		clear(q)
		return
	}
	for i, v := range x {
		q[i] = int8(math.RoundToEven(float64(v / scale)))
	}
}
