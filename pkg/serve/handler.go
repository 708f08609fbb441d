package serve

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/model"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tokenize"
)

// Handler answers the OpenAI protocol with a loop: /v1/models, /v1/completions and /v1/chat/completions; also /health, and
// /metrics in the text format of Prometheus.
type Handler struct {
	loop  *Loop
	model *model.Model
	tok   *tokenize.Tokenizer
	opts  HandlerOptions
	eos   []int
	began time.Time
	mux   *http.ServeMux

	mu          sync.Mutex
	constraints map[string]*generate.Constraint // by what they were made from: to make and bind one takes time
}

// HandlerOptions are limits and names. The zero value is the default beside each.
type HandlerOptions struct {
	Name       string        // what clients call the model; "forwardpass"
	Key        string        // clients must send it as a bearer token; "": none
	MaxBody    int64         // bytes of a request; 1 MiB
	MaxTokens  int           // new tokens of a request; the model's context
	MaxSamples int           // of all prompts of a request together; 16
	Timeout    time.Duration // how long a client may take to send its request, and to read what has been sent; 30 s
}

// NewHandler makes a Handler for a loop that runs the model.
func NewHandler(l *Loop, m *model.Model, tok *tokenize.Tokenizer, opts HandlerOptions) (*Handler, error) {
	if opts.MaxBody < 0 || opts.MaxTokens < 0 || opts.MaxSamples < 0 || opts.Timeout < 0 {
		return nil, fmt.Errorf("serve: limits must not be negative: %+v", opts)
	}
	if opts.Name == "" {
		opts.Name = "forwardpass"
	}
	if opts.MaxBody == 0 {
		opts.MaxBody = 1 << 20
	}
	if opts.MaxTokens == 0 {
		opts.MaxTokens = m.Config.MaxPositions
	}
	if opts.MaxSamples == 0 {
		opts.MaxSamples = 16
	}
	if opts.Timeout == 0 {
		opts.Timeout = 30 * time.Second
	}
	h := &Handler{loop: l, model: m, tok: tok, opts: opts, began: time.Now(), mux: http.NewServeMux(), constraints: map[string]*generate.Constraint{}}
	for _, id := range slices.Concat(m.Config.EOS, tok.EOS()) {
		if id >= 0 && id < m.Config.VocabSize && !slices.Contains(h.eos, id) {
			h.eos = append(h.eos, id)
		}
	}
	h.mux.HandleFunc("GET /v1/models", h.models)
	h.mux.HandleFunc("GET /v1/models/{id...}", h.models)
	h.mux.HandleFunc("POST /v1/completions", h.completions)
	h.mux.HandleFunc("POST /v1/chat/completions", h.chat)
	h.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	h.mux.HandleFunc("GET /metrics", h.metrics)
	return h, nil
}

// ServeHTTP checks the key and where a browser comes from, and answers.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" && !isLocal(strings.TrimPrefix(strings.TrimPrefix(origin, "http://"), "https://")) {
		fail(w, badRequest("", "requests from other sites are refused").with(http.StatusForbidden, "forbidden_origin"))
		return
	}
	if h.opts.Key != "" && r.URL.Path != "/health" {
		got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(got), []byte(h.opts.Key)) != 1 {
			fail(w, (&apiError{Type: "authentication_error", Message: "wrong or missing API key"}).with(http.StatusUnauthorized, "invalid_api_key"))
			return
		}
	}
	if _, pattern := h.mux.Handler(r); pattern == "" {
		status, message := http.StatusNotFound, "there is no "+r.URL.Path
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			other := r.Clone(r.Context())
			other.Method = m
			if _, p := h.mux.Handler(other); p != "" {
				status, message = http.StatusMethodNotAllowed, fmt.Sprintf("%s takes %s, not %s", r.URL.Path, m, r.Method)
				w.Header().Set("Allow", m)
			}
		}
		fail(w, badRequest("", "%s", message).with(status, ""))
		return
	}
	h.mux.ServeHTTP(w, r)
}

func fail(w http.ResponseWriter, e *apiError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": e}) // the client may have gone
}

func send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (h *Handler) models(w http.ResponseWriter, r *http.Request) {
	card := map[string]any{"id": h.opts.Name, "object": "model", "created": h.began.Unix(), "owned_by": "forwardpass", "max_model_len": h.model.Config.MaxPositions}
	if id := r.PathValue("id"); id != "" {
		if e := h.check(id); e != nil {
			fail(w, e)
			return
		}
		send(w, card)
		return
	}
	send(w, map[string]any{"object": "list", "data": []any{card}})
}

func (h *Handler) check(name string) *apiError {
	if name != "" && name != h.opts.Name {
		return badRequest("model", "the model %q does not exist; this server has %q", name, h.opts.Name).with(http.StatusNotFound, "model_not_found")
	}
	return nil
}

func (h *Handler) metrics(w http.ResponseWriter, _ *http.Request) {
	s := h.loop.Stats()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for _, m := range []struct {
		name, kind, help string
		value            float64
	}{
		{"requests_total", "counter", "Requests that were accepted.", float64(s.Requests)},
		{"requests_finished_total", "counter", "Requests that finished by themselves.", float64(s.Finished)},
		{"requests_cancelled_total", "counter", "Requests whose client has gone.", float64(s.Cancelled)},
		{"requests_failed_total", "counter", "Requests that ended with an error.", float64(s.Failed)},
		{"prompt_tokens_total", "counter", "Tokens of prompts.", float64(s.Prompt)},
		{"cached_tokens_total", "counter", "Tokens of prompts that the prefix cache had.", float64(s.Cached)},
		{"generation_tokens_total", "counter", "New tokens.", float64(s.New)},
		{"steps_total", "counter", "Forward passes.", float64(s.Steps)},
		{"preemptions_total", "counter", "Sequences that were put aside for lack of blocks.", float64(s.Preempted)},
		{"busy_seconds_total", "counter", "Time in steps.", s.Busy.Seconds()},
		{"running", "gauge", "Sequences in the latest step.", float64(s.Last.Running)},
		{"waiting", "gauge", "Sequences that waited after it.", float64(s.Last.Waiting)},
		{"blocks_in_use", "gauge", "Cache blocks that requests have.", float64(h.loop.Blocks())},
	} {
		fmt.Fprintf(w, "# HELP forwardpass_%s %s\n# TYPE forwardpass_%s %s\nforwardpass_%s %g\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
}

// body reads a request.
func (h *Handler) body(w http.ResponseWriter, r *http.Request, into any) *apiError {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(h.opts.Timeout)) // where the connection has deadlines
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return badRequest("", "the body is larger than %d bytes", h.opts.MaxBody).with(http.StatusRequestEntityTooLarge, "body_too_large")
	}
	if err != nil {
		return badRequest("", "the body can't be read: %v", err)
	}
	_ = c.SetReadDeadline(time.Time{}) // an answer may take longer
	return decode(data, into)
}

// options makes generation options of a request's fields. field is the one that the prompt comes from.
func (h *Handler) options(c *common, field string, promptLen, defaultTokens int) (generate.Options, *apiError) {
	o := generate.Options{Tokenizer: h.tok, EOS: h.eos, Stop: c.Stop}
	if c.IgnoreEOS {
		o.EOS = []int{}
	}
	limit := h.model.Config.MaxPositions - promptLen
	if limit < 1 {
		return o, badRequest(field, "the prompt has %d tokens, and the context is %d: there is no room for an answer", promptLen, h.model.Config.MaxPositions).with(400, "context_length_exceeded")
	}
	m := h.loop.s.memory
	if !m.fits(promptLen + 1) {
		return o, badRequest(field, "the prompt's %d tokens and a new one take %d cache blocks, this server has %d", promptLen, m.blocks(promptLen+1), m.opts.Blocks)
	}
	n, length := defaultTokens, "max_tokens"
	switch {
	case c.MaxCompletionTokens != nil:
		n, length = *c.MaxCompletionTokens, "max_completion_tokens"
	case c.MaxTokens != nil:
		n = *c.MaxTokens
	default: // what there is room for
		n = min(n, limit, h.opts.MaxTokens)
		if m.opts.Blocks > 0 {
			n = min(n, m.opts.Blocks*m.opts.BlockSize-promptLen)
		}
	}
	if n < 1 || n > h.opts.MaxTokens {
		return o, badRequest(length, "%s must be from 1 to %d here, got %d", length, h.opts.MaxTokens, n)
	}
	if n > limit {
		return o, badRequest(length, "the prompt's %d tokens and %d new ones are more than the context of %d", promptLen, n, h.model.Config.MaxPositions).with(400, "context_length_exceeded")
	}
	if !m.fits(promptLen + n) {
		return o, badRequest(length, "the prompt's %d tokens and %d new ones take %d cache blocks, this server has %d", promptLen, n, m.blocks(promptLen+n), m.opts.Blocks)
	}
	o.MaxNewTokens = n
	if len(c.Stop) > 16 {
		return o, badRequest("stop", "stop must hold at most 16 strings, got %d", len(c.Stop))
	}
	s := sample.Options{Temperature: 1, PresencePenalty: c.PresencePenalty, FrequencyPenalty: c.FrequencyPenalty, RepetitionPenalty: c.RepetitionPenalty, MinP: c.MinP}
	if c.Temperature != nil {
		s.Temperature = *c.Temperature
	}
	if c.TopP != nil {
		s.TopP = *c.TopP
	}
	for _, f := range []struct {
		field string
		v     float64
		ok    bool
		want  string
	}{
		{"temperature", s.Temperature, s.Temperature >= 0, "0 or more"},
		{"top_p", s.TopP, c.TopP == nil || s.TopP > 0 && s.TopP <= 1, "above 0 and at most 1"},
		{"min_p", s.MinP, s.MinP >= 0 && s.MinP <= 1, "from 0 to 1"},
		{"repetition_penalty", s.RepetitionPenalty, s.RepetitionPenalty >= 0 && s.RepetitionPenalty <= 100, "above 0 and at most 100; 1 or 0 is none"},
		{"presence_penalty", s.PresencePenalty, math.Abs(s.PresencePenalty) <= 2, "from -2 to 2"},
		{"frequency_penalty", s.FrequencyPenalty, math.Abs(s.FrequencyPenalty) <= 2, "from -2 to 2"},
	} {
		if !f.ok {
			return o, badRequest(f.field, "%s must be %s, got %v", f.field, f.want, f.v)
		}
	}
	if c.TopK != nil {
		if s.TopK = max(0, *c.TopK); *c.TopK < -1 {
			return o, badRequest("top_k", "top_k must be at least 1, or 0 or -1 for all tokens, got %d", *c.TopK)
		}
	}
	if c.Seed != nil {
		s.Seed = uint64(*c.Seed)
	} else {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		for _, x := range b {
			s.Seed = s.Seed<<8 | uint64(x)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.LogitBias)) {
		id, err := strconv.Atoi(key)
		if last := h.model.Config.VocabSize - 1; err != nil || id < 0 || id > last {
			return o, badRequest("logit_bias", "logit_bias must be by token ids from 0 to %d, got %q", last, key)
		}
		b := c.LogitBias[key]
		if b < -100 || b > 100 {
			return o, badRequest("logit_bias", "logit_bias of token %d must be from -100 to 100, got %v", id, b)
		}
		if s.LogitBias == nil {
			s.LogitBias = map[int]float32{}
		}
		s.LogitBias[id] = b
	}
	o.Sampling = s
	var e *apiError
	o.Constraint, e = h.constraint(c)
	return o, e
}

// constraintField is the field that says what the answer must match, "" for none.
func constraintField(c *common) string {
	switch {
	case c.GuidedRegex != "":
		return "guided_regex"
	case c.ResponseFormat != nil && c.ResponseFormat.Type == "json_schema":
		return "response_format"
	}
	return ""
}

// constraint is what the answer must match.
func (h *Handler) constraint(c *common) (*generate.Constraint, *apiError) {
	key, param := "", constraintField(c)
	build := func() (*generate.Constraint, error) { return nil, nil }
	if f := c.ResponseFormat; f != nil {
		switch f.Type {
		case "text", "":
		case "json_schema":
			if f.JSONSchema == nil || len(f.JSONSchema.Schema) == 0 || string(f.JSONSchema.Schema) == "null" {
				return nil, badRequest("response_format", "response_format.json_schema.schema is missing: it must be an object")
			}
			key = "schema " + string(f.JSONSchema.Schema)
			build = func() (*generate.Constraint, error) { return generate.JSONSchema(f.JSONSchema.Schema) }
		default:
			return nil, badRequest("response_format", "response_format of type %q is not supported: use text or json_schema", f.Type)
		}
	}
	if c.GuidedRegex != "" {
		if key != "" {
			return nil, badRequest(param, "guided_regex and response_format exclude each other")
		}
		key = "regex " + c.GuidedRegex
		build = func() (*generate.Constraint, error) { return generate.Regex(c.GuidedRegex) }
	}
	if key == "" {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.constraints[key]; known != nil {
		return known, nil
	}
	made, err := build()
	if err != nil {
		return nil, about(param, err)
	}
	if len(h.constraints) >= 16 {
		clear(h.constraints)
	}
	h.constraints[key] = made
	return made, nil
}

// id is a name for a reply.
func id(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// submit hands the requests over; if one is refused, those before it are cancelled with ctx by the caller. What the other fields ask
// for has been checked: field is the constraint's.
func (h *Handler) submit(ctx context.Context, field string, list []*Request) ([]*Stream, *apiError) {
	var out []*Stream
	for _, q := range list {
		st, err := h.loop.Submit(ctx, q)
		switch {
		case errors.Is(err, ErrClosed):
			return nil, (&apiError{Type: "service_unavailable", Message: "the server is shutting down"}).with(http.StatusServiceUnavailable, "shutting_down")
		case errors.Is(err, ErrFull):
			return nil, (&apiError{Type: "rate_limit_error", Message: err.Error()}).with(http.StatusTooManyRequests, "rate_limit_exceeded")
		case err != nil:
			return nil, about(field, err)
		}
		out = append(out, st)
	}
	return out, nil
}

// finish is why a continuation ended, in the protocol's words.
func finish(r generate.Reason) string {
	switch r {
	case generate.ReasonLength, generate.ReasonContext:
		return "length"
	case generate.ReasonCancelled, generate.ReasonError:
		return "abort"
	}
	return "stop"
}
