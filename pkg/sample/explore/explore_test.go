package explore

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestHTML(t *testing.T) {
	s, err := HTML(Options{
		Tokens: []string{"a", "</script><b>", "\"q\" & 'r'"}, Logits: []float32{1, 3, float32(math.Inf(-1))},
		Title: "</script>", Picture: `data:image/png;base64,AA"onerror="x`, Alt: `<"alt">`, Rows: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(s, "</script>") != 1 || strings.Contains(s, "<b>") {
		t.Error("a token or title can close the script")
	}
	if strings.Contains(s, `"onerror`) || strings.Contains(s, `<"alt`) {
		t.Error("the picture's attributes are not escaped")
	}
	if strings.Contains(s, "CONFIG") || !strings.Contains(s, `"ids":[1,0]`) {
		t.Error("the configuration is missing, or its rows are not the likeliest tokens")
	}
	if !strings.HasPrefix(s, `<div class="fp-explore"><img `) {
		t.Error("without scripts there must be the picture")
	}
}

func TestHTMLBadInput(t *testing.T) {
	ok := Options{Tokens: []string{"a"}, Logits: []float32{1}}
	for want, change := range map[string]func(*Options){
		"one token a logit":       func(o *Options) { o.Tokens = nil },
		"got 0 tokens":            func(o *Options) { o.Tokens, o.Logits = nil, nil },
		"logit of token 0 is NaN": func(o *Options) { o.Logits = []float32{float32(math.NaN())} },
		"order must be":           func(o *Options) { o.Order = "random" },
		"language must be":        func(o *Options) { o.Language = "fr" },
		"the sliders go":          func(o *Options) { o.TopP = math.NaN() },
		"got T=9":                 func(o *Options) { o.Temperature = 9 },
	} {
		o := ok
		change(&o)
		if _, err := HTML(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// The snippet is one element: the picture for readers without scripts, and the script that takes its place.
func ExampleHTML() {
	s, err := HTML(Options{Tokens: []string{" dog", " cat", " ball"}, Logits: []float32{2, 1, 0}, Picture: "data:image/png;base64,…", Alt: "next token"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s[:strings.Index(s, "<script>")])
	// Output: <div class="fp-explore"><img src="data:image/png;base64,…" alt="next token">
}
