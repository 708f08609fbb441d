// Package jinja renders the templates that checkpoints bring along to write a
// conversation down: the part of the Jinja language that they use, with the
// results of Python's jinja2 as transformers sets it up (trim_blocks,
// lstrip_blocks, break and continue, generation blocks). What isn't known is
// refused by name when the template is parsed. Templates cannot read files.
package jinja

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct{ body []node }

// Parse reads a template.
func Parse(source string) (*Template, error) {
	segments, err := split(strings.ReplaceAll(source, "\r\n", "\n"))
	if err != nil {
		return nil, err
	}
	p := &parser{segments: segments, line: 1}
	body, _, err := p.nodes()
	if err != nil {
		return nil, at(p.line, err)
	}
	return &Template{body}, nil
}

// maxOutput bounds what a template may write.
const maxOutput = 64 << 20

// Render runs the template. Values of data are nil, bool, int64, float64, string,
// []any and Map.
func (t *Template) Render(data Map) (string, error) {
	s := &scope{vars: map[string]any{}, out: &strings.Builder{}, run: &run{}}
	for k, v := range globals {
		s.vars[k] = v
	}
	for k, v := range data {
		s.vars[k] = fromGo(v)
	}
	if err := runAll(t.body, s); err != nil {
		return "", err
	}
	return s.out.String(), nil
}

// Map is a dictionary handed to a template.
type Map map[string]any

func fromGo(v any) any {
	switch v := v.(type) {
	case Map:
		d := newDict()
		for _, k := range sortedKeys(v) {
			d.set(k, fromGo(v[k]))
		}
		return d
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = fromGo(v[i])
		}
		return out
	case int:
		return int64(v)
	}
	return v
}

// scope holds the variables of a block and the output.
type scope struct {
	vars  map[string]any
	outer *scope
	out   *strings.Builder
	run   *run
}

// run bounds one rendering: a template comes with a checkpoint, and could be
// meant to do harm.
type run struct{ calls, steps int }

const maxSteps = 5_000_000

// step counts a node that is run.
func (r *run) step() error {
	if r.steps++; r.steps > maxSteps {
		return fmt.Errorf("more than %d steps", maxSteps)
	}
	return nil
}

func (s *scope) child() *scope {
	return &scope{vars: map[string]any{}, outer: s, out: s.out, run: s.run}
}

func (s *scope) get(name string) any {
	for ; s != nil; s = s.outer {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	return undefined{name}
}

func (s *scope) write(text string) error {
	if s.out.Len()+len(text) > maxOutput {
		return fmt.Errorf("more than %d bytes of output", maxOutput)
	}
	s.out.WriteString(text)
	return nil
}

// capture runs nodes and returns what they write.
func (s *scope) capture(list []node) (any, error) {
	inner := s.child()
	inner.out = &strings.Builder{}
	err := runAll(list, inner)
	return inner.out.String(), err
}

// unpack sets one name, or several from a list.
func (s *scope) unpack(names []string, v any) error {
	if len(names) == 1 {
		s.vars[names[0]] = v
		return nil
	}
	list, err := iterate(v)
	if err != nil {
		return err
	}
	if len(list) != len(names) {
		return fmt.Errorf("%d values for %d names", len(list), len(names))
	}
	for i, name := range names {
		s.vars[name] = list[i]
	}
	return nil
}

// arguments are those of a call.
type arguments struct {
	list  []any
	named map[string]any
}

// get returns the argument at a place or of a name, or otherwise.
func (a arguments) get(i int, name string, otherwise any) any {
	if i < len(a.list) {
		return a.list[i]
	}
	if v, ok := a.named[name]; ok {
		return v
	}
	return otherwise
}

type function func(a arguments) (any, error)

func call(f any, a arguments) (any, error) {
	if fn, ok := f.(function); ok {
		return fn(a)
	}
	if u, ok := f.(undefined); ok {
		return nil, fmt.Errorf("%q is undefined", u.name)
	}
	return nil, fmt.Errorf("%s is not a function", repr(f))
}

// globals are the functions that every template has.
var globals = map[string]any{
	"raise_exception": function(func(a arguments) (any, error) {
		return nil, errors.New(text(a.get(0, "message", "")))
	}),
	"strftime_now": function(func(a arguments) (any, error) {
		return strftime(time.Now(), text(a.get(0, "format", ""))), nil
	}),
	"namespace": function(func(a arguments) (any, error) {
		ns := &namespace{*newDict()}
		for _, k := range sortedKeys(a.named) {
			ns.set(k, a.named[k])
		}
		return ns, nil
	}),
	"dict": function(func(a arguments) (any, error) {
		d := newDict()
		for _, k := range sortedKeys(a.named) {
			d.set(k, a.named[k])
		}
		return d, nil
	}),
	"range": function(func(a arguments) (any, error) {
		at := [3]int64{0, 0, 1}
		for i, v := range a.list {
			n, ok := v.(int64)
			if !ok || i > 2 {
				return nil, fmt.Errorf("range of %s", repr(v))
			}
			at[i] = n
		}
		if len(a.list) == 1 {
			at[0], at[1] = 0, at[0]
		}
		if at[2] == 0 {
			return nil, errors.New("range with step 0")
		}
		out := []any{}
		for n := at[0]; at[2] > 0 && n < at[1] || at[2] < 0 && n > at[1]; n += at[2] {
			if len(out) == 100000 {
				return nil, errors.New("range of more than 100000 numbers")
			}
			out = append(out, n)
		}
		return out, nil
	}),
}

// strftime formats a time by the C conventions that templates use.
func strftime(t time.Time, format string) string {
	return strings.NewReplacer(
		"%d", t.Format("02"), "%m", t.Format("01"), "%Y", t.Format("2006"), "%y", t.Format("06"),
		"%b", t.Format("Jan"), "%B", t.Format("January"), "%a", t.Format("Mon"), "%A", t.Format("Monday"),
		"%H", t.Format("15"), "%I", t.Format("03"), "%M", t.Format("04"), "%S", t.Format("05"),
		"%p", t.Format("PM"), "%j", t.Format("002"), "%%", "%",
	).Replace(format)
}
