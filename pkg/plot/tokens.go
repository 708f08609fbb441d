package plot

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// TokenStrip shows a text's tokens one after the other in boxes, with something below each: its id, its
// offsets in the text, its loss. below may be nil. Spaces are drawn as ·. Highlight emphasises tokens.
func TokenStrip(tokens, below []string, o Options) error {
	return show(NewTokenStrip(tokens, below, nil, o))
}

// TokenValues is TokenStrip with each token coloured by a value, such as its loss, written below it;
// ZLabel says what the values are.
func TokenValues[T Number](tokens []string, values []T, o Options) error {
	if len(values) == 0 && len(tokens) > 0 {
		return told(fmt.Errorf("plot: token strip: values is empty"))
	}
	return show(NewTokenStrip(tokens, nil, floats(values), o))
}

// NewTokenStrip makes the chart of TokenStrip, or of TokenValues, without showing it. below and values
// may be nil.
func NewTokenStrip(tokens, below []string, values []float64, o Options) (*Chart, error) {
	const kind = "token strip"
	if len(tokens) == 0 {
		return nil, fmt.Errorf("plot: %s: tokens is empty", kind)
	}
	if below != nil && len(below) != len(tokens) {
		return nil, fmt.Errorf("plot: %s: want one of below for each of %d tokens, got %d", kind, len(tokens), len(below))
	}
	if values != nil && len(values) != len(tokens) {
		return nil, fmt.Errorf("plot: %s: want one of values for each of %d tokens, got %d", kind, len(tokens), len(values))
	}
	if err := finite(kind, "values", values); err != nil {
		return nil, err
	}
	for _, h := range o.Highlight {
		if h < 0 || h >= len(tokens) {
			return nil, fmt.Errorf("plot: %s: Highlight: %d is not one of %d tokens", kind, h, len(tokens))
		}
	}
	s := &strip{tokens: visibleAll(tokens), below: below, values: values}
	if values != nil {
		lo, hi := span(values)
		if o.Min != 0 || o.Max != 0 {
			lo, hi = o.Min, o.Max
		}
		s.scale = scaleFor(math.Min(lo, 0), hi)
		if below == nil {
			s.below = make([]string, len(values))
			for i, v := range values {
				s.below[i] = twoDigits(v)
			}
		}
	}
	if o.Width == 0 {
		o.Width = usualWidth
	}
	s.lay(float64(o.Width))
	if o.Height == 0 {
		o.Height = min(s.height(o.Title != ""), maxSide)
	}
	o, err := o.checked(kind, 0)
	if err != nil {
		return nil, err
	}
	s.o = o
	alt := o.alt(s.describe())
	return &Chart{
		alt: alt, width: o.Width, height: o.Height, picture: s.picture,
		option: func() ([]byte, error) { return encode(s.live(alt)) },
		script: func() (string, error) {
			return script(tokensJS, map[string]any{"STRIP": s.live(alt), "COLOURS": colours})
		},
	}, nil
}

type strip struct {
	tokens []string
	below  []string
	values []float64
	scale  scale
	place  []vg.Rectangle // of each box, in pixels from the top left; y goes down
	o      Options
}

const (
	stripMargin = 8.0
	stripText   = 14.0
	stripSmall  = 11.0
	stripBox    = 26.0
	stripRow    = 50.0 // a box and what is below it
)

// lay places the boxes in rows no wider than the page.
func (s *strip) lay(width float64) {
	row := stripRow
	if s.below == nil {
		row = stripBox + 8
	}
	big, small := style(stripText, color.Black), style(stripSmall, color.Black)
	x, y := stripMargin, 0.0
	for i, t := range s.tokens {
		w := float64(big.Width(printable(t))/pixel) + 12
		if s.below != nil {
			w = math.Max(w, float64(small.Width(printable(s.below[i]))/pixel)+6)
		}
		w = math.Min(w, width-2*stripMargin)
		if x+w > width-stripMargin && x > stripMargin {
			x, y = stripMargin, y+row
		}
		s.place = append(s.place, vg.Rectangle{Min: vg.Point{X: vg.Length(x), Y: vg.Length(y)}, Max: vg.Point{X: vg.Length(x + w), Y: vg.Length(y + stripBox)}})
		x += w + 4
	}
}

func (s *strip) height(titled bool) int {
	last := float64(s.place[len(s.place)-1].Max.Y) + 2*stripMargin
	if s.below != nil {
		last += stripRow - stripBox - 6
	}
	if titled {
		last += 26
	}
	return int(math.Ceil(last))
}

func (s *strip) describe() string {
	text := fmt.Sprintf("%d tokens:", len(s.tokens))
	for i, t := range s.tokens {
		if i == 40 {
			return text + " …"
		}
		text += " " + t
		if s.below != nil {
			text += " (" + s.below[i] + ")"
		}
	}
	return text
}

// fill is the colour of a token's box: of its value, or one of a few in turn so that neighbours differ.
func (s *strip) fill(i int) color.NRGBA {
	if s.values != nil {
		return s.scale.at(s.values[i])
	}
	if len(s.o.Highlight) > 0 {
		if s.o.highlighted(i) {
			return hex("#f7cfa8")
		}
		return hex("#eef1f5")
	}
	return hex(stripLight[i%len(stripLight)])
}

var (
	stripLight = []string{"#cfe3f3", "#fbdcc4", "#cdeadd", "#f0dcea"}
	stripDark  = []string{"#1f4a68", "#6b3a17", "#1d5a45", "#5c3a50"}
)

func (s *strip) picture(c draw.Canvas) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	top := c.Max.Y - stripMargin*pixel
	if s.o.Title != "" {
		sty := style(15, hex(ink))
		sty.XAlign, sty.YAlign = draw.XCenter, draw.YTop
		c.FillText(sty, vg.Point{X: c.Center().X, Y: top + 2*pixel}, printable(s.o.Title))
		top -= 26 * pixel
	}
	for i, t := range s.tokens {
		r := s.place[i]
		x0, x1 := c.Min.X+r.Min.X*pixel, c.Min.X+r.Max.X*pixel
		y1, y0 := top-r.Min.Y*pixel, top-r.Max.Y*pixel
		fill := s.fill(i)
		c.FillPolygon(fill, box(x0, y0, x1, y1))
		if s.o.highlighted(i) {
			c.StrokeLines(draw.LineStyle{Color: hex("#d55e00"), Width: 2 * pixel}, append(box(x0, y0, x1, y1), vg.Point{X: x0, Y: y0}))
		}
		sty := style(stripText, onTop(fill))
		sty.XAlign, sty.YAlign = draw.XCenter, draw.YCenter
		c.FillText(sty, vg.Point{X: (x0 + x1) / 2, Y: (y0 + y1) / 2}, printable(t))
		if s.below != nil {
			small := style(stripSmall, hex("#555555"))
			small.XAlign, small.YAlign = draw.XCenter, draw.YTop
			c.FillText(small, vg.Point{X: (x0 + x1) / 2, Y: y0 - 3*pixel}, printable(s.below[i]))
		}
	}
	return nil
}

// live is the strip as its script reads it.
func (s *strip) live(alt string) map[string]any {
	type token struct {
		T string   `json:"t"`
		B string   `json:"b,omitempty"`
		V *float64 `json:"v,omitempty"` // 0 to 1 along the scale
		H bool     `json:"h,omitempty"`
	}
	list := make([]token, len(s.tokens))
	for i, t := range s.tokens {
		list[i] = token{T: t, H: s.o.highlighted(i)}
		if s.below != nil {
			list[i].B = s.below[i]
		}
		if s.values != nil {
			v := rounded(math.Min(1, math.Max(0, (s.values[i]-s.scale.lo)/(s.scale.hi-s.scale.lo))))
			list[i].V = &v
		}
	}
	both := s.values != nil && s.scale.lo < 0 && s.scale.hi > 0
	return map[string]any{
		"tokens": list, "title": s.o.Title, "value": s.o.ZLabel, "w": s.o.Width, "alt": alt, "diverging": both,
		"plain": len(s.o.Highlight) > 0, "light": stripLight, "dark": stripDark,
	}
}
