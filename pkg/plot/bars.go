package plot

import (
	"fmt"
	"math"
	"strings"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bars shows one bar a label: the likeliest tokens, a size by layer. XLabel names the labels' axis and
// YLabel the values', also when the bars lie (Horizontal, or labels that would not fit below).
func Bars[T Number](labels []string, values []T, o Options) error {
	return show(NewBars(labels, values, o))
}

// NewBars makes the chart of Bars without showing it.
func NewBars[T Number](labels []string, values []T, o Options) (*Chart, error) {
	return newBars("bars", labels, [][]float64{floats(values)}, o)
}

// BarGroups shows several values a label, groups[g][i] for labels[i], side by side or Stacked; Names
// says what the groups are.
func BarGroups[T Number](labels []string, groups [][]T, o Options) error {
	return show(NewBarGroups(labels, groups, o))
}

// NewBarGroups makes the chart of BarGroups without showing it.
func NewBarGroups[T Number](labels []string, groups [][]T, o Options) (*Chart, error) {
	return newBars("bar groups", labels, floatRows(groups), o)
}

func newBars(kind string, labels []string, groups [][]float64, o Options) (*Chart, error) {
	if len(labels) == 0 {
		return nil, fmt.Errorf("plot: %s: labels is empty", kind)
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("plot: %s: groups is empty", kind)
	}
	if o.LogX {
		return nil, fmt.Errorf("plot: %s: LogX: the labels' axis cannot be logarithmic (LogY is the values')", kind)
	}
	for g, values := range groups {
		argument := "values"
		if kind == "bar groups" {
			argument = fmt.Sprintf("groups[%d]", g)
		}
		if len(values) != len(labels) {
			return nil, fmt.Errorf("plot: %s: want one value for each of %d labels, got %d in %s", kind, len(labels), len(values), argument)
		}
		if err := finite(kind, argument, values); err != nil {
			return nil, err
		}
		if err := positive(kind, argument, values, o.LogY); err != nil {
			return nil, err
		}
	}
	for _, h := range o.Highlight {
		if h < 0 || h >= len(labels) {
			return nil, fmt.Errorf("plot: %s: Highlight: %d is not one of %d bars", kind, h, len(labels))
		}
	}
	b := &bars{labels: visibleAll(labels), groups: groups, lying: o.Horizontal || tooWide(labels)}
	if b.lying && o.Height == 0 {
		o.Height = clamp(90+len(labels)*max(22, 13*len(groups)), 160, 900)
		if o.Stacked {
			o.Height = clamp(90+len(labels)*24, 160, 900)
		}
	}
	o, err := o.checked(kind, len(groups))
	if err != nil {
		return nil, err
	}
	b.o = o
	return &Chart{
		alt: o.alt(b.describe()), width: o.Width, height: o.Height, picture: b.picture,
		option: func() ([]byte, error) { return encode(b.live()) },
		script: func() (string, error) {
			return chartScript(b.live(), meta{Kind: "bars", W: o.Width, H: o.Height, Alt: o.alt(b.describe())})
		},
	}, nil
}

// tooWide tells whether labels below the bars would run into each other.
func tooWide(labels []string) bool {
	longest := 0
	for _, l := range labels {
		longest = max(longest, len([]rune(l)))
	}
	return longest > 3 && longest*len(labels) > 84
}

func clamp(x, lo, hi int) int { return min(max(x, lo), hi) }

type bars struct {
	labels []string
	groups [][]float64 // [groups, labels]
	lying  bool
	o      Options
}

func (b *bars) describe() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d bars", len(b.labels))
	for g, values := range b.groups {
		top := 0
		for i, v := range values {
			if v > values[top] {
				top = i
			}
		}
		name := b.o.name(g)
		if name != "" {
			name = " of " + name
		}
		fmt.Fprintf(&s, "; the highest%s is %s with %s", name, b.labels[top], short(values[top]))
	}
	return s.String()
}

// top is the range of the values' axis: from zero unless it is logarithmic.
func (b *bars) span() (lo, hi float64) {
	rows := b.groups
	if b.o.Stacked {
		sums := make([]float64, len(b.labels))
		low := make([]float64, len(b.labels))
		for _, values := range b.groups {
			for i, v := range values {
				if v > 0 {
					sums[i] += v
				} else {
					low[i] += v
				}
			}
		}
		rows = [][]float64{sums, low}
	}
	lo, hi = span(rows...)
	for _, g := range b.o.Guides {
		if g.Axis == "y" {
			lo, hi = math.Min(lo, g.At), math.Max(hi, g.At)
		}
	}
	switch {
	case b.o.LogY:
		lo = math.Pow(10, math.Floor(math.Log10(lo)-1e-9))
		hi *= 1.3
	default:
		lo, hi = math.Min(0, lo), math.Max(0, hi)
		if lo == hi {
			hi = 1
		}
		pad := (hi - lo) * 0.06
		if hi > 0 {
			hi += pad
		}
		if lo < 0 {
			lo -= pad
		}
	}
	if b.o.Min != 0 || b.o.Max != 0 {
		lo, hi = b.o.Min, b.o.Max
	}
	return lo, hi
}

func (b *bars) picture(c draw.Canvas) error {
	o := b.o
	if b.lying { // the options speak of labels (x) and values (y); lying bars swap the axes
		o.XLabel, o.YLabel, o.LogX, o.LogY = o.YLabel, o.XLabel, o.LogY, false
	}
	p := figure(o)
	gridded(p, b.lying, !b.lying)
	lo, hi := b.span()
	names := make([]plot.Tick, len(b.labels))
	every := 1
	if !b.lying {
		every = 1 + len(b.labels)*9/max(o.Width-80, 1)
		for every*(o.Width-80) < len(b.labels)*longest(b.labels)*8 && len(b.labels) > 8 {
			every++
		}
	}
	for i, l := range b.labels {
		names[i] = plot.Tick{Value: float64(i), Label: printable(l)}
		if i%every != 0 {
			names[i].Label = ""
		}
	}
	values, places := &p.Y, &p.X
	if b.lying {
		values, places = &p.X, &p.Y
		for i := range names { // the first bar on top
			names[i].Value = float64(len(names) - 1 - i)
		}
	}
	p.Add(barsPlotter{b})
	places.Min, places.Max = -0.6, float64(len(b.labels))-0.4
	values.Min, values.Max = lo, hi
	places.Tick.Marker = plot.ConstantTicks(names)
	places.Tick.LineStyle.Width = 0
	var list []Guide
	for _, g := range o.Guides {
		if b.lying {
			g.Axis = map[string]string{"x": "y", "y": "x"}[g.Axis]
			if g.Axis == "y" {
				g.At = float64(len(b.labels)-1) - g.At
			}
		}
		list = append(list, g)
	}
	guides(p, list)
	var l legend
	for g := range b.groups {
		l.add(o.name(g), swatch(seriesLight[g%len(seriesLight)]))
	}
	l.render(p, c)
	return nil
}

func longest(labels []string) int {
	n := 1
	for _, l := range labels {
		n = max(n, len([]rune(l)))
	}
	return n
}

// swatch is a series' colour in the legend.
type swatch string

func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(hex(string(s)), box(c.Min.X+4*pixel, c.Min.Y, c.Max.X-4*pixel, c.Max.Y))
}

func box(x0, y0, x1, y1 vg.Length) []vg.Point {
	return []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
}

type barsPlotter struct{ *bars }

func (b barsPlotter) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	along, across := y, x
	if b.lying {
		along, across = x, y
	}
	n, groups := len(b.labels), len(b.groups)
	unit := across(1) - across(0)
	width := unit * 0.72
	if groups > 1 && !b.o.Stacked {
		width /= vg.Length(groups)
	}
	valueAxis := p.Y
	if b.lying {
		valueAxis = p.X
	}
	zero := along(math.Max(valueAxis.Min, math.Min(valueAxis.Max, 0)))
	if b.o.LogY {
		zero = along(valueAxis.Min)
	}
	sty := style(11.5, hex(ink))
	for i := range n {
		at := float64(i)
		if b.lying {
			at = float64(n - 1 - i)
		}
		up, down := 0.0, 0.0
		for g := range groups {
			v := b.groups[g][i]
			from, to := zero, along(clampTo(v, valueAxis))
			left := across(at) - width/2
			switch {
			case b.o.Stacked && v >= 0:
				from, to = along(clampTo(up, valueAxis)), along(clampTo(up+v, valueAxis))
				up += v
			case b.o.Stacked:
				from, to = along(clampTo(down, valueAxis)), along(clampTo(down+v, valueAxis))
				down += v
			case groups > 1 && b.lying:
				left = across(at) + unit*0.36 - width*vg.Length(g+1)
			case groups > 1:
				left = across(at) - unit*0.36 + width*vg.Length(g)
			}
			fill := hex(seriesLight[g%len(seriesLight)])
			if groups == 1 && len(b.o.Highlight) > 0 && !b.o.highlighted(i) {
				fill = hex(muted)
			}
			shape := box(left, from, left+width, to)
			if b.lying {
				shape = box(from, left, to, left+width)
			}
			c.FillPolygon(fill, shape)
			if b.showValues() {
				b.label(c, sty, left+width/2, to, v)
			}
		}
	}
}

func clampTo(v float64, a plot.Axis) float64 { return math.Max(a.Min, math.Min(a.Max, v)) }

// showValues tells whether each bar has its number written at its end: where there is room for it.
func (b *bars) showValues() bool {
	return len(b.groups) == 1 && (b.lying && len(b.labels) <= 30 || len(b.labels) <= 16)
}

func (b *bars) label(c draw.Canvas, sty text.Style, across, along vg.Length, v float64) {
	s := short(v)
	if b.lying {
		sty.YAlign = draw.YCenter
		at := vg.Point{X: along + 4*pixel, Y: across}
		if v < 0 {
			sty.XAlign, at.X = draw.XRight, along-4*pixel
		}
		if at.X+sty.Width(s) > c.Max.X && v >= 0 { // inside, where outside is no room
			sty.XAlign, at.X, sty.Color = draw.XRight, along-4*pixel, hex("#ffffff")
		}
		c.FillText(sty, at, s)
		return
	}
	sty.XAlign = draw.XCenter
	at := vg.Point{X: across, Y: along + 2*pixel}
	if v < 0 {
		sty.YAlign, at.Y = draw.YTop, along-2*pixel
	}
	c.FillText(sty, at, s)
}

// live is the chart as go-echarts describes it.
func (b *bars) live() map[string]any {
	o := b.o
	chart := charts.NewBar()
	labels := opts.XAxis{Type: "category", Data: b.labels}
	for g, values := range b.groups {
		data := make([]opts.BarData, len(values))
		for i, v := range values {
			data[i] = opts.BarData{Value: rounded(v)}
			if len(o.Highlight) > 0 && len(b.groups) == 1 && !o.highlighted(i) {
				data[i].ItemStyle = &opts.ItemStyle{Color: muted}
			}
		}
		var set []charts.SeriesOpts
		if o.Stacked {
			set = append(set, charts.WithBarChartOpts(opts.BarChart{Stack: "all"}))
		}
		if b.showValues() {
			at := "top"
			if b.lying {
				at = "right"
			}
			set = append(set, charts.WithLabelOpts(opts.Label{Show: opts.Bool(true), Position: at}))
		}
		chart.AddSeries(o.name(g), data, set...)
	}
	option := base(&chart.BaseConfiguration, o, len(b.groups))
	values := axis(o.YLabel, o.LogY, "value")
	if o.Min != 0 || o.Max != 0 {
		ranged(values, o.Min, o.Max)
	} else if lo, hi := b.span(); o.LogY {
		ranged(values, lo, hi)
	}
	names := axis(o.XLabel, false, "category")
	names["data"] = labels.Data
	names["axisTick"] = map[string]any{"show": false}
	names["splitLine"] = map[string]any{"show": false}
	if b.lying {
		names["inverse"] = true
		names["nameLocation"], names["nameRotate"] = "middle", 90
		option["xAxis"], option["yAxis"] = values, names
	} else {
		option["xAxis"], option["yAxis"] = names, values
	}
	option["tooltip"] = map[string]any{"trigger": "axis", "axisPointer": map[string]any{"type": "shadow"}, "confine": true}
	list := o.Guides
	if b.lying {
		list = nil
		for _, g := range o.Guides {
			g.Axis = map[string]string{"x": "y", "y": "x"}[g.Axis]
			list = append(list, g)
		}
	}
	markGuides(option, list)
	return option
}
