package tokenize

// shortPiece is the length up to which looking at every pair for the lowest
// rank beats keeping a heap.
const shortPiece = 48

// mergeShort merges in place, scanning all ranks for each merge: O(n²), and
// faster than anything cleverer for the length of a word.
func (m *bpe) mergeShort(least int, piece string, symbols []token) []token {
	var ranks, ids [shortPiece]int32 // of the merge of symbols i and i+1
	for i := 0; i+1 < len(symbols); i++ {
		ranks[i], ids[i] = m.rank(piece, symbols[i], symbols[i+1])
	}
	n := len(symbols)
	for {
		best, at := int32(noRank), -1
		for i, rank := range ranks[:n-1] {
			if rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			return symbols[:n]
		}
		symbols[at] = token{ids[at], symbols[at].start, symbols[at+1].end}
		copy(symbols[at+1:n], symbols[at+2:n])
		copy(ranks[at:n], ranks[at+1:n])
		copy(ids[at:n], ids[at+1:n])
		n--
		if n <= least {
			return symbols[:n]
		}
		if at > 0 {
			ranks[at-1], ids[at-1] = m.rank(piece, symbols[at-1], symbols[at])
		}
		if at+1 < n {
			ranks[at], ids[at] = m.rank(piece, symbols[at], symbols[at+1])
		}
	}
}

// candidate is a merge that was possible when it was put on the heap.
type candidate struct {
	rank, at, to int32
}

func (c candidate) less(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// mergeLong does the same in O(n log n): symbols are a linked list, the
// possible merges a heap, and a candidate whose symbols have changed since is
// dropped when its turn comes.
func (m *bpe) mergeLong(least int, piece string, symbols []token) []token {
	n := int32(len(symbols))
	next, prev := make([]int32, n), make([]int32, n)
	heap := make([]candidate, 0, n)
	for i := int32(0); i < n; i++ {
		next[i], prev[i] = i+1, i-1
		if i+1 < n {
			if rank, to := m.rank(piece, symbols[i], symbols[i+1]); rank != noRank {
				heap = append(heap, candidate{rank, i, to})
			}
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i)
	}
	offer := func(i int32) {
		if rank, to := m.rank(piece, symbols[i], symbols[next[i]]); rank != noRank {
			heap = append(heap, candidate{rank, i, to})
			siftUp(heap, len(heap)-1)
		}
	}
	for left := len(symbols); len(heap) > 0 && left > least; {
		c := heap[0]
		heap[0] = heap[len(heap)-1]
		heap = heap[:len(heap)-1]
		siftDown(heap, 0)
		i := c.at
		if symbols[i].id < 0 || next[i] == n {
			continue
		}
		j := next[i]
		if rank, to := m.rank(piece, symbols[i], symbols[j]); rank != c.rank || to != c.to {
			continue
		}
		symbols[i] = token{c.to, symbols[i].start, symbols[j].end}
		symbols[j].id = -1
		left--
		next[i] = next[j]
		if next[i] < n {
			prev[next[i]] = i
			offer(i)
		}
		if prev[i] >= 0 {
			offer(prev[i])
		}
	}
	kept := symbols[:0]
	for i := int32(0); i < n; i = next[i] {
		kept = append(kept, symbols[i])
	}
	return kept
}

func siftDown(heap []candidate, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child+1].less(heap[child]) {
			child++
		}
		if !heap[child].less(heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

func siftUp(heap []candidate, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !heap[i].less(heap[parent]) {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}
