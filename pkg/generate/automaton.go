package generate

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// nfa is a non-deterministic automaton over bytes, built from its end to its start (Thompson's construction): every node
// knows where it leads. A node reads one byte from lo to hi, or splits without reading.
type nfa struct {
	nodes []node
	err   error // the first thing that went wrong: too many nodes
}

type node struct {
	lo, hi byte
	next   []int // where it leads: one node when it reads a byte, any number when it splits
	split  bool
}

// accept is the node in which the whole text has been read.
const accept = 0

const maxNodes = 200_000

func newNFA() *nfa { return &nfa{nodes: []node{{split: true}}} }

func (a *nfa) add(n node) int {
	if len(a.nodes) >= maxNodes {
		if a.err == nil {
			a.err = fmt.Errorf("more than %d nodes: repeat counts are too large", maxNodes)
		}
		return accept
	}
	a.nodes = append(a.nodes, n)
	return len(a.nodes) - 1
}

// fragment builds a piece of the automaton that leads to node to, and returns where it starts.
type fragment func(a *nfa, to int) (from int)

func bytesRange(lo, hi byte) fragment {
	return func(a *nfa, to int) int { return a.add(node{lo: lo, hi: hi, next: []int{to}}) }
}

func literal(s string) fragment {
	return func(a *nfa, to int) int {
		for i := len(s) - 1; i >= 0; i-- {
			to = a.add(node{lo: s[i], hi: s[i], next: []int{to}})
		}
		return to
	}
}

func sequence(parts ...fragment) fragment {
	return func(a *nfa, to int) int {
		for _, f := range slices.Backward(parts) {
			to = f(a, to)
		}
		return to
	}
}

func either(parts ...fragment) fragment {
	return func(a *nfa, to int) int {
		n := node{split: true}
		for _, f := range parts {
			n.next = append(n.next, f(a, to))
		}
		return a.add(n)
	}
}

func optional(f fragment) fragment { return either(f, literal("")) }

// repeat reads f at least min and at most max times; max < 0 is without end.
func repeat(f fragment, min, max int) fragment {
	return func(a *nfa, to int) int {
		if max < 0 {
			loop := a.add(node{split: true, next: []int{to}})
			if first := f(a, loop); a.err == nil {
				a.nodes[loop].next = append(a.nodes[loop].next, first)
			}
			to = loop
		} else {
			end := to
			for range max - min {
				if a.err != nil {
					return to
				}
				to = a.add(node{split: true, next: []int{end, f(a, to)}})
			}
		}
		for range min {
			if a.err != nil {
				return to
			}
			to = f(a, to)
		}
		return to
	}
}

// dfa is the deterministic automaton over bytes: states are sets of nodes of the nfa. Only states from which the end can be
// reached are left; -1 is the dead end.
type dfa struct {
	next   [][256]int32
	accept []bool
}

const maxStates = 20_000

// determinise builds the dfa by the subset construction. State 0 is the start.
func (f fragment) determinise() (*dfa, error) {
	a := newNFA()
	start := f(a, accept)
	if a.err != nil {
		return nil, a.err
	}
	d := &dfa{}
	ids := map[string]int32{}
	var sets [][]int
	mark := make([]int, len(a.nodes)) // mark[n] = generation in which n was put into the set
	generation := 0

	// state returns the number of the state that holds everything reachable from seeds without reading.
	state := func(seeds []int) (int32, error) {
		generation++
		var set, stack []int
		accepting := false
		stack = append(stack, seeds...)
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if mark[n] == generation {
				continue
			}
			mark[n] = generation
			if n == accept {
				accepting = true
			} else if a.nodes[n].split {
				stack = append(stack, a.nodes[n].next...)
			} else {
				set = append(set, n)
			}
		}
		slices.Sort(set)
		key := make([]byte, 0, 4*len(set)+1)
		for _, n := range set {
			key = binary.LittleEndian.AppendUint32(key, uint32(n))
		}
		if accepting {
			key = append(key, 1)
		}
		if id, ok := ids[string(key)]; ok {
			return id, nil
		}
		if len(sets) >= maxStates {
			return 0, fmt.Errorf("more than %d states", maxStates)
		}
		id := int32(len(sets))
		ids[string(key)] = id
		sets = append(sets, set)
		d.next = append(d.next, [256]int32{})
		d.accept = append(d.accept, accepting)
		return id, nil
	}
	if _, err := state([]int{start}); err != nil {
		return nil, err
	}
	var seeds []int
	for s := 0; s < len(sets); s++ {
		// Bytes between two neighbouring borders behave alike.
		var border [257]bool
		border[0], border[256] = true, true
		for _, n := range sets[s] {
			border[a.nodes[n].lo], border[int(a.nodes[n].hi)+1] = true, true
		}
		to := int32(-1)
		for b := range 256 {
			if border[b] {
				seeds = seeds[:0]
				for _, n := range sets[s] {
					if a.nodes[n].lo <= byte(b) && byte(b) <= a.nodes[n].hi {
						seeds = append(seeds, a.nodes[n].next[0])
					}
				}
				to = -1
				if len(seeds) > 0 {
					var err error
					if to, err = state(seeds); err != nil {
						return nil, err
					}
				}
			}
			d.next[s][b] = to
		}
	}
	return d, d.trim()
}

// trim cuts every way that cannot end in an accepting state.
func (d *dfa) trim() error {
	from := make([][]int32, len(d.next)) // the states that lead to a state
	var alive []int32
	good := make([]bool, len(d.next))
	for s := range d.next {
		if d.accept[s] {
			good[s], alive = true, append(alive, int32(s))
		}
		last := int32(-1)
		for _, to := range d.next[s] {
			if to >= 0 && to != last {
				from[to] = append(from[to], int32(s))
			}
			last = to
		}
	}
	for len(alive) > 0 {
		s := alive[len(alive)-1]
		alive = alive[:len(alive)-1]
		for _, p := range from[s] {
			if !good[p] {
				good[p], alive = true, append(alive, p)
			}
		}
	}
	if !good[0] {
		return fmt.Errorf("no text matches")
	}
	for s := range d.next {
		for b, to := range d.next[s] {
			if to >= 0 && !good[to] {
				d.next[s][b] = -1
			}
		}
	}
	return nil
}

// walk reads text from a state; -1 when it doesn't fit.
func (d *dfa) walk(state int32, text string) int32 {
	for i := 0; i < len(text) && state >= 0; i++ {
		state = d.next[state][text[i]]
	}
	return state
}

// final says that the text is complete and nothing may follow.
func (d *dfa) final(state int32) bool {
	if !d.accept[state] {
		return false
	}
	for _, to := range d.next[state] {
		if to >= 0 {
			return false
		}
	}
	return true
}
