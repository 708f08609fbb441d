//go:build linux && cuda && cgo

package cuda

import (
	"encoding/binary"
	"unsafe"

	"forwardpass/pkg/tensor"
)

// weight is a matrix in device memory: rows padded with zeros to ld columns, a multiple of 32. The quantised types keep
// their integers and their scales apart, so that both are read in wide aligned pieces.
type weight struct {
	kind       string // the kernels' suffix: f32, f16, bf16, q8, q4
	rows, cols int
	ld         int
	w, d, m    ptr
	size       int64
}

// weight is the device's copy of a matrix, made when it is first asked for. F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are kept as they
// are; other types become F32, which is exact.
func (b *Backend) weight(m *tensor.Matrix) (*weight, error) {
	if w, ok := b.weights[m]; ok {
		return w, nil
	}
	w, err := b.load(m, m.Type)
	if err != nil {
		return nil, err
	}
	b.weights[m] = w
	return w, nil
}

func (b *Backend) load(m *tensor.Matrix, as tensor.DType) (*weight, error) {
	w := &weight{rows: m.Rows, cols: m.Cols, ld: (m.Cols + 31) / 32 * 32}
	parts := [3][]byte{}
	switch as {
	case tensor.F32, tensor.F16, tensor.BF16:
		w.kind = map[tensor.DType]string{tensor.F32: "f32", tensor.F16: "f16", tensor.BF16: "bf16"}[as]
		parts[0] = m.Data
		if w.ld != m.Cols {
			parts[0] = pad(m.Data, m.Rows, m.Type.Bytes(m.Cols), m.Type.Bytes(w.ld))
		}
	case tensor.Q8_0:
		w.kind = "q8"
		parts[0], parts[1] = splitQ8(m.Data)
	case tensor.Q4_0, tensor.Q4_1:
		w.kind = "q4"
		parts[0], parts[1], parts[2] = splitQ4(m.Data, m.Type)
	default:
		all := make([]float32, m.Rows*m.Cols)
		tensor.Dequantize(all, m.Type, m.Data)
		f, err := tensor.FromFloats(all, m.Rows, m.Cols)
		if err != nil {
			return nil, err
		}
		return b.load(f, tensor.F32)
	}
	for i, to := range []*ptr{&w.w, &w.d, &w.m} {
		n := int64(len(parts[i]))
		if n == 0 {
			continue
		}
		p, err := b.place(unsafe.Pointer(&parts[i][0]), n)
		if err != nil {
			return nil, err
		}
		*to = p
		w.size += n
	}
	return w, nil
}

// place copies bytes that stay until Close to the device.
func (b *Backend) place(from unsafe.Pointer, n int64) (ptr, error) {
	p, err := b.dev.alloc(n)
	if err != nil {
		return 0, err
	}
	b.kept = append(b.kept, kept{p, n})
	b.weightBytes += n
	return p, b.dev.upload(p, from, n)
}

// kept is memory that goes with the backend.
type kept struct {
	p ptr
	n int64
}

func pad(data []byte, rows, from, to int) []byte {
	out := make([]byte, rows*to)
	for r := range rows {
		copy(out[r*to:], data[r*from:(r+1)*from])
	}
	return out
}

// splitQ8 takes blocks of 32 int8 behind a half-precision scale apart.
func splitQ8(data []byte) (quants, scales []byte) {
	n := len(data) / 34
	quants, scales = make([]byte, 0, 32*n), make([]byte, 0, 2*n)
	for i := range n {
		block := data[34*i : 34*i+34]
		scales = append(scales, block[:2]...)
		quants = append(quants, block[2:]...)
	}
	return quants, scales
}

// splitQ4 takes blocks of 32 nibbles behind a scale (Q4_1: and a minimum) apart, and puts the nibbles in the order of the
// numbers: in the file, byte i of a block has numbers i and i+16.
func splitQ4(data []byte, t tensor.DType) (quants, scales, minima []byte) {
	_, size := t.Block()
	n := len(data) / size
	quants, scales = make([]byte, 16*n), make([]byte, 0, 2*n)
	for i := range n {
		block := data[size*i : size*(i+1)]
		scales = append(scales, block[:2]...)
		if t == tensor.Q4_1 {
			minima = append(minima, block[2:4]...)
		}
		q := block[size-16:]
		out := quants[16*i : 16*i+16]
		for j := range 8 {
			out[j] = q[2*j]&15 | q[2*j+1]<<4
			out[j+8] = q[2*j]>>4 | q[2*j+1]&0xf0
		}
	}
	return quants, scales, minima
}

// vector is the device's copy of a bias or a norm's weight; 0 for none.
func (b *Backend) vector(v []float32) (ptr, error) {
	if len(v) == 0 {
		return 0, nil
	}
	key := &v[0]
	if p, ok := b.vectors[key]; ok {
		return p, nil
	}
	p, err := b.place(unsafe.Pointer(key), 4*int64(len(v)))
	if err != nil {
		return 0, err
	}
	b.vectors[key] = p
	return p, nil
}

// addresses puts device addresses into device memory that stays.
func (b *Backend) addresses(list []ptr) (ptr, error) {
	raw := make([]byte, 0, 8*len(list))
	for _, p := range list {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(p))
	}
	return b.place(unsafe.Pointer(&raw[0]), int64(len(raw)))
}
