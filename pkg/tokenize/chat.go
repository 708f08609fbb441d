package tokenize

import (
	"errors"
	"fmt"
	"sync"

	"forwardpass/pkg/tokenize/internal/jinja"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string // "system", "user" or "assistant"
	Content string
}

// chatTemplate is a checkpoint's own Jinja template, which writes a
// conversation down as the text the model was trained on.
type chatTemplate struct {
	source   string
	bos, eos string // what the template calls bos_token and eos_token

	once     sync.Once
	compiled *jinja.Template
	err      error
}

// Chat writes a conversation as the prompt that the model was trained on, by
// the chat template that came with the vocabulary. With addGenerationPrompt the
// prompt ends where the model's answer begins. The text holds the special
// tokens that it needs, so encode it with Options{NoSpecial: true}.
func (t *Tokenizer) Chat(messages []Message, addGenerationPrompt bool) (string, error) {
	if t.chat == nil {
		return "", errors.New("tokenize: the vocabulary has no chat template")
	}
	list := make([]any, len(messages))
	for i, m := range messages {
		list[i] = jinja.Map{"role": m.Role, "content": m.Content}
	}
	out, err := t.chat.render(jinja.Map{
		"messages":              list,
		"add_generation_prompt": addGenerationPrompt,
		"bos_token":             t.chat.bos,
		"eos_token":             t.chat.eos,
	})
	if err != nil {
		return "", fmt.Errorf("tokenize: chat template: %w", err)
	}
	return out, nil
}

// HasChat reports whether the vocabulary came with a chat template.
func (t *Tokenizer) HasChat() bool { return t.chat != nil }

// render runs the template, which is parsed the first time.
func (c *chatTemplate) render(data jinja.Map) (string, error) {
	c.once.Do(func() { c.compiled, c.err = jinja.Parse(c.source) })
	if c.err != nil {
		return "", c.err
	}
	return c.compiled.Render(data)
}
