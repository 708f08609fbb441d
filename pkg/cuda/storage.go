//go:build linux && cuda && cgo

package cuda

import (
	"errors"
	"fmt"

	"forwardpass/pkg/kvcache"

	"gorgonia.org/cu"
)

// storage is a group's cache blocks in device memory, laid out as in host memory: for each layer the keys
// [n_kv, blockSize, KDim], then the values [n_kv, blockSize, VDim].
type storage struct {
	b      *Backend
	bytes  int64 // of a block
	chunks []chunk
	of     []int32 // the chunk of each block
}

// chunk is the blocks that one Grow made.
type chunk struct {
	first int
	at    ptr
	size  int64
}

// NewStorage is the cache memory of a group of layers.
func (b *Backend) NewStorage(d kvcache.Dims, blockSize int, t kvcache.Type) (kvcache.Storage, error) {
	if t != kvcache.F32 {
		return nil, fmt.Errorf("cuda: a cache of type %s is not supported on the device, want %s", t, kvcache.F32)
	}
	return &storage{b: b, bytes: d.Bytes(1, blockSize, 4)}, nil
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
	return s.b.dev.do(func() error {
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
	return s.b.dev.do(func() error {
		return s.b.dev.check("copying a cache block", cu.MemcpyDtoDAsync(s.address(dst), s.address(src), s.bytes, s.b.dev.stream))
	})
}

func (s *storage) Close() error {
	if s.b.closed {
		return nil
	}
	var errs []error
	err := s.b.dev.do(func() error {
		errs = append(errs, s.b.dev.wait())
		for _, c := range s.chunks {
			errs = append(errs, s.b.dev.free(c.at, c.size))
			s.b.cacheBytes -= c.size
		}
		return nil
	})
	s.chunks, s.of = nil, nil
	if errors.Is(err, ErrLost) {
		return nil // the memory went with the device
	}
	return errors.Join(append(errs, err)...)
}
