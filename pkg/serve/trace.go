package serve

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/sample"
)

// Load describes requests that come at random. The zero value of a field is the default beside it.
type Load struct {
	Requests int     // 100
	Rate     float64 // requests a second, on average; 0: all come at the same moment
	Burst    int     // requests that come together: 1 (0) is a Poisson process, more is a bursty trace
	Prompt   int     // mean prompt length, 32 tokens; lengths are spread exponentially
	New      int     // mean number of new tokens, 16, spread likewise
	Longest  int     // the most tokens of a prompt, and of an answer: 4 × the mean
	Limit    int     // what requests allow for an answer (MaxNewTokens), however long it becomes; 0: just its length
	Prompts  [][]int // prompts to draw from, instead of random ids
	Vocab    int     // random ids are below it; 512
	Seed     uint64
	Sampling sample.Options
}

func (l Load) complete() Load {
	for _, d := range []struct {
		v   *int
		def int
	}{{&l.Requests, 100}, {&l.Burst, 1}, {&l.Prompt, 32}, {&l.New, 16}, {&l.Vocab, 512}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	return l
}

// draw is a length: 1 and an exponentially spread number, with the given mean.
func (l Load) draw(rng *rand.Rand, mean int) int {
	longest := 4 * mean
	if l.Longest > 0 {
		longest = l.Longest
	}
	return min(longest, 1+int(rng.ExpFloat64()*float64(mean-1)+0.5))
}

func (l Load) tokens(rng *rand.Rand, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = rng.IntN(l.Vocab)
	}
	return out
}

// fill sets the length of the answer and its options.
func (l Load) fill(q *Request, rng *rand.Rand) {
	q.Length = l.draw(rng, l.New)
	q.Options = generate.Options{MaxNewTokens: max(l.Limit, q.Length), Sampling: l.Sampling, EOS: []int{}}
	q.Options.Sampling.Seed += rng.Uint64()
}

// Trace makes the requests: the same ones for the same load.
func (l Load) Trace() []*Request {
	l = l.complete()
	rng := rand.New(rand.NewPCG(l.Seed, 1))
	at := time.Duration(0)
	out := make([]*Request, l.Requests)
	for i := range out {
		if l.Rate > 0 && i%l.Burst == 0 && i > 0 {
			at += time.Duration(rng.ExpFloat64() * float64(l.Burst) / l.Rate * float64(time.Second))
		}
		q := &Request{Arrival: at}
		if len(l.Prompts) > 0 {
			q.Prompt = l.Prompts[rng.IntN(len(l.Prompts))]
		} else {
			q.Prompt = l.tokens(rng, l.draw(rng, l.Prompt))
		}
		l.fill(q, rng)
		out[i] = q
	}
	return out
}

// Chat is a load of conversations: each user's first prompt is a system prompt that all share and a message; each further one is
// the conversation so far, with the model's answer, and another message. Requests is the number of users; messages are Prompt
// tokens long on average, and a user thinks for pause before the next.
func (l Load) Chat(system, turns int, pause time.Duration) []*Request {
	l = l.complete()
	rng := rand.New(rand.NewPCG(l.Seed, 2))
	shared := l.tokens(rng, system)
	out := l.Trace()
	for _, q := range out {
		own := rand.New(rand.NewPCG(rng.Uint64(), 3)) // so that a user says the same in every run
		q.Prompt = slices.Concat(shared, l.tokens(own, l.draw(own, l.Prompt)))
		q.Then = l.next(q.Prompt, own.Uint64(), turns-1, pause)
	}
	return out
}

// next makes a user's next message, and what comes after it.
func (l Load) next(before []int, seed uint64, turns int, pause time.Duration) func([]*generate.Result) *Request {
	if turns < 1 {
		return nil
	}
	return func(answers []*generate.Result) *Request {
		rng := rand.New(rand.NewPCG(seed, 4))
		q := &Request{Arrival: pause}
		l.fill(q, rng)
		q.Prompt = slices.Concat(before, answers[0].IDs, l.tokens(rng, l.draw(rng, l.Prompt)))
		q.Then = l.next(q.Prompt, rng.Uint64(), turns-1, pause)
		return q
	}
}

// FewShot is a load of questions, each behind one of several lists of solved examples of so many tokens.
func (l Load) FewShot(tasks, examples int) []*Request {
	l = l.complete()
	rng := rand.New(rand.NewPCG(l.Seed, 5))
	var shots [][]int
	for range tasks {
		shots = append(shots, l.tokens(rng, examples))
	}
	out := l.Trace()
	for _, q := range out {
		q.Prompt = slices.Concat(shots[rng.IntN(tasks)], q.Prompt)
	}
	return out
}

// byArrival orders requests by when they come.
func byArrival(a, b *Request) int { return cmp.Compare(a.Arrival, b.Arrival) }
