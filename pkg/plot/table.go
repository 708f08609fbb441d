package plot

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table shows rows below a header, the steps of a loop or a comparison. Cells may be of any type:
// fractions are printed with four significant digits, numbers stand on the right.
func Table(header []string, rows [][]any) error {
	md, plain, err := NewTable(header, rows)
	if err == nil {
		err = display(bundle{"text/markdown": md, "text/plain": plain}, nil)
	}
	return told(err)
}

// NewTable makes the table of Table without showing it, as Markdown and as text for a terminal.
func NewTable(header []string, rows [][]any) (markdown, plain string, err error) {
	if len(header) == 0 {
		return "", "", fmt.Errorf("plot: table: header is empty")
	}
	grid := [][]string{header}
	right := make([]bool, len(header)) // columns of numbers only
	for i := range right {
		right[i] = len(rows) > 0
	}
	for r, row := range rows {
		if len(row) != len(header) {
			return "", "", fmt.Errorf("plot: table: rows[%d] has %d cells, want one for each of %d columns", r, len(row), len(header))
		}
		line := make([]string, len(row))
		for c, v := range row {
			var number bool
			line[c], number = cellText(v)
			right[c] = right[c] && number
		}
		grid = append(grid, line)
	}
	return markdownTable(grid, right), plainTable(grid, right), nil
}

// cellText prints one cell.
func cellText(v any) (text string, number bool) {
	switch v := v.(type) {
	case float64:
		return significant(v), true
	case float32:
		return significant(float64(v)), true
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v), true
	case string:
		_, err := strconv.ParseFloat(strings.ReplaceAll(v, ",", ""), 64)
		return v, err == nil
	}
	return fmt.Sprint(v), false
}

func significant(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

func markdownTable(grid [][]string, right []bool) string {
	escape := strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", "$", "\\$", "*", "\\*", "_", "\\_", "`", "\\`")
	var b strings.Builder
	for r, row := range grid {
		for _, cell := range row {
			b.WriteString("| " + escape.Replace(cell) + " ")
		}
		b.WriteString("|\n")
		if r == 0 {
			for _, number := range right {
				if number {
					b.WriteString("|---:")
				} else {
					b.WriteString("|:---")
				}
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

func plainTable(grid [][]string, right []bool) string {
	widths := make([]int, len(right))
	for _, row := range grid {
		for c, cell := range row {
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for r, row := range grid {
		var line strings.Builder
		for c, cell := range row {
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell))
			if right[c] {
				cell = pad + cell
			} else {
				cell += pad
			}
			line.WriteString(cell + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if r == 0 {
			for c, w := range widths {
				b.WriteString(strings.Repeat("─", w))
				if c < len(widths)-1 {
					b.WriteString("  ")
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
