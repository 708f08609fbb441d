package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tokenize"
)

// server is a running one for tests.
type server struct {
	url  string
	loop *Loop
	m    *model.Model
	tok  *tokenize.Tokenizer
}

func serveStoryland(t testing.TB, o Options, ho HandlerOptions) *server {
	t.Helper()
	m, tok := storyland(t)
	loop, err := Start(Model(m), o)
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHandler(loop, m, tok, ho)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h) // on the loopback interface
	t.Cleanup(func() {
		srv.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := loop.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if n := loop.Blocks(); n != 0 {
			t.Errorf("%d blocks leaked", n)
		}
	})
	return &server{srv.URL, loop, m, tok}
}

// post sends a request and decodes the reply.
func (s *server) post(t testing.TB, path, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.Post(s.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var v map[string]any
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		t.Fatalf("%s: status %d: %v", path, r.StatusCode, err)
	}
	return r.StatusCode, v
}

// at walks into decoded JSON: at(v, "choices", 0, "text").
func at(v any, path ...any) any {
	for _, p := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[p.(string)]
		case []any:
			v = x[p.(int)]
		default:
			return nil
		}
	}
	return v
}

// events reads a stream of server-sent events up to [DONE].
func events(r io.Reader) (out []map[string]any, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return out, nil
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

const prompt = "The cat chases the dog. The one who runs away is the"

// alone is what generate makes of the same prompt.
func (s *server) alone(t testing.TB, o generate.Options) *generate.Result {
	t.Helper()
	ids, err := s.tok.Encode(prompt)
	if err != nil {
		t.Fatal(err)
	}
	o.Tokenizer = s.tok
	r, err := generate.Run(context.Background(), s.m, ids, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCompletion(t *testing.T) {
	s := serveStoryland(t, Options{Prefix: RadixTree}, HandlerOptions{})
	want := s.alone(t, generate.Options{MaxNewTokens: 20})
	body := fmt.Sprintf(`{"model":"forwardpass","prompt":%q,"max_tokens":20,"temperature":0,"logprobs":2}`, prompt)
	code, v := s.post(t, "/v1/completions", body)
	if code != 200 || at(v, "choices", 0, "text") != want.Text || at(v, "object") != "text_completion" {
		t.Fatalf("status %d, %v, want the text %q", code, v, want.Text)
	}
	if n := at(v, "usage", "completion_tokens"); n != float64(len(want.IDs)) {
		t.Errorf("usage: %v new tokens, want %d", n, len(want.IDs))
	}
	probs := s.alone(t, generate.Options{MaxNewTokens: 20, LogProbs: 2})
	lp := at(v, "choices", 0, "logprobs")
	if got := at(lp, "token_logprobs").([]any); len(got) != len(probs.LogProbs) {
		t.Errorf("%d log-probabilities, want %d", len(got), len(probs.LogProbs))
	} else {
		for i, p := range got {
			if d := p.(float64) - probs.LogProbs[i]; d > 1e-4 || d < -1e-4 {
				t.Errorf("log-probability %d is %v, want %v", i, p, probs.LogProbs[i])
			}
		}
	}
	pieces := ""
	for _, p := range at(lp, "tokens").([]any) {
		pieces += p.(string)
	}
	if !strings.HasPrefix(pieces, want.Text) {
		t.Errorf("the tokens' texts are %q, want %q", pieces, want.Text)
	}

	// The same again, as a stream.
	r, err := http.Post(s.url+"/v1/completions", "application/json", strings.NewReader(strings.TrimSuffix(body, "}")+`,"stream":true,"stream_options":{"include_usage":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	list, err := events(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, e := range list {
		if c := at(e, "choices").([]any); len(c) > 0 {
			text += at(c, 0, "text").(string)
		}
	}
	if text != want.Text {
		t.Errorf("streamed %q, want %q", text, want.Text)
	}
	last := list[len(list)-1]
	if at(last, "usage", "prompt_tokens_details", "cached_tokens") == nil {
		t.Errorf("the second request had nothing from the prefix cache: %v", last)
	}
	if why := at(list[len(list)-2], "choices", 0, "finish_reason"); why != "stop" && why != "length" {
		t.Errorf("finish reason %v", why)
	}
}

func TestCompletionOptions(t *testing.T) {
	s := serveStoryland(t, Options{}, HandlerOptions{})
	full := s.alone(t, generate.Options{MaxNewTokens: 30, EOS: []int{}})
	stop := full.Text[len(full.Text)/2:][:3]
	for name, c := range map[string]struct {
		fields string
		want   generate.Options
	}{
		"stop string":          {fmt.Sprintf(`"temperature":0,"ignore_eos":true,"stop":%q`, stop), generate.Options{EOS: []int{}, Stop: []string{stop}}},
		"stop list":            {fmt.Sprintf(`"temperature":0,"ignore_eos":true,"stop":["@@",%q]`, stop), generate.Options{EOS: []int{}, Stop: []string{"@@", stop}}},
		"sampling":             {`"temperature":0.9,"top_p":0.9,"top_k":20,"seed":7`, generate.Options{Sampling: sample.Options{Temperature: 0.9, TopP: 0.9, TopK: 20, Seed: 7}}},
		"penalties":            {`"temperature":0,"frequency_penalty":0.5,"presence_penalty":0.3,"repetition_penalty":1.2`, generate.Options{Sampling: sample.Options{FrequencyPenalty: 0.5, PresencePenalty: 0.3, RepetitionPenalty: 1.2}}},
		"logit bias":           {`"temperature":0,"logit_bias":{"5":100}`, generate.Options{Sampling: sample.Options{LogitBias: map[int]float32{5: 100}}}},
		"a regular expression": {`"temperature":0,"guided_regex":" (dog|fox)\\."`, generate.Options{Constraint: must(generate.Regex(` (dog|fox)\.`))}},
		"a JSON schema": {`"temperature":0,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}}}`,
			generate.Options{Constraint: must(generate.JSONSchema([]byte(`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}`)))}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.MaxNewTokens = 30
			want := s.alone(t, c.want)
			code, v := s.post(t, "/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":30,%s}`, prompt, c.fields))
			if got := at(v, "choices", 0, "text"); code != 200 || got != want.Text {
				t.Errorf("status %d, got %v, want %q", code, v, want.Text)
			}
			if got := at(v, "choices", 0, "finish_reason"); got != finish(want.Reason) {
				t.Errorf("finish reason %v, want %v", got, finish(want.Reason))
			}
		})
	}
	// Several samples of several prompts, in order.
	code, v := s.post(t, "/v1/completions", fmt.Sprintf(`{"prompt":[%q,"I love"],"n":2,"seed":3,"temperature":1,"max_tokens":5}`, prompt))
	choices, _ := at(v, "choices").([]any)
	if code != 200 || len(choices) != 4 {
		t.Fatalf("status %d, %v, want four choices", code, v)
	}
	for i, c := range choices {
		if at(c, "index") != float64(i) {
			t.Errorf("choice %d has index %v", i, at(c, "index"))
		}
	}
	for i := range uint64(2) {
		want := s.alone(t, generate.Options{MaxNewTokens: 5, Sampling: sample.Options{Temperature: 1, Seed: 3, Stream: i}})
		if got := at(choices[i], "text"); got != want.Text {
			t.Errorf("sample %d: got %q, want %q", i, got, want.Text)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestChat(t *testing.T) {
	s := serveStoryland(t, Options{}, HandlerOptions{})
	want := s.alone(t, generate.Options{MaxNewTokens: 12})
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"max_completion_tokens":12,"temperature":0,"logprobs":true,"top_logprobs":3}`, prompt)
	code, v := s.post(t, "/v1/chat/completions", body)
	if code != 200 || at(v, "choices", 0, "message", "content") != want.Text || at(v, "choices", 0, "message", "role") != "assistant" {
		t.Fatalf("status %d, %v, want %q", code, v, want.Text)
	}
	content := at(v, "choices", 0, "logprobs", "content").([]any)
	if len(content) != len(want.IDs) || len(at(content, 0, "top_logprobs").([]any)) != 3 || at(content, 0, "top_logprobs", 0, "token") != at(content, 0, "token") {
		t.Errorf("log-probabilities: %v", content)
	}
	parts := strings.Replace(body, fmt.Sprintf("%q", prompt), fmt.Sprintf(`[{"type":"text","text":%q}]`, prompt), 1)
	r, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(strings.TrimSuffix(parts, "}")+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	list, err := events(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if at(list[0], "choices", 0, "delta", "role") != "assistant" || at(list[0], "object") != "chat.completion.chunk" {
		t.Errorf("first chunk: %v", list[0])
	}
	text := ""
	for _, e := range list {
		if c, ok := at(e, "choices", 0, "delta", "content").(string); ok {
			text += c
		}
	}
	if text != want.Text {
		t.Errorf("streamed %q, want %q", text, want.Text)
	}
}

func TestErrors(t *testing.T) {
	s := serveStoryland(t, Options{MaxBatch: 4}, HandlerOptions{Key: "", MaxBody: 5000, MaxTokens: 100})
	for name, c := range map[string]struct {
		path, body string
		status     int
		param      string
	}{
		"not JSON":                {"/v1/completions", `{"prompt": "a`, 400, ""},
		"two values":              {"/v1/completions", `{"prompt": "a"} {}`, 400, ""},
		"an unknown field":        {"/v1/completions", `{"prompt": "a", "tempurature": 1}`, 400, ""},
		"a wrong type":            {"/v1/completions", `{"prompt": "a", "max_tokens": "many"}`, 400, "max_tokens"},
		"no prompt":               {"/v1/completions", `{}`, 400, "prompt"},
		"an empty list":           {"/v1/completions", `{"prompt": []}`, 400, "prompt"},
		"another model":           {"/v1/completions", `{"prompt": "a", "model": "gpt-9"}`, 404, "model"},
		"no tokens wanted":        {"/v1/completions", `{"prompt": "a", "max_tokens": 0}`, 400, "max_tokens"},
		"more than allowed":       {"/v1/completions", `{"prompt": "a", "max_tokens": 101}`, 400, "max_tokens"},
		"temperature":             {"/v1/completions", `{"prompt": "a", "temperature": -1}`, 400, ""},
		"top_p":                   {"/v1/completions", `{"prompt": "a", "top_p": 1.5}`, 400, ""},
		"top_p 0":                 {"/v1/completions", `{"prompt": "a", "top_p": 0}`, 400, "top_p"},
		"an id out of range":      {"/v1/completions", `{"prompt": [100000]}`, 400, ""},
		"too many samples":        {"/v1/completions", `{"prompt": "a", "n": 1000}`, 400, "n"},
		"more than the batch":     {"/v1/completions", `{"prompt": "a", "n": 8}`, 400, ""},
		"an empty stop string":    {"/v1/completions", `{"prompt": "a", "stop": ""}`, 400, ""},
		"logit bias":              {"/v1/completions", `{"prompt": "a", "logit_bias": {"x": 1}}`, 400, "logit_bias"},
		"a bad expression":        {"/v1/completions", `{"prompt": "a", "guided_regex": "("}`, 400, "guided_regex"},
		"a bad schema":            {"/v1/completions", `{"prompt": "a", "response_format": {"type":"json_schema","json_schema":{"schema":{"type":"x"}}}}`, 400, "response_format"},
		"echo":                    {"/v1/completions", `{"prompt": "a", "echo": true}`, 400, "echo"},
		"usage without stream":    {"/v1/completions", `{"prompt": "a", "stream_options": {"include_usage":true}}`, 400, "stream_options"},
		"too large":               {"/v1/completions", `{"prompt": "` + strings.Repeat("a", 6000) + `"}`, 413, ""},
		"no messages":             {"/v1/chat/completions", `{}`, 400, "messages"},
		"an unknown role":         {"/v1/chat/completions", `{"messages":[{"role":"robot","content":"a"}]}`, 400, "messages"},
		"a picture":               {"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "messages"},
		"tools":                   {"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"tools":[{}]}`, 400, "tools"},
		"top without logprobs":    {"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"top_logprobs":3}`, 400, "top_logprobs"},
		"longer than the context": {"/v1/completions", `{"prompt": [` + strings.Repeat("5,", 600) + `5]}`, 400, ""},
		"no such path":            {"/v1/nothing", `{}`, 404, ""},
		"the wrong method":        {"/v1/models", `{}`, 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, v := s.post(t, c.path, c.body)
			message, _ := at(v, "error", "message").(string)
			if code != c.status || message == "" || at(v, "error", "type") == nil {
				t.Fatalf("status %d, %v, want %d", code, v, c.status)
			}
			if p, _ := at(v, "error", "param").(string); c.param != "" && p != c.param {
				t.Errorf("param %q, want %q", p, c.param)
			}
		})
	}
	if st := s.loop.Stats(); st.New != 0 {
		t.Errorf("refused requests had %d tokens", st.New)
	}
}

// Every error about a request says which field is wrong, what it should have been, and nothing of how the server is written.
func TestErrorsNameTheField(t *testing.T) {
	s := serveStoryland(t, Options{MaxBatch: 4, Blocks: 20}, HandlerOptions{})
	user := `{"role":"user","content":"a"}`
	for _, c := range []struct{ path, body, param, want string }{
		{"completions", ``, "", "a JSON object"},
		{"completions", `[]`, "", "must be an object, got a list"},
		{"completions", `"a"`, "", "must be an object, got a string"},
		{"completions", `null`, "", "must be an object, got null"},
		{"completions", `{"temperature":NaN}`, "", "not JSON"},
		{"completions", `{"prompt":"a","tempurature":1}`, "tempurature", "no field"},
		{"completions", `{"prompt":null}`, "prompt", "a string, a list of strings"},
		{"completions", `{"prompt":3}`, "prompt", "a string, a list of strings"},
		{"completions", `{"prompt":[null]}`, "prompt", "a string, a list of strings"},
		{"completions", `{"prompt":["a",null]}`, "prompt", "a string, a list of strings"},
		{"completions", `{"prompt":[1,null]}`, "prompt", "a string, a list of strings"},
		{"completions", `{"prompt":[[1],[]]}`, "prompt", "a string, a list of strings"},
		{"completions", `{"prompt":[1,-1]}`, "prompt", "token 1 must be an id from 0 to"},
		{"completions", `{"prompt":[[1],[1000000]]}`, "prompt", "prompt 1: token 0 must be an id from 0 to"},
		{"completions", `{"prompt":[` + strings.Repeat(`"a",`, 16) + `"a"]}`, "prompt", "at most 16 prompts, got 17"},
		{"completions", `{"prompt":"a","model":3}`, "model", "must be a string, got a number"},
		{"completions", `{"prompt":"a","max_tokens":1.5}`, "max_tokens", "must be a whole number of at most 64 bits, got 1.5"},
		{"completions", `{"prompt":"a","max_tokens":99999999999999999999}`, "max_tokens", "whole number of at most 64 bits, got 99999999999999999999"},
		{"completions", `{"prompt":"a","max_tokens":-1}`, "max_tokens", "from 1 to"},
		{"completions", `{"prompt":"a","max_tokens":400}`, "max_tokens", "blocks"},
		{"completions", `{"prompt":[` + strings.Repeat(`5,`, 319) + `5]}`, "prompt", "320 tokens and a new one take 21 cache blocks"},
		{"completions", `{"prompt":[` + strings.Repeat(`5,`, 319) + `5],"max_tokens":9}`, "prompt", "blocks"},
		{"chat/completions", `{"messages":[{"role":"user","content":"` + strings.Repeat("cat ", 400) + `"}]}`, "messages", "blocks"},
		{"completions", `{"prompt":"a","temperature":"hot"}`, "temperature", "must be a number of 64 bits, got a string"},
		{"completions", `{"prompt":"a","temperature":1e999}`, "temperature", "must be a number of 64 bits, got 1e999"},
		{"completions", `{"prompt":"a","temperature":-1}`, "temperature", "must be 0 or more, got -1"},
		{"completions", `{"prompt":"a","top_p":0}`, "top_p", "above 0 and at most 1"},
		{"completions", `{"prompt":"a","top_p":1.5}`, "top_p", "above 0 and at most 1"},
		{"completions", `{"prompt":"a","min_p":2}`, "min_p", "from 0 to 1"},
		{"completions", `{"prompt":"a","top_k":-2}`, "top_k", "at least 1"},
		{"completions", `{"prompt":"a","presence_penalty":3}`, "presence_penalty", "from -2 to 2"},
		{"completions", `{"prompt":"a","frequency_penalty":-1e300}`, "frequency_penalty", "from -2 to 2"},
		{"completions", `{"prompt":"a","repetition_penalty":-1}`, "repetition_penalty", "above 0"},
		{"completions", `{"prompt":"a","n":0}`, "n", "from 1 to 4"},
		{"completions", `{"prompt":"a","n":8}`, "n", "from 1 to 4"},
		{"completions", `{"prompt":["a","b","c","d"],"n":4611686018427387904}`, "n", "from 1 to 4"}, // 4·2^62 is 0 in 64 bits
		{"completions", `{"prompt":"a","seed":"x"}`, "seed", "whole number"},
		{"completions", `{"prompt":"a","stream":1}`, "stream", "true or false, got a number"},
		{"completions", `{"prompt":"a","stream_options":[]}`, "stream_options", "must be an object, got a list"},
		{"completions", `{"prompt":"a","stream":true,"stream_options":{"include_usage":"yes"}}`, "stream_options", "stream_options.include_usage must be true or false"},
		{"completions", `{"prompt":"a","stop":3}`, "stop", "a string or a list of strings"},
		{"completions", `{"prompt":"a","stop":[""]}`, "stop", "empty"},
		{"completions", `{"prompt":"a","stop":["x",null]}`, "stop", "null"},
		{"completions", `{"prompt":"a","logit_bias":[]}`, "logit_bias", "must be an object, got a list"},
		{"completions", `{"prompt":"a","logit_bias":{"3":1e39}}`, "logit_bias", "a number of 32 bits"},
		{"completions", `{"prompt":"a","logit_bias":{"3":101}}`, "logit_bias", "from -100 to 100"},
		{"completions", `{"prompt":"a","logit_bias":{"5x":1}}`, "logit_bias", "token ids from 0 to"},
		{"completions", `{"prompt":"a","logit_bias":{"1000000":1}}`, "logit_bias", "token ids from 0 to"},
		{"completions", `{"prompt":"a","response_format":"json"}`, "response_format", "must be an object, got a string"},
		{"completions", `{"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schema":null}}}`, "response_format", "must be an object"},
		{"completions", `{"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schema":[]}}}`, "response_format", "want an object"},
		{"completions", `{"prompt":"a","guided_regex":"("}`, "guided_regex", "regular expression"},
		{"completions", `{"prompt":"a","guided_regex":"a{9}b{9}","max_tokens":1}`, "guided_regex", "the shortest text of it needs"},
		{"completions", `{"prompt":"a","logprobs":true}`, "logprobs", "must be a whole number of at most 64 bits, got true or false"},
		{"chat/completions", `{"messages":null}`, "messages", "a list of at least one message"},
		{"chat/completions", `{"messages":[]}`, "messages", "a list of at least one message"},
		{"chat/completions", `{"messages":"hi"}`, "messages", "must be a list, got a string"},
		{"chat/completions", `{"messages":["hi"]}`, "messages", "must be an object, got a string"},
		{"chat/completions", `{"messages":[{}]}`, "messages", "messages[0].role must be system, developer, user or assistant"},
		{"chat/completions", `{"messages":[` + user + `,{"role":"robot","content":"a"}]}`, "messages", `messages[1].role must be system, developer, user or assistant, got "robot"`},
		{"chat/completions", `{"messages":[{"role":3,"content":"a"}]}`, "messages", "messages.role must be a string, got a number"},
		{"chat/completions", `{"messages":[{"role":"user"}]}`, "messages", "messages[0].content must be a string or a list of text parts"},
		{"chat/completions", `{"messages":[{"role":"user","content":null}]}`, "messages", "messages[0].content must be"},
		{"chat/completions", `{"messages":[{"role":"user","content":{}}]}`, "messages", "messages[0].content must be"},
		{"chat/completions", `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, "messages", "messages[0].content[0]"},
		{"chat/completions", `{"messages":[` + user + `],"max_completion_tokens":0}`, "max_completion_tokens", "from 1 to"},
		{"chat/completions", `{"messages":[` + user + `],"logprobs":3}`, "logprobs", "must be true or false, got a number"},
		{"chat/completions", `{"messages":[` + user + `],"modalities":[3]}`, "modalities", "must be a string, got a number"},
	} {
		code, v := s.post(t, "/v1/"+c.path, c.body)
		message, _ := at(v, "error", "message").(string)
		param, _ := at(v, "error", "param").(string)
		if code != 400 || at(v, "error", "type") != "invalid_request_error" || param != c.param || !strings.Contains(message, c.want) {
			t.Errorf("%s: status %d, %v; want 400, param %q and a message with %q", c.body, code, v, c.param, c.want)
		}
		for _, inside := range []string{"Go ", "struct", "serve:", "serve.", "sample:", "generate:", "json:"} {
			if strings.Contains(message, inside) {
				t.Errorf("%s: the message shows what is inside: %q", c.body, message)
			}
		}
	}
	if code, v := s.post(t, "/v1/completions", `{"prompt":[`+strings.Repeat(`5,`, 318)+`5]}`); code != 200 || at(v, "usage", "completion_tokens") != 1.0 {
		t.Errorf("a prompt that leaves room for one token: status %d, %v", code, v)
	}
	// An assistant may have said nothing; without a length, the answer is as long as there is room for.
	if code, v := s.post(t, "/v1/chat/completions", `{"messages":[`+user+`,{"role":"assistant","content":null},`+user+`]}`); code != 200 {
		t.Errorf("an assistant without content: status %d, %v", code, v)
	}
}

// Only what restricts the answer is a constraint.
func TestConstraintField(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                                  "",
		`{"response_format":{"type":"text"}}`: "",
		`{"response_format":{}}`:              "",
		`{"response_format":{"type":"json_schema"}}`:             "response_format",
		`{"guided_regex":"a"}`:                                   "guided_regex",
		`{"guided_regex":"a","response_format":{"type":"text"}}`: "guided_regex",
	} {
		var c common
		if e := decode([]byte(body), &c); e != nil {
			t.Fatal(e)
		}
		if got := constraintField(&c); got != want {
			t.Errorf("%s: the field is %q, want %q", body, got, want)
		}
	}
}

func TestFinish(t *testing.T) {
	for r, want := range map[generate.Reason]string{
		generate.ReasonEOS: "stop", generate.ReasonStop: "stop", generate.ReasonStructure: "stop",
		generate.ReasonLength: "length", generate.ReasonContext: "length",
		generate.ReasonCancelled: "abort", generate.ReasonError: "abort",
	} {
		if got := finish(r); got != want {
			t.Errorf("%s: %q, want %q", r, got, want)
		}
	}
}

func TestKeyAndOrigin(t *testing.T) {
	s := serveStoryland(t, Options{}, HandlerOptions{Key: "secret"})
	for _, c := range []struct {
		key, origin, path string
		status            int
	}{
		{"", "", "/v1/models", 401}, {"wrong", "", "/v1/models", 401}, {"secret", "", "/v1/models", 200}, {"", "", "/health", 200},
		{"secret", "https://example.com", "/v1/models", 403}, {"secret", "http://localhost:8888", "/v1/models", 200},
		{"secret", "", "/v1/models/forwardpass", 200}, {"secret", "", "/v1/models/x", 404}, {"secret", "", "/metrics", 200},
	} {
		r, _ := http.NewRequest("GET", s.url+c.path, nil)
		if c.key != "" {
			r.Header.Set("Authorization", "Bearer "+c.key)
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%+v: status %d", c, resp.StatusCode)
		}
	}
}

// A client that goes away frees its blocks before the next step.
func TestClientLoss(t *testing.T) {
	s := serveStoryland(t, Options{}, HandlerOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":400,"ignore_eos":true,"stream":true}`, prompt)
	r, _ := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/completions", strings.NewReader(body))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if s.loop.Blocks() == 0 {
		t.Fatal("a running request has no blocks")
	}
	cancel()
	wait(t, func() bool { return s.loop.Stats().Cancelled == 1 })
	if n := s.loop.Blocks(); n != 0 {
		t.Errorf("%d blocks are still in use", n)
	}
}

func wait(t testing.TB, f func() bool) {
	t.Helper()
	for range 12_000 { // a minute: this is no measurement
		if f() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it didn't happen within a minute")
}

// A client that doesn't read its stream holds up nobody else, and is given up after the timeout.
func TestSlowReader(t *testing.T) {
	s := serveStoryland(t, Options{}, HandlerOptions{Timeout: 200 * time.Millisecond, MaxSamples: 64})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(1024)
	// Many tokens with many alternatives: more than the buffers between the two hold.
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":400,"n":48,"ignore_eos":true,"stream":true,"logprobs":20}`, prompt)
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	wait(t, func() bool { return s.loop.Stats().New > 0 || s.loop.Stats().Last.Chosen > 0 })
	begin := time.Now()
	code, v := s.post(t, "/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":10,"temperature":0}`, prompt))
	if want := s.alone(t, generate.Options{MaxNewTokens: 10}); code != 200 || at(v, "choices", 0, "text") != want.Text {
		t.Errorf("status %d, %v, want %q", code, v, want.Text)
	}
	t.Logf("another client had its answer after %v", time.Since(begin))
	wait(t, func() bool { return s.loop.Stats().Cancelled+s.loop.Stats().Finished == 2 })
}

// A shutdown lets running requests finish and refuses new ones.
func TestShutdown(t *testing.T) {
	m, tok := storyland(t)
	ctx, cancel := context.WithCancel(context.Background())
	addr := make(chan net.Addr, 1)
	done := make(chan error, 1)
	go func() {
		done <- ListenAndServe(ctx, ServerOptions{Model: m, Tokenizer: tok, Addr: ":0", Ready: func(a net.Addr) { addr <- a }})
	}()
	a := (<-addr).(*net.TCPAddr)
	if !a.IP.IsLoopback() {
		t.Errorf("without a host it listens on %v, want the loopback interface", a.IP)
	}
	url := fmt.Sprintf("http://%v/v1/completions", a)
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":300,"ignore_eos":true,"temperature":0,"stream":true}`, prompt)
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	list, err := events(io.MultiReader(bytes.NewReader([]byte(first)), lines))
	if err != nil || len(list) < 200 {
		t.Errorf("the running request had %d events, %v", len(list), err)
	}
	if resp, err := http.Post(url, "application/json", strings.NewReader(body)); err == nil {
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a request during the shutdown: status %d, want 503 or no connection", resp.StatusCode)
		}
		resp.Body.Close()
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A shutdown that takes too long cancels what still runs.
func TestShutdownCancels(t *testing.T) {
	m, _ := storyland(t)
	loop, err := Start(Model(m), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var streams []*Stream
	for i := range 20 {
		st, err := loop.Submit(context.Background(), &Request{Prompt: []int{1, 2, i + 3}, Options: generate.Options{MaxNewTokens: 480, EOS: []int{}}})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, st)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := loop.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v, want the context's error", err)
	}
	cancelled := 0
	for _, st := range streams {
		r, err := st.Wait(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if r[0].Reason == generate.ReasonCancelled {
			cancelled++
		}
	}
	if cancelled == 0 {
		t.Error("nothing was cancelled")
	}
	if n := loop.Blocks(); n != 0 {
		t.Errorf("%d blocks leaked", n)
	}
	if _, err := loop.Submit(context.Background(), &Request{Prompt: []int{1}}); !errors.Is(err, ErrClosed) {
		t.Errorf("submit after the shutdown: %v, want ErrClosed", err)
	}
}

// Too many waiting requests are refused with the protocol's error.
func TestTooMany(t *testing.T) {
	s := serveStoryland(t, Options{MaxBatch: 1, MaxWaiting: 1}, HandlerOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range 2 { // one runs, one waits
		if _, err := s.loop.Submit(ctx, &Request{Prompt: []int{3}, Options: generate.Options{MaxNewTokens: 480, EOS: []int{}}}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			wait(t, func() bool { return s.loop.Stats().Steps > 0 })
		}
	}
	code, v := s.post(t, "/v1/completions", `{"prompt":"a"}`)
	if code != http.StatusTooManyRequests || at(v, "error", "code") != "rate_limit_exceeded" {
		t.Errorf("status %d, %v, want 429", code, v)
	}
}
