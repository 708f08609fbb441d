package tokenize

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// unigram is the unigram language model (Kudo 2018, "Subword Regularization",
// section 3.2): every token has a probability, a segmentation's probability is
// the product, and the most probable segmentation is found by dynamic
// programming (Viterbi) over the positions of the text.
type unigram struct {
	vocab    *vocab
	scores   []float64 // log probability, by id
	words    *trie     // the tokens that text may be cut into
	unk      int32     // -1: an unknown character is an error
	unkScore float64   // of an unknown character
	single   bool      // add scores up in float32, as SentencePiece does

	fallback bool // write unknown characters as <0xNN> tokens
	byteIDs  [256]int32

	pieces *spPieces // SentencePiece's own rules; nil for tokenizer.json
	cache  *pieceCache
}

// unkPenalty is how much less likely than the rarest token an unknown character is.
const unkPenalty = 10

// newUnigram builds the model from log probabilities. skip says which tokens
// text is never cut into; nil skips none.
func newUnigram(v *vocab, scores []float64, unk int32, skip func(id int) bool) (*unigram, error) {
	m := &unigram{vocab: v, scores: scores, words: newTrie(), unk: unk, cache: newPieceCache()}
	size, lowest := 0, math.Inf(1)
	for id, piece := range v.tokens {
		if math.IsNaN(scores[id]) || math.IsInf(scores[id], 0) {
			return nil, fmt.Errorf("token %d, %q: score %g, want a finite number", id, piece, scores[id])
		}
		if skip != nil && skip(id) {
			continue
		}
		if size += len(piece); size > 1<<24 {
			return nil, fmt.Errorf("tokens of more than %d bytes in all", 1<<24)
		}
		m.words.put(piece, int32(id))
		lowest = min(lowest, scores[id])
	}
	m.unkScore = lowest - unkPenalty
	return m, nil
}

// useFallback prepares the <0x00> … <0xFF> tokens.
func (m *unigram) useFallback() {
	m.fallback = true
	for b := range m.byteIDs {
		m.byteIDs[b] = m.vocab.id(fmt.Sprintf("<0x%02X>", b))
	}
}

func (m *unigram) encode(dst []token, piece string) ([]token, error) {
	cached, hash := m.cache.get(piece)
	if cached != nil {
		return append(dst, cached...), nil
	}
	n := len(dst)
	var err error
	if m.single {
		dst, err = viterbi[float32](m, dst, piece)
	} else {
		dst, err = viterbi[float64](m, dst, piece)
	}
	if err != nil {
		return dst[:n], err
	}
	m.cache.put(hash, piece, dst[n:])
	return dst, nil
}

// step is the best way found so far to reach a position of the text.
type step[F float32 | float64] struct {
	score F
	start int32 // where its last token starts, -1 if the position isn't reached
	id    int32
}

// resetScore is the size of a sum from which on SentencePiece subtracts it, so
// that long texts don't run out of digits.
const resetScore = 100000

// viterbi finds the best segmentation of piece. best[i] is the best way to cut
// piece[:i].
func viterbi[F float32 | float64](m *unigram, dst []token, piece string) ([]token, error) {
	best := make([]step[F], len(piece)+1)
	for i := range best {
		best[i].start = -1
	}
	best[0].start = 0
	furthest := 0
	reach := func(from, to int, id int32, score F) {
		furthest = max(furthest, to)
		if b := &best[to]; b.start < 0 || score > b.score {
			*b = step[F]{score, int32(from), id}
		}
	}
	for i := 0; i < len(piece); {
		_, size := utf8.DecodeRuneInString(piece[i:])
		if m.single && math.Abs(float64(best[i].score)) > resetScore {
			by := best[i].score
			for k := i; k <= furthest; k++ {
				if best[k].start >= 0 {
					best[k].score -= by
				}
			}
		}
		known := false
		node := int32(0)
		for j := i; j < len(piece); {
			if node = m.words.step(node, piece[j]); node < 0 {
				break
			}
			j++
			id := m.words.values[node]
			if id < 0 || m.pieces.is(id, ggufUnused) {
				continue
			}
			score := F(m.scores[id])
			if m.pieces.is(id, ggufUserDefined) {
				score = F(0.1 * float64(j-i-1)) // always better than what it is made of
			}
			reach(i, j, id, score+best[i].score)
			known = known || j == i+size
		}
		if !known {
			if m.unk < 0 {
				return dst, fmt.Errorf("%q is not in the vocabulary, which has no unknown token", piece[i:i+size])
			}
			reach(i, i+size, m.unk, F(m.unkScore)+best[i].score)
		}
		i += size
	}
	n := len(dst)
	for j := int32(len(piece)); j > 0; j = best[j].start {
		dst = append(dst, token{best[j].id, best[j].start, j})
	}
	for i, j := n, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return m.unknown(dst, n, piece), nil
}

// unknown rewrites the unknown characters in dst[n:]: as bytes, or as one
// unknown token for each run.
func (m *unigram) unknown(dst []token, n int, piece string) []token {
	any := false
	for _, t := range dst[n:] {
		any = any || t.id == m.unk
	}
	if !any {
		return dst
	}
	found := append([]token(nil), dst[n:]...)
	dst = dst[:n]
	for i := 0; i < len(found); i++ {
		t := found[i]
		if t.id != m.unk {
			dst = append(dst, t)
			continue
		}
		if m.fallback && m.pieces != nil {
			dst = appendBytes(dst, &m.byteIDs, piece, t)
			continue
		}
		for ; i+1 < len(found) && found[i+1].id == m.unk; i++ {
			t.end = found[i+1].end
		}
		if id := m.vocab.id(piece[t.start:t.end]); id >= 0 && m.pieces == nil {
			t.id = id
		} else if m.fallback && m.allBytes(piece[t.start:t.end]) {
			for k := t.start; k < t.end; k++ {
				dst = append(dst, token{m.byteIDs[piece[k]], t.start, t.end})
			}
			continue
		}
		dst = append(dst, t)
	}
	return dst
}

func (m *unigram) allBytes(s string) bool {
	for i := 0; i < len(s); i++ {
		if m.byteIDs[s[i]] < 0 {
			return false
		}
	}
	return true
}

// appendBytes appends the byte tokens of an unknown part of a piece, one byte each.
func appendBytes(dst []token, byteIDs *[256]int32, piece string, t token) []token {
	for k := t.start; k < t.end; k++ {
		dst = append(dst, token{byteIDs[piece[k]], k, k + 1})
	}
	return dst
}
