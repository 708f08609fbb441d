package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A template is a list of nodes, each of which knows how to write itself, and an
// expression is a function of the scope: parsing makes closures, running calls
// them.
type (
	node func(s *scope) error
	expr func(s *scope) (any, error)
)

// parser reads the segments of a template.
type parser struct {
	segments []segment
	at       int
	line     int

	lexemes []lexeme // of the segment being read
	pos     int
	depth   int // of nesting, so that no template can exhaust the stack
}

const maxDepth = 200

var errDepth = errors.New("nested too deeply")

func (p *parser) peek() lexeme { return p.lexemes[p.pos] }

func (p *parser) next() lexeme {
	l := p.lexemes[p.pos]
	if l.kind != 0 {
		p.pos++
	}
	return l
}

// is reports whether the next lexeme is an operator or a keyword, and takes it.
func (p *parser) is(text string) bool {
	l := p.peek()
	if (l.kind == 'o' || l.kind == 'n') && l.text == text {
		p.pos++
		return true
	}
	return false
}

func (p *parser) want(text string) error {
	if !p.is(text) {
		return fmt.Errorf("found %q, want %q", p.peek().text, text)
	}
	return nil
}

func (p *parser) name() (string, error) {
	l := p.next()
	if l.kind != 'n' {
		return "", fmt.Errorf("found %q, want a name", l.text)
	}
	return l.text, nil
}

func (p *parser) done() error {
	if l := p.peek(); l.kind != 0 {
		return fmt.Errorf("unexpected %q", l.text)
	}
	return nil
}

// nodes reads until a block whose name is one of ends, and returns that name.
func (p *parser) nodes(ends ...string) (list []node, end string, err error) {
	if p.depth++; p.depth > maxDepth {
		return nil, "", errDepth
	}
	defer func() { p.depth-- }()
	for p.at < len(p.segments) {
		seg := p.segments[p.at]
		p.at++
		p.line = seg.line
		if seg.kind == 't' {
			text := seg.text
			list = append(list, func(s *scope) error { return s.write(text) })
			continue
		}
		if p.lexemes, err = lex(seg.text); err != nil {
			return nil, "", err
		}
		p.pos = 0
		if seg.kind == 'v' {
			e, err := p.expression()
			if err != nil {
				return nil, "", err
			}
			if err := p.done(); err != nil {
				return nil, "", err
			}
			line := seg.line
			list = append(list, func(s *scope) error {
				v, err := e(s)
				if err != nil {
					return at(line, err)
				}
				return s.write(text(v))
			})
			continue
		}
		word, err := p.name()
		if err != nil {
			return nil, "", err
		}
		if slices.Contains(ends, word) {
			return list, word, nil
		}
		n, err := p.block(word)
		if err != nil {
			return nil, "", err
		}
		list = append(list, n)
	}
	if len(ends) > 0 {
		return nil, "", fmt.Errorf("no %s", ends[len(ends)-1])
	}
	return list, "", nil
}

// at says in which line an error came up, once.
func at(line int, err error) error {
	var located *lineError
	if errors.As(err, &located) || errors.Is(err, errBreak) || errors.Is(err, errContinue) {
		return err
	}
	return &lineError{line, err}
}

type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

func runAll(list []node, s *scope) error {
	for _, n := range list {
		if err := s.run.step(); err != nil {
			return err
		}
		if err := n(s); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) block(word string) (node, error) {
	switch word {
	case "if":
		return p.ifBlock()
	case "for":
		return p.forBlock()
	case "set":
		return p.setBlock()
	case "macro":
		return p.macroBlock()
	case "generation": // marks the model's own words for training
		body, _, err := p.nodes("endgeneration")
		return func(s *scope) error { return runAll(body, s) }, err
	case "break":
		return func(*scope) error { return errBreak }, p.done()
	case "continue":
		return func(*scope) error { return errContinue }, p.done()
	}
	return nil, fmt.Errorf("unknown block %q", word)
}

func (p *parser) ifBlock() (node, error) {
	var conditions []expr
	var bodies [][]node
	var otherwise []node
	line := p.line
	for word := "if"; word != "endif"; {
		if word == "else" {
			var err error
			if otherwise, _, err = p.nodes("endif"); err != nil {
				return nil, err
			}
			break
		}
		cond, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.done(); err != nil {
			return nil, err
		}
		var body []node
		if body, word, err = p.nodes("elif", "else", "endif"); err != nil {
			return nil, err
		}
		conditions, bodies = append(conditions, cond), append(bodies, body)
	}
	return func(s *scope) error {
		for i, cond := range conditions {
			v, err := cond(s)
			if err != nil {
				return at(line, err)
			}
			if truth(v) {
				return runAll(bodies[i], s)
			}
		}
		return runAll(otherwise, s)
	}, nil
}

var (
	errBreak    = errors.New("break outside a loop")
	errContinue = errors.New("continue outside a loop")
)

func (p *parser) forBlock() (node, error) {
	line := p.line
	names, err := p.targets()
	if err != nil {
		return nil, err
	}
	if err := p.want("in"); err != nil {
		return nil, err
	}
	list, err := p.orExpression() // "if" belongs to the loop
	if err != nil {
		return nil, err
	}
	var filter expr
	if p.is("if") {
		if filter, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if err := p.done(); err != nil {
		return nil, err
	}
	body, end, err := p.nodes("else", "endfor")
	if err != nil {
		return nil, err
	}
	var otherwise []node
	if end == "else" {
		if otherwise, _, err = p.nodes("endfor"); err != nil {
			return nil, err
		}
	}
	return func(s *scope) error {
		v, err := list(s)
		if err != nil {
			return at(line, err)
		}
		items, err := iterate(v)
		if err != nil {
			return at(line, err)
		}
		if filter != nil {
			var kept []any
			for _, item := range items {
				inner := s.child()
				if err := inner.unpack(names, item); err != nil {
					return at(line, err)
				}
				ok, err := filter(inner)
				if err != nil {
					return at(line, err)
				}
				if truth(ok) {
					kept = append(kept, item)
				}
			}
			items = kept
		}
		for i, item := range items {
			inner := s.child()
			inner.vars["loop"] = loopInfo(items, i)
			if err := inner.unpack(names, item); err != nil {
				return at(line, err)
			}
			err := runAll(body, inner)
			if errors.Is(err, errBreak) {
				return nil
			}
			if err != nil && !errors.Is(err, errContinue) {
				return err
			}
		}
		if len(items) == 0 {
			return runAll(otherwise, s)
		}
		return nil
	}, nil
}

func loopInfo(items []any, i int) *dict {
	d := newDict()
	n := len(items)
	d.set("index", int64(i+1))
	d.set("index0", int64(i))
	d.set("revindex", int64(n-i))
	d.set("revindex0", int64(n-i-1))
	d.set("first", i == 0)
	d.set("last", i == n-1)
	d.set("length", int64(n))
	if i > 0 {
		d.set("previtem", items[i-1])
	}
	if i+1 < n {
		d.set("nextitem", items[i+1])
	}
	return d
}

// targets reads "a, b".
func (p *parser) targets() ([]string, error) {
	paren := p.is("(")
	var names []string
	for {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		names = append(names, name)
		if !p.is(",") {
			break
		}
	}
	if paren {
		return names, p.want(")")
	}
	return names, nil
}

func (p *parser) setBlock() (node, error) {
	line := p.line
	names, err := p.targets()
	if err != nil {
		return nil, err
	}
	field := ""
	if len(names) == 1 && p.is(".") {
		if field, err = p.name(); err != nil {
			return nil, err
		}
	}
	var value expr
	if p.is("=") {
		if value, err = p.tuple(); err != nil {
			return nil, err
		}
		if err := p.done(); err != nil {
			return nil, err
		}
	} else {
		if err := p.done(); err != nil {
			return nil, err
		}
		body, _, err := p.nodes("endset")
		if err != nil {
			return nil, err
		}
		value = func(s *scope) (any, error) { return s.capture(body) }
	}
	return func(s *scope) error {
		v, err := value(s)
		if err != nil {
			return at(line, err)
		}
		if field != "" {
			ns, ok := s.get(names[0]).(*namespace)
			if !ok {
				return at(line, fmt.Errorf("cannot set %s.%s: %s is not a namespace", names[0], field, names[0]))
			}
			ns.set(field, v)
			return nil
		}
		if err := s.unpack(names, v); err != nil {
			return at(line, err)
		}
		return nil
	}, nil
}

func (p *parser) macroBlock() (node, error) {
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	if err := p.want("("); err != nil {
		return nil, err
	}
	var params []string
	defaults := map[string]expr{}
	for !p.is(")") {
		param, err := p.name()
		if err != nil {
			return nil, err
		}
		params = append(params, param)
		if p.is("=") {
			if defaults[param], err = p.expression(); err != nil {
				return nil, err
			}
		}
		if !p.is(",") && p.peek().text != ")" {
			return nil, fmt.Errorf("found %q in the parameters of %s", p.peek().text, name)
		}
	}
	if err := p.done(); err != nil {
		return nil, err
	}
	body, _, err := p.nodes("endmacro")
	if err != nil {
		return nil, err
	}
	return func(s *scope) error {
		s.vars[name] = function(func(a arguments) (any, error) {
			if s.run.calls++; s.run.calls > maxDepth {
				return nil, errDepth
			}
			defer func() { s.run.calls-- }()
			inner := s.child()
			for i, param := range params {
				var v any = undefined{param}
				if d := defaults[param]; d != nil {
					var err error
					if v, err = d(s); err != nil {
						return nil, err
					}
				}
				if i < len(a.list) {
					v = a.list[i]
				}
				if named, ok := a.named[param]; ok {
					v = named
				}
				inner.vars[param] = v
			}
			return inner.capture(body)
		})
		return nil
	}, nil
}

// tuple reads an expression, or several with commas.
func (p *parser) tuple() (expr, error) {
	first, err := p.expression()
	if err != nil || p.peek().text != "," || p.peek().kind != 'o' {
		return first, err
	}
	list := []expr{first}
	for p.is(",") {
		if l := p.peek(); l.kind == 0 || l.kind == 'o' && l.text == ")" {
			break
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return listOf(list), nil
}

func listOf(list []expr) expr {
	return func(s *scope) (any, error) {
		out := make([]any, len(list))
		for i, e := range list {
			var err error
			if out[i], err = e(s); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// expression reads "a if b else c" and all that binds tighter.
func (p *parser) expression() (expr, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errDepth
	}
	defer func() { p.depth-- }()
	value, err := p.orExpression()
	if err != nil {
		return nil, err
	}
	for p.is("if") {
		cond, err := p.orExpression()
		if err != nil {
			return nil, err
		}
		then := value
		otherwise := expr(func(*scope) (any, error) { return undefined{"inline if"}, nil })
		if p.is("else") {
			if otherwise, err = p.expression(); err != nil {
				return nil, err
			}
		}
		value = func(s *scope) (any, error) {
			c, err := cond(s)
			if err != nil {
				return nil, err
			}
			if truth(c) {
				return then(s)
			}
			return otherwise(s)
		}
	}
	return value, nil
}

func (p *parser) orExpression() (expr, error) {
	left, err := p.andExpression()
	for err == nil && p.is("or") {
		var right expr
		right, err = p.andExpression()
		left = shortCut(left, right, true)
	}
	return left, err
}

func (p *parser) andExpression() (expr, error) {
	left, err := p.notExpression()
	for err == nil && p.is("and") {
		var right expr
		right, err = p.notExpression()
		left = shortCut(left, right, false)
	}
	return left, err
}

func shortCut(left, right expr, on bool) expr {
	return func(s *scope) (any, error) {
		v, err := left(s)
		if err != nil || truth(v) == on {
			return v, err
		}
		return right(s)
	}
}

func (p *parser) notExpression() (expr, error) {
	if !p.is("not") {
		return p.comparison()
	}
	if p.depth++; p.depth > maxDepth {
		return nil, errDepth
	}
	defer func() { p.depth-- }()
	e, err := p.notExpression()
	return func(s *scope) (any, error) {
		v, err := e(s)
		return !truth(v), err
	}, err
}

func (p *parser) comparison() (expr, error) {
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	operands, ops := []expr{left}, []string{}
	for {
		op := p.peek().text
		switch {
		case p.peek().kind == 'o' && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, op), p.peek().kind == 'n' && op == "in":
			p.next()
		case p.peek().kind == 'n' && op == "not" && p.lexemes[p.pos+1] == (lexeme{'n', "in"}):
			p.next()
			p.next()
			op = "not in"
		default:
			if len(ops) == 0 {
				return left, nil
			}
			return func(s *scope) (any, error) {
				a, err := operands[0](s)
				for i, op := range ops {
					if err != nil {
						return nil, err
					}
					b, err := operands[i+1](s)
					if err != nil {
						return nil, err
					}
					ok, err := compare(op, a, b)
					if err != nil || !ok {
						return false, err
					}
					a = b
				}
				return true, err
			}, nil
		}
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		operands, ops = append(operands, right), append(ops, op)
	}
}

// binary reads operands joined by operators of one precedence, from the left.
func (p *parser) binary(operand func() (expr, error), ops ...string) (expr, error) {
	left, err := operand()
	for err == nil && p.peek().kind == 'o' && slices.Contains(ops, p.peek().text) {
		op := p.next().text
		var right expr
		right, err = operand()
		a := left
		left = func(s *scope) (any, error) {
			x, err := a(s)
			if err != nil {
				return nil, err
			}
			y, err := right(s)
			if err != nil {
				return nil, err
			}
			return arithmetic(op, x, y)
		}
	}
	return left, err
}

func (p *parser) sum() (expr, error)     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() (expr, error)  { return p.binary(p.product, "~") }
func (p *parser) product() (expr, error) { return p.binary(p.unary, "*", "/", "//", "%") }

func (p *parser) unary() (expr, error) {
	if p.peek().kind == 'o' && (p.peek().text == "-" || p.peek().text == "+") {
		op := p.next().text
		if p.depth++; p.depth > maxDepth {
			return nil, errDepth
		}
		defer func() { p.depth-- }()
		e, err := p.unary()
		return func(s *scope) (any, error) {
			v, err := e(s)
			if err != nil {
				return nil, err
			}
			return arithmetic(op, int64(0), v)
		}, err
	}
	e, err := p.primary()
	if err != nil {
		return nil, err
	}
	return p.postfix(e)
}

// postfix reads attributes, items, calls, filters and tests.
func (p *parser) postfix(e expr) (expr, error) {
	for {
		value := e
		switch {
		case p.is("."):
			l := p.next()
			if l.kind != 'n' && l.kind != 'i' {
				return nil, fmt.Errorf("found %q after a point", l.text)
			}
			e = func(s *scope) (any, error) {
				v, err := value(s)
				if err != nil {
					return nil, err
				}
				return attribute(v, l.text)
			}
		case p.is("["):
			item, err := p.subscript()
			if err != nil {
				return nil, err
			}
			e = func(s *scope) (any, error) {
				v, err := value(s)
				if err != nil {
					return nil, err
				}
				return item(s, v)
			}
		case p.is("("):
			args, err := p.arguments()
			if err != nil {
				return nil, err
			}
			e = func(s *scope) (any, error) {
				f, err := value(s)
				if err != nil {
					return nil, err
				}
				a, err := args(s)
				if err != nil {
					return nil, err
				}
				return call(f, a)
			}
		case p.is("|"):
			name, err := p.name()
			if err != nil {
				return nil, err
			}
			f, ok := filters[name]
			if !ok {
				return nil, fmt.Errorf("unknown filter %q", name)
			}
			args := noArguments
			if p.is("(") {
				if args, err = p.arguments(); err != nil {
					return nil, err
				}
			}
			e = func(s *scope) (any, error) {
				v, err := value(s)
				if err != nil {
					return nil, err
				}
				a, err := args(s)
				if err != nil {
					return nil, err
				}
				return f(v, a)
			}
		case p.is("is"):
			not := p.is("not")
			name, err := p.name()
			if err != nil {
				return nil, err
			}
			f, ok := tests[name]
			if !ok {
				return nil, fmt.Errorf("unknown test %q", name)
			}
			args := noArguments
			if p.is("(") {
				if args, err = p.arguments(); err != nil {
					return nil, err
				}
			} else if l := p.peek(); l.kind == 's' || l.kind == 'i' || testArgument[name] && (l.kind == 'n' || l.text == "[") {
				arg, err := p.primary()
				if err != nil {
					return nil, err
				}
				args = func(s *scope) (arguments, error) {
					v, err := arg(s)
					return arguments{list: []any{v}}, err
				}
			}
			e = func(s *scope) (any, error) {
				v, err := value(s)
				if err != nil {
					return nil, err
				}
				a, err := args(s)
				if err != nil {
					return nil, err
				}
				ok, err := f(v, a)
				return ok != not, err
			}
		default:
			return e, nil
		}
	}
}

// subscript reads what is between brackets: an index or a slice.
func (p *parser) subscript() (func(*scope, any) (any, error), error) {
	var parts [3]expr
	n, colons := 0, 0
	for {
		if p.is(":") {
			colons++
			if n++; n > 2 {
				return nil, fmt.Errorf("a slice has at most three parts")
			}
			continue
		}
		if p.is("]") {
			break
		}
		if parts[n] != nil {
			return nil, fmt.Errorf("found %q, want \"]\"", p.peek().text)
		}
		var err error
		if parts[n], err = p.expression(); err != nil {
			return nil, err
		}
	}
	if colons == 0 && parts[0] == nil {
		return nil, fmt.Errorf("an index is missing")
	}
	return func(s *scope, v any) (any, error) {
		var at [3]any
		for i, e := range parts {
			if e == nil {
				continue
			}
			var err error
			if at[i], err = e(s); err != nil {
				return nil, err
			}
		}
		if colons == 0 {
			return item(v, at[0])
		}
		return slice(v, at)
	}, nil
}

func noArguments(*scope) (arguments, error) { return arguments{}, nil }

// arguments reads the arguments of a call, after its parenthesis.
func (p *parser) arguments() (func(*scope) (arguments, error), error) {
	var list []expr
	type named struct {
		name  string
		value expr
	}
	var names []named
	for !p.is(")") {
		if l := p.peek(); l.kind == 'n' && p.lexemes[p.pos+1] == (lexeme{'o', "="}) {
			p.pos += 2
			e, err := p.expression()
			if err != nil {
				return nil, err
			}
			names = append(names, named{l.text, e})
		} else {
			e, err := p.expression()
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		if !p.is(",") && (p.peek().kind != 'o' || p.peek().text != ")") {
			return nil, fmt.Errorf("found %q in a call, want \",\" or \")\"", p.peek().text)
		}
	}
	return func(s *scope) (arguments, error) {
		a := arguments{named: map[string]any{}}
		for _, e := range list {
			v, err := e(s)
			if err != nil {
				return a, err
			}
			a.list = append(a.list, v)
		}
		for _, n := range names {
			v, err := n.value(s)
			if err != nil {
				return a, err
			}
			a.named[n.name] = v
		}
		return a, nil
	}, nil
}

func constant(v any) expr { return func(*scope) (any, error) { return v, nil } }

func (p *parser) primary() (expr, error) {
	l := p.next()
	switch l.kind {
	case 's':
		s := l.text
		for p.peek().kind == 's' { // neighbouring strings are one
			s += p.next().text
		}
		return constant(s), nil
	case 'i':
		n, err := strconv.ParseInt(l.text, 10, 64)
		return constant(n), err
	case 'f':
		f, err := strconv.ParseFloat(l.text, 64)
		return constant(f), err
	case 'n':
		switch l.text {
		case "true", "True":
			return constant(true), nil
		case "false", "False":
			return constant(false), nil
		case "none", "None":
			return constant(nil), nil
		}
		name := l.text
		return func(s *scope) (any, error) { return s.get(name), nil }, nil
	}
	switch l.text {
	case "(":
		if p.is(")") {
			return constant([]any{}), nil
		}
		e, err := p.tuple()
		if err != nil {
			return nil, err
		}
		return e, p.want(")")
	case "[":
		var list []expr
		for !p.is("]") {
			e, err := p.expression()
			if err != nil {
				return nil, err
			}
			list = append(list, e)
			if !p.is(",") && p.peek().text != "]" {
				return nil, fmt.Errorf("found %q in a list", p.peek().text)
			}
		}
		return listOf(list), nil
	case "{":
		var keys, values []expr
		for !p.is("}") {
			k, err := p.expression()
			if err != nil {
				return nil, err
			}
			if err := p.want(":"); err != nil {
				return nil, err
			}
			v, err := p.expression()
			if err != nil {
				return nil, err
			}
			keys, values = append(keys, k), append(values, v)
			if !p.is(",") && p.peek().text != "}" {
				return nil, fmt.Errorf("found %q in a dictionary", p.peek().text)
			}
		}
		return func(s *scope) (any, error) {
			d := newDict()
			for i := range keys {
				k, err := keys[i](s)
				if err != nil {
					return nil, err
				}
				v, err := values[i](s)
				if err != nil {
					return nil, err
				}
				d.set(text(k), v)
			}
			return d, nil
		}, nil
	}
	if l.kind == 0 {
		return nil, errors.New("an expression is missing")
	}
	return nil, fmt.Errorf("unexpected %q", strings.TrimSpace(l.text))
}
