package generate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/model"
	"forwardpass/pkg/tensor"
	"forwardpass/pkg/tokenize"
)

const testdata = "../../testdata"

// golden is a model with what transformers generated from it.
type golden struct {
	name   string
	dir    string
	prompt []int
	greedy []int // what greedy decoding adds, whatever the EOS

	Beams []struct {
		IDs     []int
		Results []struct {
			Beams     int     `json:"num_beams"`
			Length    float64 `json:"length_penalty"`
			Early     any     `json:"early_stopping"`
			Max       int     `json:"max_new_tokens"`
			EOS       int     `json:"eos"`
			Sequences [][]int
			Scores    []float64
		}
	} `json:"-"`
	Penalised []struct {
		IDs     []int
		Results []struct {
			Repetition float64 `json:"repetition_penalty"`
			NGram      int     `json:"no_repeat_ngram_size"`
			Max        int     `json:"max_new_tokens"`
			EOS        *int    `json:"eos"`
			IDs        []int
		}
	} `json:"-"`
}

// goldens are the models of the test matrix.
func goldens(t testing.TB) []*golden {
	t.Helper()
	out := []*golden{load(t, "storyland", testdata+"/storyland", testdata+"/golden/storyland", "once")}
	for _, name := range []string{"qwen3", "gpt2", "mixtral", "mistral", "gemma3"} {
		out = append(out, load(t, name, testdata+"/golden/models/"+name, testdata+"/golden/models/"+name, "prompt"))
	}
	return out
}

func load(t testing.TB, name, dir, file, entry string) *golden {
	t.Helper()
	g := &golden{name: name, dir: dir}
	c, err := checkpoint.ReadSafetensors(file + ".safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if g.prompt, err = c.Ints(entry + "/ids"); err != nil {
		t.Fatal(err)
	}
	greedy := entry + "/greedy"
	if c.Has(greedy + "_ignoring_eos") {
		greedy += "_ignoring_eos"
	}
	if g.greedy, err = c.Ints(greedy); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Beams, Penalised json.RawMessage }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for raw, into := range map[*json.RawMessage]any{&all.Beams: &g.Beams, &all.Penalised: &g.Penalised} {
		if len(*raw) == 0 {
			continue
		}
		if (*raw)[0] != '[' { // one prompt, not a list
			*raw = slices.Concat([]byte("["), *raw, []byte("]"))
		}
		if err := json.Unmarshal(*raw, into); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

var (
	openMu sync.Mutex
	opened = map[string]*model.Model{}
)

// open opens a model once for all tests.
func open(t testing.TB, dir string) *model.Model {
	t.Helper()
	openMu.Lock()
	defer openMu.Unlock()
	if m := opened[dir]; m != nil {
		return m
	}
	m, err := model.OpenWith(dir, model.Options{Backend: backend(t)})
	if err != nil {
		t.Fatal(err)
	}
	opened[dir] = m
	return m
}

func storyland(t testing.TB) (*model.Model, *tokenize.Tokenizer) {
	t.Helper()
	tok, err := tokenize.Open(testdata + "/storyland")
	if err != nil {
		t.Fatal(err)
	}
	return open(t, testdata+"/storyland"), tok
}

// prompt is text as storyland has seen it in training: after <|endoftext|>.
func prompt(t testing.TB, tok *tokenize.Tokenizer, text string) []int {
	t.Helper()
	ids, err := tok.Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	return append([]int{0}, ids...)
}

// perturbed writes a copy of a model with noise of sigma × the spread of each tensor on its weights, and opens it: a draft
// that agrees more or less.
func perturbed(t testing.TB, dir string, sigma float64) *model.Model {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	var out []*checkpoint.Tensor
	for _, name := range c.Names() {
		x, err := c.Floats(name)
		if err != nil {
			t.Fatal(err)
		}
		y := tensor.Tensor{Shape: x.Shape, Data: slices.Clone(x.Data)}
		sum := 0.0
		for _, v := range y.Data {
			sum += float64(v) * float64(v)
		}
		spread := sigma * math.Sqrt(sum/float64(len(y.Data)))
		for i := range y.Data {
			y.Data[i] += float32(rng.NormFloat64() * spread)
		}
		raw := make([]byte, 0, 4*len(y.Data))
		for _, v := range y.Data {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		out = append(out, &checkpoint.Tensor{Name: name, Type: tensor.F32, Shape: y.Shape, Data: raw})
	}
	to := t.TempDir()
	if err := checkpoint.WriteSafetensors(filepath.Join(to, "model.safetensors"), nil, out); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, "config.json"), c.Config, 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := model.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// run is Run that must work.
func run(t testing.TB, m *model.Model, ids []int, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), m, ids, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// same compares tokens and shows the first difference.
func same(t testing.TB, what string, got, want []int) bool {
	t.Helper()
	if slices.Equal(got, want) {
		return true
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s: differs at new token %d of %d:\n got %v\nwant %v", what, i, len(want), got, want)
	return false
}

// none is "no EOS": go on until the limit.
var none = []int{}
