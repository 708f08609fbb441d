package lesson

import (
	"context"
	"slices"
	"time"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/model"
)

// Speed is how long a model takes for a prompt and for each token after it.
type Speed struct {
	TTFT time.Duration // to the first token: prefill
	TPOT time.Duration // for each further one
}

// Millis is a time in milliseconds, as charts show it.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Time generates n tokens after a prompt three times, with the cache or running everything again at each step, and
// returns the medians.
func Time(m *model.Model, prompt []int, n int, cached bool) (Speed, error) {
	var first, each []time.Duration
	for range 3 {
		res, err := generate.Run(context.Background(), m, prompt, generate.Options{
			MaxNewTokens: n, EOS: []int{}, Cache: generate.CacheOptions{Off: !cached}})
		if err != nil {
			return Speed{}, err
		}
		first, each = append(first, res.Timings.TTFT), append(each, res.Timings.ITL...)
	}
	return Speed{TTFT: median(first), TPOT: median(each)}, nil
}

// median is the middle one, 0 of none.
func median(x []time.Duration) time.Duration {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[len(x)/2]
}

// Text is the first n ids of a text that is repeated until it is long enough: a prompt of any length.
func (lm *LM) Text(text string, n int) ([]int, error) {
	ids, err := lm.Tok.Encode(text)
	if err != nil {
		return nil, err
	}
	out := ids
	for len(out) < n {
		out = append(out, ids...)
	}
	return out[:n], nil
}
