package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// The wire format is the OpenAI protocol's, as its clients send and expect it: https://platform.openai.com/docs/api-reference.
// Further fields (top_k, min_p, repetition_penalty, ignore_eos, guided_regex, priority) have the names that vLLM gave them.

// apiError is an error as a client gets it.
type apiError struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

// badRequest is an error about a field of the request.
func badRequest(param, format string, args ...any) *apiError {
	e := &apiError{status: http.StatusBadRequest, Type: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
	if param != "" {
		e.Param = &param
	}
	return e
}

// about is an error that another package has found, about a field of the request.
func about(param string, err error) *apiError {
	message := err.Error()
	if _, rest, ok := strings.Cut(message, ": "); ok { // without the package's name
		message = rest
	}
	if param != "" {
		message = param + ": " + message
	}
	return badRequest(param, "%s", message)
}

func (e *apiError) with(status int, code string) *apiError {
	e.status = status
	if code != "" {
		e.Code = &code
	}
	return e
}

// common are the fields that completions and chat share. Pointers tell what is absent from what is zero.
type common struct {
	Model               string             `json:"model"`
	MaxTokens           *int               `json:"max_tokens"`
	MaxCompletionTokens *int               `json:"max_completion_tokens"`
	Temperature         *float64           `json:"temperature"`
	TopP                *float64           `json:"top_p"`
	N                   *int               `json:"n"`
	Stream              bool               `json:"stream"`
	StreamOptions       *streamOptions     `json:"stream_options"`
	Stop                stops              `json:"stop"`
	PresencePenalty     float64            `json:"presence_penalty"`
	FrequencyPenalty    float64            `json:"frequency_penalty"`
	LogitBias           map[string]float32 `json:"logit_bias"`
	Seed                *int64             `json:"seed"`
	ResponseFormat      *responseFormat    `json:"response_format"`

	TopK              *int    `json:"top_k"`
	MinP              float64 `json:"min_p"`
	RepetitionPenalty float64 `json:"repetition_penalty"`
	IgnoreEOS         bool    `json:"ignore_eos"`
	GuidedRegex       string  `json:"guided_regex"`
	Priority          int     `json:"priority"`

	// Accepted and without effect here.
	User          any `json:"user"`
	Metadata      any `json:"metadata"`
	Store         any `json:"store"`
	ServiceTier   any `json:"service_tier"`
	SafetyID      any `json:"safety_identifier"`
	PromptCacheID any `json:"prompt_cache_key"`
}

type streamOptions struct {
	IncludeUsage       bool `json:"include_usage"`
	IncludeObfuscation bool `json:"include_obfuscation"` // without effect here
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      any             `json:"strict"`
	} `json:"json_schema"`
}

type completionRequest struct {
	common
	Prompt   prompts `json:"prompt"`
	LogProbs *int    `json:"logprobs"`
	Echo     bool    `json:"echo"`
	BestOf   *int    `json:"best_of"`
	Suffix   string  `json:"suffix"`
}

type chatRequest struct {
	common
	Messages    []message       `json:"messages"`
	LogProbs    bool            `json:"logprobs"`
	TopLogProbs *int            `json:"top_logprobs"`
	Modalities  []string        `json:"modalities"`
	Tools       json.RawMessage `json:"tools"`
	ToolChoice  json.RawMessage `json:"tool_choice"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Name    string          `json:"name"`
	Refusal any             `json:"refusal"`
}

// text is what a message says: its content is a string, or a list of parts of which only text is understood. An assistant may have
// said nothing.
func (m message) text() (string, error) {
	if (m.Content == nil || string(m.Content) == "null") && m.Role == "assistant" {
		return "", nil
	}
	var text *string
	if json.Unmarshal(m.Content, &text) == nil && text != nil {
		return *text, nil
	}
	parts := list[struct {
		Type string
		Text *string
	}](m.Content)
	if parts == nil {
		return "", errors.New("content must be a string or a list of text parts")
	}
	var all string
	for i, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return "", fmt.Errorf(`content[%d] is a part of type %q; only {"type": "text", "text": …} is supported`, i, p.Type)
		}
		all += *p.Text
	}
	return all, nil
}

// list reads a JSON list; nil where it is none, is empty, or holds a null.
func list[T any](b []byte) (out []T) {
	var items []*T
	if json.Unmarshal(b, &items) != nil || slices.Contains(items, nil) {
		return nil
	}
	for _, v := range items {
		out = append(out, *v)
	}
	return out
}

// stops is a string or a list of them.
type stops []string

func (s *stops) UnmarshalJSON(b []byte) error {
	var one *string
	var several []string
	switch {
	case json.Unmarshal(b, &one) == nil:
		if *s = nil; one != nil {
			*s = stops{*one}
		}
	case json.Unmarshal(b, &several) == nil:
		*s = several
	default:
		return badRequest("stop", "stop must be a string or a list of strings")
	}
	if slices.Contains(*s, "") {
		return badRequest("stop", "stop must not hold an empty string or null")
	}
	return nil
}

// prompts is a text, a list of texts, a list of token ids, or a list of such lists.
type prompts struct {
	texts []string
	ids   [][]int
}

func (p *prompts) UnmarshalJSON(b []byte) error {
	*p = prompts{}
	var text *string
	if json.Unmarshal(b, &text) == nil && text != nil {
		p.texts = []string{*text}
		return nil
	}
	if p.texts = list[string](b); p.texts != nil {
		return nil
	}
	if ids := list[int](b); ids != nil {
		p.ids = [][]int{ids}
		return nil
	}
	lists := list[json.RawMessage](b)
	for _, l := range lists {
		if ids := list[int](l); ids != nil {
			p.ids = append(p.ids, ids)
		}
	}
	if len(lists) == 0 || len(p.ids) < len(lists) {
		return badRequest("prompt", "prompt must be a string, a list of strings, a list of token ids or a list of lists of token ids, and not empty")
	}
	return nil
}

// decode reads a request's body. A field that is not known is an error: ignoring it would give the client something else than it
// asked for.
func decode(body []byte, into any) *apiError {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var known *apiError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &wrong):
		return wrongType(wrong)
	case errors.Is(err, io.EOF):
		return badRequest("", "the body is empty: it must be a JSON object")
	case err != nil:
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			name = strings.Trim(name, `"`)
			return badRequest(name, "%s is no field that this server knows here", name)
		}
		return badRequest("", "the body is not JSON: %v", err)
	case string(bytes.TrimSpace(body)) == "null":
		return badRequest("", "the body must be an object, got null")
	case d.More():
		return badRequest("", "the body has something after the request")
	}
	return nil
}

// wrongType says in JSON's words what a value should have been.
func wrongType(e *json.UnmarshalTypeError) *apiError {
	got := map[string]string{"array": "a list", "object": "an object", "string": "a string", "bool": "true or false", "number": "a number"}[e.Value]
	if n, ok := strings.CutPrefix(e.Value, "number "); ok {
		got = fmt.Sprintf("%.40s", n)
	}
	var want string
	switch e.Type.Kind() {
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int64:
		want = "a whole number of at most 64 bits"
	case reflect.Float32, reflect.Float64:
		want = fmt.Sprintf("a number of %d bits", e.Type.Bits())
	case reflect.Slice:
		want = "a list"
	default:
		want = "an object"
	}
	path := strings.TrimPrefix(e.Field, "common.") // of the embedded struct
	if path == "" {
		return badRequest("", "the body must be %s, got %s", want, got)
	}
	field, _, _ := strings.Cut(path, ".")
	return badRequest(field, "%s must be %s, got %s", path, want, got)
}

type usage struct {
	Prompt     int            `json:"prompt_tokens"`
	Completion int            `json:"completion_tokens"`
	Total      int            `json:"total_tokens"`
	Details    *promptDetails `json:"prompt_tokens_details,omitempty"`
}

type promptDetails struct {
	Cached int `json:"cached_tokens"`
}

// reply is a completion or a chunk of one, of either kind.
type reply struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Fingerprint *string  `json:"system_fingerprint,omitempty"`
	Choices     []choice `json:"choices"`
	Usage       *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index   int           `json:"index"`
	Text    *string       `json:"text,omitempty"`    // completions
	Message *replyMessage `json:"message,omitempty"` // chat
	Delta   *delta        `json:"delta,omitempty"`   // chat, streaming

	LogProbs any     `json:"logprobs"`
	Finish   *string `json:"finish_reason"`
}

type replyMessage struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"`
}

type delta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// textLogProbs is the form of completions.
type textLogProbs struct {
	Tokens   []string             `json:"tokens"`
	LogProbs []*float64           `json:"token_logprobs"`
	Top      []map[string]float64 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

// chatLogProbs is the form of chat.
type chatLogProbs struct {
	Content []tokenLogProb `json:"content"`
	Refusal *string        `json:"refusal"`
}

type tokenLogProb struct {
	alternative
	Top []alternative `json:"top_logprobs"`
}

// alternative is a token that was possible at a place.
type alternative struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}
