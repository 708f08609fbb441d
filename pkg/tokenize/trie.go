package tokenize

// trie is a prefix tree over bytes. All its edges are in one hash table keyed
// by (node, byte): building one from a quarter of a million words takes tens of
// milliseconds, and a step is one look-up.
type trie struct {
	edges  []edge  // open addressing, length a power of two
	values []int32 // by node: what the word that ends here maps to, or -1
	count  int
}

type edge struct {
	key  uint32 // node<<8 | byte, plus one; 0 is empty
	node int32
}

func newTrie() *trie {
	return &trie{edges: make([]edge, 256), values: []int32{-1}}
}

func (t *trie) find(node int32, b byte) (int, uint32) {
	key := uint32(node)<<8 | uint32(b)
	mask := len(t.edges) - 1
	k := int(uint64(key)*0x9E3779B97F4A7C15>>32) & mask
	key++
	for t.edges[k].key != key && t.edges[k].key != 0 {
		k = (k + 1) & mask
	}
	return k, key
}

// step returns the node that b leads to from node, or -1. The root is node 0.
func (t *trie) step(node int32, b byte) int32 {
	k, _ := t.find(node, b)
	if t.edges[k].key == 0 {
		return -1
	}
	return t.edges[k].node
}

// put maps word to value, which may not be negative.
func (t *trie) put(word string, value int32) {
	node := int32(0)
	for i := 0; i < len(word); i++ {
		k, key := t.find(node, word[i])
		if t.edges[k].key == 0 {
			t.edges[k] = edge{key, int32(len(t.values))}
			t.values = append(t.values, -1)
			node = t.edges[k].node
			if t.count++; 2*t.count > len(t.edges) {
				t.grow()
			}
			continue
		}
		node = t.edges[k].node
	}
	t.values[node] = value
}

func (t *trie) grow() {
	old := t.edges
	t.edges = make([]edge, 2*len(old))
	for _, e := range old {
		if e.key != 0 {
			k, _ := t.find(int32((e.key-1)>>8), byte(e.key-1))
			t.edges[k] = e
		}
	}
}

// longest returns the value and the end of the longest word at s[i:], or -1.
func (t *trie) longest(s string, i int) (value int32, end int) {
	value, end = -1, i
	node := int32(0)
	for ; i < len(s); i++ {
		if node = t.step(node, s[i]); node < 0 {
			break
		}
		if v := t.values[node]; v >= 0 {
			value, end = v, i+1
		}
	}
	return value, end
}
