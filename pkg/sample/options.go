package sample

import (
	"fmt"
	"math"
)

// Options says how a token is chosen. The zero value is greedy decoding; a field left at zero switches its step off.
type Options struct {
	// Temperature divides the logits before the softmax. 0 is greedy: the largest logit wins (lowest id on a tie), and the
	// filters below are not consulted, as with do_sample=False of transformers. 1 leaves the distribution as it is; below 1
	// sharpens it, above 1 flattens it; +Inf makes all tokens that are left equally likely. As T→0 the distribution tends to
	// greedy, except that exact ties keep sharing the probability.
	Temperature float64

	// TopK keeps the k tokens with the largest logits, exactly k: of equal ones, the lowest ids. k ≥ V keeps all.
	TopK int

	// TopP keeps the smallest set of most probable tokens whose mass reaches p (nucleus sampling, Holtzman et al. 2020). The
	// token that crosses p is kept, so at least one always is. p = 1 keeps all. Logits are float32, so a mass that falls
	// short of p by less than 1e-7 counts as reached.
	TopP float64

	// MinP drops tokens less probable than MinP × the largest probability (Nguyen et al. 2024); equal is kept, within a
	// relative 1e-7.
	MinP float64

	// TypicalP keeps the tokens whose surprise −ln p is nearest to the entropy, nearest first, until their mass reaches it
	// (locally typical sampling, Meister et al. 2023). The crossing token is kept; 1 keeps all. It can drop the likeliest token.
	TypicalP float64

	// RepetitionPenalty divides the positive and multiplies the negative logits of every token in the history, once a distinct
	// token (CTRL, Keskar et al. 2019). Above 1 discourages repetition; 1 and 0 are off.
	RepetitionPenalty float64

	// PresencePenalty is subtracted once from the logit of every token that was generated before, FrequencyPenalty once for
	// each time that it was (the OpenAI API's definition). Negative values encourage repetition.
	PresencePenalty  float64
	FrequencyPenalty float64

	// PromptLen is the number of tokens at the front of the history that are prompt: presence and frequency do not count
	// them. generate sets it when it is 0; −1 says that the prompt counts too, as in llama.cpp.
	PromptLen int

	// PenaltyLastN makes the three penalties look at the last n tokens of the history only; 0 is all of it.
	PenaltyLastN int

	// NoRepeatNGram bans every token that would complete an n-gram already in the history; 1 bans each token seen.
	NoRepeatNGram int

	// LogitBias is added to the logits of the given ids; −Inf bans a token, +Inf forces it.
	LogitBias map[int]float32

	// BadWords are token sequences that must not appear: the last token of one is banned when the history ends in the others.
	BadWords [][]int

	// Order is the order of the steps, "" is Transformers.
	Order Order

	// Seed starts the sequence's own random generator, together with Stream, which tells several samples of one prompt
	// apart. The same two numbers give the same tokens, whatever else runs beside this sequence.
	Seed   uint64
	Stream uint64
}

// Validate reports the first option that makes no sense. vocab is V, to check the ids of LogitBias and BadWords; 0 when it is
// not known yet.
func (o Options) Validate(vocab int) error {
	for _, f := range []struct {
		name   string
		v      float64
		lo, hi float64
	}{
		{"temperature", o.Temperature, 0, math.Inf(1)},
		{"top-p", o.TopP, 0, 1},
		{"min-p", o.MinP, 0, 1},
		{"typical-p", o.TypicalP, 0, 1},
		{"repetition penalty", o.RepetitionPenalty, 0, math.MaxFloat32},
		{"presence penalty", o.PresencePenalty, -math.MaxFloat32, math.MaxFloat32},
		{"frequency penalty", o.FrequencyPenalty, -math.MaxFloat32, math.MaxFloat32},
	} {
		if !(f.v >= f.lo && f.v <= f.hi) { // also when NaN
			return fmt.Errorf("sample: %s must be %s, got %v", f.name, interval(f.lo, f.hi), f.v)
		}
	}
	for _, n := range []struct {
		name   string
		v, min int
	}{
		{"top-k", o.TopK, 0},
		{"no-repeat n-gram", o.NoRepeatNGram, 0},
		{"penalty last n", o.PenaltyLastN, 0},
		{"prompt length", o.PromptLen, -1},
	} {
		if n.v < n.min {
			return fmt.Errorf("sample: %s must be at least %d, got %d", n.name, n.min, n.v)
		}
	}
	for id, b := range o.LogitBias {
		if err := checkID("logit bias", id, vocab); err != nil {
			return err
		}
		if math.IsNaN(float64(b)) {
			return fmt.Errorf("sample: logit bias of token %d is NaN", id)
		}
	}
	for i, word := range o.BadWords {
		if len(word) == 0 {
			return fmt.Errorf("sample: bad word %d is empty", i)
		}
		for _, id := range word {
			if err := checkID("bad words", id, vocab); err != nil {
				return err
			}
		}
	}
	return o.checkOrder()
}

func interval(lo, hi float64) string {
	switch {
	case lo == 0 && hi == 1:
		return "in (0, 1], or 0 for off"
	case lo == 0:
		return "0 or more"
	}
	return "a finite number"
}

func checkID(what string, id, vocab int) error {
	if id < 0 || vocab > 0 && id >= vocab {
		if vocab > 0 {
			return fmt.Errorf("sample: %s: token %d is not in the vocabulary of %d", what, id, vocab)
		}
		return fmt.Errorf("sample: %s: token id must not be negative, got %d", what, id)
	}
	return nil
}
