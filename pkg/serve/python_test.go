package serve

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"slices"
	"testing"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/sample"
)

// The official OpenAI client for Python works with the server, streaming and not. FORWARDPASS_PYTHON is an interpreter that has it
// (.ci/engines.sh installs one).
func TestPythonClient(t *testing.T) {
	python := os.Getenv("FORWARDPASS_PYTHON")
	if python == "" {
		t.Skip("FORWARDPASS_PYTHON is not set")
	}
	s := serveStoryland(t, Options{Prefix: RadixTree}, HandlerOptions{Key: "secret"})
	cmd := exec.Command(python, "testdata/openai_client.py", s.url+"/v1", "secret", prompt)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var got struct {
		Version, Text, Reason, Streamed, Chat, Guided string
		ChatStreamed                                  string `json:"chat_streamed"`
		Usage                                         int
		LogProbs                                      []float64
		Samples                                       []string
		JSON                                          map[string]string
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	t.Logf("openai %s", got.Version)
	want := s.alone(t, generate.Options{MaxNewTokens: 20, LogProbs: 2})
	for name, x := range map[string]string{"completion": got.Text, "stream": got.Streamed, "chat": got.Chat, "chat stream": got.ChatStreamed} {
		if x != want.Text {
			t.Errorf("%s: got %q, want %q", name, x, want.Text)
		}
	}
	if got.Reason != finish(want.Reason) || got.Usage != len(want.IDs) {
		t.Errorf("got %q after %d tokens, want %q after %d", got.Reason, got.Usage, want.Reason, len(want.IDs))
	}
	if !slices.EqualFunc(got.LogProbs, want.LogProbs, func(a, b float64) bool { return math.Abs(a-b) < 1e-4 }) {
		t.Errorf("log-probabilities %v, want %v", got.LogProbs, want.LogProbs)
	}
	for i, x := range got.Samples {
		w := s.alone(t, generate.Options{MaxNewTokens: 6, Sampling: sample.Options{Temperature: 1, Seed: 5, Stream: uint64(i)}})
		if x != w.Text {
			t.Errorf("sample %d: got %q, want %q", i, x, w.Text)
		}
	}
	if got.Guided != " dog" && got.Guided != " cat" {
		t.Errorf("guided: %q", got.Guided)
	}
	if a := got.JSON["animal"]; a != "dog" && a != "cat" {
		t.Errorf("JSON: %v", got.JSON)
	}
	wait(t, func() bool { return s.loop.Stats().Cancelled == 1 }) // the stream that it left
}
