package plot

import (
	"image/color"
	"math"
)

// Colours of series, of Okabe and Ito's set for colour-blind readers (Color Universal Design, 2008),
// on white and, lighter, on a dark page. Lines also differ in their dashes and bars in their order, so
// that a chart works without colours.
var (
	seriesLight = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5c5c5c"}
	seriesDark  = []string{"#56b4e9", "#ff8a4c", "#2fc79a", "#e39ac4", "#9fd4f5", "#f0c442", "#b8b8b8"}
)

// Colours of values: from few to much, and from below zero to above. On a dark page what is near
// zero is dark.
var (
	ramp          = []string{"#f3f6fb", "#a9c6e6", "#5a8fc7", "#1f5a9c", "#0b2f5f"}
	rampDark      = []string{"#20262f", "#244a73", "#3a7ab8", "#7fb5e6", "#dcefff"}
	diverging     = []string{"#9a3d00", "#e08e4e", "#f7f4f0", "#6aa5d8", "#0b4f8a"}
	divergingDark = []string{"#ffb27a", "#b3622a", "#23262c", "#3b7fb8", "#a6d5ff"}
)

const (
	ink       = "#333333" // text and axes
	faint     = "#d9d9d9" // grid lines
	muted     = "#8fb3cf" // bars that are not highlighted, where some are
	inkDark   = "#d4d4d4"
	faintDark = "#444444"
	mutedDark = "#4a6a85"
)

func hex(s string) color.NRGBA {
	digit := func(c byte) uint8 {
		if c >= 'a' {
			return c - 'a' + 10
		}
		return c - '0'
	}
	at := func(i int) uint8 { return digit(s[i])<<4 | digit(s[i+1]) }
	return color.NRGBA{at(1), at(3), at(5), 255}
}

// blend is the colour at t in [0,1] of a list of evenly spaced colours.
func blend(list []string, t float64) color.NRGBA {
	t = math.Min(1, math.Max(0, t)) * float64(len(list)-1)
	i := min(int(t), len(list)-2)
	a, b, f := hex(list[i]), hex(list[i+1]), t-float64(i)
	mix := func(x, y uint8) uint8 { return uint8(math.Round(float64(x) + f*(float64(y)-float64(x)))) }
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// onTop is black or white, whichever reads better on a colour.
func onTop(c color.NRGBA) color.NRGBA {
	if luminance(c) > 0.179 { // where both have the same contrast, 4.6 to 1
		return hex("#000000")
	}
	return hex("#ffffff")
}

// luminance is a colour's relative luminance (WCAG 2.1).
func luminance(c color.NRGBA) float64 {
	linear := func(v uint8) float64 {
		x := float64(v) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

// scale maps values to the colours of a heat map.
type scale struct {
	lo, hi      float64
	light, dark []string
}

// scaleFor spans the values, from zero where that is not far; values on both sides of zero get the diverging colours, zero in the middle.
func scaleFor(lo, hi float64) scale {
	if lo < 0 && hi > 0 {
		m := math.Max(-lo, hi)
		return scale{-m, m, diverging, divergingDark}
	}
	if lo > 0 && lo < hi/2 {
		lo = 0
	}
	if lo == hi {
		hi = lo + 1
	}
	return scale{lo, hi, ramp, rampDark}
}

func (s scale) at(v float64) color.NRGBA { return blend(s.light, (v-s.lo)/(s.hi-s.lo)) }
