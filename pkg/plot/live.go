package plot

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
)

// The script after a picture finds it and puts the live chart (live.js) or strip (tokens.js) in its
// place; common.js is in front of both.
var (
	//go:embed common.js
	commonJS string
	//go:embed live.js
	liveJS string
	//go:embed tokens.js
	tokensJS string
)

// host is where go-echarts keeps ECharts, for pages that have no copy of it beside Jupyter's files.
const host = "https://go-echarts.github.io/go-echarts-assets/assets/"

// meta is what the script needs beside the option.
type meta struct {
	Kind  string `json:"kind"`
	W     int    `json:"w"`
	H     int    `json:"h"`
	Alt   string `json:"alt"`
	Scale *ends  `json:"scale,omitempty"` // of a heat map: where its colours end
}

type ends struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// colours are what the script exchanges when the page is dark.
var colours = map[string]any{
	"light": map[string]any{"series": seriesLight, "ink": ink, "faint": faint, "muted": muted, "ramp": ramp, "diverging": diverging},
	"dark":  map[string]any{"series": seriesDark, "ink": inkDark, "faint": faintDark, "muted": mutedDark, "ramp": rampDark, "diverging": divergingDark},
}

// chartScript is the script of a live chart.
func chartScript(option map[string]any, m meta) (string, error) {
	return script(liveJS, map[string]any{"OPTION": option, "META": m, "COLOURS": colours, "HOST": host + opts.EchartsJS})
}

// script fills in a script's values; the result can stand inside a <script> element.
func script(source string, values map[string]any) (string, error) {
	var pairs []string
	for name, v := range values {
		data, err := encode(v)
		if err != nil {
			return "", err
		}
		// "</script" and "<!--" must not occur in a script element; in JSON, < stands only inside strings.
		pairs = append(pairs, "__"+name+"__", strings.ReplaceAll(string(data), "<", `\u003c`))
	}
	return strings.NewReplacer(pairs...).Replace("(function () {\n" + compact(commonJS+source) + "})()"), nil
}

// compact drops a script's comments and indentation, which every chart would carry along.
func compact(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// encode is JSON with text as it is.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// base is a go-echarts chart's option with what all charts here have in common.
func base(c *charts.BaseConfiguration, o Options, series int) map[string]any {
	option := make(map[string]any)
	if data, err := encode(c.JSON()); err == nil { // values that were checked to be finite always encode
		json.Unmarshal(data, &option)
	}
	delete(option, "toolbox")
	top := 16
	if o.Title != "" {
		option["title"] = map[string]any{"text": o.Title, "left": "center", "top": 4, "textStyle": map[string]any{"fontSize": 15, "fontWeight": "normal"}}
		top += 24
	} else {
		delete(option, "title")
	}
	if len(o.Names) > 0 && series > 0 {
		option["legend"] = map[string]any{"top": top - 8, "left": 16, "type": "scroll", "itemWidth": 22, "itemHeight": 10}
		top += 24
	} else {
		option["legend"] = map[string]any{"show": false}
	}
	option["grid"] = map[string]any{"left": 20, "right": 28, "top": top + 6, "bottom": 14, "containLabel": true}
	if o.XLabel != "" {
		option["grid"].(map[string]any)["bottom"] = 36
	}
	if o.YLabel != "" {
		option["grid"].(map[string]any)["left"] = 40
	}
	option["animationDuration"] = 300
	option["color"] = seriesLight
	option["backgroundColor"] = "transparent"
	return option
}

// axis is an axis with its name in the middle.
func axis(name string, log bool, kind string) map[string]any {
	a := map[string]any{"type": kind, "name": name, "nameLocation": "middle", "nameTextStyle": map[string]any{"fontSize": 13}, "axisLabel": map[string]any{"fontSize": 11.5, "hideOverlap": true}}
	if log {
		a["type"], a["logBase"] = "log", 10
		a["minorTick"] = map[string]any{"show": true}
	}
	return a
}

// ranged sets where an axis begins and ends. ECharts labels both ends, also where that is no round number;
// those labels are left out unless they stand well away from the round ones.
func ranged(a map[string]any, lo, hi float64) {
	lo, hi = rounded(lo), rounded(hi)
	a["min"], a["max"] = lo, hi
	near := func(v, step float64) bool {
		off := math.Abs(v/step - math.Round(v/step))
		return off > 1e-6 && off < 0.5
	}
	label := a["axisLabel"].(map[string]any)
	if a["type"] == "log" {
		label["showMinLabel"], label["showMaxLabel"] = !near(math.Log10(lo), 1), !near(math.Log10(hi), 1)
		return
	}
	step := niceStep(lo, hi)
	a["interval"] = step
	label["showMinLabel"], label["showMaxLabel"] = !near(lo, step), !near(hi, step)
}

// markGuides puts the guides on the first series.
func markGuides(option map[string]any, list []Guide) {
	if len(list) == 0 {
		return
	}
	data := make([]map[string]any, len(list))
	for i, g := range list {
		position := "insideEndTop"
		if g.Axis == "x" {
			position = "end" // above the chart, so that it can be read without turning one's head
		}
		data[i] = map[string]any{g.Axis + "Axis": g.At, "name": g.Name, "label": map[string]any{"formatter": g.Name, "position": position}}
	}
	if grid := option["grid"].(map[string]any); slices.ContainsFunc(list, func(g Guide) bool { return g.Axis == "x" }) {
		grid["top"] = grid["top"].(int) + 14
	}
	first := seriesOf(option)[0]
	first["markLine"] = map[string]any{
		"silent": true, "symbol": []string{"none", "none"}, "animation": false, "data": data,
		"lineStyle": map[string]any{"type": "dashed", "width": 1.3},
	}
}

// seriesOf are the series of an option, each a map that can be added to.
func seriesOf(option map[string]any) []map[string]any {
	list, _ := option["series"].([]any)
	var maps []map[string]any
	for _, s := range list {
		if m, ok := s.(map[string]any); ok {
			maps = append(maps, m)
		}
	}
	return maps
}
