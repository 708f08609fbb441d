package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

// cellError names a failed cell: lesson, cell, line where the kernel tells it, and what was wrong.
func (p places) cellError(file string, number int, e event) error {
	where := fmt.Sprintf("%s: cell %d", relative(p.root, file), number)
	if e.Problem != "failed" {
		return fmt.Errorf("%s: %s", where, e.Problem)
	}
	cell, line, what := diagnose(p.normaliseOutputs(e.Outputs)) // the kernel may cut a line in two
	switch {
	case line != "" && (cell == "" || cell == e.Count.String()):
		where += ", line " + line
	case line != "":
		where += fmt.Sprintf(", in what cell %s defined on line %s", cell, line)
	}
	return fmt.Errorf("%s: %s", where, p.portable(what))
}

var (
	// "Cell[3]: Line 5" before a compile error, "[[ Cell [4] Line 4 ]]" in a stack trace.
	position    = regexp.MustCompile(`Cell ?\[(\d+)\]:? Line (\d+)`)
	surrounding = regexp.MustCompile(`(?s)<div class="gonb-err-context">.*?</div>\n*</div>|<div class="gonb-err-context">.*?</div>|<style>.*?</style>`)
	markup      = regexp.MustCompile(`<[^>]*>`)
	ansi        = regexp.MustCompile("\x1b\\[[0-9;]*m")
	generated   = regexp.MustCompile(`(?:\S*/)?main(?:_test)?\.go:\d+(?::\d+)?:\s*`)
)

// diagnose finds the first place that the kernel names and the line that says what was wrong: a
// compile error, a panic, a failed check, a log message, whichever the cell ended with.
func diagnose(outs []output) (cell, line, what string) {
	var texts []string // in the order of how much they tell
	var last string
	for _, o := range outs {
		text := ""
		switch o.kind() {
		case "stream":
			text = joined(o["text"])
			if m := failedCheck(text); m != "" {
				texts = append(texts, m)
			}
			if o["name"] == "stderr" {
				texts = append(texts, firstTelling(text))
			}
		case "error":
			last = joined(o["evalue"])
		default:
			text = joined(o.data()["text/html"])
			if strings.Contains(text, "gonb-") {
				texts = append(texts, compileError(text))
			}
		}
		if m := position.FindStringSubmatch(ansi.ReplaceAllString(text, "")); m != nil && line == "" {
			cell, line = m[1], m[2]
		}
	}
	for _, t := range append(texts, last) {
		if t != "" {
			return cell, line, generated.ReplaceAllString(t, "")
		}
	}
	return cell, line, "it failed without saying why"
}

// firstTelling is the first line of stderr that says something: not the exit status, not a stack.
func firstTelling(text string) string {
	for line := range strings.Lines(ansi.ReplaceAllString(text, "")) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "exit status") && !strings.HasPrefix(line, "goroutine ") {
			return line
		}
	}
	return ""
}

// failedCheck is the first message of a failed %test.
func failedCheck(stdout string) string {
	if !strings.Contains(stdout, "--- FAIL") {
		return ""
	}
	for line := range strings.Lines(stdout) {
		if generated.MatchString(line) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// compileError is the first message in the page that the kernel makes of a compiler's output.
func compileError(page string) string {
	text := html.UnescapeString(markup.ReplaceAllString(surrounding.ReplaceAllString(page, ""), ""))
	best := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(position.ReplaceAllString(line, ""))
		switch {
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "failed to run"):
		case generated.MatchString(line):
			return line
		case best == "" || strings.HasPrefix(best, "go: "):
			best = line
		}
	}
	return best
}
