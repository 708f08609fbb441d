package plot

import "strings"

// alt is the chart in words: the author's, or the kind's with the title and the axes.
func (o Options) alt(described string) string {
	if o.Alt != "" {
		return o.Alt
	}
	var parts []string
	if o.Title != "" {
		parts = append(parts, o.Title)
	}
	parts = append(parts, described)
	for _, a := range []struct{ name, label string }{{"Horizontal axis", o.XLabel}, {"Vertical axis", o.YLabel}, {"Colour", o.ZLabel}} {
		if a.label != "" {
			parts = append(parts, a.name+": "+a.label)
		}
	}
	return strings.Join(parts, ". ") + "."
}
