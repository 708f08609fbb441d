package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	Role    string  `json:"role"`
	Content content `json:"content"`
	Name    string  `json:"name"`
	Refusal any     `json:"refusal"`
}

// content is a string, or a list of parts of which only text is understood.
type content string

func (c *content) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '[' {
		return json.Unmarshal(b, (*string)(c))
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type != "text" {
			return badRequest("messages", "content of type %q is not supported, only text", p.Type)
		}
		*c += content(p.Text)
	}
	return nil
}

// stops is a string or a list of them.
type stops []string

func (s *stops) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*s = stops{""}
		return json.Unmarshal(b, &(*s)[0])
	}
	return json.Unmarshal(b, (*[]string)(s))
}

// prompts is a text, a list of texts, a list of token ids, or a list of such lists.
type prompts struct {
	texts []string
	ids   [][]int
}

func (p *prompts) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		p.texts = []string{text}
		return nil
	}
	var ids []int
	switch {
	case json.Unmarshal(b, &p.texts) == nil && len(p.texts) > 0:
		return nil
	case json.Unmarshal(b, &ids) == nil && len(ids) > 0:
		p.texts, p.ids = nil, [][]int{ids}
		return nil
	case json.Unmarshal(b, &p.ids) == nil && len(p.ids) > 0:
		p.texts = nil
		return nil
	}
	return badRequest("prompt", "prompt must be a text, a list of texts, a list of token ids or a list of lists of token ids, and not empty")
}

// decode reads a request's body. A field that is not known is an error: ignoring it would give the client something else than it
// asked for.
func decode(body []byte, into any) *apiError {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var known *apiError
		if errors.As(err, &known) {
			return known
		}
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			field := wrong.Field[strings.LastIndex(wrong.Field, ".")+1:]
			return badRequest(field, "%s: want %s, got %s", field, wrong.Type, wrong.Value)
		}
		return badRequest("", "the body is not a request: %v", err)
	}
	if d.More() {
		return badRequest("", "the body has something after the request")
	}
	return nil
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
