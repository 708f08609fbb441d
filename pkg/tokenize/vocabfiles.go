package tokenize

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The older files: GPT-2's vocab.json and merges.txt, BERT's vocab.txt.

// openGPT2 reads a vocabulary {"token": id, …} and the merges beside it.
func openGPT2(path, data string) (*Tokenizer, error) {
	r, err := newJSONReader(data)
	if err != nil {
		return nil, err
	}
	var m hfModel
	if err := m.readVocab(r); err != nil {
		return nil, fmt.Errorf(`neither a tokenizer.json nor a vocabulary {"token": id, …}: %w`, err)
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	var merges []byte
	name := ""
	for _, name = range []string{"merges.txt", "vocab.bpe"} {
		if merges, err = os.ReadFile(filepath.Join(filepath.Dir(path), name)); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("no merges.txt or vocab.bpe beside it")
	}
	pairs, err := parseMerges(string(merges))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b, err := newBPE(m.vocab, pairs, "", "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := &Tokenizer{vocab: m.vocab, model: b, pretokenizer: byteLevel{cut: true}, decoder: []decoder{decoderFunc(decodeByteLevel)}}
	readBytes(t)
	b.useBytes()
	var list []AddedToken
	if id := t.vocab.id("<|endoftext|>"); id >= 0 {
		list = append(list, AddedToken{ID: int(id), Content: "<|endoftext|>", Special: true})
		t.bos, t.eos = []int{int(id)}, []int{int(id)}
	}
	return t, t.addTokens(list)
}

// parseMerges reads one merge a line, after an optional "#version" line.
func parseMerges(data string) ([]string, error) {
	var pairs []string
	for n := 1; data != ""; n++ {
		line, rest, _ := strings.Cut(data, "\n")
		data = rest
		line = strings.TrimSuffix(line, "\r")
		if line == "" || strings.HasPrefix(line, "#version") {
			continue
		}
		left, right, ok := splitMerge(line)
		if !ok {
			return nil, fmt.Errorf("line %d: %.60q is not two tokens", n, line)
		}
		pairs = append(pairs, left, right)
	}
	return pairs, nil
}

// parseVocabTxt reads BERT's vocabulary, one token a line, and sets up the
// uncased tokenizer, or the cased one if the vocabulary has capitals.
func parseVocabTxt(data string) (*Tokenizer, error) {
	return wordPieceTokenizer(strings.Split(strings.TrimSuffix(data, "\n"), "\n"))
}

// wordPieceTokenizer builds BERT's tokenizer from the names of the tokens in the
// order of their ids.
func wordPieceTokenizer(lines []string) (*Tokenizer, error) {
	v := newVocab(len(lines))
	cased := false
	for id, line := range lines {
		token := strings.TrimRight(line, " \t\r\v\f")
		if err := v.add(token, id); err != nil {
			return nil, fmt.Errorf("line %d: %w", id+1, err)
		}
		special := strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]")
		cased = cased || !special && strings.ToLower(token) != token
	}
	t := &Tokenizer{
		vocab:        v,
		normalizer:   bertNormalizer{clean: true, cjk: true, accents: !cased, lower: !cased},
		pretokenizer: splitBERT,
		decoder:      []decoder{decodeWordPiece{"##", true}},
	}
	var err error
	if t.model, err = newWordPiece(v, "[UNK]", "##", 100); err != nil {
		return nil, err
	}
	if t.model.(*wordPiece).unk < 0 {
		return nil, fmt.Errorf("no [UNK] in the vocabulary")
	}
	var list []AddedToken
	for _, name := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		if id := v.id(name); id >= 0 {
			list = append(list, AddedToken{ID: int(id), Content: name, Special: true})
		}
	}
	if err := t.addTokens(list); err != nil {
		return nil, err
	}
	cls, sep := v.id("[CLS]"), v.id("[SEP]")
	if cls >= 0 && sep >= 0 {
		t.post = []postProcessor{template{[]int{int(cls)}, []int{int(sep)}}}
	}
	return t, nil
}
