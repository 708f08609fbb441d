package hub_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/checkpoint/hub"
	"forwardpass/pkg/checkpoint/hub/hubtest"
	"forwardpass/pkg/tensor"
)

// newHub serves a matrix w, and files that nobody needs.
func newHub(t *testing.T) *hubtest.Hub {
	weights := filepath.Join(t.TempDir(), "w.safetensors")
	w := &checkpoint.Tensor{Name: "w", Type: tensor.F32, Shape: []int{500, 100}}
	for i := range 50_000 {
		w.Data = binary.LittleEndian.AppendUint32(w.Data, math.Float32bits(float32(i)))
	}
	if err := checkpoint.WriteSafetensors(weights, nil, []*checkpoint.Tensor{w}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	return hubtest.New(t, map[string][]byte{
		"config.json":       []byte(`{"model_type": "llama"}`),
		"tokenizer.json":    []byte(`{}`),
		"model.safetensors": data,
		"pytorch_model.bin": []byte("not wanted"),
		"onnx/model.onnx":   []byte("not wanted"),
	})
}

func options(t *testing.T, h *hubtest.Hub) hub.Options {
	for _, v := range []string{"HF_TOKEN", "HF_HUB_OFFLINE", "HF_HOME", "HF_HUB_CACHE"} {
		t.Setenv(v, "")
	}
	return hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL()}
}

func TestFetch(t *testing.T) {
	h := newHub(t)
	opts := options(t, h)
	var last hub.Progress
	opts.Progress = func(p hub.Progress) {
		if p.Done < last.Done || p.Done > p.Total {
			t.Errorf("progress goes from %+v to %+v", last, p)
		}
		last = p
	}
	dir, err := hub.Fetch(t.Context(), "owner/tiny", "", opts)
	if err != nil {
		t.Fatal(err)
	}
	want := int64(len(h.Files["config.json"]) + len(h.Files["tokenizer.json"]) + len(h.Files["model.safetensors"]))
	if last.Done != want || last.Total != want {
		t.Errorf("progress ends at %+v, want %d bytes", last, want)
	}
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := c.Matrix("w", 500, 100)
	if err != nil || m.Floats().Data[49_999] != 49_999 {
		t.Errorf("the fetched weights are wrong: %v", err)
	}
	if h.Requests("pytorch_model.bin")+h.Requests("onnx") > 0 {
		t.Errorf("files nobody needs were fetched: %v", h.Asked())
	}

	opts.Progress = nil
	before := h.Requests("/cdn/")
	if again, err := hub.Fetch(t.Context(), "owner/tiny", "main", opts); err != nil || again != dir {
		t.Errorf("second fetch: %q, %v", again, err)
	}
	if h.Requests("/cdn/") != before {
		t.Errorf("a second fetch transfers files again")
	}

	h.Close() // no network
	if again, err := hub.Fetch(t.Context(), "owner/tiny", "main", opts); err != nil || again != dir {
		t.Errorf("fetch without a network: %q, %v", again, err)
	}
	opts.Offline = true
	for _, revision := range []string{"", "main", hubtest.Commit} {
		if again, err := hub.Fetch(t.Context(), "owner/tiny", revision, opts); err != nil || again != dir {
			t.Errorf("offline fetch of %q: %q, %v", revision, again, err)
		}
	}
}

// A connection that breaks is taken up where it stopped, within one call and by the next.
func TestFetchResumes(t *testing.T) {
	t.Run("same call", func(t *testing.T) {
		h := newHub(t)
		h.Cut["model.safetensors"] = 70_000
		if _, err := hub.Fetch(t.Context(), "owner/tiny", "", options(t, h)); err != nil {
			t.Fatal(err)
		}
		if h.Requests("/cdn/model.safetensors bytes=70000-") != 1 {
			t.Errorf("want a request for the rest only, got %q", h.Asked())
		}
	})
	t.Run("silence", func(t *testing.T) {
		h := newHub(t)
		h.Hang, h.Cut["model.safetensors"] = true, 70_000
		opts := options(t, h)
		opts.Patience = time.Second
		if _, err := hub.Fetch(t.Context(), "owner/tiny", "", opts); err != nil {
			t.Fatal(err)
		}
		if h.Requests("/cdn/model.safetensors bytes=70000-") != 1 {
			t.Errorf("want a request for the rest only, got %q", h.Asked())
		}
	})
	t.Run("next call", func(t *testing.T) {
		h := newHub(t)
		opts := options(t, h)
		h.Cut["model.safetensors"] = 70_000
		ctx, cancel := context.WithCancel(t.Context())
		opts.Progress = func(p hub.Progress) {
			if p.File == "model.safetensors" {
				cancel()
			}
		}
		opts.Files = []string{"model.safetensors"}
		if _, err := hub.Fetch(ctx, "owner/tiny", "", opts); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled fetch: %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(opts.CacheDir, "*", "blobs", "*.incomplete")); len(left) != 1 {
			t.Fatalf("want one incomplete blob, got %v", left)
		}
		opts.Progress = nil
		if _, err := hub.Fetch(t.Context(), "owner/tiny", "", opts); err != nil {
			t.Fatal(err)
		}
		if h.Requests("/cdn/model.safetensors bytes=") != 1 {
			t.Errorf("want a request for the rest, got %q", h.Asked())
		}
	})
}

func TestFetchRefuses(t *testing.T) {
	tests := []struct {
		name, repo string
		change     func(*hubtest.Hub, *hub.Options)
		want       []string
	}{
		{"no repository", "owner/none", nil, []string{"owner/none", "Repository not found"}},
		{"no name", "../etc", nil, []string{"owner/name", "../etc"}},
		{"offline, not cached", "owner/tiny", func(_ *hubtest.Hub, o *hub.Options) { o.Offline = true }, []string{"not in the cache"}},
		{"a token is missing", "owner/tiny", func(h *hubtest.Hub, _ *hub.Options) { h.Token = "secret" }, []string{"401"}},
		{"no such file", "owner/tiny", func(_ *hubtest.Hub, o *hub.Options) { o.Files = []string{"*.gguf"} }, []string{"no file matches [*.gguf]", "config.json"}},
		{"damaged", "owner/tiny", func(h *hubtest.Hub, _ *hub.Options) { h.Wrong = "model.safetensors" }, []string{"model.safetensors", "damaged"}},
		{"path outside", "owner/tiny", func(h *hubtest.Hub, o *hub.Options) {
			h.Files["../evil.json"] = []byte("x")
			o.Files = []string{"../*.json"}
		}, []string{"../evil.json"}},
		{"no network, not cached", "owner/tiny", func(h *hubtest.Hub, _ *hub.Options) { h.Close() }, []string{"refused"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHub(t)
			opts := options(t, h)
			if tt.change != nil {
				tt.change(h, &opts)
			}
			_, err := hub.Fetch(t.Context(), tt.repo, "", opts)
			for _, w := range tt.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("got error %v, want one with %q", err, w)
				}
			}
		})
	}
}

// A model that the caller refuses costs no more than its configuration, and is not what the revision stands for.
func TestFetchChecks(t *testing.T) {
	h := newHub(t)
	opts := options(t, h)
	refused := errors.New("refused")
	opts.Check = func(dir string) error {
		if text, err := os.ReadFile(filepath.Join(dir, "config.json")); err != nil || string(text) != string(h.Files["config.json"]) {
			t.Errorf("the configuration to check is %q, %v", text, err)
		}
		return refused
	}
	if _, err := hub.Fetch(t.Context(), "owner/tiny", "", opts); !errors.Is(err, refused) {
		t.Errorf("got %v, want the error of Check", err)
	}
	if h.Requests("/cdn/") != 1 {
		t.Errorf("want one file to be fetched, got %q", h.Asked())
	}
	if refs, _ := filepath.Glob(filepath.Join(opts.CacheDir, "*", "refs", "*")); len(refs) > 0 {
		t.Errorf("there is a ref: %q", refs)
	}
}

// A copy that lacks a shard is not taken for a whole one.
func TestFetchOfflineNeedsAll(t *testing.T) {
	h := newHub(t)
	opts := options(t, h)
	dir, err := hub.Fetch(t.Context(), "owner/tiny", "", opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	opts.Offline = true
	if _, err := hub.Fetch(t.Context(), "owner/tiny", "", opts); err == nil || !strings.Contains(err.Error(), "not whole") {
		t.Errorf("got %v, want an error that the copy is not whole", err)
	}
}
