package tokenize

import (
	"strings"
	"testing"
)

// TestChat compares rendered conversations with transformers: templates of our
// own always, those of real checkpoints where they are.
func TestChat(t *testing.T) {
	var g struct {
		Chats [][]Message
		Cases []struct {
			Template, File, Source string
			Chat                   int
			Generation             bool
			Text, Error            string
		}
	}
	readGolden(t, "chat.json", &g)
	templates := map[string]*Tokenizer{}
	for _, c := range g.Cases {
		t.Run(c.Template, func(t *testing.T) {
			tok := templates[c.Template]
			if tok == nil {
				if c.File == "" {
					tok = &Tokenizer{chat: &chatTemplate{source: c.Source, bos: "<s>", eos: "</s>"}}
				} else {
					var err error
					if tok, err = Open(vocabulary(t, c.File)); err != nil {
						t.Fatal(err)
					}
				}
				templates[c.Template] = tok
			}
			got, err := tok.Chat(g.Chats[c.Chat], c.Generation)
			switch {
			case c.Error != "" && err == nil:
				t.Errorf("chat %d: %q, want an error (%s)", c.Chat, got, c.Error)
			case c.Error == "" && err != nil:
				t.Errorf("chat %d: %v", c.Chat, err)
			case c.Error == "" && got != c.Text:
				t.Errorf("chat %d, generation %v:\n ours %q\n want %q", c.Chat, c.Generation, got, c.Text)
			}
		})
	}
}

func TestChatErrors(t *testing.T) {
	if _, err := openSmall(t, "bpe.json").Chat(nil, true); err == nil || !strings.Contains(err.Error(), "no chat template") {
		t.Errorf("without a template: error %v", err)
	}
	for _, source := range []string{
		"{% for m in messages %}", "{{ nosuch() }}", "{% include '/etc/passwd' %}", "{{ messages[99].content.x.y() }}", "{% bad %}",
		"{{ 1 | nosuchfilter }}", "{{ raise_exception('no such role') }}",
	} {
		tok := &Tokenizer{chat: &chatTemplate{source: source}}
		if got, err := tok.Chat([]Message{{"user", "hi"}}, true); err == nil {
			t.Errorf("%s: %q, want an error", source, got)
		}
	}
}
