//go:build linux && cuda && cgo

package cuda

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tensor"

	"gorgonia.org/cu"
)

// TestSpeed measures a model of 3.7 GB with random BF16 weights, which it makes in the folder FORWARDPASS_GPU_SPEED and leaves
// there, with ours.json, for scripts/torch_speed.py: decode against the card's memory bandwidth, prefill against its
// arithmetic. Only on a real GPU.
func TestSpeed(t *testing.T) {
	dir := os.Getenv("FORWARDPASS_GPU_SPEED")
	if dir == "" {
		t.Skip("set FORWARDPASS_GPU_SPEED to a folder with 4 GB of room")
	}
	if gpu(t, Options{}).Device().StandIn {
		t.Skip("the stand-in has no speed")
	}
	big(t, dir)
	b := gpu(t, Options{Fast: true, KeepLogits: true})
	m, err := model.OpenWith(dir, model.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	work := m.Work()
	pool, err := m.NewPool(kvcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()

	const prompt, decodes, rounds = 2048, 50, 5
	ids := make([]int, prompt)
	for i := range ids {
		ids[i] = (i*31 + 7) % m.Config.VocabSize
	}
	var prefills, steps []float64
	for round := range rounds + 1 { // the first one brings the weights and compiles the kernels
		c := pool.NewCache()
		batch := model.Batch{Seqs: []model.Sequence{{IDs: ids, Cache: c}}}
		start := time.Now()
		next := forward(t, m, b, &batch)
		seconds := time.Since(start).Seconds()
		if round > 0 {
			prefills = append(prefills, seconds)
		}
		for range decodes {
			batch.Seqs[0].IDs = next
			start := time.Now()
			next = forward(t, m, b, &batch)
			if round > 0 {
				steps = append(steps, time.Since(start).Seconds())
			}
		}
		c.Free()
	}
	copied := copySpeed(t, b)
	pre, dec := work.Step(model.Span{T: prompt}), work.Step(model.Span{T: 1, Start: prompt + decodes/2})
	r := map[string]any{
		"device": b.Device().Name, "date": time.Now().Format(time.DateOnly), "prompt": prompt,
		"prefill_seconds": median(prefills), "prefill_flops": float64(pre.FLOPs) / median(prefills),
		"decode_seconds": median(steps), "decode_bytes": float64(dec.Bytes()) / median(steps),
		"copy_bytes": copied, "nominal_bytes": b.Device().Bandwidth,
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
	if err := os.WriteFile(filepath.Join(dir, "ours.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := float64(dec.Bytes()) / median(steps); got < 0.7*copied {
		t.Errorf("decode reads %.0f GB/s, want at least 70%% of the %.0f GB/s that a copy moves", got/1e9, copied/1e9)
	}
}

// forward runs a step and returns the token of its last logits.
func forward(t *testing.T, m *model.Model, b *Backend, batch *model.Batch) []int {
	t.Helper()
	if err := m.Forward(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	ids, err := b.Sample(batch.Logits, sample.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// copySpeed is the bytes a second that a copy within device memory reads and writes.
func copySpeed(t *testing.T, b *Backend) float64 {
	t.Helper()
	const n = 1 << 30
	best := 0.0
	if err := b.dev.do(func() error {
		from, err := b.dev.alloc(n)
		if err != nil {
			return err
		}
		to, err := b.dev.alloc(n)
		if err != nil {
			return err
		}
		for range 10 {
			start := time.Now()
			if err := b.dev.check("copying", cu.MemcpyDtoDAsync(to, from, n, b.dev.stream)); err != nil {
				return err
			}
			if err := b.dev.wait(); err != nil {
				return err
			}
			best = max(best, 2*n/time.Since(start).Seconds())
		}
		if err := b.dev.free(from, n); err != nil {
			return err
		}
		return b.dev.free(to, n)
	}); err != nil {
		t.Fatal(err)
	}
	return best
}

// big makes the model's folder, if it isn't there.
func big(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "model.safetensors")
	if _, err := os.Stat(file); err == nil {
		return
	}
	const hidden, inner, layers, heads, kv, vocab = 4096, 14336, 8, 32, 8, 32000
	config := map[string]any{
		"model_type": "llama", "architectures": []string{"LlamaForCausalLM"}, "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
		"num_attention_heads": heads, "num_key_value_heads": kv, "vocab_size": vocab, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
		"rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": false, "torch_dtype": "bfloat16",
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	// One list of numbers of magnitude 1/128 … 1/64 serves all matrices, each from another place on.
	rng := rand.New(rand.NewPCG(5, 6))
	random := make([]byte, 2*(vocab*hidden+4096))
	for i := 0; i < len(random); i += 2 {
		u := rng.Uint32()
		random[i], random[i+1] = byte(u), byte(u>>8)&0x80|0x3c
	}
	ones := make([]byte, 2*hidden)
	for i := 0; i < len(ones); i += 2 {
		ones[i], ones[i+1] = 0x80, 0x3f
	}
	var all []*checkpoint.Tensor
	add := func(name string, shape ...int) {
		data := ones
		if len(shape) == 2 {
			at := 2 * (len(all) % 4096)
			data = random[at : at+2*tensor.Size(shape)]
		}
		all = append(all, &checkpoint.Tensor{Name: name, Type: tensor.BF16, Shape: shape, Data: data})
	}
	add("model.embed_tokens.weight", vocab, hidden)
	add("lm_head.weight", vocab, hidden)
	add("model.norm.weight", hidden)
	for i := range layers {
		p := "model.layers." + string(rune('0'+i)) + "."
		add(p+"input_layernorm.weight", hidden)
		add(p+"post_attention_layernorm.weight", hidden)
		add(p+"self_attn.q_proj.weight", hidden, hidden)
		add(p+"self_attn.k_proj.weight", hidden/heads*kv, hidden)
		add(p+"self_attn.v_proj.weight", hidden/heads*kv, hidden)
		add(p+"self_attn.o_proj.weight", hidden, hidden)
		add(p+"mlp.gate_proj.weight", inner, hidden)
		add(p+"mlp.up_proj.weight", inner, hidden)
		add(p+"mlp.down_proj.weight", hidden, inner)
	}
	if err := checkpoint.WriteSafetensors(file, nil, all); err != nil {
		t.Fatal(err)
	}
}
