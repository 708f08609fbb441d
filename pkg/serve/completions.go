package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/sample"
	"forwardpass/pkg/tokenize"
)

// answer is a request on its way to the client: prompts, the form of the reply, and how it is delivered.
type answer struct {
	h        *Handler
	w        http.ResponseWriter
	chat     bool
	field    string // of the request, that the prompts come from
	stream   bool
	usage    bool // with the stream
	logProbs int  // how many alternatives are reported; -1: no log-probabilities at all
	head     reply
	prompts  [][]int
	samples  int
	seen     []int     // of each choice: the token before the next
	offsets  []int     // of each choice: bytes of token texts so far
	gathered [][]token // of each choice
	opened   bool      // the stream has begun
}

// token is a new token with the text that it stands for by itself.
type token struct {
	generate.Token
	piece string
	top   []string
}

func (h *Handler) completions(w http.ResponseWriter, r *http.Request) {
	var q completionRequest
	e := h.body(w, r, &q)
	if e == nil {
		e = h.check(q.Model)
	}
	if e == nil {
		switch {
		case len(q.Prompt.texts)+len(q.Prompt.ids) == 0:
			e = badRequest("prompt", "prompt is missing: it must be a string, a list of strings, a list of token ids or a list of lists of token ids")
		case q.Echo:
			e = badRequest("echo", "echo is not supported")
		case q.Suffix != "":
			e = badRequest("suffix", "suffix is not supported")
		case q.BestOf != nil && *q.BestOf != 1 && (q.N == nil || *q.BestOf != *q.N):
			e = badRequest("best_of", "best_of is not supported: use n")
		case q.LogProbs != nil && (*q.LogProbs < 0 || *q.LogProbs > 20):
			e = badRequest("logprobs", "logprobs must be 0…20, got %d", *q.LogProbs)
		}
	}
	if e != nil {
		fail(w, e)
		return
	}
	for i, ids := range q.Prompt.ids {
		for j, id := range ids {
			if last := h.model.Config.VocabSize - 1; id < 0 || id > last {
				fail(w, badRequest("prompt", "prompt %d: token %d must be an id from 0 to %d, got %d", i, j, last, id))
				return
			}
		}
	}
	a := &answer{h: h, w: w, field: "prompt", logProbs: -1, prompts: q.Prompt.ids, head: reply{ID: id("cmpl-"), Object: "text_completion"}}
	for _, text := range q.Prompt.texts {
		ids, err := h.tok.Encode(text)
		if err != nil {
			fail(w, about("prompt", err))
			return
		}
		a.prompts = append(a.prompts, ids)
	}
	if q.LogProbs != nil {
		a.logProbs = *q.LogProbs
	}
	a.run(r.Context(), &q.common, 16)
}

func (h *Handler) chat(w http.ResponseWriter, r *http.Request) {
	var q chatRequest
	e := h.body(w, r, &q)
	if e == nil {
		e = h.check(q.Model)
	}
	if e == nil {
		switch {
		case len(q.Messages) == 0:
			e = badRequest("messages", "messages is missing: it must be a list of at least one message")
		case len(q.Tools) > 0 && string(q.Tools) != "null" && string(q.Tools) != "[]":
			e = badRequest("tools", "tools are not supported")
		case q.TopLogProbs != nil && (*q.TopLogProbs < 0 || *q.TopLogProbs > 20 || !q.LogProbs):
			e = badRequest("top_logprobs", "top_logprobs must be 0…20, and needs logprobs")
		}
	}
	for _, m := range q.Modalities {
		if m != "text" && e == nil {
			e = badRequest("modalities", "only text is supported, not %q", m)
		}
	}
	var turns []tokenize.Message
	for i, m := range q.Messages {
		text, err := m.text()
		switch {
		case e != nil:
		case !slices.Contains([]string{"system", "developer", "user", "assistant"}, m.Role):
			e = badRequest("messages", "messages[%d].role must be system, developer, user or assistant, got %q", i, m.Role)
		case err != nil:
			e = badRequest("messages", "messages[%d].%v", i, err)
		}
		turns = append(turns, tokenize.Message{Role: m.Role, Content: text})
	}
	if e != nil {
		fail(w, e)
		return
	}
	ids, err := h.dialogue(turns)
	if err != nil {
		fail(w, about("messages", err))
		return
	}
	a := &answer{h: h, w: w, chat: true, field: "messages", logProbs: -1, prompts: [][]int{ids}, head: reply{ID: id("chatcmpl-"), Object: "chat.completion"}}
	if q.LogProbs {
		a.logProbs = 0
		if q.TopLogProbs != nil {
			a.logProbs = *q.TopLogProbs
		}
	}
	a.run(r.Context(), &q.common, h.opts.MaxTokens)
}

// dialogue writes a conversation down as the model was trained to read it; one without a chat template gets the plain texts, a
// space between them.
func (h *Handler) dialogue(turns []tokenize.Message) ([]int, error) {
	if !h.tok.HasChat() {
		var texts []string
		for _, m := range turns {
			texts = append(texts, m.Content)
		}
		return h.tok.Encode(strings.Join(texts, " "))
	}
	for i := range turns {
		if turns[i].Role == "developer" { // the newer name
			turns[i].Role = "system"
		}
	}
	text, err := h.tok.Chat(turns, true)
	if err != nil {
		return nil, err
	}
	e, err := h.tok.EncodeWith(text, tokenize.Options{NoSpecial: true})
	return e.IDs, err
}

// run hands the prompts to the loop and delivers what comes.
func (a *answer) run(ctx context.Context, c *common, defaultTokens int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // whatever is still running when the client has its answer, or has gone
	a.stream, a.usage = c.Stream, c.StreamOptions != nil && c.StreamOptions.IncludeUsage
	a.head.Created, a.head.Model = time.Now().Unix(), a.h.opts.Name
	a.samples = 1
	if c.N != nil {
		a.samples = *c.N
	}
	most := a.h.opts.MaxSamples / len(a.prompts)
	if most == 0 {
		fail(a.w, badRequest("prompt", "prompt must hold at most %d prompts, got %d", a.h.opts.MaxSamples, len(a.prompts)))
		return
	}
	if most = min(most, a.h.loop.s.opts.MaxBatch); a.samples < 1 || a.samples > most {
		fail(a.w, badRequest("n", "n must be from 1 to %d here, got %d", most, a.samples))
		return
	}
	if c.StreamOptions != nil && !c.Stream {
		fail(a.w, badRequest("stream_options", "stream_options needs stream"))
		return
	}
	var list []*Request
	for i, ids := range a.prompts {
		if len(ids) == 0 {
			fail(a.w, badRequest(a.field, "%s must have at least one token, prompt %d has none", a.field, i))
			return
		}
		o, e := a.h.options(c, a.field, len(ids), defaultTokens)
		if e != nil {
			fail(a.w, e)
			return
		}
		if a.logProbs >= 0 {
			o.LogProbs = max(1, a.logProbs)
		}
		list = append(list, &Request{Prompt: ids, Options: o, Samples: a.samples, Priority: c.Priority})
		for range a.samples {
			a.seen = append(a.seen, ids[len(ids)-1])
		}
	}
	a.offsets, a.gathered = make([]int, len(a.seen)), make([][]token, len(a.seen))
	streams, e := a.h.submit(ctx, constraintField(c), list)
	if e != nil {
		fail(a.w, e)
		return
	}
	if err := a.deliver(ctx, streams); err != nil {
		a.broken(ctx, err)
	}
}

// broken tells the client about an error of the generation, if it is still there.
func (a *answer) broken(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	e := (&apiError{Type: "server_error", Message: err.Error()}).with(http.StatusInternalServerError, "")
	if !a.opened {
		fail(a.w, e)
		return
	}
	_ = a.event(map[string]any{"error": e})
}

// arrival is a token, or the end, of one of the streams.
type arrival struct {
	stream int
	token  generate.Token
	err    error
}

// deliver reads all streams at once and sends their tokens, or gathers them.
func (a *answer) deliver(ctx context.Context, streams []*Stream) error {
	arrivals := make(chan arrival)
	for i, st := range streams {
		go func() {
			for {
				t, err := st.Next(ctx)
				select {
				case arrivals <- arrival{i, t, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
	}
	if a.stream {
		if err := a.open(); err != nil {
			return err
		}
	}
	var u usage
	cached := 0
	ends := make([]*generate.Result, len(a.seen))
	for open := len(streams); open > 0; {
		var x arrival
		select {
		case x = <-arrivals:
		case <-ctx.Done():
			return ctx.Err()
		}
		first := x.stream * a.samples
		if errors.Is(x.err, io.EOF) {
			open--
			rec := streams[x.stream].Record()
			u.Prompt, u.Completion, cached = u.Prompt+rec.Prompt, u.Completion+rec.New, cached+rec.Cached
			for i, r := range streams[x.stream].Results() {
				ends[first+i] = r
				if a.stream {
					if err := a.end(first+i, r); err != nil {
						return err
					}
				}
			}
			continue
		}
		if x.err != nil {
			return x.err
		}
		if err := a.token(first+x.token.Sample, x.token); err != nil {
			return err
		}
	}
	u.Total = u.Prompt + u.Completion
	if cached > 0 {
		u.Details = &promptDetails{min(cached, u.Prompt)}
	}
	if !a.stream {
		a.whole(ends, u)
		return nil
	}
	if a.usage {
		last := a.head
		last.Choices, last.Usage = []choice{}, &u
		if err := a.event(last); err != nil {
			return err
		}
	}
	return a.raw("[DONE]")
}

// token sends or keeps a new token of a choice.
func (a *answer) token(i int, t generate.Token) error {
	k := token{Token: t}
	if a.logProbs >= 0 {
		k.piece = a.piece(a.seen[i], t.ID)
		for _, alt := range t.Top[:min(len(t.Top), a.logProbs)] {
			k.top = append(k.top, a.piece(a.seen[i], alt.ID))
		}
	}
	a.seen[i] = t.ID
	if !a.stream {
		a.gathered[i] = append(a.gathered[i], k)
		return nil
	}
	if t.Text == "" && a.logProbs < 0 {
		return nil // nothing certain yet
	}
	out := a.head
	out.Choices = []choice{a.part(i, t.Text, []token{k})}
	return a.event(out)
}

// part is a chunk of a choice.
func (a *answer) part(i int, text string, tokens []token) choice {
	c := choice{Index: i, LogProbs: a.probabilities(i, tokens)}
	if a.chat {
		c.Delta = &delta{Content: &text}
	} else {
		c.Text = &text
	}
	return c
}

// end sends the last chunk of a choice: why it ended.
func (a *answer) end(i int, r *generate.Result) error {
	empty, why := "", finish(r.Reason)
	c := choice{Index: i, Finish: &why}
	if a.chat {
		c.Delta = &delta{}
	} else {
		c.Text = &empty
	}
	out := a.head
	out.Choices = []choice{c}
	return a.event(out)
}

// whole sends everything at once.
func (a *answer) whole(ends []*generate.Result, u usage) {
	out := a.head
	out.Usage = &u
	for i, r := range ends {
		why := finish(r.Reason)
		c := choice{Index: i, Finish: &why, LogProbs: a.probabilities(i, a.gathered[i])}
		if a.chat {
			c.Message = &replyMessage{Role: "assistant", Content: r.Text}
		} else {
			c.Text = &r.Text
		}
		out.Choices = append(out.Choices, c)
	}
	_ = http.NewResponseController(a.w).SetWriteDeadline(time.Now().Add(a.h.opts.Timeout))
	send(a.w, out)
}

// piece is the text of a token behind another one: some vocabularies drop the space in front of a first token.
func (a *answer) piece(before, id int) string {
	tok := a.h.tok
	if s, ok := strings.CutPrefix(tok.Decode([]int{before, id}), tok.Decode([]int{before})); ok && s != "" {
		return s
	}
	if s := tok.Decode([]int{id}); s != "" {
		return s
	}
	return tok.Tokens([]int{id})[0] // special
}

// probabilities are the log-probabilities of tokens in the form that the reply wants; nil where none were asked for.
func (a *answer) probabilities(i int, tokens []token) any {
	if a.logProbs < 0 {
		return nil
	}
	if a.chat {
		out := chatLogProbs{Content: []tokenLogProb{}}
		for _, t := range tokens {
			p := tokenLogProb{alternative: one(t.piece, t.LogProb), Top: []alternative{}}
			for j, alt := range alternatives(t) {
				p.Top = append(p.Top, one(t.top[j], alt.LogProb))
			}
			out.Content = append(out.Content, p)
		}
		return out
	}
	out := textLogProbs{Tokens: []string{}}
	for _, t := range tokens {
		out.Tokens = append(out.Tokens, t.piece)
		out.LogProbs = append(out.LogProbs, &t.LogProb)
		out.Offsets = append(out.Offsets, a.offsets[i])
		a.offsets[i] += len(t.piece)
		top := map[string]float64{}
		for j, alt := range alternatives(t) {
			top[t.top[j]] = alt.LogProb
		}
		out.Top = append(out.Top, top)
	}
	return out
}

func alternatives(t token) []sample.LogProb { return t.Top[:len(t.top)] }

func one(piece string, p float64) alternative {
	out := alternative{Token: strings.ToValidUTF8(piece, "\uFFFD"), LogProb: p}
	for _, b := range []byte(piece) {
		out.Bytes = append(out.Bytes, int(b))
	}
	return out
}

// open begins a stream of server-sent events.
func (a *answer) open() error {
	a.opened = true
	if a.chat {
		a.head.Object = "chat.completion.chunk"
	}
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.w.Header().Set("Cache-Control", "no-cache")
	if !a.chat {
		return nil
	}
	out, empty := a.head, ""
	for i := range a.seen {
		out.Choices = append(out.Choices, choice{Index: i, Delta: &delta{Role: "assistant", Content: &empty}})
	}
	return a.event(out)
}

func (a *answer) event(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return a.raw(string(data))
}

// raw sends one event. A client that doesn't read it within Timeout is given up.
func (a *answer) raw(data string) error {
	c := http.NewResponseController(a.w)
	if err := c.SetWriteDeadline(time.Now().Add(a.h.opts.Timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := io.WriteString(a.w, "data: "+data+"\n\n"); err != nil {
		return err
	}
	return c.Flush()
}
