package serve

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whatever a client sends, it gets an answer or the protocol's error object, and nothing is left running.
func FuzzRequests(f *testing.F) {
	for _, body := range []string{
		`{"prompt":"The cat","max_tokens":2}`, `{"prompt":[1,2,3],"stream":true,"n":2}`, `{"prompt":["a","b"],"logprobs":3,"stop":["x"]}`, `{"prompt":[[1],[2]],"temperature":0}`,
		`{"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":2}`, `{"messages":[{"role":"system","content":[{"type":"text","text":"x"}]}],"stream":true}`,
		`{"prompt":"a","guided_regex":"[a-z]+"}`, `{"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schema":{"type":"null"}}}}`, `{"prompt":"a","logit_bias":{"3":-100}}`,
		`{}`, `[]`, `null`, `{"prompt":null}`, `{"prompt":"a","temperature":1e308}`, `{"prompt":"a","seed":-1,"top_k":-5,"min_p":2}`, `{"prompt":"a","max_tokens":-9223372036854775808}`,
	} {
		f.Add(body, true)
		f.Add(body, false)
	}
	m, tok := storyland(f)
	loop, err := Start(Model(m), Options{Blocks: 100, MaxBatch: 4, Prefix: RadixTree})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := loop.Shutdown(context.Background()); err != nil {
			f.Error(err)
		}
	})
	h, err := NewHandler(loop, m, tok, HandlerOptions{MaxTokens: 4})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string, chat bool) {
		path := "/v1/completions"
		if chat {
			path = "/v1/chat/completions"
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
		switch {
		case w.Code == 200 && strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
			if !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
				t.Errorf("%s: the stream ends with %q", body, w.Body)
			}
		case w.Code == 200:
			var v reply
			if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || len(v.Choices) == 0 {
				t.Errorf("%s: %v, %s", body, err, w.Body)
			}
		case w.Code >= 400 && w.Code < 500:
			var v struct{ Error struct{ Message string } }
			if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || v.Error.Message == "" {
				t.Errorf("%s: %v, %s", body, err, w.Body)
			}
		default:
			t.Errorf("%s: status %d, %s", body, w.Code, w.Body)
		}
		if n := loop.Blocks(); n != 0 {
			t.Errorf("%s: %d blocks are still in use", body, n)
		}
	})
}
