package plot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Number is any of Go's numbers, so that a cell need not convert what it has.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Positions is 0, 1, … n−1: the x values of a line whose points are positions in a text.
func Positions(n int) []int {
	p := make([]int, max(n, 0))
	for i := range p {
		p[i] = i
	}
	return p
}

// Grid cuts row-major data, such as a matrix's, into its rows for HeatMap and Lines. What is left over after the last whole row is a
// shorter row, which those refuse beside whole ones: cols is not the data's width then. Without columns there are no rows.
func Grid[T Number](data []T, cols int) [][]T {
	if cols <= 0 {
		return nil
	}
	return slices.Collect(slices.Chunk(data, cols)) // [len(data)/cols, cols]
}

func floats[T Number](v []T) []float64 {
	f := make([]float64, len(v))
	for i, x := range v {
		f[i] = float64(x)
	}
	return f
}

func floatRows[T Number](v [][]T) [][]float64 {
	f := make([][]float64, len(v))
	for i, row := range v {
		f[i] = floats(row)
	}
	return f
}

// finite reports the first value that is not a number or not finite.
func finite(kind, argument string, v []float64) error {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			if len(v) == 1 {
				return fmt.Errorf("plot: %s: %s is %v, want a finite number", kind, argument, x)
			}
			return fmt.Errorf("plot: %s: %s[%d] is %v, want a finite number", kind, argument, i, x)
		}
	}
	return nil
}

func positive(kind, argument string, v []float64, log bool) error {
	for i, x := range v {
		if log && x <= 0 {
			return fmt.Errorf("plot: %s: %s[%d] is %g, want a value above zero on a logarithmic axis", kind, argument, i, x)
		}
	}
	return nil
}

// rounded keeps six significant digits: what an eye can use, and the same on every processor.
func rounded(x float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	return r
}

func roundedAll(v []float64) []float64 {
	r := make([]float64, len(v))
	for i, x := range v {
		r[i] = rounded(x)
	}
	return r
}

// short prints a number for a label: three significant digits, no needless zeros, large ones with
// the prefixes k, M, G, T.
func short(x float64) string { return shorter(x, 1e5) }

// shorter prints a number with a prefix when it is large.
func shorter(x, large float64) string {
	a := math.Abs(x)
	switch {
	case x == 0:
		return "0"
	case a >= 1e15 || a < 1e-4:
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', 2, 64), "e")
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		e, _ := strconv.Atoi(exponent)
		return fmt.Sprintf("%se%d", mantissa, e)
	case a >= large:
		for _, p := range []struct {
			at   float64
			name string
		}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
			if a >= p.at*0.9995 {
				return threeDigits(x/p.at) + p.name
			}
		}
	case x == math.Trunc(x):
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return threeDigits(x)
}

func threeDigits(x float64) string {
	f, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// span is the least and the greatest value.
func span(rows ...[]float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, row := range rows {
		for _, x := range row {
			if !math.IsInf(x, 0) {
				lo, hi = math.Min(lo, x), math.Max(hi, x)
			}
		}
	}
	return lo, hi
}

// Visible shows what a label would swallow of a token: spaces at its ends as ·, line ends, controls.
func Visible(token string) string {
	if token == "" {
		return "∅"
	}
	body := strings.Trim(token, " ")
	left := len(token) - len(strings.TrimLeft(token, " "))
	var b strings.Builder
	b.WriteString(strings.Repeat("·", left))
	for _, r := range body {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case unicode.IsControl(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	if body != "" {
		b.WriteString(strings.Repeat("·", len(token)-left-len(body)))
	}
	return b.String()
}

func visibleAll(labels []string) []string {
	v := make([]string, len(labels))
	for i, l := range labels {
		v[i] = Visible(l)
	}
	return v
}
