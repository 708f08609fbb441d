package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// raw is a notebook as it comes from a session: timings, machine paths, split streams, no ids.
const raw = `{
 "cells": [
  {"cell_type": "markdown", "metadata": {}, "source": "# Tokens <b>\u2028</b> 你好"},
  {"cell_type": "code", "execution_count": 1, "metadata": {"execution": {"iopub.execute_input": "2026-01-01T00:00:00Z"}, "tags": ["timing"]},
   "source": ["%%\n", "fmt.Println(1)"],
   "outputs": [
    {"output_type": "stream", "name": "stdout", "text": "read ROOT/testdata"},
    {"output_type": "stream", "name": "stdout", "text": ["/x in 1.5 ms\n", "done\n"]},
    {"output_type": "execute_result", "execution_count": 1, "data": {"image/png": "AAAA", "text/plain": "[chart]"}, "metadata": {"image/png": {"width": 600}}, "transient": {"display_id": "z"}},
    {"output_type": "error", "ename": "ERROR", "evalue": "/tmp/gonb_0123abcd/main.go:3: no", "traceback": ["/opt/go/src/x.go:1"]}
   ]},
  {"cell_type": "code", "execution_count": null, "metadata": {}, "source": "", "outputs": []},
  {"cell_type": "code", "execution_count": null, "metadata": {}, "source": "", "outputs": []}
 ],
 "metadata": {"kernelspec": {"name": "python3", "display_name": "P", "language": "python"}, "widgets": {"application/vnd.jupyter.widget-state+json": {}}, "language_info": {"name": "go", "version": "go1.26.1"}},
 "nbformat": 4, "nbformat_minor": 4
}`

func parseRaw(t *testing.T, p places) *notebook {
	t.Helper()
	nb, err := parseNotebook([]byte(strings.ReplaceAll(raw, "ROOT", p.root)))
	if err != nil {
		t.Fatal(err)
	}
	return nb
}

func TestNormalise(t *testing.T) {
	p := testPlaces(t)
	nb := parseRaw(t, p)
	nb.normalise(p, "01-tokens")
	first, err := nb.encode()
	if err != nil {
		t.Fatal(err)
	}
	text := string(first)
	for _, bad := range []string{p.root, "widgets", "iopub", "gonb_0", "python3", "transient", "go1.26.1", "/opt/go", "execute_result", `\u2028`, `\u003c`} {
		if strings.Contains(text, bad) {
			t.Errorf("still holds %q", bad)
		}
	}
	for _, want := range []string{"read ./testdata/x in 1.5 ms", "(cell)/main.go:3", "(go)/src/x.go", "你好", "timing", `"width": 600`, "\u2028", "<b>"} {
		if !strings.Contains(text, want) {
			t.Errorf("lost %q", want)
		}
	}
	if got := len(nb.cells[1].outputs()); got != 3 {
		t.Errorf("%d outputs, want 3: the two parts of stdout joined", got)
	}
	ids := map[any]bool{}
	for _, c := range nb.cells {
		id, _ := c.fields["id"].(string)
		if len(id) != 8 || ids[id] {
			t.Errorf("id %q: want 8 characters of its own", id)
		}
		ids[id] = true
	}
	// Saving again changes nothing, and neither does starting again from the raw notebook.
	again, err := parseNotebook(first)
	if err != nil {
		t.Fatal(err)
	}
	again.normalise(p, "01-tokens")
	if second, _ := again.encode(); !bytes.Equal(first, second) {
		t.Error("a second save differs from the first")
	}
	other := parseRaw(t, p)
	other.normalise(p, "01-tokens")
	if second, _ := other.encode(); !bytes.Equal(first, second) {
		t.Error("the same raw notebook is saved differently the second time")
	}
	if !strings.HasPrefix(text, "{\n \"cells\": [\n  {\n   \"cell_type\"") || !strings.HasSuffix(text, "}\n") {
		t.Errorf("not in Jupyter's layout: %.60q", text)
	}
}

func TestUnescapeSeparators(t *testing.T) {
	want := "a\u2028b\u2029c\\u2028 \\ \"\u202f"
	escaped, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal(unescapeSeparators(escaped), &got); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestParseNotebookRefuses(t *testing.T) {
	for _, tt := range []struct{ data, want string }{
		{"", "not a notebook"},
		{"[1]", "not a notebook"},
		{`{"nbformat": 3, "worksheets": []}`, "format 4"},
		{`{"nbformat": 4}`, "without cells"},
		{`{"nbformat": 4, "cells": [1]}`, "cell 1"},
	} {
		if _, err := parseNotebook([]byte(tt.data)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %q", tt.data, err, tt.want)
		}
	}
}

func code(source string, outs ...output) *cell {
	c := &cell{map[string]any{"cell_type": "code", "source": source, "metadata": map[string]any{}}}
	c.setOutputs(outs, nil)
	return c
}

func stdout(text string) output {
	return output{"output_type": "stream", "name": "stdout", "text": text}
}

func TestCopyOutputs(t *testing.T) {
	from := &notebook{cells: []*cell{code("a", stdout("1")), code("b", stdout("2")), code("a", stdout("3"))}}
	to := &notebook{cells: []*cell{
		{map[string]any{"cell_type": "markdown", "source": "a"}}, code("a"), code("a"), code("b"), code("c", stdout("old")), code(" "),
	}}
	if left := copyOutputs(to, from); left != 1 {
		t.Errorf("%d cells left, want 1", left)
	}
	var got []string
	for _, c := range to.cells {
		for _, o := range c.outputs() {
			got = append(got, joined(o["text"]))
		}
	}
	if want := []string{"1", "3", "2", "old"}; !reflect.DeepEqual(got, want) {
		t.Errorf("outputs %q, want %q", got, want)
	}
}

func TestDiffers(t *testing.T) {
	for _, tt := range []struct {
		was, is string
		same    bool
	}{
		{"the cat", "the cat", true},
		{"the cat", "the dog", false},
		{"took 1.5 ms", "took 12.25 ms", true},
		{"took 950µs, 3 tokens", "took 1.2ms, 3 tokens", true},
		{"took 950µs, 3 tokens", "took 1.2ms, 4 tokens", false},
		{"1m2.5s", "58.1s", true},
		{"38.2 tok/s (12.1 GB/s)", "40 tok/s (9 GB/s)", true},
		{"3.1× faster", "2.8× faster", true},
		{"about 3x faster", "about 4x faster", true},
		{"shape 4×64", "shape 4×32", false},
		{"shape 4 × 64", "shape 4 × 32", false},
		{"peak 120 MB peak", "peak 130 MB peak", true},
		{"cache 120 MB", "cache 130 MB", false},
		{"3 songs", "4 songs", false}, // "s" is a unit only on its own
		{"12 sentences", "13 sentences", false},
		{"id 198", "id 199", false},
		{"p 0.1234", "p 0.1235", true},
		{"p 0.1234", "p 0.1254", false},
		{"max diff 2.4e-07", "max diff 8.1e-06", true},
		{"max diff 2.4e-07", "max diff 8.1e-03", false},
		{"loss 1234.5", "loss 1234.6", true},
		{"-0.5", "0.5", false},
		{"1 2", "1 2 3", false},
		{"a    1\n", "a 1", true},
		{"| a |\n|---|\n| 1 |", "| a |\n|-----|\n| 1 |", true},
		{"| n | time (ms) |\n|---|---|\n| 1 | 2.5 |", "| n | time (ms) |\n|---|---|\n| 1 | 77 |", true},
		{"| n | time (ms) |\n|---|---|\n| 1 | 2.5 |", "| n | time (ms) |\n|---|---|\n| 2 | 77 |", false},
		{"| n | bytes |\n|---|---|\n| 1 | 25 |", "| n | bytes |\n|---|---|\n| 1 | 77 |", false},
		{"goroutine +0x52", "goroutine +0x99", true},
		{"two\nlines", "two", false},
	} {
		if d := differs(tt.was, tt.is, false); (d == "") != tt.same {
			t.Errorf("%q and %q: %q", tt.was, tt.is, d)
		}
	}
	if d := differs("n = 5 in 7", "n = 6 in 8", true); d != "" {
		t.Errorf("a timing cell: %s", d)
	}
	if d := differs("n = 5 in a", "n = 6 in b", true); d == "" {
		t.Error("a timing cell may change its numbers, not its words")
	}
}

func picture(t *testing.T, w, h int) string {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func display(data map[string]any, alt string) output {
	return output{"output_type": "display_data", "data": data, "metadata": map[string]any{"image/png": map[string]any{"alt": alt}}}
}

func TestCompareOutputs(t *testing.T) {
	chart := func(title string, n string) output {
		return display(map[string]any{"text/html": `<script>{"title":"` + title + `","data":[` + n + `]}</script>`}, "")
	}
	pic := func(w int, alt string) output {
		return display(map[string]any{"image/png": picture(t, w, 10), "text/plain": "alt"}, alt)
	}
	for name, tt := range map[string]struct {
		was, is []output
		same    bool
	}{
		"same text":           {[]output{stdout("a")}, []output{stdout("a")}, true},
		"an output more":      {[]output{stdout("a")}, []output{stdout("a"), pic(10, "")}, false},
		"an output less":      {[]output{stdout("a"), pic(10, "")}, []output{stdout("a")}, false},
		"picture, same size":  {[]output{pic(10, "two bars")}, []output{pic(10, "two bars")}, true},
		"picture, other size": {[]output{pic(10, "two bars")}, []output{pic(12, "two bars")}, false},
		"picture, other alt":  {[]output{pic(10, "two bars")}, []output{pic(10, "three bars")}, false},
		"chart, same":         {[]output{chart("p", "0.25")}, []output{chart("p", "0.25")}, true},
		"chart, rounding":     {[]output{chart("p", "0.250001")}, []output{chart("p", "0.2500013")}, true},
		"chart, other":        {[]output{chart("p", "0.25")}, []output{chart("p", "0.35")}, false},
		"chart, other code": {[]output{display(map[string]any{"text/html": "<script>\nold()\nvar option = {\"a\":1}, meta = {}, colours = 1;\n'forwardpass-chart'"}, "")},
			[]output{display(map[string]any{"text/html": "<script>\nvar option = {\"a\":1}, meta = {}, colours = 2;\nnew('forwardpass-chart')"}, "")}, true},
		"chart, other settings": {[]output{display(map[string]any{"text/html": "<script>\nvar option = {\"a\":1}, meta = {}, colours = 1;\n'forwardpass-chart'"}, "")},
			[]output{display(map[string]any{"text/html": "<script>\nvar option = {\"a\":2}, meta = {}, colours = 1;\n'forwardpass-chart'"}, "")}, false},
		"picture of times":  {[]output{pic(10, "the highest is a with 3. Vertical axis: time (ms).")}, []output{pic(10, "the highest is a with 5. Vertical axis: time (ms).")}, true},
		"picture of counts": {[]output{pic(10, "the highest is a with 3. Vertical axis: count.")}, []output{pic(10, "the highest is a with 5. Vertical axis: count.")}, false},
		"end labels of times": {[]output{chart("TTFT (ms)", `25],"a":{"showMaxLabel":true,"showMinLabel":true},"b":[`)},
			[]output{chart("TTFT (ms)", `35],"a":{"showMaxLabel":false,"showMinLabel":true},"b":[`)}, true},
		"chart of times":        {[]output{chart("TTFT (ms)", "25")}, []output{chart("TTFT (ms)", "35")}, true},
		"chart of times, title": {[]output{chart("TTFT (ms)", "25")}, []output{chart("TPOT (ms)", "25")}, false},
		"error": {[]output{{"output_type": "error", "evalue": "exit status 1"}},
			[]output{{"output_type": "error", "evalue": "exit status 2"}}, false},
	} {
		if d := compareOutputs(tt.was, tt.is, false); (d == "") != tt.same {
			t.Errorf("%s: %q", name, d)
		}
	}
}

// A lesson and its Chinese twin are saved, then compared: equal after the same run, and each kind of
// change is named with its file and cell.
func TestSaveThenCompare(t *testing.T) {
	p := testPlaces(t)
	file := filepath.Join(p.root, "notebooks", "01-tokens.ipynb")
	twin := filepath.Join(p.root, "notebooks", "zh", "01-tokens.ipynb")
	for _, f := range []string{file, twin} {
		if err := os.WriteFile(f, []byte(strings.ReplaceAll(raw, `, "tags": ["timing"]`, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ran := func(text string) outcome {
		saved, err := readNotebook(file)
		if err != nil {
			t.Fatal(err)
		}
		nb := parseRaw(t, p)
		nb.cells[1].fields["metadata"] = map[string]any{}
		nb.cells[1].setOutputs([]output{stdout(text)}, json.Number("1"))
		return outcome{file: file, saved: saved, nb: nb}
	}
	if _, err := saveFiles(p, ran("3 tokens in 5 ms\n")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{file, twin} {
		nb, err := readNotebook(f)
		if err != nil {
			t.Fatal(err)
		}
		if outs := nb.cells[1].outputs(); len(outs) != 1 || joined(outs[0]["text"]) != "3 tokens in 5 ms\n" {
			t.Errorf("%s: outputs %v", f, outs)
		}
	}
	if _, err := compareWithSaved(t.Context(), p, ran("3 tokens in 8 ms\n")); err != nil {
		t.Errorf("another time: %v", err)
	}
	_, err := compareWithSaved(t.Context(), p, ran("4 tokens in 8 ms\n"))
	if err == nil || !strings.Contains(err.Error(), "notebooks/01-tokens.ipynb: cell 1:") || !strings.Contains(err.Error(), "notebooks/zh/01-tokens.ipynb: cell 1:") {
		t.Errorf("another count: %v, want both files and the cell named", err)
	}
	// Written in while it ran: text is kept, other code is not given the outputs of the old.
	mine, _ := readNotebook(file)
	mine.cells[0].fields["source"] = "# Mine"
	if err := writeNotebook(file, mine); err != nil {
		t.Fatal(err)
	}
	if _, err := saveFiles(p, ran("3 tokens in 5 ms\n")); err != nil {
		t.Error(err)
	}
	if mine, _ = readNotebook(file); mine.cells[0].source() != "# Mine" {
		t.Errorf("text written meanwhile is lost: %q", mine.cells[0].source())
	}
	late := ran("3 tokens in 5 ms\n")
	late.nb.cells[1].fields["source"] = "fmt.Println(0)"
	if _, err := saveFiles(p, late); err == nil || !strings.Contains(err.Error(), "changed while") {
		t.Errorf("code written meanwhile: %v", err)
	}
	zh, _ := readNotebook(twin)
	zh.cells[1].fields["source"] = "fmt.Println(2)"
	if err := writeNotebook(twin, zh); err != nil {
		t.Fatal(err)
	}
	if _, err := compareWithSaved(t.Context(), p, ran("3 tokens in 8 ms\n")); err == nil || !strings.Contains(err.Error(), "other code") {
		t.Errorf("other code in the twin: %v", err)
	}
}

func TestDiagnose(t *testing.T) {
	p := testPlaces(t)
	stderr := func(text string) output { return output{"output_type": "stream", "name": "stderr", "text": text} }
	failed := output{"output_type": "error", "evalue": "exit status 1"}
	page := func(body string) output {
		return display(map[string]any{"text/html": "<style>.gonb-x{}</style><div>\n<div> # gonb_0123abcd</div>\n<div>" + body + "</div></div>"}, "")
	}
	for name, tt := range map[string]struct {
		outs []output
		want string
	}{
		"compile": {[]output{page(`<span>Cell[7]: Line 5</span> <span>./main.go:14:13: </span>undefined: g<div class="gonb-err-context">x<div>y</div>` + "\n</div>"), failed},
			"cell 7, line 5: undefined: g"},
		"earlier cell": {[]output{page(`<span>Cell[3]: Line 2</span> <span>/tmp/gonb_0123abcd/main.go:4:1: </span>missing return`), failed},
			"cell 7, in what cell 3 defined on line 2: missing return"},
		"package": {[]output{page("failed to run \"/x/go get\": exit status 1\n\tforwardpass/pkg/x: package forwardpass/pkg/x is not in std"), failed},
			"cell 7: forwardpass/pkg/x: package forwardpass/pkg/x is not in std"},
		"panic": {[]output{stderr("panic: index out of range\n\ngoroutine 1 [running]:\n\x1b[7m[[ Cell [7] Line 4 ]]\x1b[0m /tmp/gonb_0123abcd/main.go:15\n"), failed},
			"cell 7, line 4: panic: index out of range"},
		"cut": {[]output{stderr("panic: "), stderr("no\n")}, "cell 7: panic: no"},
		"test": {[]output{stdout("=== RUN   TestX\n    main_test.go:9: want 3, got 4\n--- FAIL: TestX (0.00s)\n"), stderr("exit status 1\n"), failed},
			"cell 7: want 3, got 4"},
		"log":  {[]output{stderr("2026/01/01 00:00:00 model: no such file\nexit status 1\n"), failed}, "model: no such file"},
		"exit": {[]output{stderr("exit status 1\n"), failed}, "cell 7: exit status 1"},
		"root": {[]output{stderr("open " + p.root + "/x: no such file\n"), failed}, "open ./x: no such file"},
	} {
		err := p.cellError(filepath.Join(p.root, "notebooks", "04-attention.ipynb"), 7, event{Problem: "failed", Outputs: tt.outs, Count: "7"})
		if !strings.HasPrefix(err.Error(), "notebooks/04-attention.ipynb: cell 7") || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q, want one line with %q", name, err, tt.want)
		}
	}
	err := p.cellError("x.ipynb", 2, event{Problem: "took longer than 3 s"})
	if !strings.Contains(err.Error(), "cell 2: took longer") {
		t.Errorf("time-out: %v", err)
	}
}

func TestCodeNumbers(t *testing.T) {
	nb := &notebook{cells: []*cell{code("a"), {map[string]any{"cell_type": "markdown"}}, code(" \n"), code("b")}}
	numbers, total := nb.codeNumbers()
	if want := map[int]int{0: 1, 3: 2}; total != 2 || !reflect.DeepEqual(numbers, want) {
		t.Errorf("numbers %v, total %d; want %v", numbers, total, want)
	}
}

// FuzzDiffers: text equals itself, and the comparison never panics.
func FuzzDiffers(f *testing.F) {
	f.Add("1.5 ms | × 3", "(ms)")
	f.Add("| a (ms) |\n|--|\n|1", "0x1")
	f.Fuzz(func(t *testing.T, a, b string) {
		if d := differs(a, a, false); d != "" {
			t.Errorf("%q differs from itself: %s", a, d)
		}
		if (differs(a, b, false) == "") != (differs(b, a, false) == "") && !strings.ContainsAny(a+b, ".eE") {
			t.Errorf("%q and %q: the order matters", a, b)
		}
	})
}
