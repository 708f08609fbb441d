package plot

import (
	"fmt"
	"math"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Scatter shows points: embeddings in two dimensions, one measure against another. Labels is a text
// for each point, Groups its group, Names the groups.
func Scatter[X, Y Number](x []X, y []Y, o Options) error { return show(NewScatter(x, y, o)) }

// NewScatter makes the chart of Scatter without showing it.
func NewScatter[X, Y Number](x []X, y []Y, o Options) (*Chart, error) {
	return newScatter("scatter", floats(x), floats(y), nil, o)
}

// Roofline shows programs on the roof that a machine sets them: intensity[i] is the operations that
// program i does for each byte that it reads (FLOP/byte), speed[i] what it reached (FLOP/s). The roof
// is min(peak, intensity × bandwidth), with peak in FLOP/s and bandwidth in bytes/s: left of the bend
// memory is the limit (decode), right of it arithmetic (prefill). Williams, Waterman, Patterson,
// "Roofline" (2009).
func Roofline(names []string, intensity, speed []float64, peak, bandwidth float64, o Options) error {
	return show(NewRoofline(names, intensity, speed, peak, bandwidth, o))
}

// NewRoofline makes the chart of Roofline without showing it.
func NewRoofline(names []string, intensity, speed []float64, peak, bandwidth float64, o Options) (*Chart, error) {
	const kind = "roofline"
	for _, v := range []struct {
		argument string
		value    float64
	}{{"peak", peak}, {"bandwidth", bandwidth}} {
		if math.IsNaN(v.value) || math.IsInf(v.value, 0) || v.value <= 0 {
			return nil, fmt.Errorf("plot: %s: %s is %v, want a finite speed above zero", kind, v.argument, v.value)
		}
	}
	if len(names) != len(intensity) {
		return nil, fmt.Errorf("plot: %s: want one intensity for each of %d names, got %d", kind, len(names), len(intensity))
	}
	o.Labels, o.LogX, o.LogY = names, true, true
	if o.XLabel == "" {
		o.XLabel = "arithmetic intensity (FLOP/byte)"
	}
	if o.YLabel == "" {
		o.YLabel = "speed (FLOP/s)"
	}
	return newScatter(kind, intensity, speed, &roof{peak, bandwidth}, o)
}

// roof is what limits every program of a machine.
type roof struct{ peak, bandwidth float64 }

func (r *roof) bend() float64        { return r.peak / r.bandwidth }
func (r *roof) at(x float64) float64 { return math.Min(r.peak, x*r.bandwidth) }

func newScatter(kind string, x, y []float64, r *roof, o Options) (*Chart, error) {
	ynames := map[string]string{"scatter": "y", "roofline": "speed"}[kind]
	xnames := map[string]string{"scatter": "x", "roofline": "intensity"}[kind]
	if len(x) == 0 {
		return nil, fmt.Errorf("plot: %s: %s is empty", kind, xnames)
	}
	if len(x) != len(y) {
		return nil, fmt.Errorf("plot: %s: want one of %s for each of %d %s, got %d", kind, ynames, len(x), xnames, len(y))
	}
	for _, v := range []struct {
		argument string
		values   []float64
		log      bool
	}{{xnames, x, o.LogX}, {ynames, y, o.LogY}} {
		if err := finite(kind, v.argument, v.values); err != nil {
			return nil, err
		}
		if err := positive(kind, v.argument, v.values, v.log); err != nil {
			return nil, err
		}
	}
	if o.Labels != nil && len(o.Labels) != len(x) {
		return nil, fmt.Errorf("plot: %s: want one of Labels for each of %d points, got %d", kind, len(x), len(o.Labels))
	}
	groups := 1
	if o.Groups != nil {
		if len(o.Groups) != len(x) {
			return nil, fmt.Errorf("plot: %s: want one of Groups for each of %d points, got %d", kind, len(x), len(o.Groups))
		}
		for i, g := range o.Groups {
			if g < 0 || g > maxGroups {
				return nil, fmt.Errorf("plot: %s: Groups[%d] is %d, want 0 to %d", kind, i, g, maxGroups)
			}
			groups = max(groups, g+1)
		}
	}
	if o.Height == 0 {
		o.Height = 420
	}
	o, err := o.checked(kind, groups)
	if err != nil {
		return nil, err
	}
	s := &scatter{x: x, y: y, labels: visibleAll(o.Labels), groups: groups, roof: r, o: o}
	alt := o.alt(s.describe())
	return &Chart{
		alt: alt, width: o.Width, height: o.Height, picture: s.picture,
		option: func() ([]byte, error) { return encode(s.live()) },
		script: func() (string, error) {
			return chartScript(s.live(), meta{Kind: "points", W: o.Width, H: o.Height, Alt: alt})
		},
	}, nil
}

const maxGroups = 99

type scatter struct {
	x, y   []float64
	labels []string // "" or one a point
	groups int
	roof   *roof
	o      Options
}

func (s *scatter) group(i int) int {
	if s.o.Groups == nil {
		return 0
	}
	return s.o.Groups[i]
}

func (s *scatter) describe() string {
	if s.roof != nil {
		text := fmt.Sprintf("A roofline that bends at %s FLOP/byte", short(s.roof.bend()))
		for i, l := range s.labels {
			limit := "memory"
			if s.x[i] >= s.roof.bend() {
				limit = "arithmetic"
			}
			text += fmt.Sprintf("; %s at %s FLOP/byte is limited by %s", l, short(s.x[i]), limit)
		}
		return text
	}
	return fmt.Sprintf("%d points, from %s to %s across and from %s to %s up", len(s.x),
		short(minOf(s.x)), short(maxOf(s.x)), short(minOf(s.y)), short(maxOf(s.y)))
}

func minOf(v []float64) float64 { lo, _ := span(v); return lo }
func maxOf(v []float64) float64 { _, hi := span(v); return hi }

// ranges are the axes' ends, the same in the picture and live: the points with some room around them,
// whole decades on logarithmic axes.
func (s *scatter) ranges() (x0, x1, y0, y1 float64) {
	xs, ys := append([]float64{}, s.x...), append([]float64{}, s.y...)
	if s.roof != nil {
		xs = append(xs, s.roof.bend()/3, s.roof.bend()*3)
		ys = append(ys, s.roof.peak*1.5, s.roof.at(minOf(xs)))
	}
	for _, g := range s.o.Guides {
		if g.Axis == "x" {
			xs = append(xs, g.At)
		} else {
			ys = append(ys, g.At)
		}
	}
	x0, x1 = around(xs, s.o.LogX)
	y0, y1 = around(ys, s.o.LogY)
	if s.o.Min != 0 || s.o.Max != 0 {
		y0, y1 = s.o.Min, s.o.Max
	}
	return x0, x1, y0, y1
}

func around(v []float64, log bool) (lo, hi float64) {
	lo, hi = span(v)
	if log {
		return math.Pow(10, math.Floor(math.Log10(lo))), math.Pow(10, math.Ceil(math.Log10(hi*1.0001)))
	}
	pad := (hi - lo) * 0.08
	if pad == 0 {
		pad = 1
	}
	step := niceStep(lo, hi) / 2
	return rounded(math.Floor((lo-pad)/step) * step), rounded(math.Ceil((hi+pad)/step) * step)
}

var shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.CrossGlyph{}}

func glyph(group int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: hex(seriesLight[group%len(seriesLight)]), Radius: 4.5 * pixel, Shape: shapes[group%len(shapes)]}
}

func (s *scatter) picture(c draw.Canvas) error {
	p := figure(s.o)
	gridded(p, true, true)
	p.Add(pointsPlotter{s})
	guides(p, s.o.Guides)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = s.ranges()
	var l legend
	for g := range s.groups {
		l.add(s.o.name(g), mark(g))
	}
	l.render(p, c)
	return nil
}

// mark is a group's point in the legend.
type mark int

func (m mark) Thumbnail(c *draw.Canvas) { c.DrawGlyph(glyph(int(m)), c.Center()) }

type pointsPlotter struct{ *scatter }

func (s pointsPlotter) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	if s.roof != nil {
		at := func(v float64) vg.Point { return vg.Point{X: x(v), Y: y(s.roof.at(v))} }
		line := draw.LineStyle{Color: hex(ink), Width: 2 * pixel}
		c.StrokeLines(line, c.ClipLinesXY([]vg.Point{at(p.X.Min), at(s.roof.bend()), at(p.X.Max)})...)
		c.StrokeLine2(draw.LineStyle{Color: hex("#888888"), Width: pixel, Dashes: []vg.Length{3 * pixel, 3 * pixel}}, x(s.roof.bend()), c.Min.Y, x(s.roof.bend()), y(s.roof.peak))
	}
	var taken []vg.Rectangle // where labels are
	for i := range s.x {
		pt := vg.Point{X: x(s.x[i]), Y: y(s.y[i])}
		if !c.Contains(pt) {
			continue
		}
		g := glyph(s.group(i))
		c.DrawGlyph(g, pt)
		if i < len(s.labels) && s.labels[i] != "" {
			taken = s.label(c, pt, printable(s.labels[i]), taken)
		}
	}
}

// label writes a point's text where no other text is: right of it, left, above or below; where all are
// taken it is left out, and only the live chart tells it.
func (s *scatter) label(c draw.Canvas, pt vg.Point, text string, taken []vg.Rectangle) []vg.Rectangle {
	sty := style(11.5, hex(ink))
	w, h := sty.Width(text), 12*pixel
	const off = 7 * pixel
	for _, at := range []vg.Point{
		{X: pt.X + off, Y: pt.Y - h/2}, {X: pt.X - off - w, Y: pt.Y - h/2},
		{X: pt.X - w/2, Y: pt.Y + off - 2*pixel}, {X: pt.X - w/2, Y: pt.Y - off - h + 2*pixel},
	} {
		r := vg.Rectangle{Min: at, Max: vg.Point{X: at.X + w, Y: at.Y + h}}
		if r.Min.X < c.Min.X || r.Max.X > c.Max.X || r.Min.Y < c.Min.Y || r.Max.Y > c.Max.Y || overlaps(r, taken) {
			continue
		}
		sty.YAlign = draw.YCenter
		c.FillText(sty, vg.Point{X: at.X, Y: at.Y + h/2}, text)
		return append(taken, r)
	}
	return taken
}

func overlaps(r vg.Rectangle, others []vg.Rectangle) bool {
	for _, o := range others {
		if r.Min.X < o.Max.X && o.Min.X < r.Max.X && r.Min.Y < o.Max.Y && o.Min.Y < r.Max.Y {
			return true
		}
	}
	return false
}

func (s *scatter) live() map[string]any {
	o := s.o
	chart := charts.NewScatter()
	symbols := []string{"circle", "rect", "triangle", "diamond", "pin", "arrow"}
	for g := range s.groups {
		var data []opts.ScatterData
		for i := range s.x {
			if s.group(i) != g {
				continue
			}
			d := opts.ScatterData{Value: []float64{rounded(s.x[i]), rounded(s.y[i])}, SymbolSize: 9}
			if i < len(s.labels) {
				d.Name = s.labels[i]
			}
			data = append(data, d)
		}
		chart.AddSeries(o.name(g), data)
	}
	option := base(&chart.BaseConfiguration, o, s.groups)
	for g, series := range seriesOf(option) {
		series["symbol"] = symbols[g%len(symbols)]
		if len(s.labels) > 0 {
			series["label"] = map[string]any{"show": true, "position": "right", "formatter": "{b}", "fontSize": 11.5}
			series["labelLayout"] = map[string]any{"hideOverlap": true}
		}
	}
	x0, x1, y0, y1 := s.ranges()
	x, y := axis(o.XLabel, o.LogX, "value"), axis(o.YLabel, o.LogY, "value")
	ranged(x, x0, x1)
	ranged(y, y0, y1)
	if s.roof != nil {
		points := [][]float64{{x0, s.roof.at(x0)}, {rounded(s.roof.bend()), s.roof.peak}, {x1, s.roof.peak}}
		option["series"] = append(option["series"].([]any), map[string]any{
			"type": "line", "name": "roof", "data": points, "showSymbol": false, "silent": true,
			"lineStyle": map[string]any{"width": 2, "color": ink}, "tooltip": map[string]any{"show": false},
		})
	}
	option["xAxis"], option["yAxis"] = x, y
	option["tooltip"] = map[string]any{"trigger": "item", "confine": true}
	markGuides(option, o.Guides)
	return option
}
