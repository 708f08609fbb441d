package hub_test

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"forwardpass/pkg/checkpoint"
	"forwardpass/pkg/checkpoint/hub"
	"forwardpass/pkg/tensor"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// fakeHub serves one repository, owner/tiny, as the hub does: a listing with hashes, and files that
// redirect to a second address, with ranges. It records what is asked.
type fakeHub struct {
	files map[string][]byte
	token string // wanted, if any
	// cut breaks the first transfer of this file off after so many bytes.
	cut   map[string]int
	hang  bool   // a cut transfer falls silent instead
	wrong string // this file comes damaged

	mu     sync.Mutex
	asked  []string
	server *httptest.Server
}

func newHub(t *testing.T) *fakeHub {
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
	h := &fakeHub{cut: map[string]int{}, files: map[string][]byte{
		"config.json":       []byte(`{"model_type": "llama"}`),
		"tokenizer.json":    []byte(`{}`),
		"model.safetensors": data,
		"pytorch_model.bin": []byte("not wanted"),
		"onnx/model.onnx":   []byte("not wanted"),
	}}
	h.server = httptest.NewServer(h)
	t.Cleanup(h.server.Close)
	return h
}

func (h *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Range"))
	if h.token != "" && r.Header.Get("Authorization") != "Bearer "+h.token {
		http.Error(w, `{"error": "who are you"}`, http.StatusUnauthorized)
		return
	}
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/api/models/owner/tiny/revision/"):
		var siblings []any
		for name, data := range h.files {
			s := map[string]any{"rfilename": name, "size": len(data)}
			if strings.HasSuffix(name, ".safetensors") {
				s["lfs"] = map[string]any{"sha256": fmt.Sprintf("%x", sha256.Sum256(data)), "size": len(data)}
			}
			s["blobId"] = fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(data), data)))
			siblings = append(siblings, s)
		}
		json.NewEncoder(w).Encode(map[string]any{"id": "owner/tiny", "sha": commit, "siblings": siblings})
	case strings.HasPrefix(path, "/owner/tiny/resolve/"+commit+"/"):
		http.Redirect(w, r, "/cdn/"+strings.TrimPrefix(path, "/owner/tiny/resolve/"+commit+"/"), http.StatusFound)
	case strings.HasPrefix(path, "/cdn/"):
		h.serveFile(w, r, strings.TrimPrefix(path, "/cdn/"))
	default:
		http.Error(w, `{"error": "Repository not found"}`, http.StatusNotFound)
	}
}

func (h *fakeHub) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	data := h.files[name]
	from := 0
	if s, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		from, _ = strconv.Atoi(strings.TrimSuffix(s, "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
	}
	body := append([]byte(nil), data[from:]...)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	if name == h.wrong {
		body[len(body)-1] ^= 1
	}
	if n := h.cut[name]; n > 0 {
		delete(h.cut, name)
		w.Write(body[:n])
		w.(http.Flusher).Flush()
		if h.hang {
			h.mu.Unlock()
			<-r.Context().Done()
			h.mu.Lock()
		}
		panic(http.ErrAbortHandler) // the connection breaks
	}
	w.Write(body)
}

func (h *fakeHub) requests(containing string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.asked {
		if strings.Contains(a, containing) {
			n++
		}
	}
	return n
}

func (h *fakeHub) options(t *testing.T) hub.Options {
	for _, v := range []string{"HF_TOKEN", "HF_HUB_OFFLINE", "HF_HOME", "HF_HUB_CACHE"} {
		t.Setenv(v, "")
	}
	return hub.Options{CacheDir: t.TempDir(), Endpoint: h.server.URL}
}

func TestFetch(t *testing.T) {
	h := newHub(t)
	opts := h.options(t)
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
	want := int64(len(h.files["config.json"]) + len(h.files["tokenizer.json"]) + len(h.files["model.safetensors"]))
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
	if h.requests("pytorch_model.bin")+h.requests("onnx") > 0 {
		t.Errorf("files nobody needs were fetched: %v", h.asked)
	}

	opts.Progress = nil
	before := h.requests("/cdn/")
	if again, err := hub.Fetch(t.Context(), "owner/tiny", "main", opts); err != nil || again != dir {
		t.Errorf("second fetch: %q, %v", again, err)
	}
	if h.requests("/cdn/") != before {
		t.Errorf("a second fetch transfers files again")
	}

	h.server.Close() // no network
	if again, err := hub.Fetch(t.Context(), "owner/tiny", "main", opts); err != nil || again != dir {
		t.Errorf("fetch without a network: %q, %v", again, err)
	}
	opts.Offline = true
	for _, revision := range []string{"", "main", commit} {
		if again, err := hub.Fetch(t.Context(), "owner/tiny", revision, opts); err != nil || again != dir {
			t.Errorf("offline fetch of %q: %q, %v", revision, again, err)
		}
	}
}

// A connection that breaks is taken up where it stopped, within one call and by the next.
func TestFetchResumes(t *testing.T) {
	t.Run("same call", func(t *testing.T) {
		h := newHub(t)
		h.cut["model.safetensors"] = 70_000
		if _, err := hub.Fetch(t.Context(), "owner/tiny", "", h.options(t)); err != nil {
			t.Fatal(err)
		}
		if h.requests("/cdn/model.safetensors bytes=70000-") != 1 {
			t.Errorf("want a request for the rest only, got %q", h.asked)
		}
	})
	t.Run("silence", func(t *testing.T) {
		h := newHub(t)
		h.hang, h.cut["model.safetensors"] = true, 70_000
		opts := h.options(t)
		opts.Patience = time.Second
		if _, err := hub.Fetch(t.Context(), "owner/tiny", "", opts); err != nil {
			t.Fatal(err)
		}
		if h.requests("/cdn/model.safetensors bytes=70000-") != 1 {
			t.Errorf("want a request for the rest only, got %q", h.asked)
		}
	})
	t.Run("next call", func(t *testing.T) {
		h := newHub(t)
		opts := h.options(t)
		h.cut["model.safetensors"] = 70_000
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
		if h.requests("/cdn/model.safetensors bytes=") != 1 {
			t.Errorf("want a request for the rest, got %q", h.asked)
		}
	})
}

func TestFetchRefuses(t *testing.T) {
	tests := []struct {
		name, repo string
		change     func(*fakeHub, *hub.Options)
		want       []string
	}{
		{"no repository", "owner/none", nil, []string{"owner/none", "Repository not found"}},
		{"no name", "../etc", nil, []string{"owner/name", "../etc"}},
		{"offline, not cached", "owner/tiny", func(_ *fakeHub, o *hub.Options) { o.Offline = true }, []string{"not in the cache"}},
		{"a token is missing", "owner/tiny", func(h *fakeHub, _ *hub.Options) { h.token = "secret" }, []string{"401"}},
		{"no such file", "owner/tiny", func(_ *fakeHub, o *hub.Options) { o.Files = []string{"*.gguf"} }, []string{"no file matches [*.gguf]", "config.json"}},
		{"damaged", "owner/tiny", func(h *fakeHub, _ *hub.Options) { h.wrong = "model.safetensors" }, []string{"model.safetensors", "damaged"}},
		{"path outside", "owner/tiny", func(h *fakeHub, o *hub.Options) {
			h.files["../evil.json"] = []byte("x")
			o.Files = []string{"../*.json"}
		}, []string{"../evil.json"}},
		{"no network, not cached", "owner/tiny", func(h *fakeHub, _ *hub.Options) { h.server.Close() }, []string{"refused"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHub(t)
			opts := h.options(t)
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

// A copy that lacks a shard is not taken for a whole one.
func TestFetchOfflineNeedsAll(t *testing.T) {
	h := newHub(t)
	opts := h.options(t)
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
