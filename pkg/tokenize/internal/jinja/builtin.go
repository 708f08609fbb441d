package jinja

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type filter func(v any, a arguments) (any, error)

// onString makes a filter of a function of strings.
func onString(f func(string) string) filter {
	return func(v any, _ arguments) (any, error) { return f(text(v)), nil }
}

// filters are what may follow "|".
var filters map[string]filter

func init() {
	filters = map[string]filter{
		"upper":      onString(strings.ToUpper),
		"lower":      onString(strings.ToLower),
		"title":      onString(title),
		"capitalize": onString(capitalize),
		"string":     onString(func(s string) string { return s }),
		"safe":       func(v any, _ arguments) (any, error) { return v, nil },
		"length":     func(v any, _ arguments) (any, error) { return length(v) },
		"count":      func(v any, _ arguments) (any, error) { return length(v) },
		"tojson":     toJSON,
		"default":    defaultTo,
		"d":          defaultTo,
		"trim": func(v any, a arguments) (any, error) {
			return trim(text(v), a, true, true), nil
		},
		"replace": func(v any, a arguments) (any, error) {
			return strings.ReplaceAll(text(v), text(a.get(0, "old", "")), text(a.get(1, "new", ""))), nil
		},
		"join": func(v any, a arguments) (any, error) {
			list, err := iterate(v)
			parts := make([]string, len(list))
			for i, item := range list {
				if name := a.get(1, "attribute", nil); name != nil && err == nil {
					item, err = attribute(item, text(name))
				}
				parts[i] = text(item)
			}
			return strings.Join(parts, text(a.get(0, "d", ""))), err
		},
		"list": func(v any, _ arguments) (any, error) {
			list, err := iterate(v)
			return slices.Clone(list), err
		},
		"first": func(v any, _ arguments) (any, error) { return item(v, int64(0)) },
		"last":  func(v any, _ arguments) (any, error) { return item(v, int64(-1)) },
		"reverse": func(v any, _ arguments) (any, error) {
			return slice(v, [3]any{nil, nil, int64(-1)})
		},
		"items": func(v any, _ arguments) (any, error) {
			d, ok := v.(*dict)
			if !ok {
				return nil, fmt.Errorf("%s is not a dictionary", repr(v))
			}
			return dictMethod(d, "items")(arguments{})
		},
		"dictsort": func(v any, _ arguments) (any, error) {
			d, ok := v.(*dict)
			if !ok {
				return nil, fmt.Errorf("%s is not a dictionary", repr(v))
			}
			out := []any{}
			for _, k := range sortedKeys(d.values) {
				out = append(out, []any{k, d.values[k]})
			}
			return out, nil
		},
		"int": func(v any, a arguments) (any, error) {
			if f, ok := number(v); ok {
				return int64(f), nil
			}
			n, err := strconv.ParseInt(strings.TrimSpace(text(v)), 10, 64)
			if err != nil {
				return a.get(0, "default", int64(0)), nil
			}
			return n, nil
		},
		"float": func(v any, a arguments) (any, error) {
			if f, ok := number(v); ok {
				return f, nil
			}
			f, err := strconv.ParseFloat(strings.TrimSpace(text(v)), 64)
			if err != nil {
				return a.get(0, "default", 0.0), nil
			}
			return f, nil
		},
		"abs": func(v any, _ arguments) (any, error) {
			switch v := v.(type) {
			case int64:
				return max(v, -v), nil
			case float64:
				return math.Abs(v), nil
			}
			return nil, fmt.Errorf("abs of %s", repr(v))
		},
		"indent": func(v any, a arguments) (any, error) {
			by := a.get(0, "width", int64(4))
			pad := text(by)
			if n, ok := by.(int64); ok {
				pad = strings.Repeat(" ", int(min(max(n, 0), 1000)))
			}
			lines := strings.Split(text(v), "\n")
			for i, line := range lines {
				if i == 0 && !truth(a.get(1, "first", false)) || i > 0 && line == "" && !truth(a.get(2, "blank", false)) {
					continue
				}
				lines[i] = pad + line
			}
			return strings.Join(lines, "\n"), nil
		},
		"map": func(v any, a arguments) (any, error) {
			list, err := iterate(v)
			if err != nil {
				return nil, err
			}
			out := make([]any, len(list))
			for i, item := range list {
				if name, ok := a.named["attribute"]; ok {
					out[i], err = attribute(item, text(name))
				} else if f, ok := filters[text(a.get(0, "", ""))]; ok && len(a.list) > 0 {
					out[i], err = f(item, arguments{list: a.list[1:]})
				} else {
					err = fmt.Errorf("map with unknown filter %s", repr(a.get(0, "", "")))
				}
				if err != nil {
					return nil, err
				}
			}
			return out, nil
		},
		"select":     choose(true, false),
		"reject":     choose(false, false),
		"selectattr": choose(true, true),
		"rejectattr": choose(false, true),
	}
}

// choose keeps or drops the items that pass a test, themselves or by an attribute.
func choose(keep, byAttribute bool) filter {
	return func(v any, a arguments) (any, error) {
		list, err := iterate(v)
		if err != nil {
			return nil, err
		}
		out := []any{}
		rest := a.list
		name := ""
		if byAttribute {
			if len(rest) == 0 {
				return nil, fmt.Errorf("no attribute to choose by")
			}
			name, rest = text(rest[0]), rest[1:]
		}
		for _, item := range list {
			value := item
			if byAttribute {
				if value, err = attribute(item, name); err != nil {
					return nil, err
				}
			}
			ok := truth(value)
			if len(rest) > 0 {
				test, known := tests[text(rest[0])]
				if !known {
					return nil, fmt.Errorf("unknown test %s", repr(rest[0]))
				}
				if ok, err = test(value, arguments{list: rest[1:]}); err != nil {
					return nil, err
				}
			}
			if ok == keep {
				out = append(out, item)
			}
		}
		return out, nil
	}
}

func defaultTo(v any, a arguments) (any, error) {
	_, missing := v.(undefined)
	if missing || truth(a.get(1, "boolean", false)) && !truth(v) {
		return a.get(0, "default_value", ""), nil
	}
	return v, nil
}

func title(s string) string {
	var b strings.Builder
	start := true
	for _, r := range s {
		if start {
			b.WriteRune(unicode.ToTitle(r))
		} else {
			b.WriteRune(unicode.ToLower(r))
		}
		start = unicode.IsSpace(r) || strings.ContainsRune("-([{<", r)
	}
	return b.String()
}

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToTitle(r)) + strings.ToLower(s[n:])
}

// toJSON writes a value as Python's json.dumps does, characters as they are.
func toJSON(v any, a arguments) (any, error) {
	indent := -1
	if n, ok := a.get(1, "indent", nil).(int64); ok {
		indent = int(min(max(n, 0), 100))
	}
	var b strings.Builder
	err := writeJSON(&b, v, indent, 0)
	return b.String(), err
}

func writeJSON(b *strings.Builder, v any, indent, level int) error {
	if level > maxDepth {
		return errDepth
	}
	newline := func(level int) {
		if indent >= 0 {
			b.WriteString("\n" + strings.Repeat(" ", indent*level))
		}
	}
	comma := ", "
	if indent >= 0 {
		comma = ","
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64, float64:
		b.WriteString(repr(v))
	case string:
		quoteJSON(b, v)
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteString(comma)
			}
			newline(level + 1)
			if err := writeJSON(b, item, indent, level+1); err != nil {
				return err
			}
		}
		if len(v) > 0 {
			newline(level)
		}
		b.WriteByte(']')
	case *dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(comma)
			}
			newline(level + 1)
			quoteJSON(b, k)
			b.WriteString(": ")
			if err := writeJSON(b, v.values[k], indent, level+1); err != nil {
				return err
			}
		}
		if len(v.keys) > 0 {
			newline(level)
		}
		b.WriteByte('}')
	default:
		return fmt.Errorf("%s as JSON", repr(v))
	}
	return nil
}

func quoteJSON(b *strings.Builder, s string) {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(s) == nil {
		q := strings.TrimSuffix(out.String(), "\n")
		b.WriteString(strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(q))
	}
}

// testArgument names the tests whose argument may follow without parentheses.
var testArgument = map[string]bool{"equalto": true, "eq": true, "in": true, "divisibleby": true, "ne": true, "sameas": true}

// tests are what may follow "is".
var tests = map[string]func(v any, a arguments) (bool, error){
	"defined":   func(v any, _ arguments) (bool, error) { return !is[undefined](v), nil },
	"undefined": func(v any, _ arguments) (bool, error) { return is[undefined](v), nil },
	"none":      func(v any, _ arguments) (bool, error) { return v == nil, nil },
	"string":    func(v any, _ arguments) (bool, error) { return is[string](v), nil },
	"boolean":   func(v any, _ arguments) (bool, error) { return is[bool](v), nil },
	"integer":   func(v any, _ arguments) (bool, error) { return is[int64](v), nil },
	"float":     func(v any, _ arguments) (bool, error) { return is[float64](v), nil },
	"number":    func(v any, _ arguments) (bool, error) { _, ok := number(v); return ok, nil },
	"mapping":   func(v any, _ arguments) (bool, error) { return is[*dict](v), nil },
	"callable":  func(v any, _ arguments) (bool, error) { return is[function](v), nil },
	"true":      func(v any, _ arguments) (bool, error) { return v == true, nil },
	"false":     func(v any, _ arguments) (bool, error) { return v == false, nil },
	"iterable": func(v any, _ arguments) (bool, error) {
		return is[string](v) || is[[]any](v) || is[*dict](v) || is[undefined](v), nil
	},
	"sequence": func(v any, _ arguments) (bool, error) {
		return is[string](v) || is[[]any](v) || is[*dict](v) || is[undefined](v), nil
	},
	"equalto": func(v any, a arguments) (bool, error) { return equal(v, a.get(0, "", nil)), nil },
	"eq":      func(v any, a arguments) (bool, error) { return equal(v, a.get(0, "", nil)), nil },
	"sameas":  func(v any, a arguments) (bool, error) { return equal(v, a.get(0, "", nil)), nil },
	"ne":      func(v any, a arguments) (bool, error) { return !equal(v, a.get(0, "", nil)), nil },
	"in":      func(v any, a arguments) (bool, error) { return contains(a.get(0, "", nil), v) },
	"odd":     func(v any, _ arguments) (bool, error) { n, _ := v.(int64); return n%2 != 0, nil },
	"even":    func(v any, _ arguments) (bool, error) { n, ok := v.(int64); return ok && n%2 == 0, nil },
	"divisibleby": func(v any, a arguments) (bool, error) {
		n, ok1 := v.(int64)
		by, ok2 := a.get(0, "num", nil).(int64)
		if !ok1 || !ok2 || by == 0 {
			return false, fmt.Errorf("%s divisible by %s", repr(v), repr(a.get(0, "num", nil)))
		}
		return n%by == 0, nil
	},
}

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

// trim takes white space, or the characters of an argument, off the ends.
func trim(s string, a arguments, left, right bool) string {
	in := unicode.IsSpace
	if chars, ok := a.get(0, "chars", nil).(string); ok {
		in = func(r rune) bool { return strings.ContainsRune(chars, r) }
	}
	if left {
		s = strings.TrimLeftFunc(s, in)
	}
	if right {
		s = strings.TrimRightFunc(s, in)
	}
	return s
}

// stringMethod returns a method of a string, nil if there is none of that name.
func stringMethod(s, name string) function {
	arg := func(a arguments, i int) string { return text(a.get(i, "", "")) }
	prefixed := func(test func(string, string) bool) function {
		return func(a arguments) (any, error) {
			if list, ok := a.get(0, "", nil).([]any); ok {
				return slices.ContainsFunc(list, func(p any) bool { return test(s, text(p)) }), nil
			}
			return test(s, arg(a, 0)), nil
		}
	}
	switch name {
	case "strip":
		return func(a arguments) (any, error) { return trim(s, a, true, true), nil }
	case "lstrip":
		return func(a arguments) (any, error) { return trim(s, a, true, false), nil }
	case "rstrip":
		return func(a arguments) (any, error) { return trim(s, a, false, true), nil }
	case "upper", "lower", "title", "capitalize":
		return func(arguments) (any, error) { return filters[name](s, arguments{}) }
	case "startswith":
		return prefixed(strings.HasPrefix)
	case "endswith":
		return prefixed(strings.HasSuffix)
	case "replace":
		return func(a arguments) (any, error) {
			n := -1
			if k, ok := a.get(2, "count", nil).(int64); ok {
				n = int(k)
			}
			return strings.Replace(s, arg(a, 0), arg(a, 1), n), nil
		}
	case "split", "rsplit":
		return func(a arguments) (any, error) { return splitString(s, a, name == "rsplit") }
	case "splitlines":
		return func(arguments) (any, error) {
			out := []any{}
			for _, line := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
				out = append(out, strings.TrimSuffix(line, "\r"))
			}
			if s == "" {
				out = []any{}
			}
			return out, nil
		}
	case "find":
		return func(a arguments) (any, error) {
			k := strings.Index(s, arg(a, 0))
			if k < 0 {
				return int64(-1), nil
			}
			return int64(utf8.RuneCountInString(s[:k])), nil
		}
	case "count":
		return func(a arguments) (any, error) { return int64(strings.Count(s, arg(a, 0))), nil }
	case "removeprefix":
		return func(a arguments) (any, error) { return strings.TrimPrefix(s, arg(a, 0)), nil }
	case "removesuffix":
		return func(a arguments) (any, error) { return strings.TrimSuffix(s, arg(a, 0)), nil }
	case "join":
		return func(a arguments) (any, error) {
			return filters["join"](a.get(0, "", nil), arguments{list: []any{s}})
		}
	case "isdigit":
		return func(arguments) (any, error) {
			return s != "" && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsDigit(r) }) < 0, nil
		}
	}
	return nil
}

func splitString(s string, a arguments, fromRight bool) (any, error) {
	limit := -1
	if n, ok := a.get(1, "maxsplit", int64(-1)).(int64); ok && n >= 0 {
		limit = int(n)
	}
	by, given := a.get(0, "sep", nil).(string)
	var parts []string
	switch {
	case !given:
		parts = strings.Fields(s)
		if limit >= 0 && len(parts) > limit+1 {
			return nil, fmt.Errorf("split by white space with a limit")
		}
	case by == "":
		return nil, fmt.Errorf("split by an empty string")
	default:
		parts = strings.Split(s, by)
		if limit >= 0 && len(parts) > limit+1 {
			if fromRight {
				k := len(parts) - limit
				parts = append([]string{strings.Join(parts[:k], by)}, parts[k:]...)
			} else {
				parts = append(parts[:limit:limit], strings.Join(parts[limit:], by))
			}
		}
	}
	out := make([]any, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return out, nil
}

// dictMethod returns a method of a dictionary, nil if there is none of that name.
func dictMethod(d *dict, name string) function {
	list := func(f func(k string) any) function {
		return func(arguments) (any, error) {
			out := make([]any, len(d.keys))
			for i, k := range d.keys {
				out[i] = f(k)
			}
			return out, nil
		}
	}
	switch name {
	case "keys":
		return list(func(k string) any { return k })
	case "values":
		return list(func(k string) any { return d.values[k] })
	case "items":
		return list(func(k string) any { return []any{k, d.values[k]} })
	case "get":
		return func(a arguments) (any, error) {
			if v, ok := d.values[text(a.get(0, "", nil))]; ok {
				return v, nil
			}
			return a.get(1, "", nil), nil
		}
	}
	return nil
}
