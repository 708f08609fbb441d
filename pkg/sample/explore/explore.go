// Package explore writes the page part that lets a reader move the sampler's settings and watch a next-token distribution
// change. The numbers come from package sample itself, compiled to WebAssembly (pkg/sample/explorer); this package only makes
// the HTML and JavaScript around it.
//
// The snippet contains a picture (or nothing) and a script. Where scripts run and sample.wasm is served, the script puts the
// explorer in the picture's place: sliders for temperature, top-k, top-p and min-p, the order of the steps, a bar for each of
// the likeliest tokens, what dropped the others, and the entropy. Everywhere else the picture stays.
//
// Chapter: 3.2.
package explore

import (
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"sort"
	"strings"

	"forwardpass/pkg/sample"
)

//go:embed explore.js
var script string

// Options of the explorer. Tokens and Logits are needed, the rest has defaults.
type Options struct {
	Tokens []string  // [V] how each token is shown
	Logits []float32 // [V] of one position
	Title  string    // above the chart, such as the prompt
	Rows   int       // the number of tokens shown, likeliest first; 0 is 12

	// Where the sliders start. A temperature of 0 starts at 1; 0 for the others is off.
	Temperature float64
	TopK        int
	TopP, MinP  float64
	Order       string // "Transformers" (also ""), "VLLM" or "LlamaCpp"

	// Picture is shown until the explorer runs, and where it can't: the address of an image, such as a data: URI. Alt describes
	// it. ReplacePrevious hides the output before this one instead, for a picture that is an output of its own.
	Picture         string
	Alt             string
	ReplacePrevious bool

	Language string // of the labels: "en", "zh", or "" for that of the page around
}

// Orders are the orders of steps that the explorer offers, by the names that Options.Order and the page know.
var Orders = map[string]sample.Order{"": sample.Transformers, "Transformers": sample.Transformers, "VLLM": sample.VLLM, "LlamaCpp": sample.LlamaCpp}

type config struct {
	Logits   string   `json:"logits"` // base64 of little-endian float32 [V]
	Labels   []string `json:"labels"` // of the rows shown
	IDs      []int    `json:"ids"`    // their token ids
	Title    string   `json:"title"`
	T        float64  `json:"t"`
	K        int      `json:"k"`
	P        float64  `json:"p"`
	M        float64  `json:"m"`
	Order    string   `json:"order"`
	Previous bool     `json:"previous"`
	Language string   `json:"language"`
}

// HTML returns the snippet.
func HTML(o Options) (string, error) {
	if len(o.Logits) == 0 || len(o.Tokens) != len(o.Logits) {
		return "", fmt.Errorf("explore: want one token a logit and at least one, got %d tokens and %d logits", len(o.Tokens), len(o.Logits))
	}
	c := config{Title: o.Title, T: o.Temperature, K: o.TopK, P: o.TopP, M: o.MinP, Order: o.Order, Previous: o.ReplacePrevious, Language: o.Language}
	if c.T == 0 {
		c.T = 1
	}
	if c.P == 0 {
		c.P = 1
	}
	if c.Order == "" {
		c.Order = "Transformers"
	}
	if _, ok := Orders[c.Order]; !ok {
		return "", fmt.Errorf("explore: order must be Transformers, VLLM or LlamaCpp, got %q", o.Order)
	}
	if c.Language != "" && c.Language != "en" && c.Language != "zh" {
		return "", fmt.Errorf("explore: language must be en or zh, got %q", o.Language)
	}
	if !(c.T > 0 && c.T <= 3 && c.K >= 0 && c.P > 0 && c.P <= 1 && c.M >= 0 && c.M <= 1) {
		return "", fmt.Errorf("explore: the sliders go from 0 to 3 (temperature) and 0 to 1 (top-p, min-p), got T=%g k=%d p=%g min-p=%g", c.T, c.K, c.P, c.M)
	}

	raw := make([]byte, 0, 4*len(o.Logits))
	for i, l := range o.Logits {
		if l != l {
			return "", fmt.Errorf("explore: logit of token %d is NaN", i)
		}
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(l))
	}
	c.Logits = base64.StdEncoding.EncodeToString(raw)
	for _, id := range Best(o.Logits, o.Rows) {
		c.IDs = append(c.IDs, id)
		c.Labels = append(c.Labels, o.Tokens[id])
	}
	j, err := json.Marshal(c) // escapes <, > and &: safe inside a script
	if err != nil {
		return "", fmt.Errorf("explore: %w", err)
	}

	picture := ""
	if o.Picture != "" {
		alt := o.Alt
		if alt == "" {
			alt = "bar chart of the most probable next tokens"
		}
		picture = fmt.Sprintf(`<img src="%s" alt="%s">`, html.EscapeString(o.Picture), html.EscapeString(alt))
	}
	return `<div class="fp-explore">` + picture + `<script>` + strings.Replace(script, "CONFIG", string(j), 1) + `</script></div>`, nil
}

// Best returns the ids of the rows that are shown: the n with the largest logits (0: 12), best first, the lowest id first
// among equals.
func Best(logits []float32, n int) []int {
	if n <= 0 {
		n = 12
	}
	ids := make([]int, len(logits))
	for i := range ids {
		ids[i] = i
	}
	sort.SliceStable(ids, func(a, b int) bool { return logits[ids[a]] > logits[ids[b]] })
	return ids[:min(n, len(ids))]
}
