package tokenize

// noRank is the rank of a pair that doesn't merge.
const noRank = 1<<31 - 1

// pairTable maps a pair of token ids to the rank and the result of their
// merge: a hash table with linear probing.
type pairTable struct {
	entries []pairEntry // length a power of two
	count   int
}

type pairEntry struct {
	key      uint64 // left<<32 | right, plus one; 0 is empty
	rank, to int32
}

func newPairTable(size int) *pairTable {
	n := 16
	for n < 2*size {
		n *= 2
	}
	return &pairTable{entries: make([]pairEntry, n)}
}

func (t *pairTable) find(left, right int32) (int, uint64) {
	key := uint64(uint32(left))<<32 | uint64(uint32(right))
	hash := key * 0x9E3779B97F4A7C15
	mask := len(t.entries) - 1
	k := int(hash>>32) & mask
	key++
	for t.entries[k].key != key && t.entries[k].key != 0 {
		k = (k + 1) & mask
	}
	return k, key
}

// put enters a merge. Where a file lists a pair twice, the later line counts.
func (t *pairTable) put(left, right, rank, to int32) {
	k, key := t.find(left, right)
	if t.entries[k].key == 0 {
		t.count++
	}
	t.entries[k] = pairEntry{key, rank, to}
	if 2*t.count > len(t.entries) {
		old := t.entries
		t.entries = make([]pairEntry, 2*len(old))
		for _, e := range old {
			if e.key != 0 {
				k, _ := t.find(int32((e.key-1)>>32), int32(uint32(e.key-1)))
				t.entries[k] = e
			}
		}
	}
}

// get returns the rank and the result of merging left and right, or noRank.
func (t *pairTable) get(left, right int32) (rank, to int32) {
	k, _ := t.find(left, right)
	if e := &t.entries[k]; e.key != 0 {
		return e.rank, e.to
	}
	return noRank, -1
}
