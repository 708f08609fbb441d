package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"forwardpass/pkg/serve"
)

// Load is how requests are sent.
type Load struct {
	Clients int           // at most so many at once; 0: 16
	Every   time.Duration // a request is sent each Every, if a client is free; 0: as soon as one is
}

// Report is what a load has come to.
type Report struct {
	Results []*Result // nil for requests that failed
	Errors  []error   // nil for those that didn't
	Records []serve.Record
}

// Summary is the metrics of the requests that were answered, as package serve has them of its own. The server's queue can't be
// seen from outside, so that all of it is in TTFT.
func (r *Report) Summary(slo serve.SLO) serve.Summary { return serve.Summarise(r.Records, slo) }

// Failed is how many requests had no answer.
func (r *Report) Failed() int { return len(r.Results) - len(r.Records) }

// Bench sends all requests and waits for the answers. A request that fails doesn't end the others; that ctx ends does.
func (c *Client) Bench(ctx context.Context, list []Request, load Load) (*Report, error) {
	if load.Clients < 0 || load.Every < 0 {
		return nil, fmt.Errorf("engine: Clients and Every must not be negative, got %d and %v", load.Clients, load.Every)
	}
	if load.Clients == 0 {
		load.Clients = 16
	}
	if _, err := c.Model(ctx); err != nil { // so that the first request doesn't pay for it
		return nil, err
	}
	out := &Report{Results: make([]*Result, len(list)), Errors: make([]error, len(list))}
	sent := make([]time.Duration, len(list))
	begin := time.Now()
	free := make(chan struct{}, load.Clients)
	var wg sync.WaitGroup
	for i, r := range list {
		if load.Every > 0 {
			select {
			case <-time.After(time.Until(begin.Add(time.Duration(i) * load.Every))):
			case <-ctx.Done():
			}
		}
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			sent[i] = time.Since(begin)
			out.Results[i], out.Errors[i] = c.Complete(ctx, r)
			<-free
		}()
	}
	wg.Wait()
	for i, r := range out.Results {
		if r != nil {
			out.Records = append(out.Records, r.record(i, sent[i]))
		}
	}
	return out, ctx.Err()
}

// record puts a result among those of package serve.
func (r *Result) record(id int, sent time.Duration) serve.Record {
	rec := serve.Record{ID: id, Arrival: sent, Scheduled: sent, First: sent + r.TTFT, Finish: sent + r.Total, Prompt: r.PromptTokens, Cached: r.CachedTokens, New: r.NewTokens}
	times := make([]time.Duration, len(r.Tokens))
	for i, t := range r.Tokens {
		times[i] = sent + t.At
	}
	rec.Times = [][]time.Duration{times}
	return rec
}

// Err joins the errors of all requests.
func (r *Report) Err() error { return errors.Join(r.Errors...) }

// String shows the tokens with their times and log-probabilities.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d prompt tokens, %d new ones, %s; TTFT %v, TPOT %v, %v in all\n", r.PromptTokens, r.NewTokens, r.Reason, r.TTFT.Round(10*time.Microsecond), r.TPOT.Round(10*time.Microsecond), r.Total.Round(10*time.Microsecond))
	for _, t := range r.Tokens {
		fmt.Fprintf(&b, "%10s  %-16q", t.At.Round(10*time.Microsecond), t.Text)
		if !math.IsNaN(t.LogProb) {
			fmt.Fprintf(&b, " %8.4f", t.LogProb)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
