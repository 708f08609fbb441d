package sample

import (
	"fmt"
	"slices"
	"strings"
)

// Order lists the names of steps, separated by spaces, in the order in which they work. Each works on what the one before it
// left, so top-p after a temperature of 2 keeps more tokens than top-p before it. An order of your own may leave out steps
// whose option is off, and must name each of the others once.
type Order string

// The orders of three engines, as read from their sources. A step that an engine lacks stands where it changes least.
const (
	Transformers Order = "logit-bias repetition presence frequency no-repeat-ngram bad-words temperature top-k top-p min-p typical"
	VLLM         Order = "bad-words logit-bias repetition frequency presence no-repeat-ngram temperature min-p top-k top-p typical"
	LlamaCpp     Order = "logit-bias bad-words repetition frequency presence no-repeat-ngram top-k typical top-p min-p temperature"
)

// Names returns the steps of the order; "" is [Transformers].
func (o Order) Names() []string {
	if o == "" {
		o = Transformers
	}
	return strings.Fields(string(o))
}

// step is one entry of the pipeline: how it is called, whether options switch it on, what it does.
type step struct {
	name    string
	filter  bool // only drops tokens by their probability: greedy decoding skips it
	active  func(*Options) bool
	setting func(*Options) string
	run     func(p *Pipeline, history []int) error
}

// steps is every step there is, by name.
func steps() []step {
	return []step{
		{"logit-bias", false, func(o *Options) bool { return len(o.LogitBias) > 0 },
			func(o *Options) string { return fmt.Sprintf("%d tokens", len(o.LogitBias)) }, (*Pipeline).logitBias},
		{"bad-words", false, func(o *Options) bool { return len(o.BadWords) > 0 },
			func(o *Options) string { return fmt.Sprintf("%d sequences", len(o.BadWords)) }, (*Pipeline).badWords},
		{"repetition", false, func(o *Options) bool { return o.RepetitionPenalty != 0 && o.RepetitionPenalty != 1 },
			func(o *Options) string { return fmt.Sprintf("penalty %g", o.RepetitionPenalty) }, (*Pipeline).repetition},
		{"presence", false, func(o *Options) bool { return o.PresencePenalty != 0 },
			func(o *Options) string { return fmt.Sprintf("penalty %g", o.PresencePenalty) }, (*Pipeline).presence},
		{"frequency", false, func(o *Options) bool { return o.FrequencyPenalty != 0 },
			func(o *Options) string { return fmt.Sprintf("penalty %g", o.FrequencyPenalty) }, (*Pipeline).frequency},
		{"no-repeat-ngram", false, func(o *Options) bool { return o.NoRepeatNGram > 0 },
			func(o *Options) string { return fmt.Sprintf("n = %d", o.NoRepeatNGram) }, (*Pipeline).noRepeatNGram},
		{"temperature", false, func(o *Options) bool { return true },
			func(o *Options) string { return fmt.Sprintf("T = %g", o.Temperature) }, (*Pipeline).temperature},
		{"top-k", true, func(o *Options) bool { return o.TopK > 0 },
			func(o *Options) string { return fmt.Sprintf("k = %d", o.TopK) }, (*Pipeline).topK},
		{"top-p", true, func(o *Options) bool { return o.TopP > 0 && o.TopP < 1 },
			func(o *Options) string { return fmt.Sprintf("p = %g", o.TopP) }, (*Pipeline).topP},
		{"min-p", true, func(o *Options) bool { return o.MinP > 0 },
			func(o *Options) string { return fmt.Sprintf("p ≥ %g·p_max", o.MinP) }, (*Pipeline).minP},
		{"typical", true, func(o *Options) bool { return o.TypicalP > 0 && o.TypicalP < 1 },
			func(o *Options) string { return fmt.Sprintf("p = %g", o.TypicalP) }, (*Pipeline).typical},
	}
}

// checkOrder makes sure that no name is unknown or doubled and that no step that is switched on is missing.
func (o Options) checkOrder() error {
	names := o.Order.Names()
	for i, n := range names {
		if !slices.ContainsFunc(steps(), func(s step) bool { return s.name == n }) {
			return fmt.Errorf("sample: order: unknown step %q", n)
		}
		if slices.Contains(names[:i], n) {
			return fmt.Errorf("sample: order: step %q appears twice", n)
		}
	}
	for _, s := range steps() {
		if s.active(&o) && !slices.Contains(names, s.name) && !(s.name == "temperature" && o.Temperature == 1) {
			return fmt.Errorf("sample: order: the options ask for %q, which the order %q lacks", s.name, o.Order)
		}
	}
	return nil
}

// resolve returns the steps that the options switch on, in order. Greedy decoding ends in the step "greedy" and has no filters.
func (o *Options) resolve() []step {
	var out []step
	all := steps()
	for _, n := range o.Order.Names() {
		s := all[slices.IndexFunc(all, func(s step) bool { return s.name == n })]
		if !s.active(o) || o.Temperature == 0 && (s.filter || s.name == "temperature") {
			continue
		}
		out = append(out, s)
	}
	if o.Temperature == 0 {
		out = append(out, step{name: "greedy", setting: func(*Options) string { return "arg-max" }, run: (*Pipeline).greedy})
	}
	return out
}
