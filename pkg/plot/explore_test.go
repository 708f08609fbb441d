package plot

import (
	"strings"
	"testing"

	"forwardpass/pkg/sample/explore"
)

// TestExplorer: the picture shows what the sliders start with, and bad input is an error that names it.
func TestExplorer(t *testing.T) {
	o := explore.Options{Tokens: []string{" a", " b", " c"}, Logits: []float32{0, 2, 1}, Title: "next", TopK: 1, Rows: 2}
	c, html, err := NewExplorer(o)
	if err != nil {
		t.Fatal(err)
	}
	option, err := c.Option()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"top-k k = 1", "0.665", "1"} { // softmax of 0, 2, 1 is 0.0900, 0.6652, 0.2447
		if !strings.Contains(string(option), want) {
			t.Errorf("the picture's chart lacks %q: %s", want, option)
		}
	}
	if strings.Contains(string(option), "0.09") {
		t.Error("the picture shows more rows than asked for")
	}
	if data, err := c.PNG(); err != nil || len(data) < 1000 {
		t.Errorf("want a picture, got %d bytes, %v", len(data), err)
	}
	if !strings.Contains(html, `"previous":true`) || !strings.Contains(html, "<script>") {
		t.Error("the page part doesn't replace the picture")
	}
	for want, change := range map[string]func(*explore.Options){
		"one token a logit": func(o *explore.Options) { o.Tokens = nil },
		"order must be":     func(o *explore.Options) { o.Order = "random" },
		"the sliders go":    func(o *explore.Options) { o.Temperature = -1 },
	} {
		bad := o
		change(&bad)
		if _, _, err := NewExplorer(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
