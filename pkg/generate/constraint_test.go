package generate

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"forwardpass/pkg/sample"
)

// TestRegexEqualsGo: the automaton accepts what package regexp accepts as a whole, on random strings over each expression's
// own characters, and on strings that the automaton itself makes.
func TestRegexEqualsGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	accepted := 0
	for _, expr := range []string{
		`a`, ``, `abc|abd|x`, `a*`, `(ab)+c?`, `a{2,4}b{3}`, `(a|b)*abb`, `[a-c]+[^a-c]`, `\d+(\.\d{1,2})?`, `^anchors$`, `(?i)hello`,
		`[äöü]+`, `[^x]*`, `.`, `(?s).{2}`, `[一-龥]{1,3}`, `🙂|👩‍🚀`, `[\x{7f0}-\x{810}]`, `[\x{fff0}-\x{10010}]`, `\pL\PL`, `(a?){5}a{5}`,
		`((a|b)(c|d)){2,}`, `"([^"\\]|\\.)*"`, `\w+@\w+\.(com|org)`, `x(y(z)?)?`, `[\x00-\x{10FFFF}]`, `(?:a*)*b`, `(?i)ſK`,
	} {
		c, err := Regex(expr)
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(`\A(?:` + expr + `)\z`)
		var strs []string
		alphabet := []rune(expr + "ab-x\n世🙂é\u07ff\u0800\uffff\U00010000")
		for range 300 {
			var b strings.Builder
			for range rng.IntN(7) {
				b.WriteRune(alphabet[rng.IntN(len(alphabet))])
			}
			strs = append(strs, b.String())
		}
		for range 100 { // a random walk through the automaton
			var out []byte
			state := int32(0)
			for range 40 {
				if c.dfa.accept[state] && rng.IntN(4) == 0 {
					break
				}
				b := byte(rng.IntN(256))
				for n := 0; n < 256 && c.dfa.next[state][b] < 0; n++ {
					b++
				}
				if c.dfa.next[state][b] < 0 {
					break
				}
				state = c.dfa.next[state][b]
				out = append(out, b)
			}
			strs = append(strs, string(out))
		}
		for _, s := range strs {
			w := want.MatchString(s) && utf8.ValidString(s)
			if got := c.Match(s); got != w {
				t.Fatalf("%q matches %q: %v, want %v", expr, s, got, w)
			}
			if w {
				accepted++
			}
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d strings matched", accepted)
	}
}

var schemas = map[string]string{
	"animal":   `{"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}, "wild": {"type": "boolean"}}, "required": ["name", "age"]}`,
	"optional": `{"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}, "d": {"type": "null"}}, "required": ["c"], "additionalProperties": false}`,
	"none":     `{"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}}`,
	"list":     `{"type": "array", "items": {"enum": ["cat", "dog", 3, null, {"x": [1]}]}, "minItems": 1, "maxItems": 4}`,
	"nested":   `{"$defs": {"point": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}}, "type": "object", "properties": {"from": {"$ref": "#/$defs/point"}, "to": {"$ref": "#/$defs/point"}}, "required": ["from", "to"]}`,
	"any":      `{"anyOf": [{"type": "string"}, {"type": ["integer", "null"]}, {"const": "a\"b\\c\n<é>"}]}`,
	"pattern":  `{"type": "string", "pattern": "^[a-c\"\\\\\\n]{2,5}$", "description": "with characters that JSON escapes"}`,
	"long":     `{"type": "string", "minLength": 3, "maxLength": 5}`,
	"empty":    `{"type": "array", "items": {"type": "null"}, "maxItems": 0}`,
}

// TestSchemaMatches: known answers.
func TestSchemaMatches(t *testing.T) {
	for _, c := range []struct {
		schema, text string
		want         bool
	}{
		{"animal", `{"name": "Tom", "age": 3}`, true},
		{"animal", `{"name":"Tom","age":-30,"wild":true}`, true},
		{"animal", `{"name": "Tom"}`, false},
		{"animal", `{"age": 3, "name": "Tom"}`, false},
		{"animal", `{"name": "Tom", "age": 03}`, false},
		{"animal", `{"name": "Tom the cat", "age": 3}`, false},
		{"animal", `{"name": "Tom", "age": 3, "wild": false, "more": 1}`, false},
		{"animal", `{"name": "Tom", "age": 3`, false},
		{"animal", `{"name": "T\u00e9\n", "age": 3}`, true},
		{"animal", `{"name": "T\ud800", "age": 3}`, false},
		{"animal", "{\"name\": \"T\n\", \"age\": 3}", false},
		{"optional", `{"c": null}`, true},
		{"optional", `{"a": null, "c": null}`, true},
		{"optional", `{"a": null, "b": null, "c": null, "d": null}`, true},
		{"optional", `{"c": null, "d": null}`, true},
		{"optional", `{"b": null, "d": null}`, false},
		{"optional", `{, "c": null}`, false},
		{"optional", `{"c": null, }`, false},
		{"none", `{}`, true},
		{"none", `{"b": null}`, true},
		{"none", `{"a": null, "b": null}`, true},
		{"list", `["cat", 3, null, {"x":[1]}]`, true},
		{"list", `[]`, false},
		{"list", `["cow"]`, false},
		{"list", `[3, 3, 3, 3, 3]`, false},
		{"nested", `{"from": [0, -1.5], "to": [1e3, 2E-1]}`, true},
		{"nested", `{"from": [0], "to": [1, 2]}`, false},
		{"any", `"text"`, true},
		{"any", `null`, true},
		{"any", `-7`, true},
		{"any", `1.5`, false},
		{"any", `"a\"b\\c\n<é>"`, true},
		{"pattern", `"ab\"\\\n"`, true},
		{"pattern", `"abd"`, false},
		{"pattern", `"a"`, false},
		{"long", `"我爱你"`, true},
		{"long", `"我爱"`, false},
		{"long", `"\t\u0041bcd"`, true},
		{"empty", `[]`, true},
		{"empty", `[null]`, false},
	} {
		k, err := JSONSchema([]byte(schemas[c.schema]))
		if err != nil {
			t.Fatal(err)
		}
		if got := k.Match(c.text); got != c.want {
			t.Errorf("%s: %s: %v, want %v", c.schema, c.text, got, c.want)
		}
	}
}

// TestConstraintAlwaysFinishes: whatever tokens are taken, of those allowed, the text is complete when the tokens run out: with
// tokens of one byte and with storyland's, for every budget from the smallest one on.
func TestConstraintAlwaysFinishes(t *testing.T) {
	_, story := storyland(t)
	rng := rand.New(rand.NewPCG(6, 6))
	for name, schema := range schemas {
		k, err := JSONSchema([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []struct {
			tok   Tokenizer
			vocab int
		}{{bytesTokenizer{}, 256}, {story, story.VocabSize()}} {
			b, err := k.bind(v.tok, v.vocab)
			if err != nil {
				t.Fatal(err)
			}
			least := b.need[0]
			for budget := least; budget < least+40; budget++ {
				c := b.start()
				var text []byte
				logits := make([]float32, v.vocab)
				for n := 0; n < budget && !c.ended(); n++ {
					clear(logits)
					c.mask(logits, budget-n, nil)
					var allowed []int
					for id, l := range logits {
						if l == 0 {
							allowed = append(allowed, id)
						}
					}
					if len(allowed) == 0 {
						if c.complete() {
							break // nothing more fits into the budget, and nothing more is needed
						}
						t.Fatalf("%s: stuck after %q with %d tokens left", name, text, budget-n)
					}
					id := allowed[rng.IntN(len(allowed))]
					text = append(text, c.text[id]...)
					if err := c.advance(id); err != nil {
						t.Fatal(err)
					}
				}
				if !c.complete() || !k.Match(string(text)) || !json.Valid(text) {
					t.Fatalf("%s with %d tokens: %q", name, budget, text)
				}
			}
		}
	}
}

// TestConstrainedGeneration: the model writes what the schema asks for, at every temperature and budget, also with proposals
// from a draft, and its EOS only where the text is complete.
func TestConstrainedGeneration(t *testing.T) {
	m, tok := storyland(t)
	ids := prompt(t, tok, "The cat is")
	k, err := JSONSchema([]byte(schemas["animal"]))
	if err != nil {
		t.Fatal(err)
	}
	b, err := k.bind(tok, m.Config.VocabSize)
	if err != nil {
		t.Fatal(err)
	}
	for _, temperature := range []float64{0, 1, 5} {
		for _, draft := range []*Draft{nil, {}, {Model: m, Tokens: 2}} {
			for seed := range uint64(10) {
				limit := b.need[0] + int(seed)*3
				streamed := ""
				r := run(t, m, ids, Options{
					MaxNewTokens: limit, Constraint: k, Tokenizer: tok, Draft: draft, Sampling: sample.Options{Temperature: temperature, Seed: seed},
					Stream: func(tk Token) error { streamed += tk.Text; return nil },
				})
				if r.Reason != ReasonStructure || !k.Match(r.Text) || streamed != r.Text || len(r.IDs) > limit {
					t.Fatalf("T=%g: %d of %d tokens, reason %q, text %q", temperature, len(r.IDs), limit, r.Reason, r.Text)
				}
				var animal struct {
					Name string
					Age  int
				}
				if err := json.Unmarshal([]byte(r.Text), &animal); err != nil || utf8.RuneCountInString(animal.Name) > 8 {
					t.Fatalf("%q: %v", r.Text, err)
				}
			}
		}
	}

	// A text that may go on is ended by EOS, by a stop string, or by the limit, and is whole each time.
	words, err := Regex(`( [a-z]+)+\.`)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		r := run(t, m, ids, Options{MaxNewTokens: 30, Constraint: words, Tokenizer: tok, Sampling: sample.Options{Temperature: 1, Seed: seed}})
		if r.Reason != ReasonStructure || !words.Match(r.Text) {
			t.Errorf("reason %q, text %q", r.Reason, r.Text)
		}
	}
	open, err := Regex(` [a-z ]+`)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[Reason]int{}
	for seed := range uint64(40) {
		r := run(t, m, ids, Options{MaxNewTokens: 6, Constraint: open, Tokenizer: tok, Sampling: sample.Options{Temperature: 3, Seed: seed}})
		reasons[r.Reason]++
		if !open.Match(r.Text) {
			t.Errorf("reason %q, text %q", r.Reason, r.Text)
		}
	}
	if reasons[ReasonStructure] == 0 {
		t.Errorf("reasons %v", reasons)
	}
}

func TestConstraintErrors(t *testing.T) {
	for expr, want := range map[string]string{
		`(`:                      "missing closing",
		`\bword\b`:               "is not supported",
		`a^b`:                    "is not supported",
		`[^\x00-\x{10FFFF}]`:     "no text matches",
		`((a{900}){900}b){1,99}`: "invalid repeat count",
		`(.{5}|b){20}`:           "",
	} {
		_, err := Regex(expr)
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", expr, err, want)
		}
	}
	for schema, want := range map[string]string{
		`{`:                                 "EOF",
		`{} {}`:                             "text after the end",
		`[]`:                                "want an object",
		`{}`:                                "want a type",
		`{"type": "date"}`:                  `unknown type "date"`,
		`{"type": "integer", "minimum": 3}`: `"minimum" is not supported`,
		`{"type": "string", "format": "x"}`: `"format" is not supported`,
		`{"type": "object", "properties": {"a": {"type": "x"}}}`:  `#/properties/a: unknown type`,
		`{"type": "object", "properties": {}, "required": ["a"]}`: `required property "a"`,
		`{"type": "object", "additionalProperties": true}`:        "additionalProperties must be false",
		`{"type": "array"}`: "needs items",
		`{"type": "array", "items": {"type": "null"}, "minItems": 3, "maxItems": 2}`: "minItems 3 is more than maxItems 2",
		`{"type": "string", "minLength": -1}`:                                        "whole number",
		`{"type": "string", "minLength": "x"}`:                                       "whole number",
		`{"type": "string", "pattern": "("}`:                                         "missing closing",
		`{"type": "string", "pattern": "a", "minLength": 2}`:                         "together with a length",
		`{"enum": []}`:          "enum is empty",
		`{"anyOf": []}`:         "anyOf is empty",
		`{"$ref": "#/$defs/x"}`: "does not exist",
		`{"$ref": "http://x"}`:  "only references into this schema",
		`{"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}`: "contains itself",
	} {
		if _, err := JSONSchema([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", schema, err, want)
		}
	}
	k, err := Regex("[0-9]+é")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.bind(lettersOnly{}, 26); err == nil || !strings.Contains(err.Error(), "cannot spell") {
		t.Errorf("a vocabulary without digits: error %v", err)
	}
}

// lettersOnly is a vocabulary of a … z.
type lettersOnly struct{}

func (lettersOnly) Decode(ids []int) string {
	out := ""
	for _, id := range ids {
		out += string(rune('a' + id))
	}
	return out
}

// FuzzJSONSchema: any schema gives an error or a constraint whose shortest text is JSON.
func FuzzJSONSchema(f *testing.F) {
	for _, s := range schemas {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		if len(schema) > 2000 {
			return
		}
		k, err := JSONSchema([]byte(schema))
		if err != nil {
			return
		}
		b, err := k.bind(bytesTokenizer{}, 256)
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		for state := int32(0); b.need[state] > 0; {
			for c, to := range b.next[state] {
				if to >= 0 && b.need[to] == b.need[state]-1 {
					text, state = append(text, byte(c)), to
					break
				}
			}
		}
		if !json.Valid(text) {
			t.Fatalf("%s: %q", schema, text)
		}
	})
}

// FuzzRegex: no expression makes the automaton disagree with package regexp.
func FuzzRegex(f *testing.F) {
	f.Add(`a(b|c)*`, "abcb")
	f.Add(`[^é]+`, "xyz")
	f.Fuzz(func(t *testing.T, expr, text string) {
		if len(expr) > 60 {
			return
		}
		k, err := Regex(expr)
		if err != nil {
			return
		}
		want, err := regexp.Compile(`\A(?:` + expr + `)\z`)
		if err != nil {
			return
		}
		if got := k.Match(text); got != (want.MatchString(text) && utf8.ValidString(text)) {
			t.Fatalf("%q matches %q: %v", expr, text, got)
		}
	})
}

func TestBoundConstraintIsRemembered(t *testing.T) {
	k, err := Regex("a+")
	if err != nil {
		t.Fatal(err)
	}
	a, err := k.bind(bytesTokenizer{}, 256)
	if err != nil {
		t.Fatal(err)
	}
	b, err := k.bind(bytesTokenizer{}, 256)
	if err != nil || a != b {
		t.Errorf("bound twice: %v", err)
	}
	odd := listTokenizer{"a", "b"} // cannot be compared: never remembered, and no panic
	for range 2 {
		if _, err := k.bind(odd, 2); err != nil {
			t.Error(err)
		}
	}
	if !slices.ContainsFunc(a.tokens, func(x tokenText) bool { return x.id == 'a' && x.text == "a" }) {
		t.Error("token a is missing")
	}
}

type listTokenizer []string

func (l listTokenizer) Decode(ids []int) string {
	out := ""
	for _, id := range ids {
		out += l[id]
	}
	return out
}
