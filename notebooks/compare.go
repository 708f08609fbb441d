package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image/png"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// compareWithSaved compares a lesson's new outputs with those that it had and those of its Chinese twin, by
// the rules in help.
func compareWithSaved(_ context.Context, p places, o outcome) (string, error) {
	errs := p.compareLesson(o.file, o.saved, o.nb)
	twin, zh, err := readTwin(o.file)
	if err != nil {
		return "", err
	}
	if zh != nil {
		fresh, err := readNotebook(twin)
		if err != nil {
			return "", err
		}
		if left := copyOutputs(fresh, o.nb); left > 0 {
			errs = append(errs, fmt.Errorf("%s: %d cells hold other code than the lesson in English", relative(p.root, twin), left))
		}
		errs = append(errs, p.compareLesson(twin, zh, fresh)...)
	}
	return "; as saved", errors.Join(errs...)
}

// compareLesson compares a saved notebook with the same one after it ran, cell by cell.
func (p places) compareLesson(file string, saved, fresh *notebook) (errs []error) {
	numbers, _ := saved.codeNumbers()
	for i, c := range saved.cells {
		if numbers[i] == 0 || c.tagged("varies") {
			continue
		}
		was, is := p.normaliseOutputs(c.outputs()), p.normaliseOutputs(fresh.cells[i].outputs())
		if d := compareOutputs(was, is, c.tagged("timing")); d != "" {
			errs = append(errs, fmt.Errorf("%s: cell %d: %s", relative(p.root, file), numbers[i], d))
		}
	}
	return errs
}

// compareOutputs returns the first difference between a cell's saved outputs and its new ones.
func compareOutputs(was, is []output, timing bool) string {
	if a, b := kinds(was), kinds(is); a != b {
		return fmt.Sprintf("saved are %s, now %s", a, b)
	}
	for i := range was {
		if d := compareOutput(was[i], is[i], timing); d != "" {
			return d
		}
	}
	return ""
}

func compareOutput(was, is output, timing bool) string {
	switch was.kind() {
	case "stream":
		return differs(joined(was["text"]), joined(is["text"]), timing)
	case "error":
		return differs(joined(was["evalue"]), joined(is["evalue"]), timing)
	}
	a, b := was.data(), is.data()
	for _, mime := range slices.Sorted(maps.Keys(a)) {
		if d := compareMIME(mime, was, is, joined(a[mime]), joined(b[mime]), timing); d != "" {
			return d
		}
	}
	return ""
}

func compareMIME(mime string, was, is output, a, b string, timing bool) string {
	switch {
	case mime == "image/png":
		if d := comparePictures(a, b); d != "" {
			return d
		}
		alt := func(o output) string { s, _ := o.meta(mime)["alt"].(string); return s }
		return differs(alt(was), alt(is), timing || unitInBrackets.MatchString(alt(was)))
	case mime == "text/plain" && len(was.data()) > 1:
		if _, picture := was.data()["image/png"]; !picture {
			return "" // the same as the richer form, laid out for a terminal
		}
		timing = timing || unitInBrackets.MatchString(a)
	case mime == "text/html":
		timing = timing || unitInBrackets.MatchString(a)
		a, b = settings(a), settings(b)
		if timing { // whether an axis's end is labelled depends on the numbers
			a, b = endLabels.ReplaceAllString(a, ""), endLabels.ReplaceAllString(b, "")
		}
	}
	return differs(a, b, timing)
}

var endLabels = regexp.MustCompile(`"show(?:Min|Max)Label":(?:true|false),?`)

// settings is what a live chart's script draws, without the code around it, which changes with the
// package and not with the lesson. Other HTML is returned as it is.
func settings(html string) string {
	if !strings.Contains(html, "forwardpass-chart") {
		return html
	}
	for line := range strings.Lines(html) {
		if strings.HasPrefix(line, "var option = ") || strings.HasPrefix(line, "var strip = ") {
			line, _, _ = strings.Cut(line, ", colours = ")
			return line
		}
	}
	return html
}

// comparePictures compares the sizes of two base64 pictures: how a picture is drawn differs with
// the numbers in it, which the chart's settings and its alternative text tell better.
func comparePictures(a, b string) string {
	sa, errA := size(a)
	sb, errB := size(b)
	switch {
	case errB != nil:
		return "the new picture cannot be read: " + errB.Error()
	case errA != nil:
		return "the saved picture cannot be read: " + errA.Error()
	case sa != sb:
		return fmt.Sprintf("saved is a picture of %s pixels, now of %s", sa, sb)
	}
	return ""
}

func size(picture string) (string, error) {
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(picture), ""))
	if err != nil {
		return "", err
	}
	c, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d×%d", c.Width, c.Height), nil
}

// kinds describes outputs by their types, so that one more or one less is seen at once.
func kinds(outs []output) string {
	if len(outs) == 0 {
		return "no outputs"
	}
	var list []string
	for _, o := range outs {
		switch o.kind() {
		case "stream":
			list = append(list, fmt.Sprint(o["name"]))
		case "error":
			list = append(list, "an error")
		default:
			list = append(list, strings.Join(slices.Sorted(maps.Keys(o.data())), "+"))
		}
	}
	return strings.Join(list, ", ")
}
