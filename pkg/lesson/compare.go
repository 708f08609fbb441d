package lesson

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/model"
	"forwardpass/pkg/tensor"
)

// Difference compares one tensor of a forward pass with PyTorch's.
type Difference struct {
	Stage     string
	Shape     []int
	Max, Mean float64 // largest and mean absolute difference
	Relative  float64 // largest difference against the scale of its row, max(1, √mean(want²)); the tolerance bounds it
	At        []int   // where that is
	Want, Got float32 // the two numbers there
}

// Comparison is the table of all stages that a golden file has values for, in the order of the forward pass.
type Comparison struct {
	Case  string
	Tol   float64
	Rows  []Difference
	First int // index of the first row over the tolerance, -1: none
}

// Compare runs a case of a golden file through the model and compares every stage with the values that PyTorch
// computed: embeddings, each layer's attention weights, router logits and hidden states, final norm, logits. Of a large
// model the file may hold the last position only.
func Compare(m *model.Model, golden, name string, tol float64) (*Comparison, error) {
	file, err := checkpoint.ReadSafetensors(golden)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ids, err := file.Ints(name + "/ids")
	if err != nil {
		return nil, err
	}
	c := &Comparison{Case: name, Tol: tol, First: -1}
	var failed error
	trace := &model.Trace{Weights: file.Has(name + "/attention.0"), See: func(stage string, layer int, t *tensor.Tensor) {
		key, ok := goldenName(stage, layer)
		if !ok || failed != nil {
			return
		}
		got, want, err := pair(file, name, key, t)
		if err != nil {
			failed = err
		} else if want != nil {
			c.add(model.StageName(stage, layer), got, want)
		}
	}}
	b := model.Batch{Seqs: []model.Sequence{{IDs: ids, Logits: model.All}}, Trace: trace}
	if err := m.Forward(context.Background(), &b); err != nil {
		return nil, err
	}
	if failed == nil && len(c.Rows) == 0 {
		failed = fmt.Errorf("lesson: %s has no values for %q", golden, name)
	}
	return c, failed
}

// pair is a stage's tensor and what the file has for it: all positions, or only the last one as a row of
// last.hidden [L+1, C] or as last.logits [V]. Without either, want is nil.
func pair(file *checkpoint.Checkpoint, name, key string, t *tensor.Tensor) (got, want *tensor.Tensor, err error) {
	if file.Has(name + "/" + key) {
		want, err = file.Floats(name+"/"+key, t.Shape...)
		return t, want, err
	}
	var layer int
	last := &tensor.Tensor{Shape: []int{1, t.Dim(-1)}, Data: t.Row(t.Rows() - 1)} // [1, C] or [1, V]
	switch n, _ := fmt.Sscanf(key, "hidden.%d", &layer); {
	case n == 1 && file.Has(name+"/last.hidden"):
		all, err := file.Floats(name+"/last.hidden", -1, t.Dim(-1)) // [L+1, C]
		if err != nil {
			return nil, nil, err
		}
		if layer >= all.Dim(0) {
			return nil, nil, fmt.Errorf("lesson: %s/last.hidden has %d rows, too few for layer %d", name, all.Dim(0), layer-1)
		}
		return last, &tensor.Tensor{Shape: last.Shape, Data: all.Row(layer)}, nil
	case key == "logits" && file.Has(name+"/last.logits"):
		want, err := file.Floats(name+"/last.logits", t.Dim(-1)) // [V]
		return last, want, err
	}
	return nil, nil, nil
}

// goldenName is the name of a stage in golden files.
func goldenName(stage string, layer int) (string, bool) {
	switch stage {
	case model.StageEmbed:
		return "hidden.0", true
	case model.StageLayer:
		return fmt.Sprintf("hidden.%d", layer+1), true
	case model.StageWeights:
		return fmt.Sprintf("attention.%d", layer), true
	case model.StageRouter:
		return fmt.Sprintf("router.%d", layer), true
	case model.StageFinal:
		return "final", true
	case model.StageLogits:
		return "logits", true
	}
	return "", false
}

func (c *Comparison) add(stage string, got, want *tensor.Tensor) {
	d := Difference{Stage: stage, Shape: append([]int(nil), got.Shape...), Relative: -1}
	at := 0
	var sum float64
	scale := 1.0
	for i, w := range want.Data {
		if i%want.Dim(-1) == 0 {
			scale = max(1, rms(want.Row(i/want.Dim(-1))))
		}
		diff := math.Abs(float64(got.Data[i]) - float64(w))
		if math.IsNaN(diff) && math.IsNaN(float64(w)) == math.IsNaN(float64(got.Data[i])) {
			diff = 0
		} else if math.IsNaN(diff) {
			diff = math.Inf(1)
		}
		sum += diff
		d.Max = max(d.Max, diff)
		if rel := diff / scale; rel > d.Relative || math.IsNaN(rel) {
			d.Relative, at = rel, i
		}
	}
	d.Mean = sum / float64(len(want.Data))
	d.Want, d.Got = want.Data[at], got.Data[at]
	d.At = make([]int, len(got.Shape))
	for i := len(d.At) - 1; i >= 0; i-- {
		d.At[i] = at % got.Shape[i]
		at /= got.Shape[i]
	}
	if !(d.Relative <= c.Tol) && c.First < 0 {
		c.First = len(c.Rows)
	}
	c.Rows = append(c.Rows, d)
}

func rms(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum / float64(len(x)))
}

// Err is nil when every stage is within the tolerance; else it names the first that isn't.
func (c *Comparison) Err() error {
	if c.First < 0 {
		return nil
	}
	d := c.Rows[c.First]
	return fmt.Errorf("%s: first stage that differs is %s: at %v want %g, got %g (relative difference %.2g, tolerance %.2g)", c.Case, d.Stage, d.At, d.Want, d.Got, d.Relative, c.Tol)
}

// Largest is the row with the largest relative difference.
func (c *Comparison) Largest() Difference {
	return slices.MaxFunc(c.Rows, func(a, b Difference) int { return cmp.Compare(a.Relative, b.Relative) })
}

// String is the table as text.
func (c *Comparison) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%-28s %-16s %10s %10s %10s\n", "stage", "shape", "largest", "mean", "relative")
	for i, d := range c.Rows {
		mark := ""
		if i == c.First {
			mark = fmt.Sprintf("  <- first over %.0e: at %v want %g, got %g", c.Tol, d.At, d.Want, d.Got)
		}
		fmt.Fprintf(&s, "%-28s %-16s %10.2e %10.2e %10.2e%s\n", d.Stage, fmt.Sprint(d.Shape), d.Max, d.Mean, d.Relative, mark)
	}
	return s.String()
}
