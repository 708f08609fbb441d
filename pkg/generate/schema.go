package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// JSONSchema makes a constraint: the text must be JSON that fits the schema. Understood are type (one or several of string,
// number, integer, boolean, null, array, object), enum, const, anyOf, oneOf (as anyOf), properties, required, items,
// minItems, maxItems, minLength, maxLength, pattern, $ref to a local definition, and annotations such as title. Anything else
// is refused by its name, as are definitions that contain themselves: a regular language has no unlimited nesting.
//
// Properties come in the schema's order, and only those listed (additionalProperties must be absent or false). Between
// elements there may be one space after a comma or colon, and no other white space. A pattern must match the whole string.
func JSONSchema(schema []byte) (*Constraint, error) {
	dec := json.NewDecoder(bytes.NewReader(schema))
	dec.UseNumber()
	root, err := ordered(dec)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = fmt.Errorf("text after the end")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("generate: JSON schema: %w", err)
	}
	s := schemaReader{root: root}
	f, err := s.value(root, "#")
	if err != nil {
		return nil, fmt.Errorf("generate: JSON schema: %w", err)
	}
	c, err := newConstraint(f)
	if err != nil {
		return nil, fmt.Errorf("generate: JSON schema: %w", err)
	}
	return c, nil
}

// object is a JSON object in its own order, which a map loses.
type object []member

type member struct {
	key   string
	value any
}

func (o object) get(key string) any {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// ordered reads a JSON value with objects as object; numbers are json.Number.
func ordered(dec *json.Decoder) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		o := object{}
		for dec.More() {
			k, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := ordered(dec)
			if err != nil {
				return nil, err
			}
			o = append(o, member{k.(string), v})
		}
		_, err = dec.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := ordered(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	}
	return t, nil
}

// MarshalJSON writes the object in its order.
func (o object) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		k, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		v, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, k...), ':'), v...)
	}
	return append(out, '}'), nil
}

var (
	space     = optional(literal(" "))
	comma     = sequence(literal(","), space)
	colon     = sequence(literal(":"), space)
	hex       = either(bytesRange('0', '9'), bytesRange('a', 'f'), bytesRange('A', 'F'))
	digit     = bytesRange('0', '9')
	integer   = sequence(optional(literal("-")), either(literal("0"), sequence(bytesRange('1', '9'), repeat(digit, 0, 17))))
	number    = sequence(integer, optional(sequence(literal("."), repeat(digit, 1, 17))), optional(sequence(either(literal("e"), literal("E")), optional(either(literal("+"), literal("-"))), repeat(digit, 1, 2))))
	character = either(
		runes([]rune{' ', '"' - 1, '"' + 1, '\\' - 1, '\\' + 1, 0x10FFFF}),
		sequence(literal(`\`), either(literal(`"`), literal(`\`), literal("/"), literal("b"), literal("f"), literal("n"), literal("r"), literal("t"))),
		sequence(literal(`\u`), either( // four hex digits that are no half of a surrogate pair
			sequence(either(digit, bytesRange('a', 'c'), bytesRange('A', 'C'), bytesRange('e', 'f'), bytesRange('E', 'F')), hex, hex, hex),
			sequence(either(literal("d"), literal("D")), bytesRange('0', '7'), hex, hex))),
	)
)

// inJSON writes a class of characters as they stand in a JSON string: quotes, backslashes and control characters escaped.
func inJSON(class []rune) fragment {
	var plain []rune
	var parts []fragment
	for i := 0; i+1 < len(class); i += 2 {
		lo := class[i]
		for _, c := range escaped {
			if c < lo || c > class[i+1] {
				continue
			}
			plain = append(plain, lo, c-1) // empty when lo is c
			lo = c + 1
			e, _ := json.Marshal(string(c))
			parts = append(parts, literal(string(e[1:len(e)-1])))
		}
		plain = append(plain, lo, class[i+1])
	}
	return either(append(parts, runes(plain))...)
}

// escaped is every character that JSON strings must escape.
var escaped = func() (list []rune) {
	for c := range rune(' ') {
		list = append(list, c)
	}
	return append(list, '"', '\\')
}()

type schemaReader struct {
	root  any
	inUse []string // the $refs that are being read
}

// annotations say something to people, or are handled where they belong.
var annotations = []string{"title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions", "deprecated", "readOnly", "writeOnly"}

// only refuses keys of the schema that the code for its kind of value does not read.
func only(o object, at string, keys ...string) error {
	for _, m := range o {
		if !slices.Contains(keys, m.key) && !slices.Contains(annotations, m.key) {
			return fmt.Errorf("%s: %q is not supported here", at, m.key)
		}
	}
	return nil
}

// value builds the automaton of one schema; at is its path, for messages.
func (r *schemaReader) value(schema any, at string) (fragment, error) {
	o, ok := schema.(object)
	if !ok {
		return nil, fmt.Errorf("%s: want an object, got %v", at, schema)
	}
	if ref, ok := o.get("$ref").(string); ok {
		return r.ref(o, ref, at)
	}
	if list, ok := o.get("enum").([]any); ok {
		if err := only(o, at, "enum", "type"); err != nil {
			return nil, err
		}
		return constants(list, at)
	}
	for _, m := range o {
		if m.key == "const" {
			if err := only(o, at, "const", "type"); err != nil {
				return nil, err
			}
			return constants([]any{m.value}, at)
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if list, ok := o.get(key).([]any); ok {
			if err := only(o, at, key); err != nil {
				return nil, err
			}
			var parts []fragment
			for i, s := range list {
				f, err := r.value(s, fmt.Sprintf("%s/%s/%d", at, key, i))
				if err != nil {
					return nil, err
				}
				parts = append(parts, f)
			}
			if len(parts) == 0 {
				return nil, fmt.Errorf("%s: %s is empty", at, key)
			}
			return either(parts...), nil
		}
	}
	switch t := o.get("type").(type) {
	case string:
		return r.typed(o, t, at)
	case []any:
		var parts []fragment
		for _, x := range t {
			name, ok := x.(string)
			if !ok {
				return nil, fmt.Errorf("%s: type must be a string, got %v", at, x)
			}
			f, err := r.typed(o, name, at)
			if err != nil {
				return nil, err
			}
			parts = append(parts, f)
		}
		if len(parts) > 0 {
			return either(parts...), nil
		}
	}
	return nil, fmt.Errorf("%s: want a type, enum, const, anyOf, oneOf or $ref", at)
}

func constants(list []any, at string) (fragment, error) {
	var parts []fragment
	for _, v := range list {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		parts = append(parts, literal(strings.TrimSuffix(buf.String(), "\n")))
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s: enum is empty", at)
	}
	return either(parts...), nil
}

func (r *schemaReader) ref(o object, ref, at string) (fragment, error) {
	if err := only(o, at, "$ref"); err != nil {
		return nil, err
	}
	if slices.Contains(r.inUse, ref) {
		return nil, fmt.Errorf("%s: %s contains itself", at, ref)
	}
	path, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil, fmt.Errorf("%s: only references into this schema are supported, got %q", at, ref)
	}
	target := r.root
	for _, key := range strings.Split(path, "/")[1:] {
		o, _ := target.(object)
		if target = o.get(key); target == nil {
			return nil, fmt.Errorf("%s: %q does not exist", at, ref)
		}
	}
	r.inUse = append(r.inUse, ref)
	f, err := r.value(target, ref)
	r.inUse = r.inUse[:len(r.inUse)-1]
	return f, err
}

func (r *schemaReader) typed(o object, kind, at string) (fragment, error) {
	union := []string{"type"}
	if list, ok := o.get("type").([]any); ok { // the keys of any of the types may be there
		for _, t := range list {
			union = append(union, keysOf[fmt.Sprint(t)]...)
		}
	}
	keys, known := keysOf[kind]
	if !known {
		return nil, fmt.Errorf("%s: unknown type %q", at, kind)
	}
	if err := only(o, at, append(union, keys...)...); err != nil {
		return nil, err
	}
	switch kind {
	case "boolean":
		return either(literal("true"), literal("false")), nil
	case "null":
		return literal("null"), nil
	case "integer":
		return integer, nil
	case "number":
		return number, nil
	case "string":
		return r.text(o, at)
	case "array":
		return r.array(o, at)
	}
	return r.object(o, at)
}

var keysOf = map[string][]string{
	"boolean": nil, "null": nil, "integer": nil, "number": nil,
	"string": {"minLength", "maxLength", "pattern"},
	"array":  {"items", "minItems", "maxItems"},
	"object": {"properties", "required", "additionalProperties"},
}

func (r *schemaReader) text(o object, at string) (fragment, error) {
	least, most, err := bounds(o, "minLength", "maxLength", at)
	if err != nil {
		return nil, err
	}
	body := repeat(character, least, most)
	if p, ok := o.get("pattern").(string); ok {
		if o.get("minLength") != nil || o.get("maxLength") != nil {
			return nil, fmt.Errorf("%s: pattern together with a length is not supported", at)
		}
		if body, err = regexFragment(p, inJSON); err != nil {
			return nil, fmt.Errorf("%s: pattern %q: %w", at, p, err)
		}
	}
	return sequence(literal(`"`), body, literal(`"`)), nil
}

func (r *schemaReader) array(o object, at string) (fragment, error) {
	least, most, err := bounds(o, "minItems", "maxItems", at)
	if err != nil {
		return nil, err
	}
	items := o.get("items")
	if items == nil {
		return nil, fmt.Errorf("%s: an array needs items", at)
	}
	item, err := r.value(items, at+"/items")
	if err != nil {
		return nil, err
	}
	if most == 0 {
		return literal("[]"), nil
	}
	more := most
	if most > 0 {
		more = most - 1
	}
	body := sequence(item, repeat(sequence(comma, item), max(0, least-1), more))
	if least == 0 {
		body = optional(body)
	}
	return sequence(literal("["), body, literal("]")), nil
}

func bounds(o object, minKey, maxKey, at string) (least, most int, err error) {
	most = -1
	for _, b := range []struct {
		key  string
		into *int
	}{{minKey, &least}, {maxKey, &most}} {
		if v := o.get(b.key); v != nil {
			n, ok := v.(json.Number)
			i, err := n.Int64()
			if !ok || err != nil || i < 0 || i > maxNodes {
				return 0, 0, fmt.Errorf("%s: %s must be a whole number from 0 to %d, got %v", at, b.key, maxNodes, v)
			}
			*b.into = int(i)
		}
	}
	if most >= 0 && least > most {
		return 0, 0, fmt.Errorf("%s: %s %d is more than %s %d", at, minKey, least, maxKey, most)
	}
	return least, most, nil
}

// object: the first property that is there may be any up to the first required one; from then on each brings its own comma.
func (r *schemaReader) object(o object, at string) (fragment, error) {
	if extra := o.get("additionalProperties"); extra != nil && extra != false {
		return nil, fmt.Errorf("%s: additionalProperties must be false, got %v", at, extra)
	}
	required := map[string]bool{}
	if list, ok := o.get("required").([]any); ok {
		for _, k := range list {
			required[fmt.Sprint(k)] = true
		}
	}
	props, _ := o.get("properties").(object)
	var parts []fragment
	for _, p := range props {
		v, err := r.value(p.value, at+"/properties/"+p.key)
		if err != nil {
			return nil, err
		}
		key, err := constants([]any{p.key}, at)
		if err != nil {
			return nil, err
		}
		parts = append(parts, sequence(key, colon, v))
	}
	for k := range required {
		if !slices.ContainsFunc(props, func(m member) bool { return m.key == k }) {
			return nil, fmt.Errorf("%s: required property %q is not among the properties", at, k)
		}
	}
	return func(a *nfa, to int) int {
		rest := literal("}")(a, to) // where it goes on once a property is there
		starts := []int{rest}       // the ways to begin with one of the properties seen so far
		for i := len(parts) - 1; i >= 0; i-- {
			property := parts[i](a, rest)
			next := comma(a, property)
			if required[props[i].key] {
				starts = []int{property}
				rest = next
			} else {
				starts = append(starts, property)
				rest = a.add(node{split: true, next: []int{next, rest}})
			}
		}
		return literal("{")(a, a.add(node{split: true, next: starts}))
	}, nil
}
