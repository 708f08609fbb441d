package plot

import (
	"fmt"
	"image/color"
	"math"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// HeatMap shows values[r][c] as colours, row 0 on top, with a label for each row and column: attention
// weights, hidden states, a logit lens. nil labels are numbered. −Inf, what a mask leaves, is an empty
// cell. Values of both signs get two colours with zero between them. YLabel names the rows, XLabel the
// columns, ZLabel the values. Small maps have their numbers in the cells.
func HeatMap[T Number](rows, cols []string, values [][]T, o Options) error {
	return show(NewHeatMap(rows, cols, values, o))
}

// NewHeatMap makes the chart of HeatMap without showing it.
func NewHeatMap[T Number](rows, cols []string, values [][]T, o Options) (*Chart, error) {
	const kind = "heat map"
	if len(values) == 0 || len(values[0]) == 0 {
		return nil, fmt.Errorf("plot: %s: values is empty", kind)
	}
	h := &heat{values: floatRows(values)}
	for r, row := range h.values {
		if len(row) != len(values[0]) {
			return nil, fmt.Errorf("plot: %s: values[%d] has %d columns, values[0] has %d", kind, r, len(row), len(values[0]))
		}
		for c, v := range row {
			if math.IsNaN(v) || math.IsInf(v, 1) {
				return nil, fmt.Errorf("plot: %s: values[%d][%d] is %v, want a finite number, or −Inf for an empty cell", kind, r, c, v)
			}
		}
	}
	if rows != nil && len(rows) != len(values) {
		return nil, fmt.Errorf("plot: %s: want one of rows for each of %d values, got %d", kind, len(values), len(rows))
	}
	if cols != nil && len(cols) != len(values[0]) {
		return nil, fmt.Errorf("plot: %s: want one of cols for each of %d columns, got %d", kind, len(values[0]), len(cols))
	}
	if o.LogX || o.LogY {
		return nil, fmt.Errorf("plot: %s: LogX and LogY: rows and columns have no logarithm", kind)
	}
	if len(o.Guides) > 0 || len(o.Names) > 0 {
		return nil, fmt.Errorf("plot: %s: Guides and Names are for lines and bars", kind)
	}
	lo, hi := span(h.values...)
	if math.IsInf(lo, 0) {
		return nil, fmt.Errorf("plot: %s: values has only empty cells", kind)
	}
	h.rows, h.cols = numbered(rows, len(values)), numbered(cols, len(values[0]))
	h.turned = len(h.cols) > 1 && longest(h.cols) > 3
	h.fit(&o)
	o, err := o.checked(kind, 0)
	if err != nil {
		return nil, err
	}
	if o.Min != 0 || o.Max != 0 {
		lo, hi = o.Min, o.Max
	}
	h.scale, h.o = scaleFor(lo, hi), o
	alt := o.alt(h.describe())
	return &Chart{
		alt: alt, width: o.Width, height: o.Height, picture: h.picture,
		option: func() ([]byte, error) { return encode(h.live()) },
		script: func() (string, error) {
			return chartScript(h.live(), meta{Kind: "heat", W: o.Width, H: o.Height, Alt: alt, Scale: &ends{rounded(h.scale.lo), rounded(h.scale.hi)}})
		},
	}, nil
}

func numbered(labels []string, n int) []string {
	if labels != nil {
		return visibleAll(labels)
	}
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	return list
}

type heat struct {
	rows, cols []string
	values     [][]float64 // [rows, cols]
	scale      scale
	turned     bool // column labels stand on end
	o          Options
}

// fit chooses the size: cells as near to squares as the page allows.
func (h *heat) fit(o *Options) {
	side, height := h.margins(*o)
	cell := clamp(min((usualWidth-side)/len(h.cols), 440/len(h.rows)), 4, 46)
	if o.Width == 0 { // few rows leave room for wider cells, which hold numbers
		wide := min(max(cell, 40), (usualWidth-side)/len(h.cols))
		o.Width = clamp(side+max(wide, cell)*len(h.cols), 300, usualWidth)
	}
	if o.Height == 0 {
		o.Height = clamp(height+max(cell, 14)*len(h.rows), 170, 620)
	}
}

// margins is the room that titles, labels and the colours' bar take, in pixels.
func (h *heat) margins(o Options) (side, height int) {
	side = 110 + 7*min(longest(h.rows), 24)
	height = 62
	if h.turned {
		height += 5 * min(longest(h.cols), 24)
	}
	if o.YLabel != "" {
		side += 24
	}
	if o.XLabel != "" {
		height += 24
	}
	if o.Title != "" {
		height += 24
	}
	return side, height
}

// numbers tells whether the cells hold their values.
func (h *heat) numbers() bool {
	side, height := h.margins(h.o)
	return (h.o.Width-side)/len(h.cols) >= 34 && (h.o.Height-height)/len(h.rows) >= 16
}

func (h *heat) describe() string {
	var r, c int
	for i, row := range h.values {
		for j, v := range row {
			if best := h.values[r][c]; v > best && v-best > 1e-5*math.Abs(v) { // of those that only rounding tells apart, the first
				r, c = i, j
			}
		}
	}
	return fmt.Sprintf("A map of %d rows and %d columns; the highest value, %s, is in row %s, column %s", len(h.rows), len(h.cols), short(h.values[r][c]), h.rows[r], h.cols[c])
}

func (h *heat) picture(c draw.Canvas) error {
	p := figure(h.o)
	p.Add(cells{h})
	p.X.Min, p.X.Max = -0.5, float64(len(h.cols))-0.5
	p.Y.Min, p.Y.Max = -0.5, float64(len(h.rows))-0.5
	p.X.Padding, p.Y.Padding = 0, 0
	side, height := h.margins(h.o)
	p.X.Tick.Marker = h.ticks(h.cols, false, (h.o.Width-side)/len(h.cols))
	p.Y.Tick.Marker = h.ticks(h.rows, true, (h.o.Height-height)/len(h.rows))
	p.X.Tick.LineStyle.Width, p.Y.Tick.LineStyle.Width = 0, 0
	p.X.LineStyle.Width, p.Y.LineStyle.Width = 0, 0
	if h.turned {
		p.X.Tick.Label.Rotation = math.Pi / 4
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YTop
	}
	const bar = 62 * pixel
	left := c
	left.Max.X -= bar
	var none legend
	whole := c
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	none.render(p, left)
	h.colours(draw.Crop(c, c.Max.X-c.Min.X-bar, -8*pixel, 40*pixel, -36*pixel))
	return nil
}

// ticks labels rows or columns, leaving some out where they would run into each other.
func (h *heat) ticks(labels []string, downward bool, room int) plot.Ticker {
	need := 13
	if !downward && !h.turned {
		need = 7*longest(labels) + 6
	}
	every := max(1, (need+max(room, 1)-1)/max(room, 1))
	var list []plot.Tick
	for i, l := range labels {
		at := float64(i)
		if downward {
			at = float64(len(labels) - 1 - i)
		}
		if i%every == 0 {
			list = append(list, plot.Tick{Value: at, Label: printable(trimmed(l))})
		}
	}
	return plot.ConstantTicks(list)
}

// trimmed keeps a label within the margin.
func trimmed(label string) string {
	if r := []rune(label); len(r) > 24 {
		return string(r[:23]) + "…"
	}
	return label
}

// colours draws the bar that says which colour is how much.
func (h *heat) colours(c draw.Canvas) {
	const steps, width = 60, 13 * pixel
	height := (c.Max.Y - c.Min.Y) / steps
	for i := range steps {
		y := c.Min.Y + height*vg.Length(i)
		c.FillPolygon(blend(h.scale.light, (float64(i)+0.5)/steps), box(c.Min.X, y, c.Min.X+width, y+height+0.3*pixel))
	}
	sty := style(11.5, hex(ink))
	sty.YAlign = draw.YCenter
	for _, t := range []float64{0, 0.5, 1} {
		v := h.scale.lo + t*(h.scale.hi-h.scale.lo)
		c.FillText(sty, vg.Point{X: c.Min.X + width + 4*pixel, Y: c.Min.Y + vg.Length(t)*(c.Max.Y-c.Min.Y)}, short(rounded(v)))
	}
	if h.o.ZLabel != "" {
		sty.XAlign, sty.YAlign = draw.XRight, draw.YBottom
		c.FillText(sty, vg.Point{X: c.Max.X + 4*pixel, Y: c.Max.Y + 9*pixel}, printable(h.o.ZLabel))
	}
}

type cells struct{ *heat }

func (h cells) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	w, ht := x(1)-x(0), y(1)-y(0)
	gap := vg.Length(0)
	if min(w, ht) > 9*pixel {
		gap = 0.7 * pixel
	}
	size := math.Min(11.5, float64(ht/pixel)*0.6)
	for r, row := range h.values {
		cy := y(float64(len(h.rows) - 1 - r))
		for col, v := range row {
			cx := x(float64(col))
			if math.IsInf(v, -1) {
				c.StrokeLine2(draw.LineStyle{Color: hex(faint), Width: pixel}, cx-w*0.12, cy, cx+w*0.12, cy)
				continue
			}
			fill := h.scale.at(v)
			c.FillPolygon(fill, box(cx-w/2+gap, cy-ht/2+gap, cx+w/2-gap, cy+ht/2-gap))
			if h.numbers() {
				sty := style(size, onTop(fill))
				sty.XAlign, sty.YAlign = draw.XCenter, draw.YCenter
				c.FillText(sty, vg.Point{X: cx, Y: cy}, twoDigits(v))
			}
		}
	}
}

// twoDigits prints a value for a cell.
func twoDigits(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e4 {
		return short(v)
	}
	if math.Abs(v) >= 0.005 && math.Abs(v) < 10 {
		return fmt.Sprintf("%.2f", v)
	}
	if math.Abs(v) < 0.005 {
		return "0"
	}
	return short(math.Round(v*10) / 10)
}

func (h *heat) live() map[string]any {
	o := h.o
	chart := charts.NewHeatMap()
	var data []opts.HeatMapData
	for r, row := range h.values {
		for c, v := range row {
			if !math.IsInf(v, -1) {
				data = append(data, opts.HeatMapData{Value: []any{c, r, rounded(v)}})
			}
		}
	}
	chart.AddSeries(o.ZLabel, data)
	option := base(&chart.BaseConfiguration, o, 0)
	s := seriesOf(option)[0]
	s["progressive"] = 0
	s["label"] = map[string]any{"show": h.numbers(), "fontSize": 11}
	s["itemStyle"] = map[string]any{"borderWidth": 0}
	s["emphasis"] = map[string]any{"itemStyle": map[string]any{"borderColor": ink, "borderWidth": 1.5}}
	x, y := axis(o.XLabel, false, "category"), axis(o.YLabel, false, "category")
	x["data"], y["data"] = h.cols, h.rows
	y["inverse"] = true
	for _, a := range []map[string]any{x, y} {
		a["axisTick"], a["axisLine"] = map[string]any{"show": false}, map[string]any{"show": false}
		label := a["axisLabel"].(map[string]any)
		label["width"], label["overflow"] = 160, "truncate"
	}
	if h.turned {
		x["axisLabel"].(map[string]any)["rotate"] = 45
	}
	side, height := h.margins(o)
	if (o.Width-side)/len(h.cols) >= 12 {
		x["axisLabel"].(map[string]any)["interval"] = 0
	}
	if (o.Height-height)/len(h.rows) >= 12 {
		y["axisLabel"].(map[string]any)["interval"] = 0
	}
	option["xAxis"], option["yAxis"] = x, y
	option["grid"].(map[string]any)["right"] = 78
	option["tooltip"] = map[string]any{"trigger": "item", "confine": true}
	option["visualMap"] = map[string]any{
		"type": "continuous", "min": rounded(h.scale.lo), "max": rounded(h.scale.hi), "calculable": true,
		"orient": "vertical", "right": 4, "align": "left", "precision": 6, "top": "middle", "itemHeight": clamp(o.Height-140, 60, 220), "itemWidth": 13,
		"inRange": map[string]any{"color": h.scale.light}, "text": []string{o.ZLabel, ""},
	}
	return option
}
