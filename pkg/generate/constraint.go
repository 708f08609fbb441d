package generate

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Constraint is a set of texts, one of which must be written. At each step the tokens that lead out of the set, or so far
// from its end that the remaining tokens would not suffice, get the logit −Inf; so the text can always be finished. Made by
// [Regex] or [JSONSchema]; safe for use by several goroutines.
type Constraint struct {
	dfa *dfa

	mu    sync.Mutex
	bound []*boundConstraint
}

func newConstraint(f fragment) (*Constraint, error) {
	d, err := f.determinise()
	if err != nil {
		return nil, err
	}
	return &Constraint{dfa: d}, nil
}

// Match reports whether text is in the set, as a whole.
func (c *Constraint) Match(text string) bool {
	if c.dfa == nil {
		return false
	}
	s := c.dfa.walk(0, text)
	return s >= 0 && c.dfa.accept[s]
}

// boundConstraint is a constraint for one vocabulary.
type boundConstraint struct {
	*dfa
	tokenizer Tokenizer
	vocab     int
	tokens    []tokenText // sorted by text, so that neighbours share prefixes
	need      []int       // [states] the fewest tokens to an end, −1: no way
}

type tokenText struct {
	id     int
	text   string
	common int // bytes shared with the token before
}

// bind prepares the constraint for a vocabulary of v tokens; it remembers the last few it was used with.
func (c *Constraint) bind(t Tokenizer, v int) (*boundConstraint, error) {
	if c.dfa == nil {
		return nil, fmt.Errorf("generate: constraint: want one from Regex or JSONSchema, got an empty one")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	lasting := reflect.ValueOf(t).Comparable()
	for _, b := range c.bound {
		if lasting && b.vocab == v && b.tokenizer == t {
			return b, nil
		}
	}
	b := &boundConstraint{dfa: c.dfa, tokenizer: t, vocab: v, tokens: tokenTexts(t, v)}
	b.measure()
	if b.need[0] < 0 {
		return nil, fmt.Errorf("generate: constraint: the vocabulary's tokens cannot spell any text of it")
	}
	if lasting {
		if c.bound = append(c.bound, b); len(c.bound) > 4 {
			c.bound = c.bound[1:]
		}
	}
	return b, nil
}

// tokenTexts finds out what each token adds to a text: what it decodes to after another token, since some vocabularies treat
// the first one differently. Tokens that add nothing (special ones) or half a character that cannot be told are left out.
func tokenTexts(t Tokenizer, v int) []tokenText {
	anchor := 0 // a token that is text of its own
	for id := range v {
		if s := t.Decode([]int{id}); s != "" && !strings.Contains(s, "\uFFFD") {
			anchor = id
			break
		}
	}
	before := t.Decode([]int{anchor})
	var out []tokenText
	for id := range v {
		s, ok := strings.CutPrefix(t.Decode([]int{anchor, id}), before)
		if !ok || s == "" {
			continue
		}
		if strings.Contains(s, "\uFFFD") {
			b, ok := byteOf(t, id)
			if !ok {
				continue
			}
			s = string([]byte{b})
		}
		out = append(out, tokenText{id: id, text: s})
	}
	slices.SortFunc(out, func(a, b tokenText) int { return cmp.Or(cmp.Compare(a.text, b.text), cmp.Compare(a.id, b.id)) })
	for i := 1; i < len(out); i++ {
		for n := min(len(out[i-1].text), len(out[i].text)); out[i].common < n && out[i].text[out[i].common] == out[i-1].text[out[i].common]; {
			out[i].common++
		}
	}
	return out
}

// byteOf reads the token of a single byte, <0xNN>, of a vocabulary with byte fallback.
func byteOf(t Tokenizer, id int) (byte, bool) {
	named, ok := t.(interface{ Tokens([]int) []string })
	if !ok {
		return 0, false
	}
	var b byte
	n, err := fmt.Sscanf(named.Tokens([]int{id})[0], "<0x%02X>", &b)
	return b, err == nil && n == 1
}

// each calls f with every token that may follow in a state, and the state that it leads to.
func (b *boundConstraint) each(state int32, f func(id int, to int32)) {
	path := make([]int32, 1, 64) // path[n]: the state after n bytes of the token
	path[0] = state
	for _, t := range b.tokens {
		if t.common < len(path)-1 {
			path = path[:t.common+1]
		}
		if len(path)-1 < t.common {
			continue // the shared prefix was a dead end already
		}
		for n := len(path) - 1; n < len(t.text); n++ {
			to := b.next[path[n]][t.text[n]]
			if to < 0 {
				break
			}
			path = append(path, to)
		}
		if len(path)-1 == len(t.text) {
			f(t.id, path[len(t.text)])
		}
	}
}

// measure finds, for each state, the fewest tokens to an accepting state: a search from the ends backwards.
func (b *boundConstraint) measure() {
	from := make([][]int32, len(b.next))
	b.need = make([]int, len(b.next))
	var queue []int32
	seen := make([]int32, len(b.next))
	for s := range b.next {
		b.need[s] = -1
		if b.accept[s] {
			b.need[s] = 0
			queue = append(queue, int32(s))
		}
		b.each(int32(s), func(_ int, to int32) {
			if seen[to] != int32(s)+1 {
				seen[to] = int32(s) + 1
				from[to] = append(from[to], int32(s))
			}
		})
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, s := range from[queue[0]] {
			if b.need[s] < 0 {
				b.need[s] = b.need[queue[0]] + 1
				queue = append(queue, s)
			}
		}
	}
}

// constraintState is how far one sequence has come.
type constraintState struct {
	b     *boundConstraint
	state int32
	text  []string // of each token id, "" when it may never come
}

func (b *boundConstraint) start() *constraintState {
	c := &constraintState{b: b, text: make([]string, b.vocab)}
	for _, t := range b.tokens {
		c.text[t.id] = t.text
	}
	return c
}

// mask rules out tokens in logits [V]. remaining is how many tokens there may still be, this one included; eos may come where
// the text is complete.
func (c *constraintState) mask(logits []float32, remaining int, eos []int) {
	keep := make([]bool, len(logits))
	c.b.each(c.state, func(id int, to int32) {
		if need := c.b.need[to]; need >= 0 && need < remaining {
			keep[id] = true
		}
	})
	for _, id := range eos {
		keep[id] = c.b.accept[c.state]
	}
	for id, k := range keep {
		if !k {
			logits[id] = float32(math.Inf(-1))
		}
	}
}

// advance reads a token that mask has allowed.
func (c *constraintState) advance(id int) error {
	to := int32(-1)
	if c.text[id] != "" {
		to = c.b.walk(c.state, c.text[id])
	}
	if to < 0 {
		return fmt.Errorf("generate: constraint: token %d does not fit", id)
	}
	c.state = to
	return nil
}

// complete says that the text is whole; ended that nothing may follow, either.
func (c *constraintState) complete() bool { return c.b.accept[c.state] }
func (c *constraintState) ended() bool    { return c.b.final(c.state) }
