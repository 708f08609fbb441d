//go:build linux && cuda && cgo

package cuda

import (
	"errors"
	"fmt"
	"runtime"

	"forwardpass/pkg/kvcache"

	"gorgonia.org/cu"
)

// storage is a group's cache blocks in device memory, laid out as in host memory: for each layer the keys
// [n_kv, blockSize, KDim], then the values [n_kv, blockSize, VDim].
type storage struct {
	b     *Backend
	bytes int64   // of a block
	of    []int32 // the chunk of each block
	*held
}

// held is the memory of a storage. It outlives a storage that was dropped without Close, until the device is used next.
type held struct {
	chunks []chunk
}

// chunk is the blocks that one Grow made.
type chunk struct {
	first int
	at    ptr
	size  int64
}

// NewStorage is the cache memory of a group of layers. A cache that nobody refers to any more gives its memory back.
func (b *Backend) NewStorage(d kvcache.Dims, blockSize int, t kvcache.Type) (kvcache.Storage, error) {
	if t != kvcache.F32 {
		return nil, fmt.Errorf("cuda: a cache of type %s is not supported on the device, want %s", t, kvcache.F32)
	}
	s := &storage{b: b, bytes: d.Bytes(1, blockSize, 4), held: &held{}}
	b.storesMu.Lock()
	b.stores[s.held] = true
	b.storesMu.Unlock()
	runtime.AddCleanup(s, b.drop, s.held)
	return s, nil
}

func (s *storage) BlockBytes() int64 { return s.bytes }

func (s *storage) address(block int) ptr {
	c := s.chunks[s.of[block]]
	return c.at + ptr(int64(block-c.first)*s.bytes)
}

func (s *storage) Grow(blocks int) error {
	have := len(s.of)
	if blocks <= have {
		return nil
	}
	return s.b.work(func() error {
		size := int64(blocks-have) * s.bytes
		p, err := s.b.dev.alloc(size)
		if err != nil {
			return fmt.Errorf("cuda: %d cache blocks: %w", blocks-have, err)
		}
		s.chunks = append(s.chunks, chunk{have, p, size})
		s.b.cacheBytes += size
		for range blocks - have {
			s.of = append(s.of, int32(len(s.chunks)-1))
		}
		return nil
	})
}

func (s *storage) Copy(dst, src int) error {
	return s.b.work(func() error {
		return s.b.dev.check("copying a cache block", cu.MemcpyDtoDAsync(s.address(dst), s.address(src), s.bytes, s.b.dev.stream))
	})
}

// Close gives the memory back. After the backend's own Close there is none.
func (s *storage) Close() error {
	s.of = nil
	s.b.drop(s.held)
	err := s.b.work(func() error { return nil })
	if errors.Is(err, errClosed) || errors.Is(err, ErrLost) {
		return nil // the memory went with the backend or the device
	}
	return err
}

// drop marks the memory of a storage as to be freed.
func (b *Backend) drop(h *held) {
	b.storesMu.Lock()
	defer b.storesMu.Unlock()
	if b.stores[h] {
		b.stores[h] = false
	}
}

// sweep frees what was dropped; all: everything. The device is entered.
func (b *Backend) sweep(all bool) error {
	b.storesMu.Lock()
	defer b.storesMu.Unlock()
	var errs []error
	waited := false
	for h, used := range b.stores {
		if used && !all {
			continue
		}
		if !waited {
			errs, waited = append(errs, b.dev.wait()), true
		}
		for _, c := range h.chunks {
			errs = append(errs, b.dev.free(c.at, c.size))
			b.cacheBytes -= c.size
		}
		h.chunks = nil
		delete(b.stores, h)
	}
	return errors.Join(errs...)
}
