package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// units are those of time, speed and peak memory: what differs from run to run.
const units = `(?:ns|µs|μs|us|ms|s|sec|seconds|min|minutes|(?:tok|tokens|req|it|steps?)/s|[KMGT]?i?B/s|[KMGT]?FLOP/s|[kMGT]?FLOPS|MB peak|MiB peak|GB peak|GiB peak)`

var (
	number = `[0-9](?:[0-9,_]*[0-9])?(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?`
	// a measure: "1.5 ms", Go's "1m2.3s", "12–15 tok/s"
	measure = regexp.MustCompile(`(?:[0-9]+h)?(?:[0-9]+m)?[-+]?` + number + `(?:\s?[–-]\s?` + number + `)?\s?` + units + `(?:[^\pL\pN_/]|$)`)
	// a ratio: "3.1×", "×3.1", "3.1x faster"; a shape such as 4×64 is none
	ratio          = regexp.MustCompile(`(?:` + number + `)?\s?×\s?(?:` + number + `)?|` + number + `\s?x (?:faster|slower|as fast)`)
	unitInBrackets = regexp.MustCompile(`[(\[]` + units + `(?:/[a-z]+)?[)\]]`)
	embedded       = regexp.MustCompile(`data:[a-z/+]+;base64,[A-Za-z0-9+/=]*`)
	address        = regexp.MustCompile(`\+?0x[0-9a-f]+`)
	traced         = regexp.MustCompile(`\[\[ Cell \[\d+\] Line \d+ \]\] ?`) // the kernel adds it to a stack line, not always
	gap            = regexp.MustCompile(`[ \t]+`)
	rule           = regexp.MustCompile(`[-─=]{3,}`)
	figure         = regexp.MustCompile(`[-+]?` + number)
)

// differs returns what differs between saved and new text, by the rules in help, or nothing.
func differs(was, is string, timing bool) string {
	a, b := masked(was), masked(is)
	for i := range max(len(a), len(b)) {
		var la, lb string
		if i < len(a) {
			la = a[i]
		}
		if i < len(b) {
			lb = b[i]
		}
		if !sameLine(la, lb, timing) {
			return fmt.Sprintf("saved is %q, now %q", window(la, lb), window(lb, la))
		}
	}
	return ""
}

// masked splits text into lines without what is ignored.
func masked(text string) []string {
	text = embedded.ReplaceAllString(text, "(picture)")
	text = ansi.ReplaceAllString(text, "")
	text = traced.ReplaceAllString(text, "")
	text = address.ReplaceAllString(text, "(address)")
	lines := strings.Split(strings.TrimRight(text, " \n"), "\n")
	maskColumns(lines)
	for i, line := range lines {
		line = measure.ReplaceAllStringFunc(line, func(m string) string {
			end := m[len(m)-1:] // what came after the unit stays; a unit ends with an ASCII letter
			if isLetter(end[0]) {
				end = ""
			} else if r := []rune(m); r[len(r)-1] > 127 {
				end = string(r[len(r)-1])
			}
			return "(measure)" + end
		})
		line = ratio.ReplaceAllStringFunc(line, func(m string) string {
			if left, right, ok := strings.Cut(m, "×"); ok && strings.TrimSpace(left) != "" && strings.TrimSpace(right) != "" {
				return m // a shape
			} else if ok && left+right == "" {
				return m
			}
			return "(ratio)"
		})
		line = rule.ReplaceAllString(line, "---")
		lines[i] = strings.TrimSpace(gap.ReplaceAllString(line, " "))
	}
	return lines
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// maskColumns empties the columns of Markdown tables whose heading has a unit in brackets.
func maskColumns(lines []string) {
	var hidden []bool // by column, within a table
	for i, line := range lines {
		if !strings.HasPrefix(strings.TrimSpace(line), "|") {
			hidden = nil
			continue
		}
		cells := strings.Split(line, "|")
		if hidden == nil {
			hidden = make([]bool, len(cells))
			for j, c := range cells {
				hidden[j] = unitInBrackets.MatchString(c)
			}
			continue
		}
		for j := range cells {
			if j < len(hidden) && hidden[j] {
				cells[j] = "(measure)"
			}
		}
		lines[i] = strings.Join(cells, "|")
	}
}

// sameLine compares two lines: the words exactly, the numbers within their tolerance.
func sameLine(a, b string, timing bool) bool {
	if a == b {
		return true
	}
	na, nb := figure.FindAllString(a, -1), figure.FindAllString(b, -1)
	if len(na) != len(nb) || figure.ReplaceAllString(a, "#") != figure.ReplaceAllString(b, "#") {
		return false
	}
	for i := range na {
		if !timing && !sameNumber(na[i], nb[i]) {
			return false
		}
	}
	return true
}

// sameNumber compares two printed numbers.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	if !strings.ContainsAny(a+b, ".eE") {
		return false // whole numbers
	}
	x, errX := strconv.ParseFloat(plain(a), 64)
	y, errY := strconv.ParseFloat(plain(b), 64)
	if errX != nil || errY != nil {
		return false
	}
	const noise = 1e-4
	big := math.Max(math.Abs(x), math.Abs(y))
	return big < noise || math.Abs(x-y) <= noise*big || math.Abs(x-y) <= 2.0000001*lastDigit(a)
}

func plain(s string) string { return strings.NewReplacer(",", "", "_", "").Replace(s) }

// lastDigit is what one unit of a printed number's last digit is worth.
func lastDigit(s string) float64 {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	digits := 0
	if _, fraction, ok := strings.Cut(mantissa, "."); ok {
		digits = len(fraction)
	}
	e, _ := strconv.Atoi(exponent)
	return math.Pow(10, float64(e-digits))
}

// window is the part of a around its first difference from b, short enough for one line.
func window(a, b string) string {
	ra, rb := []rune(a), []rune(b)
	i := 0
	for i < len(ra) && i < len(rb) && ra[i] == rb[i] {
		i++
	}
	const before, after = 30, 60
	from, to := max(0, i-before), min(len(ra), i+after)
	s := string(ra[from:to])
	if from > 0 {
		s = "…" + s
	}
	if to < len(ra) {
		s += "…"
	}
	return s
}
