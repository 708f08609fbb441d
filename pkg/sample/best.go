package sample

// keepBest takes tokens best first (largest key; of equal keys the lowest id) until enough says that the tokens taken
// suffice, the last one included, and drops the rest. key is indexed by id.
//
// A heap gives the best tokens without sorting the whole vocabulary: O(V + n·log V) for n tokens kept. And since the order
// is total, the last token taken is all that is needed to tell who stays.
func (p *Pipeline) keepBest(key []float64, enough func(id int) bool) {
	h := append(p.heap[:0], p.kept...)
	for i := len(h)/2 - 1; i >= 0; i-- {
		siftDown(h, key, i)
	}
	for len(h) > 0 {
		last := h[0]
		if enough(last) {
			n := 0
			for _, id := range p.kept {
				if id == last || better(key, id, last) {
					p.kept[n] = id
					n++
				}
			}
			p.kept = p.kept[:n]
			return
		}
		h[0] = h[len(h)-1]
		h = h[:len(h)-1]
		siftDown(h, key, 0)
	}
}

// better reports whether token a ranks before token b.
func better(key []float64, a, b int) bool {
	return key[a] > key[b] || key[a] == key[b] && a < b
}

// siftDown restores the heap below i: no child ranks before its parent.
func siftDown(h []int, key []float64, i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && better(key, h[c+1], h[c]) {
			c++
		}
		if !better(key, h[c], h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}
