package tokenize

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// hfConfig is what matters here of tokenizer_config.json.
type hfConfig struct {
	BOS      tokenName       `json:"bos_token"`
	EOS      tokenName       `json:"eos_token"`
	Template json.RawMessage `json:"chat_template"`
	AddBOS   bool            `json:"add_bos_token"`
	AddEOS   bool            `json:"add_eos_token"`

	Added map[string]hfAdded `json:"added_tokens_decoder"` // by id
}

// tokenName is a token written as a string or as {"content": "…"}.
type tokenName string

func (n *tokenName) UnmarshalJSON(b []byte) error {
	var s string
	if len(b) > 0 && b[0] == '{' {
		var o struct {
			Content string `json:"content"`
		}
		err := json.Unmarshal(b, &o)
		*n = tokenName(o.Content)
		return err
	}
	if string(b) != "null" {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	}
	*n = tokenName(s)
	return nil
}

// idList is one id or a list of them.
type idList []int

func (l *idList) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]int)(l))
	}
	var id *int
	if err := json.Unmarshal(b, &id); err != nil {
		return err
	}
	*l = nil
	if id != nil {
		*l = idList{*id}
	}
	return nil
}

// readJSON reads a file beside the vocabulary into v, if it is there.
func readJSON(dir, name string, v any) error {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, reason(err))
	}
	return nil
}

// configure takes BOS, EOS and the chat template from the files beside a
// vocabulary: tokenizer_config.json, chat_template.jinja, and
// generation_config.json or config.json, which know every id that ends a text.
func (t *Tokenizer) configure(dir string, kind fileKind) error {
	var c hfConfig
	if err := readJSON(dir, "tokenizer_config.json", &c); err != nil {
		return err
	}
	if kind == sentencePiece {
		// Such a file says neither which tokens are read from text nor whether BOS
		// is put in front; a checkpoint's configuration does.
		if err := t.complete(c); err != nil {
			return fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	if id, ok := t.ID(string(c.BOS)); ok {
		t.bos = []int{id}
	}
	if id, ok := t.ID(string(c.EOS)); ok {
		t.eos = []int{id}
	}
	for _, name := range []string{"generation_config.json", "config.json"} {
		var ids struct {
			BOS idList `json:"bos_token_id"`
			EOS idList `json:"eos_token_id"`
		}
		if err := readJSON(dir, name, &ids); err != nil {
			return err
		}
		if len(t.bos) == 0 {
			t.bos = ids.BOS
		}
		for _, id := range ids.EOS {
			if !slices.Contains(t.eos, id) {
				t.eos = append(t.eos, id)
			}
		}
	}
	source, err := c.template()
	if err != nil {
		return fmt.Errorf("tokenizer_config.json: chat_template: %w", err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja")); err == nil {
		source = string(data)
	}
	if source != "" {
		t.chat = &chatTemplate{source: source, bos: string(c.BOS), eos: string(c.EOS)}
	}
	return nil
}

// complete adds to a SentencePiece vocabulary what its configuration says.
func (t *Tokenizer) complete(c hfConfig) error {
	list := make([]AddedToken, 0, len(c.Added))
	for key, a := range c.Added {
		id, err := strconv.Atoi(key)
		if err != nil {
			return fmt.Errorf("added_tokens_decoder: %q is not an id", key)
		}
		a.ID = id
		list = append(list, a.token())
	}
	if len(list) > 0 {
		special := t.special
		t.added = nil
		if err := t.addTokens(list); err != nil {
			return err
		}
		for id := range special { // control pieces stay special
			t.special[id] = true
		}
	}
	var p template
	if id, ok := t.ID(string(c.BOS)); ok && c.AddBOS {
		p.before = []int{id}
	}
	if id, ok := t.ID(string(c.EOS)); ok && c.AddEOS {
		p.after = []int{id}
	}
	if p.before != nil || p.after != nil {
		t.post = []postProcessor{p}
	}
	return nil
}

// template returns the chat template: a string, or the one called "default" of
// several.
func (c hfConfig) template() (string, error) {
	if len(c.Template) == 0 || string(c.Template) == "null" {
		return "", nil
	}
	if c.Template[0] == '"' {
		var s string
		err := json.Unmarshal(c.Template, &s)
		return s, err
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(c.Template, &list); err != nil {
		return "", err
	}
	for _, t := range list {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", nil
}
