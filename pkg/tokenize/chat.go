package tokenize

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
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
	compiled *exec.Template
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
		list[i] = map[string]any{"role": m.Role, "content": m.Content}
	}
	out, err := t.chat.render(map[string]any{
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

// render runs the template. The Jinja library panics on some mistakes in a
// template; they are errors here.
func (c *chatTemplate) render(data map[string]any) (out string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	c.once.Do(c.compile)
	if c.err != nil {
		return "", c.err
	}
	return c.compiled.ExecuteToString(exec.NewContext(data))
}

// compile prepares the template the way transformers does: blocks take the
// line break after them and the indentation before them along. Templates
// cannot include files.
func (c *chatTemplate) compile() {
	defer func() {
		if p := recover(); p != nil {
			c.err = fmt.Errorf("%v", p)
		}
	}()
	loader, err := loaders.NewMemoryLoader(map[string]string{"/chat": c.source})
	if err != nil {
		c.err = err
		return
	}
	settings := config.New()
	settings.TrimBlocks, settings.LeftStripBlocks = true, true
	globals := exec.EmptyContext().Update(builtins.GlobalFunctions).Update(builtins.GlobalVariables).
		Update(exec.NewContext(map[string]any{
			"raise_exception": func(message string) (string, error) { return "", errors.New(message) },
			"strftime_now":    func(format string) string { return strftime(time.Now(), format) },
		}))
	c.compiled, c.err = exec.NewTemplate("/chat", settings, loader, &exec.Environment{
		Context:           globals,
		Filters:           builtins.Filters,
		Tests:             builtins.Tests,
		ControlStructures: builtins.ControlStructures,
		Methods:           builtins.Methods,
	})
}

// strftime formats a time by the C conventions that templates use.
func strftime(t time.Time, format string) string {
	return strings.NewReplacer(
		"%d", t.Format("02"), "%m", t.Format("01"), "%Y", t.Format("2006"), "%y", t.Format("06"),
		"%b", t.Format("Jan"), "%B", t.Format("January"), "%a", t.Format("Mon"), "%A", t.Format("Monday"),
		"%H", t.Format("15"), "%I", t.Format("03"), "%M", t.Format("04"), "%S", t.Format("05"),
		"%p", t.Format("PM"), "%j", t.Format("002"), "%%", "%",
	).Replace(format)
}
