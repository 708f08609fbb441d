// Package plot draws the course's charts: bars, lines, heat maps, points, a roofline, strips of
// tokens, and tables, each by one call from a notebook cell with plain slices.
//
// A chart reaches the page twice. First as a picture (PNG, drawn by gonum/plot), which every viewer
// shows: GitHub, an export, a notebook that is not trusted. Then as a script that puts the live chart
// (go-echarts) in the picture's place, in JupyterLab's own theme, where scripts may run.
//
// Axes are named with their units in brackets, "time (ms)"; colours are told apart by colour-blind
// readers; each chart has a text that says what it shows. Values must be finite: an error names the
// argument that is not. The New functions make a chart without showing it.
package plot

import (
	"fmt"
	"os"

	"gonum.org/v1/plot/vg/draw"
)

// Options say how a chart looks; the zero value is a chart without a title, of the usual size.
type Options struct {
	Title  string
	XLabel string // name of the x axis with its unit in brackets, "prompt (tokens)"
	YLabel string // name of the y axis; for a heat map, of the rows
	ZLabel string // what a heat map's colours or a strip's values are, with the unit

	LogX, LogY bool // logarithmic axes, for values above zero
	Horizontal bool // bars from left to right; without it, where the labels would not fit below
	Stacked    bool // groups of bars on top of each other
	Area       bool // fill below the lines
	Dots       bool // a mark at each point of a line

	Names     []string // what the lines, groups of bars or groups of points are, in order
	Labels    []string // text beside each point of a scatter
	Groups    []int    // the group of each point of a scatter, an index into Names
	Highlight []int    // bars or tokens to emphasise, by index
	Guides    []Guide  // lines across the chart: a limit, a threshold

	Min, Max      float64 // range of the values; both zero: from the data
	Width, Height int     // pixels; zero: as the kind of chart needs
	Alt           string  // what the chart shows, for those who do not see it; made from the data without it
}

// Guide is a straight line across a chart with a name, at a value of one axis.
type Guide struct {
	Axis string // "x" or "y"
	At   float64
	Name string
}

// Chart is a chart that was made and checked, and not yet shown.
type Chart struct {
	alt           string
	width, height int // pixels
	picture       func(c draw.Canvas) error
	script        func() (string, error) // the script that makes it live
	option        func() ([]byte, error) // what the script draws, as JSON
}

// Alt is the text that says what the chart shows.
func (c *Chart) Alt() string { return c.alt }

// Size is the chart's size on the page in pixels; its picture has twice as many each way.
func (c *Chart) Size() (width, height int) { return c.width, c.height }

// Option is what the live chart is drawn from, as JSON: ECharts' option, or a strip's tokens.
func (c *Chart) Option() ([]byte, error) { return c.option() }

// show puts a chart on the page. An error is printed too, so that a cell that ignores it shows it.
func show(c *Chart, err error) error {
	if err == nil {
		err = c.Show()
	}
	return told(err)
}

func told(err error) error {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return err
}

// checked fills in the options that have a size or a length, after checking them against the data:
// series is how many Names may be given, 0 for as many as there are.
func (o Options) checked(kind string, series int) (Options, error) {
	if len(o.Names) > 0 && len(o.Names) != series {
		return o, fmt.Errorf("plot: %s: Names: want one for each of %d series, got %d", kind, series, len(o.Names))
	}
	if err := finite(kind, "Min and Max", []float64{o.Min, o.Max}); err != nil {
		return o, err
	}
	if o.Min != 0 || o.Max != 0 {
		if o.Min >= o.Max {
			return o, fmt.Errorf("plot: %s: Min %g is not below Max %g", kind, o.Min, o.Max)
		}
		if o.LogY && o.Min <= 0 {
			return o, fmt.Errorf("plot: %s: Min: want a value above zero on a logarithmic axis, got %g", kind, o.Min)
		}
	}
	for i, g := range o.Guides {
		if g.Axis != "x" && g.Axis != "y" {
			return o, fmt.Errorf("plot: %s: Guides[%d].Axis: want x or y, got %q", kind, i, g.Axis)
		}
		if err := finite(kind, fmt.Sprintf("Guides[%d].At", i), []float64{g.At}); err != nil {
			return o, err
		}
		if log := g.Axis == "x" && o.LogX || g.Axis == "y" && o.LogY; log && g.At <= 0 {
			return o, fmt.Errorf("plot: %s: Guides[%d].At: want a value above zero on a logarithmic axis, got %g", kind, i, g.At)
		}
	}
	if o.Width < 0 || o.Height < 0 || o.Width > maxSide || o.Height > maxSide {
		return o, fmt.Errorf("plot: %s: size %d×%d: want 0 (as needed) to %d pixels", kind, o.Width, o.Height, maxSide)
	}
	if o.Width == 0 {
		o.Width = usualWidth
	}
	if o.Height == 0 {
		o.Height = usualHeight
	}
	return o, nil
}

const (
	usualWidth  = 720 // what JupyterLab's page shows without scrolling
	usualHeight = 360
	maxSide     = 4000
)

// name is what a series is called, "" for one that needs no name.
func (o Options) name(i int) string {
	if i < len(o.Names) {
		return o.Names[i]
	}
	return ""
}

func (o Options) highlighted(i int) bool {
	for _, h := range o.Highlight {
		if h == i {
			return true
		}
	}
	return false
}
