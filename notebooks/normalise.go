package main

import (
	"path/filepath"
	"regexp"
	"strings"
)

// A saved notebook must be the same whoever executes it, wherever the repository lies: normalise
// removes what names the machine, the moment or the session.

// normalise prepares a notebook for saving, after its outputs were set.
func (nb *notebook) normalise(p places, lesson string) {
	nb.cellIDs(lesson)
	nb.fields["metadata"] = map[string]any{
		"kernelspec": map[string]any{"display_name": "Go (forwardpass)", "language": "go", "name": kernelName},
		"language_info": map[string]any{
			"file_extension": ".go", "mimetype": "text/x-go", "name": "go", "pygments_lexer": "go",
		},
	}
	for _, c := range nb.cells {
		c.fields["source"] = split(c.source())
		meta, _ := c.fields["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
		}
		for _, key := range []string{"execution", "ExecuteTime", "trusted", "collapsed", "scrolled", "vscode"} {
			delete(meta, key)
		}
		c.fields["metadata"] = meta
		if c.isCode() {
			if c.fields["outputs"] == nil {
				c.setOutputs(nil, nil)
			}
			c.setOutputs(p.normaliseOutputs(c.outputs()), c.fields["execution_count"])
		}
	}
}

// normaliseOutputs joins streams, sorts out paths, and keeps of each output only what the format
// asks for.
func (p places) normaliseOutputs(outs []output) []output {
	clean := []output{}
	for _, o := range outs {
		if n := len(clean); o.kind() == "stream" && n > 0 && clean[n-1].kind() == "stream" && clean[n-1]["name"] == o["name"] {
			clean[n-1]["text"] = joined(clean[n-1]["text"]) + joined(o["text"])
			continue
		}
		clean = append(clean, shallow(o))
	}
	for _, o := range clean {
		switch o.kind() {
		case "stream":
			o["text"] = split(p.portable(joined(o["text"])))
		case "error":
			o["evalue"] = p.portable(joined(o["evalue"]))
			lines, _ := o["traceback"].([]any)
			trace := []any{}
			for _, line := range lines {
				trace = append(trace, p.portable(joined(line)))
			}
			o["traceback"] = trace
		default:
			// The kernel numbers a program's displays as results; they are displays, and saved without
			// the number they do not change when cells before them do.
			delete(o, "execution_count")
			delete(o, "transient")
			o["output_type"] = "display_data"
			data := map[string]any{}
			for mime, v := range o.data() {
				data[mime] = v
				if isText(mime) {
					data[mime] = split(p.portable(joined(v)))
				} else if s := joined(v); s != "" {
					data[mime] = s // base64, in one piece
				}
			}
			o["data"] = data
			if o["metadata"] == nil {
				o["metadata"] = map[string]any{}
			}
		}
	}
	return clean
}

func shallow(o output) output {
	c := make(output, len(o))
	for k, v := range o {
		c[k] = v
	}
	return c
}

func isText(mime string) bool {
	return strings.HasPrefix(mime, "text/") || mime == "image/svg+xml"
}

// session matches the kernel's folder for one session's programs, and its name.
var session = regexp.MustCompile(`(?:/[^\s"'<>:]*)?\bgonb_[0-9a-f]{8}\b`)

// portable writes paths of this machine as they would be anywhere: the repository is ".", Go's own
// folder "(go)", the kernel's folder for the cell "(cell)".
func (p places) portable(text string) string {
	text = session.ReplaceAllString(text, "(cell)")
	for _, dir := range []string{p.root, resolved(p.root)} {
		text = replaceDir(text, dir, ".")
	}
	return replaceDir(text, p.goroot, "(go)")
}

func replaceDir(text, dir, by string) string {
	if dir == "" || dir == "/" {
		return text
	}
	return strings.ReplaceAll(text, dir, by)
}

func resolved(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return real
}
