package jinja

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Values are nil (none), bool, int64, float64, string, []any, *dict, *namespace,
// function and undefined.

// undefined is what a name or a key that isn't there gives. It can be written (as
// nothing) and tested, not used.
type undefined struct{ name string }

// dict keeps its keys in the order they came in.
type dict struct {
	keys   []string
	values map[string]any
}

func newDict() *dict { return &dict{values: map[string]any{}} }

func (d *dict) set(key string, v any) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = v
}

// namespace is a dictionary whose entries blocks can set.
type namespace struct{ dict }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// text writes a value the way Python's str does.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case undefined:
		return ""
	}
	return repr(v)
}

// repr writes a value the way Python's repr does.
func repr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if math.Abs(v) < 1e16 && math.Abs(v) >= 1e-4 || v == 0 {
			s = strconv.FormatFloat(v, 'f', -1, 64)
		}
		if !strings.ContainsAny(s, ".eEnI") {
			s += ".0"
		}
		return s
	case string:
		quote := "'"
		if strings.Contains(v, "'") && !strings.Contains(v, `"`) {
			quote = `"`
		}
		return quote + strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`, quote, `\`+quote).Replace(v) + quote
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = repr(v[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *dict:
		parts := make([]string, len(v.keys))
		for i, k := range v.keys {
			parts[i] = repr(k) + ": " + repr(v.values[k])
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case undefined:
		return "Undefined"
	case function:
		return "<function>"
	}
	return "<namespace>"
}

func iterate(v any) ([]any, error) {
	switch v := v.(type) {
	case []any:
		return v, nil
	case string:
		out := make([]any, 0, len(v))
		for _, r := range v {
			out = append(out, string(r))
		}
		return out, nil
	case *dict:
		out := make([]any, len(v.keys))
		for i, k := range v.keys {
			out[i] = k
		}
		return out, nil
	case undefined:
		return nil, nil
	}
	return nil, fmt.Errorf("%s cannot be iterated over", repr(v))
}

// attribute is v.name: a key of a dictionary, or a method.
func attribute(v any, name string) (any, error) {
	switch v := v.(type) {
	case *dict:
		if m := dictMethod(v, name); m != nil {
			return m, nil
		}
		if got, ok := v.values[name]; ok {
			return got, nil
		}
	case *namespace:
		if got, ok := v.values[name]; ok {
			return got, nil
		}
	case string:
		if m := stringMethod(v, name); m != nil {
			return m, nil
		}
	case undefined:
		return nil, fmt.Errorf("%q is undefined", v.name)
	}
	return undefined{name}, nil
}

// item is v[key].
func item(v, key any) (any, error) {
	switch v := v.(type) {
	case *dict:
		if got, ok := v.values[text(key)]; ok {
			return got, nil
		}
		return attribute(v, text(key))
	case *namespace:
		return attribute(v, text(key))
	case undefined:
		return nil, fmt.Errorf("%q is undefined", v.name)
	case string, []any:
		n, ok := key.(int64)
		if !ok {
			return attribute(v, text(key))
		}
		list, err := iterate(v)
		if err != nil {
			return nil, err
		}
		if n < 0 {
			n += int64(len(list))
		}
		if n >= 0 && n < int64(len(list)) {
			return list[n], nil
		}
	}
	return undefined{text(key)}, nil
}

// slice is v[a:b:c].
func slice(v any, at [3]any) (any, error) {
	list, err := iterate(v)
	if err != nil {
		return nil, err
	}
	n := int64(len(list))
	step := int64(1)
	var bounds [2]*int64
	for i, x := range at {
		if x == nil {
			continue
		}
		k, ok := x.(int64)
		if !ok {
			return nil, fmt.Errorf("%s in a slice", repr(x))
		}
		if i == 2 {
			step = k
			continue
		}
		if k < 0 {
			k += n
		}
		bounds[i] = &k
	}
	if step == 0 {
		return nil, errors.New("slice with step 0")
	}
	start, end := int64(0), n
	low, high := int64(0), n
	if step < 0 {
		start, end = n-1, -1
		low, high = -1, n-1
	}
	if bounds[0] != nil {
		start = min(max(*bounds[0], low), high)
	}
	if bounds[1] != nil {
		end = min(max(*bounds[1], low), high)
	}
	out := []any{}
	for k := start; step > 0 && k < end || step < 0 && k > end; k += step {
		out = append(out, list[k])
	}
	if _, ok := v.(string); ok {
		var b strings.Builder
		for _, c := range out {
			b.WriteString(c.(string))
		}
		return b.String(), nil
	}
	return out, nil
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func equal(a, b any) bool {
	x, ok1 := number(a)
	y, ok2 := number(b)
	if ok1 && ok2 {
		return x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		s, ok := b.(string)
		return ok && a == s
	case undefined:
		_, ok := b.(undefined)
		return ok
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, equal)
	case *dict:
		d, ok := b.(*dict)
		if !ok || len(a.keys) != len(d.keys) {
			return false
		}
		for k, v := range a.values {
			if w, ok := d.values[k]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	}
	return false
}

func compare(op string, a, b any) (bool, error) {
	switch op {
	case "==":
		return equal(a, b), nil
	case "!=":
		return !equal(a, b), nil
	case "in", "not in":
		found, err := contains(b, a)
		return found == (op == "in"), err
	}
	order := 0
	x, ok1 := number(a)
	y, ok2 := number(b)
	s, ok3 := a.(string)
	t, ok4 := b.(string)
	switch {
	case ok1 && ok2:
		order = cmp.Compare(x, y)
	case ok3 && ok4:
		order = strings.Compare(s, t)
	default:
		return false, fmt.Errorf("cannot compare %s %s %s", repr(a), op, repr(b))
	}
	switch op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

func contains(in, v any) (bool, error) {
	switch in := in.(type) {
	case string:
		s, ok := v.(string)
		if !ok {
			return false, fmt.Errorf("%s in a string", repr(v))
		}
		return strings.Contains(in, s), nil
	case *dict:
		_, ok := in.values[text(v)]
		return ok, nil
	case []any:
		return slices.ContainsFunc(in, func(x any) bool { return equal(x, v) }), nil
	case undefined:
		return false, nil
	}
	return false, fmt.Errorf("%s is not a list", repr(in))
}

func arithmetic(op string, a, b any) (any, error) {
	if op == "~" {
		return text(a) + text(b), nil
	}
	for _, v := range []any{a, b} {
		if u, ok := v.(undefined); ok {
			return nil, fmt.Errorf("%q is undefined", u.name)
		}
	}
	if op == "+" {
		switch a := a.(type) {
		case string:
			if s, ok := b.(string); ok {
				return a + s, nil
			}
		case []any:
			if l, ok := b.([]any); ok {
				return slices.Concat(a, l), nil
			}
		}
	}
	if op == "*" {
		if s, ok := a.(string); ok {
			if n, ok := b.(int64); ok {
				if n > 0 && int64(len(s))*n > maxOutput || n > maxOutput {
					return nil, fmt.Errorf("a string of more than %d bytes", maxOutput)
				}
				return strings.Repeat(s, int(max(n, 0))), nil
			}
		}
	}
	m, ok1 := a.(int64)
	n, ok2 := b.(int64)
	if ok1 && ok2 && op != "/" {
		switch op {
		case "+":
			return m + n, nil
		case "-":
			return m - n, nil
		case "*":
			return m * n, nil
		}
		if n == 0 {
			return nil, errors.New("division by zero")
		}
		quotient := m / n
		if m%n != 0 && (m < 0) != (n < 0) {
			quotient--
		}
		if op == "//" {
			return quotient, nil
		}
		return m - quotient*n, nil
	}
	x, ok1 := number(a)
	y, ok2 := number(b)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("cannot compute %s %s %s", repr(a), op, repr(b))
	}
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	}
	if y == 0 {
		return nil, errors.New("division by zero")
	}
	switch op {
	case "/":
		return x / y, nil
	case "//":
		return math.Floor(x / y), nil
	}
	return x - y*math.Floor(x/y), nil
}

func length(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return int64(utf8.RuneCountInString(v)), nil
	case []any:
		return int64(len(v)), nil
	case *dict:
		return int64(len(v.keys)), nil
	case undefined:
		return int64(0), nil
	}
	return nil, fmt.Errorf("%s has no length", repr(v))
}
