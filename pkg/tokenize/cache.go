package tokenize

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// pieceCache remembers the tokens of recent short pieces: text repeats its
// words. It is a fixed number of slots, each overwritten by the next piece that
// falls on it, so it is bounded and needs no lock.
type pieceCache struct {
	seed  maphash.Seed
	slots [cacheSlots]atomic.Pointer[cachedPiece]
}

type cachedPiece struct {
	piece  string
	tokens []token
}

const (
	cacheSlots     = 1 << 14
	cachedPieceMax = 64 // bytes
)

func newPieceCache() *pieceCache { return &pieceCache{seed: maphash.MakeSeed()} }

func (c *pieceCache) get(piece string) ([]token, uint64) {
	if len(piece) > cachedPieceMax {
		return nil, 0
	}
	hash := maphash.String(c.seed, piece)
	if e := c.slots[hash%cacheSlots].Load(); e != nil && e.piece == piece {
		return e.tokens, hash
	}
	return nil, hash
}

func (c *pieceCache) put(hash uint64, piece string, tokens []token) {
	if len(piece) > cachedPieceMax || len(tokens) == 0 {
		return
	}
	c.slots[hash%cacheSlots].Store(&cachedPiece{
		piece:  strings.Clone(piece),
		tokens: append([]token(nil), tokens...),
	})
}
