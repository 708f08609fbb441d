package plot

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// The picture is drawn on a canvas of 96 points an inch, so that a length of 1 is a pixel of the page,
// with two dots for each pixel.
const (
	pixel   = vg.Inch / 96
	density = 2
)

// PNG is the chart as a picture of twice its size in pixels, on white.
func (c *Chart) PNG() ([]byte, error) {
	canvas := vgimg.NewWith(vgimg.UseWH(vg.Length(c.width)*pixel, vg.Length(c.height)*pixel), vgimg.UseDPI(96*density))
	if err := c.picture(draw.New(canvas)); err != nil {
		return nil, err
	}
	img, ok := canvas.Image().(*image.RGBA)
	if !ok {
		return nil, fmt.Errorf("plot: picture: want an RGBA canvas, got %T", canvas.Image())
	}
	var b bytes.Buffer
	if err := png.Encode(&b, paletted(img)); err != nil {
		return nil, fmt.Errorf("plot: picture: %w", err)
	}
	return b.Bytes(), nil
}

// style is text of a size in pixels.
func style(size float64, c color.Color) text.Style {
	return text.Style{
		Color:   c,
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Length(size)*pixel),
		Handler: text.Plain{Fonts: font.DefaultCache},
	}
}

// figure is an empty picture with the chart's titles, ticks and grid in the course's style.
func figure(o Options) *plot.Plot {
	p := plot.New()
	black := hex(ink)
	p.Title.Text = printable(o.Title)
	p.Title.TextStyle = style(15, black)
	p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
	p.Title.Padding = 8 * pixel
	for _, a := range []struct {
		axis  *plot.Axis
		label string
		log   bool
	}{{&p.X, o.XLabel, o.LogX}, {&p.Y, o.YLabel, o.LogY}} {
		align := a.axis.Label.TextStyle
		a.axis.Label.Text = printable(a.label)
		a.axis.Label.TextStyle = style(13, black)
		a.axis.Label.TextStyle.Rotation, a.axis.Label.TextStyle.XAlign, a.axis.Label.TextStyle.YAlign = align.Rotation, align.XAlign, align.YAlign
		a.axis.Label.Padding = 5 * pixel
		tick := a.axis.Tick.Label
		a.axis.Tick.Label = style(11.5, black)
		a.axis.Tick.Label.XAlign, a.axis.Tick.Label.YAlign = tick.XAlign, tick.YAlign
		a.axis.LineStyle.Color, a.axis.Tick.LineStyle.Color = hex("#888888"), hex("#888888")
		a.axis.LineStyle.Width, a.axis.Tick.LineStyle.Width = pixel, pixel
		a.axis.Tick.Marker = ticks{}
		if a.log {
			a.axis.Scale, a.axis.Tick.Marker = plot.LogScale{}, decades{}
		}
	}
	p.Legend.TextStyle = style(12, black)
	p.Legend.TextStyle.YAlign = draw.YCenter
	p.Legend.ThumbnailWidth = 22 * pixel
	p.Legend.Padding = 2 * pixel
	return p
}

// gridded adds grid lines behind what is drawn next.
func gridded(p *plot.Plot, vertical, horizontal bool) {
	g := plotter.NewGrid()
	line := draw.LineStyle{Color: hex(faint), Width: 0.7 * pixel}
	g.Vertical, g.Horizontal = draw.LineStyle{}, draw.LineStyle{}
	if vertical {
		g.Vertical = line
	}
	if horizontal {
		g.Horizontal = line
	}
	p.Add(g)
}

// legend is drawn above the chart, in one row, where it covers nothing.
type legend struct {
	names  []string
	thumbs []plot.Thumbnailer
}

func (l *legend) add(name string, thumb plot.Thumbnailer) {
	if name != "" {
		l.names, l.thumbs = append(l.names, printable(name)), append(l.thumbs, thumb)
	}
}

// render draws a figure with its legend on a canvas.
func (l *legend) render(p *plot.Plot, c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, 10*pixel, -16*pixel, 8*pixel, -8*pixel)
	if len(l.names) == 0 {
		p.Draw(c)
		return
	}
	sty := style(12, hex(ink))
	sty.YAlign = draw.YCenter
	const thumb, gap, row = 22 * pixel, 16 * pixel, 20 * pixel
	title := p.Title.Text
	top := c.Max.Y
	if title != "" {
		head := p.Title.TextStyle
		c.FillText(head, vg.Point{X: c.Center().X, Y: top}, title)
		top -= head.Height(title) + 6*pixel
		p.Title.Text = ""
	}
	x, y := c.Min.X+8*pixel, top-row/2
	for i, name := range l.names {
		w := thumb + 6*pixel + sty.Width(name) + gap
		if x+w > c.Max.X && x > c.Min.X+8*pixel {
			x, y = c.Min.X+8*pixel, y-row
		}
		box := c
		box.Rectangle = vg.Rectangle{Min: vg.Point{X: x, Y: y - 5*pixel}, Max: vg.Point{X: x + thumb, Y: y + 5*pixel}}
		l.thumbs[i].Thumbnail(&box)
		c.FillText(sty, vg.Point{X: x + thumb + 6*pixel, Y: y}, name)
		x += w
	}
	c.Max.Y = y - row/2 - 4*pixel
	p.Draw(c)
	p.Title.Text = title
}

// guides draws the straight lines, each with its name at its end.
func guides(p *plot.Plot, list []Guide) {
	for _, g := range list {
		p.Add(guideLine(g))
	}
}

type guideLine Guide

func (g guideLine) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	line := draw.LineStyle{Color: hex("#444444"), Width: 1.3 * pixel, Dashes: []vg.Length{5 * pixel, 4 * pixel}}
	sty := style(11.5, hex("#222222"))
	if g.Axis == "y" {
		at := y(g.At)
		if at < c.Min.Y || at > c.Max.Y {
			return
		}
		c.StrokeLine2(line, c.Min.X, at, c.Max.X, at)
		sty.XAlign = draw.XRight
		name := printable(g.Name)
		y := at + 3*pixel
		if y+13*pixel > c.Max.Y {
			y = at - 15*pixel
		}
		right := c.Max.X - 4*pixel
		c.FillPolygon(color.NRGBA{255, 255, 255, 200}, box(right-sty.Width(name)-2*pixel, y-1*pixel, right+2*pixel, y+12*pixel))
		c.FillText(sty, vg.Point{X: right, Y: y}, name)
		return
	}
	at := x(g.At)
	if at < c.Min.X || at > c.Max.X {
		return
	}
	c.StrokeLine2(line, at, c.Min.Y, at, c.Max.Y)
	sty.YAlign = draw.YTop
	left := vg.Point{X: at + 4*pixel, Y: c.Max.Y - 3*pixel}
	if left.X+sty.Width(g.Name) > c.Max.X {
		sty.XAlign, left.X = draw.XRight, at-4*pixel
	}
	c.FillText(sty, left, printable(g.Name))
}

// DataRange keeps a guide inside the axes' range, as ECharts does.
func (g guideLine) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax, ymin, ymax = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	if g.Axis == "x" {
		xmin, xmax = g.At, g.At
	} else {
		ymin, ymax = g.At, g.At
	}
	return xmin, xmax, ymin, ymax
}

// ticks labels an axis with short numbers, four to seven of them, at steps of 1, 2 or 5.
type ticks struct{}

func (ticks) Ticks(lo, hi float64) []plot.Tick {
	step := niceStep(lo, hi)
	var list []plot.Tick
	for k := math.Ceil(lo/step - 1e-9); k*step <= hi+step*1e-9; k++ {
		v := rounded(k * step)
		list = append(list, plot.Tick{Value: v, Label: shorter(v, 1e4)})
	}
	return list
}

// niceStep is the largest 1, 2 or 5 times a power of ten that fits at least four times.
func niceStep(lo, hi float64) float64 {
	if !(hi > lo) {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/4)))
	for _, m := range []float64{5, 2} {
		if (hi-lo)/(step*m) >= 4 {
			return step * m
		}
	}
	return step
}

// decades labels a logarithmic axis at powers of ten, or at 1, 2 and 5 of each where there are few.
type decades struct{}

func (decades) Ticks(lo, hi float64) []plot.Tick {
	first, last := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	steps := last - first
	var list []plot.Tick
	for e := first; e <= last; e++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow(10, float64(e))
			if v < lo*(1-1e-9) || v > hi*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || steps <= 2 && (m == 2 || m == 5) {
				t.Label = shorter(rounded(v), 1e4)
			}
			list = append(list, t)
		}
	}
	return list
}

// printable replaces what the picture's font cannot draw by its code point; the live chart shows the
// character itself.
func printable(s string) string {
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < 0x80
	}
	if ascii {
		return s
	}
	face := font.DefaultCache.Lookup(style(12, color.Black).Font, 12)
	var b strings.Builder
	for _, r := range s {
		if g, err := face.Face.GlyphIndex(nil, r); err == nil && g != 0 {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, "U+%04X", r)
	}
	return b.String()
}
