package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// notebook is a Jupyter notebook, format 4. Fields that this program does not know stay as they are.
type notebook struct {
	fields map[string]any
	cells  []*cell
}

type cell struct {
	fields map[string]any
}

func readNotebook(path string) (*notebook, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	nb, err := parseNotebook(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return nb, nil
}

func parseNotebook(data []byte) (*notebook, error) {
	nb := &notebook{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // a number is written again as it was read
	if err := dec.Decode(&nb.fields); err != nil {
		return nil, fmt.Errorf("not a notebook: %w", err)
	}
	if n, _ := nb.fields["nbformat"].(json.Number); n != "4" {
		return nil, fmt.Errorf("want notebook format 4, got %q", n)
	}
	list, ok := nb.fields["cells"].([]any)
	if !ok {
		return nil, fmt.Errorf("a notebook without cells")
	}
	for i, c := range list {
		fields, ok := c.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("cell %d: want an object", i+1)
		}
		nb.cells = append(nb.cells, &cell{fields})
	}
	return nb, nil
}

// encode writes the notebook as Jupyter does (one space, sorted keys, text as it is), so that saving
// in JupyterLab and saving here change no line but those that changed.
func (nb *notebook) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(nb.fields); err != nil {
		return nil, err
	}
	return unescapeSeparators(b.Bytes()), nil
}

// unescapeSeparators undoes the one thing that Go escapes and Python does not.
func unescapeSeparators(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\u202`)) {
		return data
	}
	var out []byte
	for i := 0; i < len(data); i++ {
		if data[i] == '\\' && i+1 < len(data) {
			if rest := string(data[i:min(i+6, len(data))]); rest == `\u2028` {
				out = append(out, "\u2028"...)
				i += 5
				continue
			} else if rest == `\u2029` {
				out = append(out, "\u2029"...)
				i += 5
				continue
			}
			out = append(out, data[i], data[i+1]) // an escaped backslash stays in one piece
			i++
			continue
		}
		out = append(out, data[i])
	}
	return out
}

func (c *cell) isCode() bool { return c.fields["cell_type"] == "code" }

func (c *cell) source() string { return joined(c.fields["source"]) }

func (c *cell) outputs() []output {
	list, _ := c.fields["outputs"].([]any)
	var outs []output
	for _, o := range list {
		if m, ok := o.(map[string]any); ok {
			outs = append(outs, m)
		}
	}
	return outs
}

func (c *cell) setOutputs(outs []output, count any) {
	list := make([]any, len(outs))
	for i, o := range outs {
		list[i] = map[string]any(o)
	}
	c.fields["outputs"], c.fields["execution_count"] = list, count
}

func (c *cell) tagged(tag string) bool {
	meta, _ := c.fields["metadata"].(map[string]any)
	tags, _ := meta["tags"].([]any)
	for _, t := range tags {
		if t == tag {
			return true
		}
	}
	return false
}

// output is one output of a code cell: a stream, a display or an error.
type output map[string]any

func (o output) kind() string { s, _ := o["output_type"].(string); return s }

// data is what a display holds, by MIME type.
func (o output) data() map[string]any { m, _ := o["data"].(map[string]any); return m }

// meta is what a display says about one of its MIME types (width, height, alt).
func (o output) meta(mime string) map[string]any {
	all, _ := o["metadata"].(map[string]any)
	m, _ := all[mime].(map[string]any)
	return m
}

// joined is multi-line text, which the format keeps either whole or as a list of lines.
func joined(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, line := range v {
			s, _ := line.(string)
			b.WriteString(s)
		}
		return b.String()
	}
	return ""
}

// split is the form in which Jupyter saves text: a list of lines, each with its newline.
func split(text string) []any {
	lines := []any{}
	for line := range strings.Lines(text) {
		lines = append(lines, line)
	}
	return lines
}

// cellIDs gives cells that have none an id made from the lesson, the code and its occurrence, so
// that it is the same each time.
func (nb *notebook) cellIDs(lesson string) {
	seen := make(map[string]int)
	used := make(map[any]bool)
	for _, c := range nb.cells {
		used[c.fields["id"]] = true
	}
	for _, c := range nb.cells {
		if id, _ := c.fields["id"].(string); id != "" {
			continue
		}
		for {
			key := fmt.Sprint(lesson, "\x00", c.fields["cell_type"], "\x00", c.source())
			seen[key]++
			id := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, key, seen[key])))[:8]
			if !used[id] {
				c.fields["id"], used[id] = id, true
				break
			}
		}
	}
	nb.fields["nbformat_minor"] = json.Number("5") // the version that has ids
}
