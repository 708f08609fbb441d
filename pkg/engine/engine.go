// Package engine sends prompts to a real inference server and measures it as package serve measures itself (chapter notes:
// generation in production).
//
// vLLM, SGLang, TGI, TensorRT-LLM and llama.cpp's server all speak the OpenAI protocol, so one client is enough: only the address
// differs. Tokens are streamed, with log-probabilities where the server gives them; times are taken as the events arrive:
//
//	send ──── TTFT ────▶ first token ── ITL ──▶ second ── ITL ──▶ … last
//
// [Client.Complete] is one request; [Client.Bench] is a load of many clients at once, summed up by [serve.Summarise], so that a
// table can have our scheduler, its simulation and a cluster side by side. When a lesson's model outgrows this machine, this is how
// its charts go on.
package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
)

// Options of a client.
type Options struct {
	URL     string        // of the server, up to and including /v1: "http://127.0.0.1:8000/v1"
	Key     string        // sent as bearer token; "": "none", since clients must send something
	Model   string        // what the server calls it; "": the first that it lists
	Timeout time.Duration // of one request; 0: 5 minutes
}

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	api   openai.Client
	opts  Options
	mu    sync.Mutex
	model string
}

// New makes a client; nothing is sent yet. Requests that fail are not repeated: that would spoil the times.
func New(o Options) (*Client, error) {
	if o.URL == "" {
		return nil, errors.New("engine: the server's URL is missing")
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("engine: Timeout must not be negative, got %v", o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Minute
	}
	key := o.Key
	if key == "" {
		key = "none"
	}
	api := openai.NewClient(option.WithBaseURL(o.URL), option.WithAPIKey(key), option.WithMaxRetries(0))
	return &Client{api: api, opts: o, model: o.Model}, nil
}

// Models lists what the server has.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	page, err := c.api.Models.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	var out []string
	for _, m := range page.Data {
		out = append(out, m.ID)
	}
	return out, nil
}

// Model is the model that requests go to.
func (c *Client) Model(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.model == "" {
		list, err := c.Models(ctx)
		if err != nil {
			return "", err
		}
		if len(list) == 0 {
			return "", errors.New("engine: the server has no model")
		}
		c.model = list[0]
	}
	return c.model, nil
}

// Request is what to generate. Either Prompt or Messages must be there.
type Request struct {
	Prompt   string    // continued as it is
	IDs      []int     // the same as token ids, for servers that take them; wins over Prompt
	Messages []Message // a conversation, answered by the server's chat template

	MaxTokens   int     // 0: the server's default
	Temperature float64 // 0 is greedy
	TopP        float64 // 0: off
	Seed        int64   // 0: the server's choice
	Stop        []string
	LogProbs    int            // report ln p of each token and of so many alternatives; 0: don't
	Extra       map[string]any // further fields that this server understands: "top_k", "ignore_eos"
}

// Message is one turn of a conversation.
type Message struct{ Role, Content string }

// Token is a piece of the answer, as it came. A server may put several tokens into one event: they have the same time.
type Token struct {
	Text    string
	LogProb float64            // NaN where the server gives none
	Top     map[string]float64 // ln p of alternatives by their text
	At      time.Duration      // since the request was sent
}

// Result is an answer with its times.
type Result struct {
	Text   string
	Tokens []Token
	Reason string // stop, length …

	PromptTokens, NewTokens, CachedTokens int // as the server counts; without its usage report, NewTokens counts events
	TTFT, Total                           time.Duration
	ITL                                   []time.Duration
	TPOT                                  time.Duration // mean of all but the first
}

// Complete sends one request and reads its stream to the end.
func (c *Client) Complete(ctx context.Context, r Request) (*Result, error) {
	name, err := c.Model(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	var extra []option.RequestOption
	for k, v := range r.Extra {
		extra = append(extra, option.WithJSONSet(k, v))
	}
	res := &Result{}
	begin := time.Now()
	if len(r.Messages) > 0 {
		err = c.chat(ctx, name, r, extra, res, begin)
	} else {
		err = c.text(ctx, name, r, extra, res, begin)
	}
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	res.Total = time.Since(begin)
	res.measure()
	return res, nil
}

// measure computes the latencies from the times at which tokens came.
func (r *Result) measure() {
	if r.NewTokens == 0 {
		r.NewTokens = len(r.Tokens)
	}
	if len(r.Tokens) == 0 {
		return
	}
	r.TTFT = r.Tokens[0].At
	last := r.Tokens[len(r.Tokens)-1].At
	for i, t := range r.Tokens[1:] {
		r.ITL = append(r.ITL, t.At-r.Tokens[i].At)
	}
	if r.NewTokens > 1 {
		r.TPOT = (last - r.TTFT) / time.Duration(r.NewTokens-1)
	}
}

// text asks for the continuation of a prompt.
func (c *Client) text(ctx context.Context, name string, r Request, extra []option.RequestOption, res *Result, begin time.Time) error {
	p := openai.CompletionNewParams{
		Model:         openai.CompletionNewParamsModel(name),
		Temperature:   param.NewOpt(r.Temperature),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if len(r.IDs) > 0 {
		for _, id := range r.IDs {
			p.Prompt.OfArrayOfTokens = append(p.Prompt.OfArrayOfTokens, int64(id))
		}
	} else {
		p.Prompt.OfString = param.NewOpt(r.Prompt)
	}
	setIf(&p.MaxTokens, int64(r.MaxTokens))
	setIf(&p.TopP, r.TopP)
	setIf(&p.Seed, r.Seed)
	setIf(&p.Logprobs, int64(r.LogProbs))
	p.Stop.OfStringArray = r.Stop
	s := c.api.Completions.NewStreaming(ctx, p, extra...)
	defer s.Close()
	for s.Next() {
		e, at := s.Current(), time.Since(begin)
		res.usage(e.Usage)
		for _, ch := range e.Choices {
			if ch.FinishReason != "" {
				res.Reason = string(ch.FinishReason)
			}
			res.Text += ch.Text
			lp := ch.Logprobs
			for i, piece := range lp.Tokens {
				t := Token{Text: piece, At: at, LogProb: math.NaN()}
				if i < len(lp.TokenLogprobs) {
					t.LogProb = lp.TokenLogprobs[i]
				}
				if i < len(lp.TopLogprobs) {
					t.Top = lp.TopLogprobs[i]
				}
				res.Tokens = append(res.Tokens, t)
			}
			if len(lp.Tokens) == 0 && ch.Text != "" {
				res.Tokens = append(res.Tokens, Token{Text: ch.Text, At: at, LogProb: math.NaN()})
			}
		}
	}
	return s.Err()
}

// chat asks for the next turn of a conversation.
func (c *Client) chat(ctx context.Context, name string, r Request, extra []option.RequestOption, res *Result, begin time.Time) error {
	p := openai.ChatCompletionNewParams{
		Model:         name,
		Temperature:   param.NewOpt(r.Temperature),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	for _, m := range r.Messages {
		switch m.Role {
		case "system":
			p.Messages = append(p.Messages, openai.SystemMessage(m.Content))
		case "user":
			p.Messages = append(p.Messages, openai.UserMessage(m.Content))
		case "assistant":
			p.Messages = append(p.Messages, openai.AssistantMessage(m.Content))
		default:
			return fmt.Errorf("role must be system, user or assistant, got %q", m.Role)
		}
	}
	setIf(&p.MaxTokens, int64(r.MaxTokens))
	setIf(&p.TopP, r.TopP)
	setIf(&p.Seed, r.Seed)
	if r.LogProbs > 0 {
		p.Logprobs, p.TopLogprobs = param.NewOpt(true), param.NewOpt(int64(r.LogProbs))
	}
	p.Stop.OfStringArray = r.Stop
	s := c.api.Chat.Completions.NewStreaming(ctx, p, extra...)
	defer s.Close()
	for s.Next() {
		e, at := s.Current(), time.Since(begin)
		res.usage(e.Usage)
		for _, ch := range e.Choices {
			if ch.FinishReason != "" {
				res.Reason = ch.FinishReason
			}
			res.Text += ch.Delta.Content
			for _, lp := range ch.Logprobs.Content {
				t := Token{Text: lp.Token, LogProb: lp.Logprob, At: at, Top: map[string]float64{}}
				for _, alt := range lp.TopLogprobs {
					t.Top[alt.Token] = alt.Logprob
				}
				res.Tokens = append(res.Tokens, t)
			}
			if len(ch.Logprobs.Content) == 0 && ch.Delta.Content != "" {
				res.Tokens = append(res.Tokens, Token{Text: ch.Delta.Content, At: at, LogProb: math.NaN()})
			}
		}
	}
	return s.Err()
}

func (r *Result) usage(u openai.CompletionUsage) {
	if u.TotalTokens > 0 {
		r.PromptTokens, r.NewTokens, r.CachedTokens = int(u.PromptTokens), int(u.CompletionTokens), int(u.PromptTokensDetails.CachedTokens)
	}
}

func setIf[T int64 | float64](o *param.Opt[T], v T) {
	if v != 0 {
		*o = param.NewOpt(v)
	}
}
