package tokenize

// precompiled is the charsmap as tokenizer.json files use it. It is not quite
// what SentencePiece does: text is looked up by user-perceived character
// (grapheme cluster) if that has less than six bytes, else by code point, and
// the shortest match replaces the whole.
type precompiled struct{ table *charsmap }

func (n precompiled) normalize(t text) text {
	var changes []change
	changed := false
	put := func(old, with string) {
		start := len(changes)
		for _, r := range with {
			changes = append(changes, change{r, 0})
		}
		more := len(changes) - start - runeCount(old)
		for k := len(changes) - 1; k >= 0 && len(changes)-1-k < more; k-- {
			changes[k].more = 1
		}
		if more < 0 && len(changes) > 0 {
			changes[len(changes)-1].more += more
		}
		changed = true
	}
	for s := t.s; s != ""; {
		n1 := graphemeLen(s)
		cluster := s[:n1]
		s = s[n1:]
		if len(cluster) < 6 {
			if with, size := n.table.lookup(cluster, false); size > 0 {
				put(cluster, with)
				continue
			}
		}
		for _, r := range cluster {
			c := string(r)
			if with, size := n.table.lookup(c, false); size > 0 {
				put(c, with)
			} else {
				changes = append(changes, change{r, 0})
			}
		}
	}
	if !changed {
		return t
	}
	return t.apply(changes, 0)
}

func runeCount(s string) (n int) {
	for range s {
		n++
	}
	return n
}
