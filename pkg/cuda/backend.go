//go:build linux && cuda && cgo

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"forwardpass/pkg/block"
	"forwardpass/pkg/model"
	"forwardpass/pkg/rope"
	"forwardpass/pkg/tensor"
)

// Backend is a model's arithmetic on a GPU. Each model needs one of its own; those on one device share its context.
type Backend struct {
	opts   Options
	dev    *device
	closed bool

	weights     map[*tensor.Matrix]*weight
	vectors     map[*float32]ptr
	experts     map[*block.MoE]*experts
	turns       map[*rope.Table]*turns
	kept        []kept
	weightBytes int64
	cacheBytes  int64
	storesMu    sync.Mutex
	stores      map[*held]bool // memory of caches; false: dropped, to be freed

	arena   arena
	step    step
	tensors []*memory // of NewTensor

	gate, up       *tensor.Tensor // scratch of the MLPs
	moe            moeScratch
	logits, picked *tensor.Tensor
	parts          *tensor.Tensor // scratch of attention
	weightMatrix   *tensor.Tensor
	splitKeys      int // keys, at least, of a part of a split
	fewBlocks      int // attention in fewer blocks than this is split
}

// memory is a tensor's place on the device.
type memory struct {
	at   ptr
	room int64 // bytes
}

// Open makes a backend on a device.
func Open(o Options) (model.Backend, error) { return open(o) }

func open(o Options) (*Backend, error) {
	dev, err := acquire(o)
	if err != nil {
		return nil, err
	}
	b := &Backend{opts: o, dev: dev, weights: map[*tensor.Matrix]*weight{}, vectors: map[*float32]ptr{}, experts: map[*block.MoE]*experts{}, turns: map[*rope.Table]*turns{}, stores: map[*held]bool{}, splitKeys: 256, fewBlocks: 2 * dev.info.Multiprocessors}
	for _, t := range []**tensor.Tensor{&b.gate, &b.up, &b.logits, &b.picked, &b.parts, &b.weightMatrix, &b.moe.logits, &b.moe.pick, &b.moe.weight, &b.moe.order, &b.moe.first, &b.moe.gate, &b.moe.up, &b.moe.out} {
		*t = b.NewTensor()
	}
	return b, nil
}

// StatsOf is what a backend of this package has done; false for others. Launches and copies are those of the device, which
// backends share.
func StatsOf(be model.Backend) (Stats, bool) {
	b, ok := be.(*Backend)
	if !ok {
		return Stats{}, false
	}
	b.dev.mu.Lock()
	defer b.dev.mu.Unlock()
	s := b.dev.stats
	s.Weights, s.Cache = b.weightBytes, b.cacheBytes
	return s, true
}

// Name is the device's.
func (b *Backend) Name() string { return "cuda: " + b.dev.info.Name }

// Device is what the driver says about the backend's device.
func (b *Backend) Device() Device { return b.dev.info }

// NewTensor is an empty tensor for results of the other methods.
func (b *Backend) NewTensor() *tensor.Tensor {
	m := &memory{}
	b.tensors = append(b.tensors, m)
	return &tensor.Tensor{Device: m}
}

var errClosed = errors.New("cuda: the backend is closed")

// work is a stretch of work on the device, outside of a step.
func (b *Backend) work(f func() error) error {
	if b.closed {
		return errClosed
	}
	return b.dev.do(func() error {
		if err := b.sweep(false); err != nil {
			return err
		}
		return f()
	})
}

// Close frees the backend's memory, that of its caches included.
func (b *Backend) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	var errs []error
	err := b.dev.do(func() error {
		errs = append(errs, b.dev.wait(), b.sweep(true))
		for _, k := range b.kept {
			errs = append(errs, b.dev.free(k.p, k.n))
		}
		for _, m := range b.tensors {
			errs = append(errs, b.dev.free(m.at, m.room))
			*m = memory{}
		}
		return nil
	})
	b.weights, b.vectors, b.experts, b.turns, b.kept = nil, nil, nil, nil, nil
	if errors.Is(err, ErrLost) {
		err = nil // the memory went with the device
	}
	return errors.Join(append(errs, err, b.dev.release())...)
}

// resize gives a tensor of the backend another shape, and memory for it.
func (b *Backend) resize(t *tensor.Tensor, shape ...int) (ptr, error) {
	m, ok := t.Device.(*memory)
	if !ok {
		return 0, fmt.Errorf("cuda: a tensor of shape %v is not in device memory", t.Shape)
	}
	if n := 4 * int64(tensor.Size(shape)); n > m.room {
		n += n / 4
		if err := b.dev.wait(); err != nil { // kernels that use the old memory
			return 0, err
		}
		if err := b.dev.free(m.at, m.room); err != nil {
			return 0, err
		}
		*m = memory{}
		p, err := b.dev.alloc(n)
		if err != nil {
			return 0, err
		}
		*m = memory{p, n}
	}
	t.Shape = append(t.Shape[:0], shape...)
	return m.at, nil
}

// at is where a tensor lies.
func at(t *tensor.Tensor) ptr {
	if m, ok := t.Device.(*memory); ok {
		return m.at
	}
	return 0
}

func size(t *tensor.Tensor) int { return tensor.Size(t.Shape) }

// each is the grid of a kernel that takes n elements one by one.
func each(n int) dim { return dim{min((n+255)/256, 1<<16), 1, 1} }

// threads is how many work on a row of n numbers.
func threads(n int) int { return min(max((n/4+31)/32*32, 32), 512) }

// Embed looks the step's ids up: → x [T, C]
func (b *Backend) Embed(x *tensor.Tensor, table *tensor.Matrix, s *model.Step) error {
	if _, err := b.resize(x, len(s.IDs), table.Cols); err != nil {
		return err
	}
	return b.embed(x, table, b.step.ids, false)
}

// AddPositions adds the row of each token's position to x [T, C].
func (b *Backend) AddPositions(x *tensor.Tensor, table *tensor.Matrix, s *model.Step) error {
	if p := slices.Max(s.Pos); p >= table.Rows {
		return fmt.Errorf("cuda: position %d, the table has %d", p, table.Rows)
	}
	return b.embed(x, table, b.step.pos, true)
}

func (b *Backend) embed(x *tensor.Tensor, table *tensor.Matrix, index ptr, add bool) error {
	w, err := b.weight(table)
	if err != nil {
		return err
	}
	return b.dev.launch("embed_"+w.kind, dim{x.Rows(), 1, 1}, 128, 0, at(x), w.w, w.d, w.m, w.ld, index, w.cols, add)
}

// Scale multiplies x by a.
func (b *Backend) Scale(x *tensor.Tensor, a float32) error {
	return b.dev.launch("scale", each(size(x)), 256, 0, at(x), a, size(x))
}

// Clamp limits x to [-limit, limit].
func (b *Backend) Clamp(x *tensor.Tensor, limit float32) error {
	return b.dev.launch("clamp", each(size(x)), 256, 0, at(x), limit, size(x))
}

// Add adds y to x.
func (b *Backend) Add(x, y *tensor.Tensor) error {
	if size(x) != size(y) {
		return fmt.Errorf("cuda: add %v to %v", y.Shape, x.Shape)
	}
	return b.dev.launch("add", each(size(x)), 256, 0, at(x), at(y), size(x))
}

// Norm normalises the rows of x into dst, which may be x.
func (b *Backend) Norm(dst, x *tensor.Tensor, n *block.Norm) error {
	c := x.Dim(-1)
	if n.Weight != nil && len(n.Weight) != c || n.Bias != nil && len(n.Bias) != c {
		return fmt.Errorf("cuda: norm of rows of %d numbers with %d weights and %d biases", c, len(n.Weight), len(n.Bias))
	}
	w, err := b.vector(n.Weight)
	if err != nil {
		return err
	}
	bias, err := b.vector(n.Bias)
	if err != nil {
		return err
	}
	if dst != x {
		if _, err := b.resize(dst, x.Shape...); err != nil {
			return err
		}
	}
	return b.dev.launch("norm", dim{x.Rows(), 1, 1}, threads(c), 0, at(dst), at(x), w, bias, c, float32(n.Eps), n.Center)
}

// Concat joins rows: a [T, n], b [T, m] → dst [T, 1, n+m]
func (b *Backend) Concat(dst, x, y *tensor.Tensor) error {
	t, n, m := x.Rows(), x.Dim(-1), y.Dim(-1)
	if _, err := b.resize(dst, t, 1, n+m); err != nil {
		return err
	}
	return b.dev.launch("concat", each(size(dst)), 256, 0, at(dst), at(x), at(y), n, m, size(dst))
}

// Gather copies rows of x [T, C] → dst [len(rows), C]. rows are the step's.
func (b *Backend) Gather(dst, x *tensor.Tensor, rows []int) error {
	c := x.Dim(-1)
	if _, err := b.resize(dst, len(rows), c); err != nil {
		return err
	}
	return b.dev.launch("gather", dim{len(rows), 1, 1}, threads(c), 0, at(dst), at(x), b.step.rows, c)
}

// Logits scores the vocabulary: h [n, C] → dst [n, V], in host memory unless the options keep them on the device.
func (b *Backend) Logits(dst, h *tensor.Tensor, head tensor.Linear, softCap float32) error {
	if err := b.Linear(h, head.To(b.logits)); err != nil {
		return err
	}
	if softCap > 0 {
		if err := b.dev.launch("softcap", each(size(b.logits)), 256, 0, at(b.logits), softCap, size(b.logits)); err != nil {
			return err
		}
	}
	if b.opts.KeepLogits {
		*dst = tensor.Tensor{Shape: append(dst.Shape[:0], b.logits.Shape...), Device: b.logits.Device}
		return nil
	}
	dst.Resize(b.logits.Shape...)
	return b.download(dst.Data, b.logits)
}

// softmax turns each row of scores into weights that sum to 1.
func (b *Backend) softmax(x *tensor.Tensor) error {
	return b.dev.launch("softmax", dim{x.Rows(), 1, 1}, threads(x.Dim(-1)), 0, at(x), x.Dim(-1))
}

// Read copies x to the host.
func (b *Backend) Read(x *tensor.Tensor) (*tensor.Tensor, error) {
	host := tensor.New(x.Shape...)
	return host, b.download(host.Data, x)
}

func (b *Backend) download(dst []float32, x *tensor.Tensor) error {
	if len(dst) == 0 {
		return nil
	}
	return b.dev.fetch(unsafe.Pointer(&dst[0]), at(x), 4*int64(len(dst)))
}
