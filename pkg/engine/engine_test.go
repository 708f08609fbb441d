package engine

import (
	"context"
	"errors"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/serve"
	"forwardpass/pkg/tokenize"
)

const prompt = "The cat chases the dog. The one who runs away is the"

// local is our own server with storyland, on the loopback interface.
func local(t *testing.T, key string) (*Client, *model.Model, *tokenize.Tokenizer) {
	t.Helper()
	m, err := model.Open("../../testdata/storyland")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenize.Open("../../testdata/storyland")
	if err != nil {
		t.Fatal(err)
	}
	loop, err := serve.Start(serve.Model(m), serve.Options{Prefix: serve.RadixTree, MaxBatch: 16})
	if err != nil {
		t.Fatal(err)
	}
	h, err := serve.NewHandler(loop, m, tok, serve.HandlerOptions{Name: "storyland", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.Close()
		if err := loop.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		m.Close()
	})
	c, err := New(Options{URL: srv.URL + "/v1", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return c, m, tok
}

func TestComplete(t *testing.T) {
	c, m, tok := local(t, "secret")
	ctx := context.Background()
	ids, err := tok.Encode(prompt)
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate.Run(ctx, m, ids, generate.Options{MaxNewTokens: 20, LogProbs: 3, Tokenizer: tok})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Request{
		"text":     {Prompt: prompt, MaxTokens: 20, LogProbs: 3},
		"ids":      {IDs: ids, MaxTokens: 20, LogProbs: 3},
		"messages": {Messages: []Message{{"user", prompt}}, MaxTokens: 20, LogProbs: 3},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.Complete(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			if got.Text != want.Text || got.PromptTokens != len(ids) || got.NewTokens != len(want.IDs) || len(got.Tokens) != len(want.IDs) || got.Reason != "stop" {
				t.Fatalf("got %+v, want %q of %d tokens", got, want.Text, len(want.IDs))
			}
			for i, tk := range got.Tokens {
				if math.Abs(tk.LogProb-want.LogProbs[i]) > 1e-4 || len(tk.Top) == 0 {
					t.Errorf("token %d: %+v, want ln p = %v", i, tk, want.LogProbs[i])
				}
				if i > 0 && tk.At < got.Tokens[i-1].At {
					t.Errorf("token %d came at %v, before the one in front of it", i, tk.At)
				}
			}
			if got.TTFT <= 0 || got.TTFT > got.Total || len(got.ITL) != len(got.Tokens)-1 {
				t.Errorf("times: TTFT %v, %d ITL, total %v", got.TTFT, len(got.ITL), got.Total)
			}
			if s := got.String(); !strings.Contains(s, "TTFT") || strings.Count(s, "\n") != len(got.Tokens)+1 {
				t.Errorf("as text: %s", s)
			}
		})
	}
	// What the Go client doesn't know travels as extra fields; the sampled text is that of the same seed here.
	o := generate.Options{MaxNewTokens: 12, Tokenizer: tok, EOS: []int{}}
	o.Sampling.Temperature, o.Sampling.TopK, o.Sampling.Seed = 1.2, 5, 9
	sampled, err := generate.Run(ctx, m, ids, o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Complete(ctx, Request{Prompt: prompt, MaxTokens: 12, Temperature: 1.2, Seed: 9, Extra: map[string]any{"top_k": 5, "ignore_eos": true}})
	if err != nil || got.Text != sampled.Text {
		t.Errorf("sampled %v, %v, want %q", got, err, sampled.Text)
	}
	if got, err := c.Complete(ctx, Request{Prompt: prompt, MaxTokens: 30, Stop: []string{"."}}); err != nil || strings.Contains(got.Text, ".") || got.Reason != "stop" {
		t.Errorf("with a stop string: %v, %v", got, err)
	}
}

func TestBench(t *testing.T) {
	c, _, _ := local(t, "")
	var list []Request
	for range 40 {
		list = append(list, Request{Prompt: prompt, MaxTokens: 10, Extra: map[string]any{"ignore_eos": true}})
	}
	list = append(list, Request{Prompt: prompt, MaxTokens: 100_000})
	r, err := c.Bench(context.Background(), list, Load{Clients: 8})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Summary(serve.SLO{TTFT: time.Minute})
	if r.Failed() != 1 || r.Errors[40] == nil || r.Err() == nil || s.Requests != 40 || s.New != 400 || s.Attained != 1 || s.Cached == 0 {
		t.Errorf("%d failed, %+v", r.Failed(), s)
	}
	if s.TTFT.P50 <= 0 || s.ITL.P50 < 0 || s.Throughput <= 0 || s.TTFT.P50 > s.TTFT.P99 {
		t.Errorf("metrics: %+v", s)
	}
	begin := time.Now()
	if _, err := c.Bench(context.Background(), list[:5], Load{Every: 20 * time.Millisecond}); err != nil || time.Since(begin) < 80*time.Millisecond {
		t.Errorf("five requests, one each 20 ms, took %v, %v", time.Since(begin), err)
	}
}

func TestErrors(t *testing.T) {
	c, _, _ := local(t, "secret")
	ctx := context.Background()
	if _, err := New(Options{}); err == nil {
		t.Error("no URL: want an error")
	}
	wrong, err := New(Options{URL: c.opts.URL, Key: "wrong"})
	if err != nil {
		t.Fatal(err)
	}
	var api *openai.Error
	if _, err := wrong.Complete(ctx, Request{Prompt: prompt}); !errors.As(err, &api) || api.StatusCode != 401 {
		t.Errorf("a wrong key: %v, want status 401", err)
	}
	other, err := New(Options{URL: c.opts.URL, Key: "secret", Model: "gpt-9"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Complete(ctx, Request{Prompt: prompt}); !errors.As(err, &api) || api.StatusCode != 404 || api.Code != "model_not_found" {
		t.Errorf("another model: %v, want model_not_found", err)
	}
	if _, err := c.Complete(ctx, Request{Messages: []Message{{"robot", "hi"}}}); err == nil {
		t.Error("an unknown role: want an error")
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	if _, err := c.Complete(short, Request{Prompt: prompt, MaxTokens: 450, Extra: map[string]any{"ignore_eos": true}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline: %v", err)
	}
	gone, err := New(Options{URL: "http://127.0.0.1:1/v1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Bench(ctx, []Request{{Prompt: prompt}}, Load{}); err == nil {
		t.Error("no server: want an error")
	}
}

// The same prompt on a real engine: FORWARDPASS_ENGINE is its URL, FORWARDPASS_MODELS has the model that it runs (SmolLM2).
func TestRealEngine(t *testing.T) {
	url, models := os.Getenv("FORWARDPASS_ENGINE"), os.Getenv("FORWARDPASS_MODELS")
	if url == "" || models == "" {
		t.Skip("FORWARDPASS_ENGINE and FORWARDPASS_MODELS are not set")
	}
	file := filepath.Join(models, "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
	m, err := model.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tok, err := tokenize.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	const text = "The capital of France is"
	got, err := c.Complete(ctx, Request{Prompt: text, MaxTokens: 16, LogProbs: 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Tokens) == 0 || math.IsNaN(got.Tokens[0].LogProb) {
		t.Fatal("the engine gave no log-probabilities")
	}
	// What do we think of the engine's tokens? It computes with 8-bit activations, so its numbers are a little off.
	all, err := tok.Encode(text + got.Text)
	if err != nil {
		t.Fatal(err)
	}
	logits, err := m.Logits(all)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	first := len(all) - len(got.Tokens)
	for i, tk := range got.Tokens {
		if s := tok.Decode(all[first+i : first+i+1]); s != tk.Text {
			t.Fatalf("token %d is %q there, %q here", i, tk.Text, s)
		}
		p, _, err := sample.LogProbs(logits.Row(first+i-1), all[first+i], 0)
		if err != nil {
			t.Fatal(err)
		}
		worst = max(worst, math.Abs(p-tk.LogProb))
	}
	t.Logf("%s\nlargest difference of a log-probability from ours: %.3f", got, worst)
	if worst > 0.25 {
		t.Errorf("the engine's log-probabilities differ from ours by up to %.3f, want at most 0.25", worst)
	}
	var list []Request
	for range 8 {
		list = append(list, Request{Messages: []Message{{"user", "Name three colors."}}, MaxTokens: 12})
	}
	r, err := c.Bench(ctx, list, Load{Clients: 4})
	if err != nil || r.Failed() > 0 {
		t.Fatalf("%v, %v", err, r.Err())
	}
	for i, x := range r.Results {
		if x.NewTokens == 0 || x.Text != r.Results[0].Text {
			t.Errorf("chat %d: %q, want what the first had: %q", i, x.Text, r.Results[0].Text)
		}
	}
	t.Logf("8 chats, 4 at once:\n%s", r.Summary(serve.SLO{}))
}
