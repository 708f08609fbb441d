package explore

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forwardpass/pkg/sample"
)

// caller is run by node: it loads the program as a page would and answers a list of calls.
const caller = `
const fs = require("fs");
require(process.argv[2]);
const go = new Go();
WebAssembly.instantiate(fs.readFileSync(process.argv[3]), go.importObject).then((r) => {
  go.run(r.instance);
  const calls = JSON.parse(fs.readFileSync(0));
  const out = calls.map((c) => {
    const l = Float32Array.from(c.Logits.map((x) => x === "-Inf" ? -Infinity : x));
    const t0 = performance.now();
    const r = forwardpassSample(l, JSON.stringify(c.Options), c.History);
    r.ms = performance.now() - t0;
    if (!r.error) { r.probs = Array.from(r.probs); r.by = Array.from(r.by); }
    return r;
  });
  process.stdout.write(JSON.stringify(out), () => process.exit(0));
});`

// TestWasmEqualsGo builds the program of the page and asks it, in node, what the package answers here. It needs node; with
// FORWARDPASS_WASM=1 (as in CI) a missing node is a failure.
func TestWasmEqualsGo(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("FORWARDPASS_WASM") != "" {
			t.Fatal(err)
		}
		t.Skip("node is not installed")
	}
	dir := t.TempDir()
	wasm := filepath.Join(dir, "sample.wasm")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", wasm, "../explorer")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if info, err := os.Stat(wasm); err == nil {
		t.Logf("sample.wasm: %.2f MB", float64(info.Size())/1e6)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	js := filepath.Join(dir, "call.js")
	if err := os.WriteFile(js, []byte(caller), 0o644); err != nil {
		t.Fatal(err)
	}

	type call struct {
		Logits  []any
		Options sample.Options
		History []int
		raw     []float32
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var calls []call
	for range 10 {
		for _, o := range []sample.Options{
			{}, {Temperature: 1}, {Temperature: 0.3, TopP: 0.9}, {Temperature: 2, TopK: 20, TopP: 0.8, MinP: 0.02},
			{Temperature: 2, TopK: 20, TopP: 0.8, MinP: 0.02, Order: sample.VLLM}, {Temperature: 2, TopP: 0.8, Order: sample.LlamaCpp},
			{Temperature: 1, TypicalP: 0.5, RepetitionPenalty: 1.3, NoRepeatNGram: 2, LogitBias: map[int]float32{3: 1.5}, BadWords: [][]int{{2, 7}}},
		} {
			c := call{Options: o, History: []int{1, 2, 3, 1, 2}}
			for i := range 60 {
				l := float32(2 * rng.NormFloat64())
				if i%13 == 5 {
					l = float32(math.Inf(-1))
					c.Logits = append(c.Logits, "-Inf")
				} else {
					c.Logits = append(c.Logits, l)
				}
				c.raw = append(c.raw, l)
			}
			calls = append(calls, c)
		}
	}
	calls = append(calls, call{Logits: []any{1, 2}, Options: sample.Options{Temperature: -1}})
	in, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(node, js, filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"), wasm)
	run.Stdin = bytes.NewReader(in)
	run.Stderr = os.Stderr
	answer, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []struct {
		Error   string
		Order   string
		Probs   []float64
		By      []int
		Entropy float64
		MS      float64
		Steps   []struct {
			Name          string
			Kept, Dropped int
		}
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(calls) {
		t.Fatalf("%d answers to %d calls", len(got), len(calls))
	}
	var ms []float64
	for i, c := range calls[:len(calls)-1] {
		g := got[i]
		if g.Error != "" {
			t.Fatalf("call %d: %s", i, g.Error)
		}
		p, err := sample.NewPipeline(c.Options)
		if err != nil {
			t.Fatal(err)
		}
		want, err := p.Steps(c.raw, c.History)
		if err != nil {
			t.Fatal(err)
		}
		if g.Order != p.String() || len(g.Steps) != len(want) {
			t.Fatalf("call %d: order %q, want %q", i, g.Order, p)
		}
		last := want[len(want)-1]
		for id, w := range last.After {
			if math.Abs(g.Probs[id]-w) > 1e-12 {
				t.Fatalf("call %d (%v): p[%d] = %.15g, want %.15g", i, p, id, g.Probs[id], w)
			}
			by := -2
			if w > 0 {
				by = -1
			}
			for k, s := range want {
				if slices.Contains(s.Dropped, id) {
					by = k
				}
			}
			if g.By[id] != by {
				t.Fatalf("call %d (%v): token %d dropped by %d, want %d", i, p, id, g.By[id], by)
			}
		}
		if math.Abs(g.Entropy-last.Entropy) > 1e-12 {
			t.Fatalf("call %d: entropy %g, want %g", i, g.Entropy, last.Entropy)
		}
		for k, s := range want {
			if g.Steps[k].Name != s.Name || g.Steps[k].Kept != len(s.Kept) || g.Steps[k].Dropped != len(s.Dropped) {
				t.Fatalf("call %d: step %+v, want %s kept %d dropped %d", i, g.Steps[k], s.Name, len(s.Kept), len(s.Dropped))
			}
		}
		ms = append(ms, g.MS)
	}
	slices.Sort(ms)
	t.Logf("median call %.2f ms", ms[len(ms)/2])
	if e := got[len(got)-1].Error; !strings.Contains(e, "temperature must be") {
		t.Errorf("bad options: error %q", e)
	}
}
