package tokenize

import (
	"encoding/base64"
	"fmt"
)

// tekken.json is Mistral's file: tiktoken ranks with their expression. The
// special tokens have the first ids, so an id is a rank plus their number.

// tekkenSpecial are the special tokens of files that list none.
var tekkenSpecial = []string{"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
	"[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
	"[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"}

func parseTekken(data string) (*Tokenizer, error) {
	r, err := newJSONReader(data)
	if err != nil {
		return nil, err
	}
	var config struct {
		Pattern string `json:"pattern"`
		Size    int    `json:"default_vocab_size"`
		Special int    `json:"default_num_special_tokens"`
	}
	var special []struct {
		Rank int    `json:"rank"`
		Name string `json:"token_str"`
	}
	var tokens []string // by rank
	err = r.object(func(key string) error {
		switch key {
		case "config":
			return r.value(&config)
		case "special_tokens":
			return r.value(&special)
		case "vocab":
			return r.array(func() error {
				var rank int
				var encoded string
				err := r.object(func(key string) (err error) {
					switch key {
					case "rank":
						rank, err = r.int()
					case "token_bytes":
						encoded, err = r.string()
					default:
						_, err = r.raw()
					}
					return err
				})
				if err != nil {
					return err
				}
				token, err := base64.StdEncoding.DecodeString(encoded)
				if err != nil || len(token) == 0 {
					return r.errorf("token %d: %.40q is not the base64 of a token", rank, encoded)
				}
				if rank != len(tokens) {
					return r.errorf("rank %d, want %d", rank, len(tokens))
				}
				tokens = append(tokens, string(token))
				return nil
			})
		}
		_, err := r.raw()
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if config.Special < 0 || config.Size < config.Special || config.Size-config.Special > len(tokens) {
		return nil, fmt.Errorf("vocabulary of %d with %d special tokens, but %d ranks", config.Size, config.Special, len(tokens))
	}
	names := make([]string, config.Special)
	if special == nil {
		copy(names, tekkenSpecial)
	}
	for _, s := range special {
		if s.Rank < 0 || s.Rank >= len(names) {
			return nil, fmt.Errorf("special token %q has rank %d, want 0 to %d", s.Name, s.Rank, len(names)-1)
		}
		names[s.Rank] = s.Name
	}
	ids := map[string]int{}
	for i, name := range names {
		if name == "" {
			name = fmt.Sprintf("<SPECIAL_%d>", i)
		}
		if other, ok := ids[name]; ok {
			return nil, fmt.Errorf("special token %q has two ranks, %d and %d", name, other, i)
		}
		ids[name] = i
	}
	v := newVocab(config.Size)
	for i, token := range tokens[:config.Size-config.Special] {
		if err := v.add(token, config.Special+i); err != nil {
			return nil, err
		}
	}
	t, err := Ranks{Pattern: config.Pattern, Special: ids, BOS: "<s>", EOS: "</s>"}.build(v, config.Special)
	if err != nil {
		return nil, err
	}
	t.verbatim = nil // special tokens are put in by the chat format, never read from text
	return t, nil
}
