// Package hubtest is a Hugging Face hub on the loopback interface, for tests without a network.
package hubtest

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The one repository that a Hub has, and the commit that all its revisions are.
const (
	Repo   = "owner/tiny"
	Commit = "0123456789abcdef0123456789abcdef01234567"
)

// Hub serves one repository as the hub does: a listing with hashes, and files that redirect to a second address, with ranges. It
// records what is asked. Its fields may be changed between requests.
type Hub struct {
	Files map[string][]byte
	Token string         // wanted, if any
	Cut   map[string]int // breaks the first transfer of this file off after so many bytes
	Hang  bool           // a cut transfer falls silent instead
	Wrong string         // this file comes damaged

	mu     sync.Mutex
	asked  []string
	server *httptest.Server
}

// New starts a hub, which ends with the test.
func New(t testing.TB, files map[string][]byte) *Hub {
	h := &Hub{Files: files, Cut: map[string]int{}}
	h.server = httptest.NewServer(h)
	t.Cleanup(h.server.Close)
	return h
}

// URL is the hub's address.
func (h *Hub) URL() string { return h.server.URL }

// Close takes the hub off the network.
func (h *Hub) Close() { h.server.Close() }

// Asked lists the requests so far: method, path and range.
func (h *Hub) Asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// Requests counts those that contain a text.
func (h *Hub) Requests(containing string) (n int) {
	for _, a := range h.Asked() {
		if strings.Contains(a, containing) {
			n++
		}
	}
	return n
}

// ServeHTTP answers a client of the hub.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Range"))
	if h.Token != "" && r.Header.Get("Authorization") != "Bearer "+h.Token {
		http.Error(w, `{"error": "who are you"}`, http.StatusUnauthorized)
		return
	}
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/api/models/"+Repo+"/revision/"):
		var siblings []any
		for name, data := range h.Files {
			s := map[string]any{"rfilename": name, "size": len(data)}
			if strings.HasSuffix(name, ".safetensors") {
				s["lfs"] = map[string]any{"sha256": fmt.Sprintf("%x", sha256.Sum256(data)), "size": len(data)}
			}
			s["blobId"] = fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(data), data)))
			siblings = append(siblings, s)
		}
		json.NewEncoder(w).Encode(map[string]any{"id": Repo, "sha": Commit, "siblings": siblings})
	case strings.HasPrefix(path, "/"+Repo+"/resolve/"+Commit+"/"):
		http.Redirect(w, r, "/cdn/"+strings.TrimPrefix(path, "/"+Repo+"/resolve/"+Commit+"/"), http.StatusFound)
	case strings.HasPrefix(path, "/cdn/"):
		h.serveFile(w, r, strings.TrimPrefix(path, "/cdn/"))
	default:
		http.Error(w, `{"error": "Repository not found"}`, http.StatusNotFound)
	}
}

func (h *Hub) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	data := h.Files[name]
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
	if name == h.Wrong {
		body[len(body)-1] ^= 1
	}
	if n := h.Cut[name]; n > 0 {
		delete(h.Cut, name)
		w.Write(body[:n])
		w.(http.Flusher).Flush()
		if h.Hang {
			h.mu.Unlock()
			<-r.Context().Done()
			h.mu.Lock()
		}
		panic(http.ErrAbortHandler) // the connection breaks
	}
	w.Write(body)
}
