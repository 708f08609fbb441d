package tokenize

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// maxVocab bounds token ids, so that a damaged file cannot ask for the memory
// of a four-billion-row vocabulary. The largest in use has 262,144 rows.
const maxVocab = 1 << 24

// vocab maps tokens to ids and back. It is a hash table of its own because
// opening a model should take milliseconds, and filling a Go map with a quarter
// of a million strings does not.
type vocab struct {
	tokens []string // by id; used tells a hole from the empty token
	used   []bool
	count  int

	seed  maphash.Seed
	slots []slot // open addressing, length a power of two
}

type slot struct {
	hash uint32
	id   int32 // id+1; 0 is an empty slot
}

func newVocab(size int) *vocab {
	n := 16
	for n < 2*size {
		n *= 2
	}
	return &vocab{
		tokens: make([]string, 0, size),
		used:   make([]bool, 0, size),
		seed:   maphash.MakeSeed(),
		slots:  make([]slot, n),
	}
}

// add enters a token under an id. Neither may be there already.
func (v *vocab) add(token string, id int) error {
	if id < 0 || id >= maxVocab {
		return fmt.Errorf("token %q has id %d, want 0 to %d", token, id, maxVocab-1)
	}
	for id >= len(v.tokens) {
		v.tokens = append(v.tokens, "")
		v.used = append(v.used, false)
	}
	if v.used[id] {
		return fmt.Errorf("id %d is given to both %q and %q", id, v.tokens[id], token)
	}
	hash := uint32(maphash.String(v.seed, token))
	k := v.find(hash, token)
	if v.slots[k].id != 0 {
		return fmt.Errorf("token %q has two ids, %d and %d", token, v.slots[k].id-1, id)
	}
	v.slots[k] = slot{hash, int32(id) + 1}
	v.tokens[id], v.used[id] = token, true
	v.count++
	if 2*v.count > len(v.slots) {
		v.grow()
	}
	return nil
}

func (v *vocab) grow() {
	old := v.slots
	v.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		k := int(s.hash) & (len(v.slots) - 1)
		for v.slots[k].id != 0 {
			k = (k + 1) & (len(v.slots) - 1)
		}
		v.slots[k] = s
	}
}

// find returns the slot that holds token, or the empty one where it belongs.
func (v *vocab) find(hash uint32, token string) int {
	mask := len(v.slots) - 1
	k := int(hash) & mask
	for {
		s := v.slots[k]
		if s.id == 0 || s.hash == hash && v.tokens[s.id-1] == token {
			return k
		}
		k = (k + 1) & mask
	}
}

// id returns the id of token, or -1.
func (v *vocab) id(token string) int32 {
	return v.slots[v.find(uint32(maphash.String(v.seed, token)), token)].id - 1
}

// idBytes is id for a token in a byte slice.
func (v *vocab) idBytes(token []byte) int32 {
	hash := uint32(maphash.Bytes(v.seed, token))
	mask := len(v.slots) - 1
	k := int(hash) & mask
	for {
		s := v.slots[k]
		if s.id == 0 || s.hash == hash && v.tokens[s.id-1] == string(token) {
			return s.id - 1
		}
		k = (k + 1) & mask
	}
}

// token returns the token with an id, and whether there is one.
func (v *vocab) token(id int) (string, bool) {
	if id < 0 || id >= len(v.tokens) || !v.used[id] {
		return "", false
	}
	return v.tokens[id], true
}

// compact moves all tokens into one string of their own, so that the file they
// were read from can be freed.
func (v *vocab) compact() {
	n := 0
	for _, t := range v.tokens {
		n += len(t)
	}
	var b strings.Builder
	b.Grow(n)
	for _, t := range v.tokens {
		b.WriteString(t)
	}
	all := b.String()
	for i, t := range v.tokens {
		v.tokens[i], all = all[:len(t)], all[len(t):]
	}
}
