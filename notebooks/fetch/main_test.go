package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"forwardpass/pkg/checkpoint/hub/hubtest"
	"forwardpass/pkg/lesson"
)

// storyland serves the model of the course as hubtest.Repo.
func storyland(t *testing.T) *hubtest.Hub {
	files := map[string][]byte{"pytorch_model.bin": []byte("not wanted")}
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"} {
		data, err := os.ReadFile(lesson.Testdata("storyland", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	h := hubtest.New(t, files)
	for _, v := range []string{"HF_TOKEN", "HF_HUB_OFFLINE", "HF_HOME", "HF_HUB_CACHE"} {
		t.Setenv(v, "")
	}
	t.Setenv("HF_ENDPOINT", h.URL())
	return h
}

// What is fetched is there by the name that was typed, as a lesson opens it; the second time without any transfer.
func TestFetch(t *testing.T) {
	h := storyland(t)
	root := t.TempDir()
	t.Setenv("FORWARDPASS_ROOT", root)
	models := filepath.Join(root, ".forwardpass", "models")
	var said []string
	say := func(line string) { said = append(said, line) }
	for _, name := range []string{hubtest.Repo, hubtest.Repo + "@main", hubtest.Repo} {
		if err := fetch(t.Context(), models, name, say); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lm, err := lesson.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := lm.Tok.Encode("The cat"); err != nil || len(ids) < 2 {
			t.Errorf("%s: the tokenizer gives %v, %v", name, ids, err)
		}
		if err := lm.Close(); err != nil {
			t.Error(err)
		}
		if !lesson.Have(name) {
			t.Errorf("%s is not among %q", name, lesson.Available())
		}
	}
	if n := h.Requests("/cdn/model.safetensors"); n != 1 {
		t.Errorf("the weights were transferred %d times, want once", n)
	}
	if n := h.Requests("pytorch_model.bin"); n != 0 {
		t.Error("a file that nobody needs was fetched")
	}
	if !slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, " of 1 MB, ") }) {
		t.Errorf("no progress in %q", said)
	}
	if left, _ := filepath.Glob(filepath.Join(models, "owner", "*.*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	// The link is relative, and without a network what is here is enough.
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(root, moved); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FORWARDPASS_ROOT", moved)
	h.Close()
	if err := fetch(t.Context(), filepath.Join(moved, ".forwardpass", "models"), hubtest.Repo, say); err != nil {
		t.Errorf("without a network: %v", err)
	}
	lm, err := lesson.Open(hubtest.Repo)
	if err != nil {
		t.Fatal(err)
	}
	lm.Close()
}

// An interrupted transfer leaves no model, and goes on where it stopped.
func TestFetchInterrupted(t *testing.T) {
	h := storyland(t)
	models := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	h.Cut["model.safetensors"], h.Hang = 700_000, true
	go func() {
		for ctx.Err() == nil { // until half of it is here
			if parts, _ := filepath.Glob(filepath.Join(models, ".hub", "*", "blobs", "*.incomplete")); len(parts) == 1 {
				if info, err := os.Stat(parts[0]); err == nil && info.Size() == 700_000 {
					cancel()
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	err := fetch(ctx, models, hubtest.Repo, func(string) {})
	cancel()
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("fetch = %v, want to be interrupted", err)
	}
	if _, err := os.Stat(filepath.Join(models, "owner")); !os.IsNotExist(err) {
		t.Errorf("half a model is there: %v", err)
	}
	if err := fetch(t.Context(), models, hubtest.Repo, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if h.Requests("/cdn/model.safetensors bytes=") != 1 {
		t.Errorf("want one request for the rest, got %q", h.Asked())
	}
}

func TestFetchRefuses(t *testing.T) {
	for _, tt := range []struct {
		why, name string
		change    func(*hubtest.Hub)
		want      []string
	}{
		{"no such model", "owner/none", nil, []string{"owner/none", "Repository not found"}},
		{"no name", "../tiny", nil, []string{"owner/name"}},
		{"no revision", hubtest.Repo + "@..", nil, []string{"revision"}},
		{"a revision that would be a folder", hubtest.Repo + "@refs/pr/1", nil, []string{"refs/pr/1", "slash", "commit"}},
		{"a token is wanted", hubtest.Repo, func(h *hubtest.Hub) { h.Token = "secret" }, []string{"401"}},
		{"no network", hubtest.Repo, func(h *hubtest.Hub) { h.Close() }, []string{"127.0.0.1", "can't be reached", "no copy here", "HF_ENDPOINT"}},
		{"an unknown family", hubtest.Repo, func(h *hubtest.Hub) { h.Files["config.json"] = []byte(`{"model_type": "falcon"}`) }, []string{`"falcon"`, "llama"}},
		{"GGUF only", hubtest.Repo, func(h *hubtest.Hub) { h.Files = map[string][]byte{"a.gguf": {0}} }, []string{"safetensors", "a.gguf"}},
		{"no configuration", hubtest.Repo, func(h *hubtest.Hub) { delete(h.Files, "config.json") }, []string{"no config.json"}},
		{"no tokenizer", hubtest.Repo, func(h *hubtest.Hub) { delete(h.Files, "tokenizer.json") }, []string{"no vocabulary"}},
		{"damaged", hubtest.Repo, func(h *hubtest.Hub) { h.Wrong = "model.safetensors" }, []string{"damaged"}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			h := storyland(t)
			if tt.change != nil {
				tt.change(h)
			}
			models := t.TempDir()
			err := fetch(t.Context(), models, tt.name, func(string) {})
			for _, w := range tt.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("got error %v, want one with %q", err, w)
				}
			}
			if _, err := os.Stat(filepath.Join(models, "owner")); !os.IsNotExist(err) {
				t.Errorf("it is there all the same: %v", err)
			}
			if tt.why == "an unknown family" && h.Requests("/cdn/model.safetensors") != 0 {
				t.Error("the weights of a model that can't be opened were fetched")
			}
		})
	}
}

// A folder of one's own by the model's name stays as it is, and is found before anything is fetched.
func TestFetchInTheWay(t *testing.T) {
	h := storyland(t)
	models := t.TempDir()
	own := filepath.Join(models, "owner", "tiny")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := fetch(t.Context(), models, hubtest.Repo, func(string) {}); err == nil || !strings.Contains(err.Error(), own) {
		t.Errorf("got %v, want an error that names %s", err, own)
	}
	if asked := h.Asked(); len(asked) > 0 {
		t.Errorf("the hub was asked: %q", asked)
	}
}

// When a newer commit can't be fetched, the one from before stays in use.
func TestFetchKeepsOlder(t *testing.T) {
	h := storyland(t)
	models := t.TempDir()
	if err := fetch(t.Context(), models, hubtest.Repo, func(string) {}); err != nil {
		t.Fatal(err)
	}
	const older = "1111111111111111111111111111111111111111" // what is there, as if it were of another commit
	cache := filepath.Join(models, ".hub", "models--owner--tiny")
	if err := os.Rename(filepath.Join(cache, "snapshots", hubtest.Commit), filepath.Join(cache, "snapshots", older)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cache, "refs", "main"), []byte(older), 0o644); err != nil {
		t.Fatal(err)
	}
	h.Files["model.safetensors"] = append(h.Files["model.safetensors"], 0)
	h.Wrong = "model.safetensors"
	if err := fetch(t.Context(), models, hubtest.Repo, func(string) {}); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Fatalf("got %v, want an error that the weights are damaged", err)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	if err := fetch(t.Context(), models, hubtest.Repo, func(string) {}); err != nil {
		t.Fatalf("without a network: %v", err)
	}
	if to, err := os.Readlink(filepath.Join(models, "owner", "tiny")); err != nil || filepath.Base(to) != older {
		t.Errorf("the model is %s, %v, want the older %s", to, err, older)
	}
}
