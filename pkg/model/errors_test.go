package model_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
)

// broken copies a golden model with some settings changed (nil takes one away).
func broken(t testing.TB, name string, change map[string]any) string {
	t.Helper()
	src, dir := filepath.Join(testdata, "golden/models", name), t.TempDir()
	text, err := os.ReadFile(filepath.Join(src, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cfg map[string]any
	if err := json.Unmarshal(text, &cfg); err != nil {
		t.Fatal(err)
	}
	for k, v := range change {
		if cfg[k] = v; v == nil {
			delete(cfg, k)
		}
	}
	if text, err = json.Marshal(cfg); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	weights, err := os.ReadFile(filepath.Join(src, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), weights, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestConfigErrors: contradictions and settings that nothing here understands are refused by name.
func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change map[string]any
		want   []string
	}{
		{"llama", map[string]any{"model_type": "falcon"}, []string{"config.json", `"falcon"`, "llama"}},
		{"llama", map[string]any{"model_type": nil}, []string{"model_type"}},
		{"llama", map[string]any{"hidden_size": nil}, []string{"hidden_size", "positive integer"}},
		{"llama", map[string]any{"hidden_size": -3}, []string{"hidden_size", "-3"}},
		{"llama", map[string]any{"hidden_size": 3.5}, []string{"hidden_size", "3.5"}},
		{"llama", map[string]any{"hidden_size": "many"}, []string{"hidden_size", "many"}},
		{"llama", map[string]any{"hidden_size": 1e300}, []string{"hidden_size"}},
		{"llama", map[string]any{"num_key_value_heads": 3}, []string{"num_attention_heads", "multiple", "3"}},
		{"llama", map[string]any{"head_dim": 7}, []string{"even", "7"}},
		{"llama", map[string]any{"hidden_act": "mish"}, []string{"hidden_act", "mish"}},
		{"llama", map[string]any{"rope_parameters": map[string]any{"rope_type": "spiral", "rope_theta": 1e4}}, []string{"spiral"}},
		{"llama", map[string]any{"rope_parameters": map[string]any{"rope_type": "linear", "rope_theta": 1e4}}, []string{"linear", "factor"}},
		{"llama", map[string]any{"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 1e4, "twist": 3}}, []string{"rope_parameters", "twist"}},
		{"llama", map[string]any{"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": -1}}, []string{"theta", "-1"}},
		{"llama", map[string]any{"logit_scale": 0.5}, []string{"logit_scale", "0.5", "Ignore"}},
		{"llama", map[string]any{"quantization_config": map[string]any{"quant_method": "gptq"}}, []string{"quantization_config", "gptq"}},
		{"llama", map[string]any{"vocab_size": 97}, []string{"embed_tokens", "97"}},
		{"llama", map[string]any{"num_hidden_layers": 1}, []string{"layers.1"}},
		{"llama", map[string]any{"num_hidden_layers": 9}, []string{"no tensor", "layers."}},
		{"llama", map[string]any{"num_hidden_layers": 1 << 29}, []string{"num_hidden_layers", "4096"}},
		{"llama", map[string]any{"intermediate_size": 23}, []string{"model.safetensors", "gate_proj", "23"}},
		{"llama", map[string]any{"eos_token_id": "</s>"}, []string{"eos_token_id", "</s>"}},
		{"gemma2", map[string]any{"layer_types": []string{"sliding_attention"}}, []string{"layer_types"}},
		{"gemma2", map[string]any{"query_pre_attn_scalar": 0}, []string{"query_pre_attn_scalar"}},
		{"mixtral", map[string]any{"num_experts_per_tok": 9}, []string{"layer 0", "9"}},
		{"deepseek-v3", map[string]any{"topk_method": "greedy"}, []string{"topk_method", "greedy"}},
		{"deepseek-v3", map[string]any{"n_group": 3}, []string{"groups"}},
		{"gpt2", map[string]any{"reorder_and_upcast_attn": true}, []string{"reorder_and_upcast_attn"}},
	} {
		m, err := model.Open(broken(t, c.name, c.change))
		if err == nil {
			m.Close()
			t.Errorf("%s with %v: want an error", c.name, c.change)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s with %v: want %q in the error, got: %v", c.name, c.change, w, err)
			}
		}
	}
	m, err := model.OpenWith(broken(t, "llama", map[string]any{"logit_scale": 0.5}), model.Options{Ignore: []string{"logit_scale"}})
	if err != nil {
		t.Error(err)
	} else {
		m.Close()
	}
}

// TestRefused: versioned llama2.c files are told apart from the legacy ones.
func TestRefused(t *testing.T) {
	for _, f := range []string{"llama2c-v1.bin", "llama2c-v2.bin"} {
		if _, err := model.Open(filepath.Join(testdata, "golden/models", f)); err == nil || !strings.Contains(err.Error(), "version") {
			t.Errorf("%s: want an error that names the version, got %v", f, err)
		}
	}
	if _, err := model.Open("no/such/folder"); err == nil || !strings.Contains(err.Error(), "no/such/folder") {
		t.Errorf("got %v", err)
	}
}

// TestInputErrors: input that can't be run is refused before any work, with what was wanted.
func TestInputErrors(t *testing.T) {
	m := open(t, testdata+"/storyland")
	other := open(t, testdata+"/golden/models/llama")
	foreign, err := other.NewCache(kvcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shared, err := m.NewCache(kvcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	small, err := m.NewCache(kvcache.Contiguous(4, kvcache.F32))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		seqs []model.Sequence
		want []string
	}{
		"no sequence": {nil, []string{"no sequence"}},
		"empty":       {[]model.Sequence{{}}, []string{"sequence 0", "no tokens"}},
		"negative":    {[]model.Sequence{{IDs: []int{1, -1}}}, []string{"token 1", "-1", "0…639"}},
		"too large":   {[]model.Sequence{{IDs: []int{1}}, {IDs: []int{640}}}, []string{"sequence 1", "640", "0…639"}},
		"too long":    {[]model.Sequence{{IDs: make([]int, 513)}}, []string{"513", "maximum context length", "512"}},
		"foreign":     {[]model.Sequence{{IDs: []int{1}, Cache: foreign}}, []string{"another model"}},
		"shared":      {[]model.Sequence{{IDs: []int{1}, Cache: shared}, {IDs: []int{1}, Cache: shared}}, []string{"share", "Fork"}},
		"no room":     {[]model.Sequence{{IDs: make([]int, 5), Cache: small}}, []string{"room for 4", "5"}},
		"want":        {[]model.Sequence{{IDs: []int{1}, Logits: 9}}, []string{"9", "Last, All or None"}},
	} {
		err := m.Forward(context.Background(), &model.Batch{Seqs: c.seqs})
		if err == nil {
			t.Errorf("%s: want an error", name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: want %q in the error, got: %v", name, w, err)
			}
		}
	}
	if _, err := m.Logits(nil); err == nil {
		t.Error("want an error for an empty prompt")
	}
	if err := m.Forward(context.Background(), nil); err == nil {
		t.Error("want an error for no batch")
	}
	if err := m.Forward(context.Background(), &model.Batch{Seqs: []model.Sequence{{IDs: []int{1}, Cache: &kvcache.Cache{}}}}); err == nil {
		t.Error("want an error for a cache that NewCache did not make")
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := m.Logits([]int{1}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("want an error for a closed model, got %v", err)
	}
}

// TestCheckFinite: a weight that is not a number is found where it is, if asked for.
func TestCheckFinite(t *testing.T) {
	dir := broken(t, "llama", nil)
	file := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[len(data)-4:], []byte{0, 0, 0xc0, 0x7f}) // a float32 NaN
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if _, err := model.OpenWith(dir, model.Options{CheckFinite: true}); err == nil || !strings.Contains(err.Error(), "NaN") || !strings.Contains(err.Error(), "model.safetensors") {
		t.Errorf("want an error that names the file and NaN, got %v", err)
	}
}

// TestConfigNames: an error about a configuration names the file that holds it, or says that it was given by hand.
func TestConfigNames(t *testing.T) {
	dir := broken(t, "llama", map[string]any{"hidden_size": 3.5})
	weights := filepath.Join(dir, "model.safetensors")
	_, err := model.Open(weights)
	if want := filepath.Join(dir, "config.json") + ": hidden_size"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open: %v, want an error with %q", err, want)
	}
	_, err = model.OpenConfig(weights, []byte(`{"model_type": "falcon"}`))
	if want := "the configuration given for " + weights + ": model_type"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("OpenConfig: %v, want an error with %q", err, want)
	}
}

// FuzzConfig: no config.json makes Open panic.
func FuzzConfig(f *testing.F) {
	names := []string{"llama", "gpt2", "deepseek-v3", "gemma3", "qwen3-moe", "phi3-longrope"}
	for i, name := range names {
		text, err := os.ReadFile(filepath.Join(testdata, "golden/models", name, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, pick uint8, text []byte) {
		name := names[int(pick)%len(names)]
		m, err := model.OpenConfig(filepath.Join(testdata, "golden/models", name, "model.safetensors"), text)
		if err != nil {
			return
		}
		defer m.Close()
		if len(m.Layers) == 0 || m.Config.VocabSize < 1 {
			t.Fatalf("opened without layers or vocabulary: %+v", m.Config)
		}
		if _, err := m.Logits([]int{0}); err != nil {
			t.Fatalf("an open model doesn't run: %v", err)
		}
	})
}
