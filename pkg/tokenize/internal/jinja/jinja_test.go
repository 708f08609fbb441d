package jinja

import (
	"strings"
	"testing"
)

// data is what the templates below see.
var data = Map{
	"n": int64(3), "f": 2.5, "s": "héllo World", "empty": "", "yes": true, "nothing": nil,
	"list":   []any{int64(1), "two", int64(3)},
	"d":      Map{"b": int64(2), "a": "x", "items_": []any{}},
	"people": []any{Map{"name": "Ann", "age": int64(3)}, Map{"name": "Bob", "age": int64(0)}},
}

// TestRender has one expectation a line, each what Python's jinja2 gives with
// trim_blocks and lstrip_blocks.
func TestRender(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{"plain { text } {", "plain { text } {"},
		{"a{# comment #}b", "ab"},
		{"{{ n }} {{ f }} {{ yes }} {{ nothing }} {{ missing }}|", "3 2.5 True None |"},
		{"{{ list }} {{ d.a }} {{ d['b'] }}", "[1, 'two', 3] x 2"},
		{"{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 % 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 * 'ab' if false else 'ab' * 2 }}", "6 1 -4 2 3.5 abab"},
		{"{{ 'a' ~ 1 ~ none }} {{ 'a' 'b' }} {{ \"q'\\n\" }}", "a1None ab q'\n"},
		{"{{ 1 < 2 <= 2 }} {{ 1 == 1.0 }} {{ 'a' in 'abc' }} {{ 2 not in list }} {{ not yes or empty }}|", "True True True True |"},
		{"{{ (s + '!' if n > 2 else 'no') | upper }}", "HÉLLO WORLD!"},
		{"{{ s[0] }}{{ s[-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ list[1:] }} {{ list[:-1] }} {{ s[99] }}|", "hd él dlroW olléh ['two', 3] [1, 'two'] |"},
		{"{{ ' x ' | trim }}{{ 'xxaxx'.strip('x') }}{{ '\nab'.lstrip('\n') }}", "xaab"},
		{"{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1)[1] }} {{ ' a  b '.split() }}", "['a', 'b', 'c'] b,c ['a', 'b']"},
		{"{{ s.startswith('h') }} {{ s.endswith(('x', 'd')) }} {{ s.replace('l', 'L') }} {{ s.upper() }}", "True True héLLo WorLd HÉLLO WORLD"},
		{"{{ list | length }} {{ list | join('-') }} {{ list | first }} {{ list | last }} {{ list | reverse }}", "3 1-two-3 1 3 [3, 'two', 1]"},
		{"{{ missing | default('x') }} {{ empty | default('y') }} {{ empty | default('z', true) }}", "x  z"},
		{"{{ d | tojson }} {{ '<é\"' | tojson }} {{ [1, true, none, 1.0] | tojson }}", `{"a": "x", "b": 2, "items_": []} "<é\"" [1, true, null, 1.0]`},
		{"{{ {'a': [1]} | tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ]\n}"},
		{"{{ people | map(attribute='name') | join(',') }} {{ people | selectattr('age') | list | length }} {{ people | rejectattr('name', 'equalto', 'Ann') | list | length }}", "Ann,Bob 1 1"},
		{"{{ list | select('string') | join }} {{ 'hello world' | title }} {{ 'ABC' | capitalize }} {{ '12' | int + 1 }}", "two Hello World Abc 13"},
		{"{{ n is defined }} {{ missing is not defined }} {{ nothing is none }} {{ s is string }} {{ list is iterable }} {{ d is mapping }} {{ n is odd }} {{ n is divisibleby 3 }} {{ n is in [1, 3] }}", "True True True True True True True True True"},
		{"{% for x in list %}{{ loop.index }}/{{ loop.length }}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}", "1/31,2/3two,3/33"},
		{"{% for x in [] %}x{% else %}none{% endfor %}", "none"},
		{"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for p in people if p.age %}{{ p.name }}{{ loop.last }}{% endfor %}", "a=x;b=2;items_=[];AnnTrue"},
		{"{% for x in range(9) %}{% if x == 2 %}{% continue %}{% elif x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}", "0134"},
		{"{% set x = 1 %}{% for i in list %}{% set x = 2 %}{% endfor %}{{ x }}", "1"},
		{"{% set ns = namespace(x=1) %}{% for i in list %}{% set ns.x = ns.x + 1 %}{% endfor %}{{ ns.x }}", "4"},
		{"{% set block %}a{{ n }}{% endset %}{{ block | upper }}{% set a, b = 1, 2 %}{{ a }}{{ b }}", "A312"},
		{"{% macro m(a, b='d') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{{ m() }}", "[1d][12][d]"},
		{"{% generation %}x{% endgeneration %}", "x"},
		{"a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"},
		{"a  {%- if yes -%}  b  {%- endif -%}  c", "abc"},
		{"  {{ n }}  \n  {{- n }}", "  33"},
		{"{% if yes +%}\nb{% endif %}\n\nx", "\nb\nx"},
		{"  {%+ if yes %}b{% endif %}", "  b"},
		{"x {# c #}\ny", "x y"},
		{"{{ '%}' }}{{ {'a': {'b': 1}}.a.b }}", "%}1"},
	} {
		tpl, err := Parse(test.source)
		if err != nil {
			t.Errorf("%q: %v", test.source, err)
			continue
		}
		if got, err := tpl.Render(data); err != nil || got != test.want {
			t.Errorf("%q:\n got  %q (%v)\n want %q", test.source, got, err, test.want)
		}
	}
}

// TestRefused: what isn't known is named; mistakes say where they are.
func TestRefused(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{"\n{% include 'x' %}", `line 2: unknown block "include"`},
		{"{{ n | shuffle }}", `unknown filter "shuffle"`},
		{"{{ n is lucky }}", `unknown test "lucky"`},
		{"{% if n %}", "no endif"},
		{"{{ n", "has no end"},
		{"{{ 'x }}", "has no end"},
		{"{{ n n }}", `unexpected "n"`},
		{"{{ }}", "an expression is missing"},
		{"{{ " + strings.Repeat("(", 500) + "1" + strings.Repeat(")", 500) + " }}", "nested too deeply"},
		{"{{ ? }}", "unexpected character '?'"},
		{"{% for x in n %}{% endfor %}", "3 cannot be iterated over"},
		{"\n\n{{ missing.x }}", `line 3: "missing" is undefined`},
		{"{{ missing() }}", `"missing" is undefined`},
		{"{{ n + 'a' }}", "cannot compute 3 + 'a'"},
		{"{{ 1 // 0 }}", "division by zero"},
		{"{{ raise_exception('roles must alternate') }}", "roles must alternate"},
		{"{% set n.x = 1 %}", "not a namespace"},
		{"{% set a, b = [1] %}", "1 values for 2 names"},
		{"{{ 'a' * 999999999 }}", "a string of more than"},
		{"{{ range(99999999) }}", "range of more than"},
		{"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested too deeply"},
	} {
		tpl, err := Parse(test.source)
		if err == nil {
			_, err = tpl.Render(data)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.60q: error %v, want one with %q", test.source, err, test.want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{% for m in people if m.age %}{{ m.name | upper ~ loop.index }}{% else %}-{% endfor %}{% set x = list[::-1] %}{{ x | tojson }}")
	f.Add("{%- macro a(b='c') -%}{{ b.split('x')[0] }}{%- endmacro -%}{{ a() }}{# c #}{{ {'k': [1, 2.5]} }}")
	f.Fuzz(func(t *testing.T, source string) {
		if tpl, err := Parse(source); err == nil {
			tpl.Render(data)
		}
	})
}
