package tokenize

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// tiktoken keeps a vocabulary as ranks: one line a token, its bytes in base64
// and its rank, which is also its id. Two neighbours merge if together they are
// a token, lowest rank first. The file holds neither the expression that cuts
// text into pieces nor the special tokens: programs know them by the name of
// the vocabulary, and we by its size.

// patternCL100KTiktoken is tiktoken's own version of patternCL100K. It differs
// in one case: white space at the very end of a text is one piece, even if there
// is a line break in it.
const patternCL100KTiktoken = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`

func scanCL100KTiktoken(table *classes, s string, i int) int {
	if c, _ := classAt(table, s, i); c&classSpace != 0 && run(table, s, i, classSpace) == len(s) {
		return len(s)
	}
	return scanCL100K(table, s, i)
}

// Ranks says what a file of tiktoken ranks leaves out.
type Ranks struct {
	Pattern  string         // the expression that cuts text into pieces
	Special  map[string]int // special tokens and their ids
	BOS, EOS string         // which of them start and end a text, "" for none
}

// knownRanks are the vocabularies in use, by the number of their ranks.
var knownRanks = map[int]func() Ranks{
	50256: func() Ranks { // gpt2, r50k_base
		return Ranks{patternGPT2, map[string]int{"<|endoftext|>": 50256}, "", "<|endoftext|>"}
	},
	50280: func() Ranks { // p50k_base
		return Ranks{patternGPT2, map[string]int{"<|endoftext|>": 50256}, "", "<|endoftext|>"}
	},
	100256: func() Ranks { // cl100k_base
		return Ranks{patternCL100KTiktoken, map[string]int{
			"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259,
			"<|fim_suffix|>": 100260, "<|endofprompt|>": 100276,
		}, "", "<|endoftext|>"}
	},
	199998: func() Ranks { // o200k_base
		return Ranks{patternO200K, map[string]int{"<|endoftext|>": 199999, "<|endofprompt|>": 200018}, "", "<|endoftext|>"}
	},
	128000: llama3Ranks,
	200000: llama4Ranks,
	151643: func() Ranks { // Qwen
		r := Ranks{patternQwen2, map[string]int{"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}, "", "<|endoftext|>"}
		for i := range 205 {
			r.Special[fmt.Sprintf("<|extra_%d|>", i)] = 151646 + i
		}
		return r
	},
}

func llama3Ranks() Ranks {
	names := []string{"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
		"<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>",
		"<|python_tag|>", "<|image|>"}
	for i := 2; len(names) < 256; i++ {
		names = append(names, fmt.Sprintf("<|reserved_special_token_%d|>", i))
	}
	return Ranks{patternCL100K, numbered(names, 128000), "<|begin_of_text|>", "<|end_of_text|>"}
}

func llama4Ranks() Ranks {
	names := []string{"<|begin_of_text|>", "<|end_of_text|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
		"<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>", "<|step|>"}
	reserved := func(kind string, from, to int) {
		for i := from; i < to; i++ {
			names = append(names, fmt.Sprintf("<|%sreserved_special_token_%d|>", kind, i))
		}
	}
	reserved("text_post_train_", 0, 6)
	names = append(names, "<|python_start|>", "<|python_end|>", "<|finetune_right_pad|>")
	reserved("text_post_train_", 8, 69)
	names = append(names, "<|image_start|>", "<|image_end|>")
	reserved("vision_", 0, 2)
	names = append(names, "<|tile_x_separator|>", "<|tile_y_separator|>")
	reserved("vision_", 2, 6)
	names = append(names, "<|image|>")
	reserved("vision_", 6, 7)
	names = append(names, "<|patch|>")
	reserved("vision_", 7, 1048)
	reserved("reasoning_", 0, 8)
	names = append(names, "<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>")
	reserved("", 0, 2048-len(names))
	return Ranks{patternO200K, numbered(names, 200000), "<|begin_of_text|>", "<|end_of_text|>"}
}

// numbered gives names consecutive ids.
func numbered(names []string, first int) map[string]int {
	ids := make(map[string]int, len(names))
	for i, name := range names {
		ids[name] = first + i
	}
	return ids
}

// FromRanks builds a tokenizer from the text of a tiktoken file, for a
// vocabulary that Open doesn't know.
func FromRanks(data string, r Ranks) (*Tokenizer, error) {
	v, err := parseRanks(data)
	if err == nil {
		var t *Tokenizer
		if t, err = r.build(v, 0); err == nil {
			return t, nil
		}
	}
	return nil, fmt.Errorf("tokenize: ranks: %w", err)
}

func openRanks(data string) (*Tokenizer, error) {
	v, err := parseRanks(data)
	if err != nil {
		return nil, err
	}
	known, ok := knownRanks[v.count]
	if !ok {
		return nil, fmt.Errorf("no vocabulary of %d ranks is known: use FromRanks and say its pattern and special tokens", v.count)
	}
	return known().build(v, 0)
}

// parseRanks reads lines of "base64 rank".
func parseRanks(data string) (*vocab, error) {
	v := newVocab(len(data) / 16)
	buf := make([]byte, 0, 256)
	for n := 1; data != ""; n++ {
		line, rest, _ := strings.Cut(data, "\n")
		data = rest
		if line == "" {
			continue
		}
		token, rank, ok := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
		id, err := strconv.Atoi(rank)
		if !ok || err != nil {
			return nil, fmt.Errorf("line %d, %.40q: want base64, a space and a rank", n, line)
		}
		if buf, err = base64.StdEncoding.AppendDecode(buf[:0], []byte(token)); err != nil || len(buf) == 0 {
			return nil, fmt.Errorf("line %d: %.40q is not the base64 of a token", n, token)
		}
		if err := v.add(string(buf), id); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if v.count == 0 {
		return nil, fmt.Errorf("no ranks in it")
	}
	return v, nil
}

// build makes the tokenizer of a vocabulary of bytes, where an id is a rank plus
// first.
func (r Ranks) build(v *vocab, first int) (*Tokenizer, error) {
	p, err := newPattern(r.Pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	ranks := make([]int32, len(v.tokens))
	for id := range ranks {
		ranks[id] = int32(id - first)
	}
	b := newRankedBPE(v, ranks)
	b.raw, b.ignoreMerges = true, true
	b.useBytes()
	t := &Tokenizer{vocab: v, model: b, pretokenizer: splitter{p, removed, true},
		decoder: []decoder{decoderFunc(decodeFuse)}, rawInput: true, rawNames: true}
	names := make([]string, 0, len(r.Special))
	for name := range r.Special {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return r.Special[a] - r.Special[b] })
	list := make([]AddedToken, len(names))
	for i, name := range names {
		list[i] = AddedToken{ID: r.Special[name], Content: name, Special: true}
	}
	if err := t.addTokens(list); err != nil {
		return nil, err
	}
	if id, ok := r.Special[r.BOS]; ok {
		t.bos = []int{id}
	}
	if id, ok := r.Special[r.EOS]; ok {
		t.eos = []int{id}
	}
	return t, nil
}
