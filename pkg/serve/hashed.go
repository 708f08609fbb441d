package serve

import (
	"crypto/sha256"
	"encoding/binary"

	"forwardpass/pkg/kvcache"
)

// hashed finds full blocks by the hash of all tokens up to their end, as vLLM's automatic prefix caching does:
//
//	key(block i) = SHA-256(key(block i-1), tokens of block i)
//
// so that a block's key stands for its tokens and everything before them. Only full blocks are shared.
type hashed struct {
	pool   *kvcache.Pool
	blocks map[[32]byte]*hashedBlock
	clock  int64
	order  lru[*hashedBlock]
}

type hashedBlock struct {
	key   [32]byte
	block int32
	used  int64 // later for blocks nearer to the front: the end of a sequence goes first; -1: evicted
}

func newHashed(p *kvcache.Pool) *hashed {
	return &hashed{pool: p, blocks: map[[32]byte]*hashedBlock{}, order: lru[*hashedBlock]{stamp: func(b *hashedBlock) int64 { return b.used }}}
}

// chain calls visit with the key and stamp of each full block of ids until it says no.
func (h *hashed) chain(ids []int, visit func(i int, key [32]byte, stamp int64) bool) {
	size := h.pool.BlockSize()
	full := len(ids) / size
	h.clock += int64(full) + 1
	var key [32]byte
	text := make([]byte, 0, 32+4*size)
	for i := range full {
		text = append(text[:0], key[:]...)
		for _, id := range ids[i*size : (i+1)*size] {
			text = binary.LittleEndian.AppendUint32(text, uint32(id))
		}
		key = sha256.Sum256(text)
		if !visit(i, key, h.clock-int64(i)) {
			return
		}
	}
}

func (h *hashed) match(ids []int) (int, []int32) {
	var found []int32
	h.chain(ids, func(_ int, key [32]byte, stamp int64) bool {
		b := h.blocks[key]
		if b == nil {
			return false
		}
		b.used = stamp
		found = append(found, b.block)
		return true
	})
	return len(found) * h.pool.BlockSize(), found
}

func (h *hashed) insert(ids []int, blocks []int32) (err error) {
	h.chain(ids, func(i int, key [32]byte, stamp int64) bool {
		if b := h.blocks[key]; b != nil {
			b.used = stamp
			return true
		}
		if err = h.pool.Retain(0, blocks[i]); err != nil {
			return false
		}
		b := &hashedBlock{key, blocks[i], stamp}
		h.blocks[key] = b
		h.order.add(b)
		return true
	})
	return err
}

func (h *hashed) evict(n int) int {
	freed := 0
	h.order.evict(func() bool { return freed >= n }, func(b *hashedBlock) bool {
		if !h.pool.Idle(0, b.block) {
			return false
		}
		_ = h.pool.Release(0, b.block) // insert has retained it
		delete(h.blocks, b.key)
		b.used = -1
		freed++
		return true
	})
	return freed
}

func (h *hashed) clear() {
	for _, b := range h.blocks {
		_ = h.pool.Release(0, b.block)
	}
	clear(h.blocks)
	h.order.items = nil
}
