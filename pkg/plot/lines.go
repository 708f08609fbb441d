package plot

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Lines shows ys[s][i] against x[i], a line for each series s: the cache by position, a time by prompt
// length. Positions(n) is an x of 0, 1, … n−1. Names says what the lines are.
func Lines[X, Y Number](x []X, ys [][]Y, o Options) error {
	return show(NewLines(x, ys, o))
}

// NewLines makes the chart of Lines without showing it.
func NewLines[X, Y Number](x []X, ys [][]Y, o Options) (*Chart, error) {
	const kind = "lines"
	l := &lines{x: floats(x), ys: floatRows(ys)}
	if len(x) == 0 {
		return nil, fmt.Errorf("plot: %s: x is empty", kind)
	}
	if len(ys) == 0 {
		return nil, fmt.Errorf("plot: %s: ys is empty", kind)
	}
	if err := finite(kind, "x", l.x); err != nil {
		return nil, err
	}
	if err := positive(kind, "x", l.x, o.LogX); err != nil {
		return nil, err
	}
	if !slices.IsSorted(l.x) {
		return nil, fmt.Errorf("plot: %s: x must not go down", kind)
	}
	for s, y := range l.ys {
		argument := fmt.Sprintf("ys[%d]", s)
		if len(y) != len(x) {
			return nil, fmt.Errorf("plot: %s: want one y for each of %d x, got %d in %s", kind, len(x), len(y), argument)
		}
		if err := finite(kind, argument, y); err != nil {
			return nil, err
		}
		if err := positive(kind, argument, y, o.LogY); err != nil {
			return nil, err
		}
	}
	o, err := o.checked(kind, len(ys))
	if err != nil {
		return nil, err
	}
	l.o = o
	alt := o.alt(l.describe())
	return &Chart{
		alt: alt, width: o.Width, height: o.Height, picture: l.picture,
		option: func() ([]byte, error) { return encode(l.live()) },
		script: func() (string, error) {
			return chartScript(l.live(), meta{Kind: "lines", W: o.Width, H: o.Height, Alt: alt})
		},
	}, nil
}

type lines struct {
	x  []float64   // [points]
	ys [][]float64 // [series, points]
	o  Options
}

func (l *lines) describe() string {
	var parts []string
	for s, y := range l.ys {
		name := l.o.name(s)
		if name == "" {
			name = "the line"
			if len(l.ys) > 1 {
				name = fmt.Sprintf("line %d", s+1)
			}
		}
		parts = append(parts, fmt.Sprintf("%s goes from %s to %s", name, short(y[0]), short(y[len(y)-1])))
	}
	return fmt.Sprintf("%d points from %s to %s: %s", len(l.x), short(l.x[0]), short(l.x[len(l.x)-1]), strings.Join(parts, ", "))
}

// dashes tell lines apart where colours do not.
var dashes = [][]vg.Length{nil, {7 * pixel, 4 * pixel}, {2 * pixel, 3 * pixel}, {9 * pixel, 3 * pixel, 2 * pixel, 3 * pixel}}

func lineStyle(s int) draw.LineStyle {
	return draw.LineStyle{Color: hex(seriesLight[s%len(seriesLight)]), Width: 2 * pixel, Dashes: dashes[s%len(dashes)]}
}

// dotted tells whether the points of the lines are marked: on request, and where they are few.
func (l *lines) dotted() bool { return l.o.Dots || len(l.x) <= 12 }

func (l *lines) picture(c draw.Canvas) error {
	p := figure(l.o)
	gridded(p, true, true)
	var leg legend
	for s, y := range l.ys {
		p.Add(curve{l.x, y, lineStyle(s), l.o.Area, l.dotted()})
		leg.add(l.o.name(s), stroke(lineStyle(s)))
	}
	guides(p, l.o.Guides)
	widen(&p.X, l.o.LogX)
	widen(&p.Y, l.o.LogY)
	if l.o.Area && !l.o.LogY {
		p.Y.Min = math.Min(p.Y.Min, 0)
	}
	if l.o.Min != 0 || l.o.Max != 0 {
		p.Y.Min, p.Y.Max = l.o.Min, l.o.Max
	}
	if l.fewOnLog() {
		var at []plot.Tick
		for _, v := range l.x {
			at = append(at, plot.Tick{Value: v, Label: short(v)})
		}
		p.X.Tick.Marker = plot.ConstantTicks(at)
	}
	leg.render(p, c)
	return nil
}

// fewOnLog tells whether a logarithmic x axis is labelled at the points themselves, such as prompts of
// 16, 64, 256 tokens, where powers of ten would say little.
func (l *lines) fewOnLog() bool {
	if !l.o.LogX || len(l.x) > 10 || len(l.x) < 2 {
		return false
	}
	room := float64(l.o.Width-100) / math.Log(l.x[len(l.x)-1]/l.x[0])
	for i := 1; i < len(l.x); i++ {
		if math.Log(l.x[i]/l.x[i-1])*room < 40 {
			return false
		}
	}
	return true
}

// widen makes room where all values are the same, and a little above the highest.
func widen(a *plot.Axis, log bool) {
	switch {
	case a.Min == a.Max && log:
		a.Min, a.Max = a.Min/2, a.Max*2
	case a.Min == a.Max:
		a.Min, a.Max = a.Min-1, a.Max+1
	}
}

// stroke is a line's thumbnail in the legend.
type stroke draw.LineStyle

func (s stroke) Thumbnail(c *draw.Canvas) {
	y := (c.Min.Y + c.Max.Y) / 2
	c.StrokeLine2(draw.LineStyle(s), c.Min.X, y, c.Max.X, y)
}

// curve draws one line.
type curve struct {
	x, y []float64
	line draw.LineStyle
	area bool
	dots bool
}

func (v curve) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	points := make([]vg.Point, len(v.x))
	for i := range v.x {
		points[i] = vg.Point{X: tx(v.x[i]), Y: ty(v.y[i])}
	}
	if v.area {
		base := c.Min.Y
		shape := append([]vg.Point{{X: points[0].X, Y: base}}, points...)
		shape = append(shape, vg.Point{X: points[len(points)-1].X, Y: base})
		r, g, b, _ := v.line.Color.RGBA()
		c.FillPolygon(color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 50}, c.ClipPolygonXY(shape))
	}
	c.StrokeLines(v.line, c.ClipLinesXY(points)...)
	if v.dots || len(points) == 1 {
		for _, pt := range points {
			if c.Contains(pt) {
				c.DrawGlyph(draw.GlyphStyle{Color: v.line.Color, Radius: 3 * pixel, Shape: draw.CircleGlyph{}}, pt)
			}
		}
	}
}

func (v curve) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax = span(v.x)
	ymin, ymax = span(v.y)
	return xmin, xmax, ymin, ymax
}

func (l *lines) live() map[string]any {
	o := l.o
	chart := charts.NewLine()
	symbols := []string{"circle", "rect", "triangle", "diamond"}
	styles := []string{"solid", "dashed", "dotted", "dashed"}
	for s, y := range l.ys {
		data := make([]opts.LineData, len(y))
		for i := range y {
			data[i] = opts.LineData{Value: []float64{rounded(l.x[i]), rounded(y[i])}}
		}
		set := []charts.SeriesOpts{
			charts.WithLineStyleOpts(opts.LineStyle{Width: 2, Type: styles[s%len(styles)]}),
			charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(l.dotted()), Symbol: symbols[s%len(symbols)], SymbolSize: 7}),
		}
		if o.Area {
			set = append(set, charts.WithAreaStyleOpts(opts.AreaStyle{Opacity: opts.Float(0.2)}))
		}
		chart.AddSeries(o.name(s), data, set...)
	}
	option := base(&chart.BaseConfiguration, o, len(l.ys))
	x, y := axis(o.XLabel, o.LogX, "value"), axis(o.YLabel, o.LogY, "value")
	if lo, hi := l.guided("x", l.x); lo < hi {
		ranged(x, lo, hi)
	}
	if l.fewOnLog() {
		x["axisTick"] = map[string]any{"customValues": roundedAll(l.x)}
		label := x["axisLabel"].(map[string]any)
		label["customValues"], label["showMinLabel"], label["showMaxLabel"] = roundedAll(l.x), true, true
		x["minorTick"] = map[string]any{"show": false}
	}
	if !o.LogY && !o.Area {
		y["scale"] = true
	}
	from, to := span(l.ys...)
	if lo, hi := l.guided("y", l.ys...); o.Min != 0 || o.Max != 0 {
		ranged(y, o.Min, o.Max)
	} else if lo < from || hi > to { // ECharts makes no room for guides
		if o.Area {
			lo = math.Min(lo, 0)
		}
		if step := niceStep(lo, hi); o.LogY {
			ranged(y, math.Pow(10, math.Floor(math.Log10(lo))), math.Pow(10, math.Ceil(math.Log10(hi))))
		} else {
			ranged(y, math.Floor(lo/step)*step, math.Ceil(hi/step+0.1)*step)
		}
	}
	option["xAxis"], option["yAxis"] = x, y
	option["tooltip"] = map[string]any{"trigger": "axis", "confine": true}
	markGuides(option, o.Guides)
	return option
}

// guided spans values and the guides of their axis.
func (l *lines) guided(which string, rows ...[]float64) (lo, hi float64) {
	lo, hi = span(rows...)
	for _, g := range l.o.Guides {
		if g.Axis == which {
			lo, hi = math.Min(lo, g.At), math.Max(hi, g.At)
		}
	}
	return lo, hi
}
