package plot

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/*.json anew")

// kinds makes one chart of every kind, with the options that change most.
var kinds = []struct {
	name string
	make func() (*Chart, error)
}{
	{"bars", func() (*Chart, error) {
		return NewBars([]string{" ball", " cat", "\n"}, []float64{0.5, 0.25, 0.125}, Options{Title: "Next token", XLabel: "token", YLabel: "probability", Highlight: []int{0}})
	}},
	{"bars-lying", func() (*Chart, error) {
		return NewBars([]string{"embedding", "attention", "MLP"}, []int{100, 2000, 30000}, Options{Horizontal: true, LogY: true, YLabel: "parameters", Guides: []Guide{{"y", 1000, "a thousand"}}})
	}},
	{"groups", func() (*Chart, error) {
		return NewBarGroups([]string{"a", "b"}, [][]float32{{1, -2}, {3, 4}}, Options{Names: []string{"x", "y"}})
	}},
	{"stacked", func() (*Chart, error) {
		return NewBarGroups([]string{"a", "b"}, [][]int{{1, 2}, {3, 4}}, Options{Names: []string{"x", "y"}, Stacked: true, Min: 0, Max: 10})
	}},
	{"lines", func() (*Chart, error) {
		return NewLines(Positions(3), [][]float64{{0, 1, 4}, {2, 2, 2}}, Options{Names: []string{"MHA", "GQA"}, XLabel: "position (tokens)", YLabel: "cache (bytes)", Guides: []Guide{{"y", 6, "limit"}, {"x", 1, "now"}}})
	}},
	{"lines-log", func() (*Chart, error) {
		return NewLines([]int{1, 10, 100}, [][]float64{{1, 5, 300}}, Options{LogX: true, LogY: true, Area: true, Dots: true})
	}},
	{"heat", func() (*Chart, error) {
		return NewHeatMap([]string{"the", "cat"}, []string{"the", "cat"}, [][]float64{{1, math.Inf(-1)}, {0.25, 0.75}}, Options{Title: "head 0", XLabel: "key", YLabel: "query", ZLabel: "weight"})
	}},
	{"heat-diverging", func() (*Chart, error) { return NewHeatMap(nil, nil, [][]float32{{-1, 0, 2}}, Options{}) }},
	{"scatter", func() (*Chart, error) {
		return NewScatter([]float64{0, 1, 2}, []float64{1, 0, 3}, Options{Labels: []string{" cat", " dog", ""}, Groups: []int{0, 0, 1}, Names: []string{"animals", "other"}})
	}},
	{"roofline", func() (*Chart, error) {
		return NewRoofline([]string{"decode", "prefill"}, []float64{0.5, 100}, []float64{1e9, 9e10}, 1e11, 1e10, Options{})
	}},
	{"tokens", func() (*Chart, error) {
		return NewTokenStrip([]string{"I", " love", "</script>"}, []string{"0", "1", "2"}, nil, Options{Title: "strip", Highlight: []int{1}})
	}},
	{"token-values", func() (*Chart, error) {
		return NewTokenStrip([]string{"a", "b"}, nil, []float64{0.5, 3}, Options{ZLabel: "loss (nats)"})
	}},
}

// The live chart's option is what it was, down to the last setting.
func TestOptionGolden(t *testing.T) {
	for _, k := range kinds {
		c, err := k.make()
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			continue
		}
		raw, err := c.Option()
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			continue
		}
		var got bytes.Buffer
		if err := json.Indent(&got, raw, "", " "); err != nil {
			t.Errorf("%s: not JSON: %v", k.name, err)
			continue
		}
		got.WriteByte('\n')
		file := filepath.Join("testdata", k.name+".json")
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: the option changed (go test -update writes it anew after a look at the chart)\n%s", k.name, firstDifference(string(want), got.String()))
		}
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\n want %s\n got  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

// What ECharts needs of each option, whatever else is in it.
func TestOptionHoldsTheData(t *testing.T) {
	c, err := kinds[0].make()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := c.Option()
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		Title  struct{ Text string }
		XAxis  struct{ Data []string }
		Series []struct {
			Type string
			Data []struct{ Value float64 }
		}
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	if want := []string{"·ball", "·cat", `\n`}; !reflect.DeepEqual(o.XAxis.Data, want) {
		t.Errorf("labels %q, want %q", o.XAxis.Data, want)
	}
	if len(o.Series) != 1 || o.Series[0].Type != "bar" || len(o.Series[0].Data) != 3 || o.Series[0].Data[1].Value != 0.25 || o.Title.Text != "Next token" {
		t.Errorf("option %+v", o)
	}
}

// Each picture has twice the chart's pixels, something drawn on it, is the same each time, and stays small.
func TestPictures(t *testing.T) {
	for _, k := range kinds {
		c, err := k.make()
		if err != nil {
			t.Fatal(err)
		}
		data, err := c.PNG()
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			continue
		}
		img, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			continue
		}
		w, h := c.Size()
		if b := img.Bounds(); abs(b.Dx()-2*w) > 1 || abs(b.Dy()-2*h) > 1 {
			t.Errorf("%s: picture of %v for a chart of %d×%d", k.name, b.Size(), w, h)
		}
		if n := inked(img); n < 0.01 {
			t.Errorf("%s: only %.2f%% of the picture is drawn on", k.name, 100*n)
		}
		if again, _ := c.PNG(); !bytes.Equal(data, again) {
			t.Errorf("%s: the second picture differs from the first", k.name)
		}
		if len(data) > 60_000 {
			t.Errorf("%s: a picture of %d bytes", k.name, len(data))
		}
		if c.Alt() == "" {
			t.Errorf("%s: no alternative text", k.name)
		}
	}
}

func abs(x int) int { return max(x, -x) }

// inked is the part of a picture that is not white.
func inked(img image.Image) float64 {
	n, b := 0, img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if r, g, bl, _ := img.At(x, y).RGBA(); r < 0xf000 || g < 0xf000 || bl < 0xf000 {
				n++
			}
		}
	}
	return float64(n) / float64(b.Dx()*b.Dy())
}

// Bars are where and as high as their values say: read back from the picture.
func TestBarsAreDrawnToScale(t *testing.T) {
	c, err := NewBars([]string{"a", "b"}, []float64{1, 0.5}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := c.PNG()
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	fill := hex(seriesLight[0])
	height := func(from, to float64) (n int) { // the tallest column of the bar's colour in a part of the picture
		b := img.Bounds()
		for x := int(from * float64(b.Dx())); x < int(to*float64(b.Dx())); x++ {
			k := 0
			for y := b.Min.Y; y < b.Max.Y; y++ {
				if color.NRGBAModel.Convert(img.At(x, y)) == fill {
					k++
				}
			}
			n = max(n, k)
		}
		return n
	}
	one, half := height(0, 0.5), height(0.55, 1)
	if ratio := float64(half) / float64(one); one < 300 || math.Abs(ratio-0.5) > 0.01 {
		t.Errorf("bars of %d and %d dots: ratio %.3f, want 0.5", one, half, ratio)
	}
}

// The script holds the chart, and nothing in it can end the script element early.
func TestScripts(t *testing.T) {
	for _, k := range kinds {
		c, err := k.make()
		if err != nil {
			t.Fatal(err)
		}
		js, err := c.script()
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		for _, bad := range []string{"</script", "<!--", "__OPTION__", "__META__", "__STRIP__", "__COLOURS__", "__HOST__", "undefined}"} {
			if strings.Contains(js, bad) {
				t.Errorf("%s: the script holds %q", k.name, bad)
			}
		}
		if !strings.Contains(js, "forwardpass-chart") {
			t.Errorf("%s: no chart in the script", k.name)
		}
		if again, _ := c.script(); js != again {
			t.Errorf("%s: the script differs the second time", k.name)
		}
	}
}

// Every wrong argument is an error that names it.
func TestErrorsNameTheArgument(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	ab := []string{"a", "b"}
	bars := func(labels []string, v []float64, o Options) error { _, err := NewBars(labels, v, o); return err }
	groups := func(v [][]float64, o Options) error { _, err := NewBarGroups(ab, v, o); return err }
	lines := func(x []float64, y [][]float64, o Options) error { _, err := NewLines(x, y, o); return err }
	heat := func(r, c []string, v [][]float64, o Options) error { _, err := NewHeatMap(r, c, v, o); return err }
	scatter := func(x, y []float64, o Options) error { _, err := NewScatter(x, y, o); return err }
	roof := func(n []string, x, y []float64, p, b float64) error {
		_, err := NewRoofline(n, x, y, p, b, Options{})
		return err
	}
	strip := func(tokens, below []string, v []float64, o Options) error {
		_, err := NewTokenStrip(tokens, below, v, o)
		return err
	}
	table := func(h []string, rows [][]any) error { _, _, err := NewTable(h, rows); return err }
	for _, tt := range []struct {
		err  error
		want string
	}{
		{bars(nil, nil, Options{}), "labels is empty"},
		{bars(ab, []float64{1}, Options{}), "for each of 2 labels, got 1 in values"},
		{bars(ab, []float64{1, nan}, Options{}), "values[1] is NaN"},
		{bars(ab, []float64{inf, 1}, Options{}), "values[0] is +Inf"},
		{bars(ab, []float64{0, 1}, Options{LogY: true}), "values[0] is 0, want a value above zero"},
		{bars(ab, []float64{1, 1}, Options{LogX: true}), "LogX"},
		{bars(ab, []float64{1, 1}, Options{Highlight: []int{2}}), "Highlight: 2"},
		{bars(ab, []float64{1, 1}, Options{Names: ab}), "Names"},
		{bars(ab, []float64{1, 1}, Options{Min: 2, Max: 1}), "Min 2 is not below Max 1"},
		{bars(ab, []float64{1, 1}, Options{Min: 2, Max: 2}), "Min 2 is not below Max 2"},
		{bars(ab, []float64{1, 1}, Options{LogY: true, Max: 2}), "Min: want a value above zero"},
		{bars(ab, []float64{1, 1}, Options{Max: nan}), "Min and Max"},
		{bars(ab, []float64{1, 1}, Options{Width: -1}), "size -1"},
		{bars(ab, []float64{1, 1}, Options{Height: 1e6}), "1000000"},
		{bars(ab, []float64{1, 1}, Options{Guides: []Guide{{"z", 1, ""}}}), "Guides[0].Axis"},
		{bars(ab, []float64{1, 1}, Options{Guides: []Guide{{"y", nan, ""}}}), "Guides[0].At"},
		{groups(nil, Options{}), "groups is empty"},
		{groups([][]float64{{1, 2}, {1}}, Options{}), "got 1 in groups[1]"},
		{groups([][]float64{{1, 2}, {1, nan}}, Options{}), "groups[1][1] is NaN"},
		{lines(nil, [][]float64{{}}, Options{}), "x is empty"},
		{lines([]float64{1}, nil, Options{}), "ys is empty"},
		{lines([]float64{1, 2}, [][]float64{{1, 2}, {1}}, Options{}), "got 1 in ys[1]"},
		{lines([]float64{1, nan}, [][]float64{{1, 2}}, Options{}), "x[1] is NaN"},
		{lines([]float64{2, 1}, [][]float64{{1, 2}}, Options{}), "x must not go down"},
		{lines([]float64{0, 1}, [][]float64{{1, 2}}, Options{LogX: true}), "x[0] is 0"},
		{lines([]float64{1, 2}, [][]float64{{1, -2}}, Options{LogY: true}), "ys[0][1] is -2"},
		{lines([]float64{1, 2}, [][]float64{{1, 2}}, Options{LogX: true, Guides: []Guide{{"x", 0, ""}}}), "Guides[0].At"},
		{heat(nil, nil, nil, Options{}), "values is empty"},
		{heat(nil, nil, [][]float64{{}}, Options{}), "values is empty"},
		{heat(nil, nil, [][]float64{{1, 2}, {1}}, Options{}), "values[1] has 1 columns"},
		{heat(nil, nil, [][]float64{{1, nan}}, Options{}), "values[0][1] is NaN"},
		{heat(nil, nil, [][]float64{{inf}}, Options{}), "values[0][0] is +Inf"},
		{heat(nil, nil, [][]float64{{-inf}}, Options{}), "only empty cells"},
		{heat(ab, nil, [][]float64{{1}}, Options{}), "one of rows for each of 1"},
		{heat(nil, ab, [][]float64{{1}}, Options{}), "one of cols for each of 1"},
		{heat(nil, nil, [][]float64{{1}}, Options{LogY: true}), "LogY"},
		{scatter(nil, nil, Options{}), "x is empty"},
		{scatter([]float64{1, 2}, []float64{1}, Options{}), "one of y for each of 2 x, got 1"},
		{scatter([]float64{1}, []float64{nan}, Options{}), "y is NaN"},
		{scatter([]float64{1, 2}, []float64{1, 2}, Options{Labels: []string{"a"}}), "one of Labels for each of 2 points"},
		{scatter([]float64{1, 2}, []float64{1, 2}, Options{Groups: []int{0, -1}}), "Groups[1] is -1"},
		{roof(ab, []float64{1}, []float64{1}, 1, 1), "one intensity for each of 2 names"},
		{roof(ab, []float64{1, 2}, []float64{1, 0}, 1, 1), "speed[1] is 0"},
		{roof(ab, []float64{1, 2}, []float64{1, 2}, 0, 1), "peak is 0"},
		{roof(ab, []float64{1, 2}, []float64{1, 2}, 1, nan), "bandwidth is NaN"},
		{strip(nil, nil, nil, Options{}), "tokens is empty"},
		{strip(ab, []string{"1"}, nil, Options{}), "one of below for each of 2 tokens"},
		{strip(ab, nil, []float64{1}, Options{}), "one of values for each of 2 tokens"},
		{strip(ab, nil, []float64{1, nan}, Options{}), "values[1] is NaN"},
		{strip(ab, nil, nil, Options{Highlight: []int{-1}}), "Highlight: -1"},
		{table(nil, nil), "header is empty"},
		{table(ab, [][]any{{1, 2}, {1}}), "rows[1] has 1 cells"},
	} {
		if tt.err == nil || !strings.HasPrefix(tt.err.Error(), "plot: ") || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("error %v, want one with %q", tt.err, tt.want)
		}
	}
}

// Odd but right input must draw: one value, equal values, huge and tiny ones, long and strange labels.
func TestOddInputDraws(t *testing.T) {
	long := strings.Repeat("long ", 40)
	for name, draw := range map[string]func() (*Chart, error){
		"one bar":       func() (*Chart, error) { return NewBars([]string{"a"}, []float64{0}, Options{}) },
		"negative bars": func() (*Chart, error) { return NewBars([]string{"a", "b"}, []float64{-1, -2}, Options{}) },
		"many bars":     func() (*Chart, error) { return NewBars(make([]string, 300), make([]float64, 300), Options{}) },
		"long labels": func() (*Chart, error) {
			return NewBars([]string{long, "语言模型", "👋", ""}, []int{1, 2, 3, 4}, Options{Title: long})
		},
		"huge and tiny": func() (*Chart, error) {
			return NewBars([]string{"a", "b"}, []float64{1e-30, 1e30}, Options{LogY: true})
		},
		"one point":      func() (*Chart, error) { return NewLines([]int{5}, [][]int{{7}}, Options{}) },
		"one point, log": func() (*Chart, error) { return NewLines([]int{5}, [][]int{{7}}, Options{LogX: true, LogY: true}) },
		"flat line":      func() (*Chart, error) { return NewLines(Positions(9), [][]int{make([]int, 9)}, Options{Area: true}) },
		"one cell":       func() (*Chart, error) { return NewHeatMap(nil, nil, [][]int{{3}}, Options{}) },
		"wide map":       func() (*Chart, error) { return NewHeatMap(nil, nil, [][]int{make([]int, 2000)}, Options{}) },
		"tall map":       func() (*Chart, error) { return NewHeatMap(nil, nil, make2(500, 2), Options{}) },
		"labelled map": func() (*Chart, error) {
			return NewHeatMap([]string{long}, []string{long, "b"}, [][]int{{1, 2}}, Options{})
		},
		"equal points": func() (*Chart, error) {
			return NewScatter([]int{1, 1}, []int{2, 2}, Options{Labels: []string{"a", "b"}})
		},
		"log scatter": func() (*Chart, error) {
			return NewScatter([]int{1, 1000}, []int{2, 2}, Options{LogX: true, LogY: true})
		},
		"a long token": func() (*Chart, error) { return NewTokenStrip([]string{long}, []string{long}, nil, Options{}) },
		"many tokens": func() (*Chart, error) {
			return NewTokenStrip(make([]string, 400), nil, make([]float64, 400), Options{})
		},
		"small": func() (*Chart, error) {
			return NewLines(Positions(2), [][]int{{1, 2}}, Options{Width: 40, Height: 30, Title: "t", Names: []string{"n"}})
		},
		"guides far away": func() (*Chart, error) {
			return NewLines(Positions(2), [][]int{{1, 2}}, Options{Guides: []Guide{{"y", 1e6, "far"}, {"x", -5, long}}})
		},
	} {
		c, err := draw()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := c.PNG(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if raw, err := c.Option(); err != nil || !json.Valid(raw) {
			t.Errorf("%s: option: %v", name, err)
		}
	}
}

func make2(rows, cols int) [][]int {
	m := make([][]int, rows)
	for i := range m {
		m[i] = make([]int, cols)
	}
	return m
}

// A fill is told from the page and from the text on it, in both themes, for readers of every colour vision.
func TestPaletteContrast(t *testing.T) {
	contrast := func(a, b color.NRGBA) float64 {
		x, y := luminance(a), luminance(b)
		return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
	}
	white, night := hex("#ffffff"), hex("#111111")
	for i := range seriesLight {
		if c := contrast(hex(seriesLight[i]), white); c < 2 {
			t.Errorf("series %d on white: contrast %.1f, want 2", i, c)
		}
		if c := contrast(hex(seriesDark[i]), night); c < 3 {
			t.Errorf("series %d on a dark page: contrast %.1f, want 3", i, c)
		}
	}
	for _, list := range [][]string{ramp, diverging, rampDark, divergingDark} {
		for k := range 101 {
			if c := blend(list, float64(k)/100); contrast(c, onTop(c)) < 4.5 {
				t.Errorf("text on %v: contrast %.1f, want 4.5", c, contrast(c, onTop(c)))
			}
		}
	}
	// Sequential colours grow steadily darker (or, at night, brighter), so that grey shows the same order.
	for _, list := range [][]string{ramp, rampDark} {
		for k := range 20 {
			a, b := luminance(blend(list, float64(k)/20)), luminance(blend(list, float64(k+1)/20))
			if (list[0] == ramp[0]) != (a > b) {
				t.Errorf("%s…: luminance %.3f then %.3f at %d", list[0], a, b, k)
			}
		}
	}
}

func TestShort(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", -3: "-3", 4096: "4096", 0.5: "0.5", 0.123456: "0.123", 131072: "131k", 1e6: "1M", 999999: "1M", 2.5e11: "250G", 4e12: "4T", 1e-9: "1e-9", -1.25e-7: "-1.25e-7", 1e20: "1e20", 12.3456: "12.3", 99999: "99999",
	} {
		if got := short(x); got != want {
			t.Errorf("short(%g) = %q, want %q", x, got, want)
		}
	}
}

// Which cell is the highest doesn't depend on how a processor rounds.
func TestHighest(t *testing.T) {
	inf := math.Inf(-1)
	for want, values := range map[string][][]float64{
		"1, is in row 0, column 1":    {{0, 1}, {1 + 1e-7, 0}},
		"1, is in row 1, column 0":    {{0, 0.9999}, {1, 0}},
		"-2, is in row 1, column 1":   {{inf, -3}, {inf, -2}},
		"2e-9, is in row 1, column 0": {{1e-9, 0}, {2e-9, inf}},
	} {
		h := heat{rows: []string{"0", "1"}, cols: []string{"0", "1"}, values: values}
		if got := h.describe(); !strings.HasSuffix(got, "the highest value, "+want) {
			t.Errorf("%v: %s, want …%s", values, got, want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct{ lo, hi float64 }{{0, 1}, {-1, 1}, {0, 0.42}, {3, 131072}, {1e-9, 3e-9}, {-7, -6.5}, {0, 7}} {
		list := ticks{}.Ticks(tt.lo, tt.hi)
		if len(list) < 4 || len(list) > 11 {
			t.Errorf("%g to %g: %d ticks", tt.lo, tt.hi, len(list))
		}
		for _, k := range list {
			if k.Label == "" || k.Value < tt.lo-1e-12 || k.Value > tt.hi+1e-9*math.Abs(tt.hi)+1e-12 {
				t.Errorf("%g to %g: tick %+v", tt.lo, tt.hi, k)
			}
		}
	}
	for _, tt := range []struct {
		lo, hi float64
		labels string
	}{{1, 1000, "1 10 100 1000"}, {1, 30, "1 2 5 10 20"}, {0.1, 1, "0.1 0.2 0.5 1"}} {
		var got []string
		for _, k := range (decades{}).Ticks(tt.lo, tt.hi) {
			if k.Label != "" {
				got = append(got, k.Label)
			}
		}
		if strings.Join(got, " ") != tt.labels {
			t.Errorf("decades %g to %g: %q, want %q", tt.lo, tt.hi, got, tt.labels)
		}
	}
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{"plain": "plain", "é·“”×µ": "é·“”×µ", "你": "U+4F60", "a👋": "aU+1F44B", "": ""} {
		if got := printable(s); got != want {
			t.Errorf("printable(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestGrid(t *testing.T) {
	if got := Grid([]int{1, 2, 3, 4, 5, 6}, 3); !reflect.DeepEqual(got, [][]int{{1, 2, 3}, {4, 5, 6}}) {
		t.Errorf("Grid = %v", got)
	}
	ragged := Grid([]int{1, 2, 3, 4, 5}, 3)
	if !reflect.DeepEqual(ragged, [][]int{{1, 2, 3}, {4, 5}}) {
		t.Errorf("Grid with two left over = %v", ragged)
	}
	if _, err := NewHeatMap(nil, nil, ragged, Options{}); err == nil {
		t.Error("a heat map of rows of different lengths: want an error")
	}
	if got := Grid([]int{1}, 0); got != nil {
		t.Errorf("Grid of no columns = %v", got)
	}
	if got := Positions(-1); len(got) != 0 {
		t.Errorf("Positions(-1) = %v", got)
	}
}

// Outside a notebook a chart prints what it shows and is no error.
func ExampleBars() {
	Bars([]string{" ball", " cat"}, []float64{0.75, 0.25}, Options{Title: "Next token", YLabel: "probability"})
	// Output: Next token. 2 bars; the highest is ·ball with 0.75. Vertical axis: probability.
}

// A table is Markdown on the page and aligned text in a terminal.
func ExampleTable() {
	Table([]string{"step", "token", "probability"}, [][]any{{1, " the", 0.512345}, {2, " cat", 0.25}})
	// Output:
	// step  token  probability
	// ────  ─────  ───────────
	//    1   the        0.5123
	//    2   cat          0.25
}

// Visible makes a token's spaces and line ends readable.
func ExampleVisible() {
	fmt.Println(Visible(" the"), Visible("\n"), Visible("two words "))
	// Output: ·the \n two words·
}
