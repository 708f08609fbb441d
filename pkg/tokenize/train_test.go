package tokenize

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const small = repo + "testdata/tokenizers/"

// corpus is the text that testdata/reference/tokenize_train.py gave to the
// reference trainers.
func corpus(t testing.TB) []string {
	data, err := os.ReadFile(small + "corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// hfVocab is the part of a tokenizer.json that training makes.
type hfVocab struct {
	Model struct {
		Vocab  map[string]int
		Merges [][2]string
	}
}

func readVocab(t *testing.T, data []byte) hfVocab {
	t.Helper()
	var v hfVocab
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestTrainMerges compares merges and ids with Hugging Face tokenizers, trained
// on the same corpus with the same settings.
func TestTrainMerges(t *testing.T) {
	fallback := make([]string, 0, 257)
	fallback = append(fallback, "<unk>")
	for b := range 256 {
		fallback = append(fallback, fmt.Sprintf("<0x%02X>", b))
	}
	for _, test := range []struct {
		file  string
		train func([]string, TrainOptions) (*Tokenizer, error)
		o     TrainOptions
	}{
		{"bpe.json", TrainBPE, TrainOptions{VocabSize: 900, MinFrequency: 2, Special: []string{"<|endoftext|>"}}},
		{"spbpe.json", TrainSentencePieceBPE, TrainOptions{VocabSize: 1400, MinFrequency: 2}},
	} {
		want, err := os.ReadFile(small + test.file)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := test.train(corpus(t), test.o)
		if err != nil {
			t.Fatal(err)
		}
		theirs, ours := readVocab(t, want), readVocab(t, tok.json)
		for i, m := range theirs.Model.Merges {
			if i >= len(ours.Model.Merges) || ours.Model.Merges[i] != m {
				t.Fatalf("%s: merge %d is %q, want %q", test.file, i, ours.Model.Merges[i:min(i+3, len(ours.Model.Merges))], m)
			}
		}
		if len(ours.Model.Merges) != len(theirs.Model.Merges) {
			t.Errorf("%s: %d merges, want %d", test.file, len(ours.Model.Merges), len(theirs.Model.Merges))
		}
		for token, id := range theirs.Model.Vocab {
			if got, ok := tok.ID(token); !ok || got != id {
				t.Errorf("%s: token %q has id %d, want %d", test.file, token, got, id)
			}
		}
	}
}

// TestTrainWordPiece: Hugging Face numbers ## tokens in the order of a hash table, so
// which of two equally frequent pairs comes first is chance there. What isn't is
// checked: the alphabet, and how often the merged pairs occurred.
func TestTrainWordPiece(t *testing.T) {
	data, err := os.ReadFile(small + "wordpiece.json")
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	tok, err := TrainWordPiece(corpus(t), TrainOptions{VocabSize: 1300, MinFrequency: 2, Lowercase: true,
		Trace: func(s Step) { counts = append(counts, s.Count) }})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(counts, func(a, b int) int { return b - a }) {
		t.Error("the counts of the merged pairs rise")
	}
	theirs := readVocab(t, data).Model.Vocab
	common := 0
	for token := range theirs {
		id, ok := tok.ID(token)
		if ok {
			common++
		} else if short := strings.TrimPrefix(token, "##"); runeCount(short) == 1 {
			t.Errorf("character token %q is missing", token)
		}
		if short := strings.TrimPrefix(token, "##"); runeCount(short) == 1 && short == token && id != theirs[token] {
			t.Errorf("token %q has id %d, want %d", token, id, theirs[token])
		}
	}
	if tok.VocabSize() != len(theirs) || common < len(theirs)*97/100 {
		t.Errorf("%d of %d tokens are in the vocabulary of %d", common, len(theirs), tok.VocabSize())
	}
}

// TestTrainWordPieceLikelihood: the pair with the highest ratio is merged, not
// the most frequent one.
func TestTrainWordPieceLikelihood(t *testing.T) {
	var first Step
	_, err := TrainWordPiece([]string{"aaab aaab aaab xyz"}, TrainOptions{VocabSize: 17, Likelihood: true,
		Trace: func(s Step) {
			if s.Number == 1 {
				first = s
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if first.Token != "##yz" && first.Token != "xy" || first.Score != 1 {
		t.Errorf("first merge is %q with ratio %g, want a pair of x, y, z with ratio 1", first.Token, first.Score)
	}
}

// TestTrainUnigram: probabilities that sum to less than one, every character a
// token, likelihood that grows with the rounds of one size, and a corpus that takes
// no more tokens than with the vocabulary SentencePiece learned.
func TestTrainUnigram(t *testing.T) {
	lines := corpus(t)
	var steps []Step
	tok, err := TrainUnigram(lines, TrainOptions{VocabSize: 1100, Trace: func(s Step) {
		steps = append(steps, s)
		if words := s.Words(3); len(words) != 3 || strings.Join(words[0].Tokens, "") == "" {
			t.Errorf("step %d: words %v", s.Number, words)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) < 3 || steps[0].VocabSize <= steps[len(steps)-1].VocabSize {
		t.Errorf("%d steps: want the vocabulary to shrink over at least 3", len(steps))
	}
	u := tok.model.(*unigram)
	sum := 0.0
	for id, score := range u.scores {
		if !tok.Special(id) {
			sum += math.Exp(score)
		}
	}
	if sum > 1.0001 || sum < 0.8 {
		t.Errorf("probabilities sum to %g, want a little less than 1", sum)
	}
	ours, unknown := 0, 0
	for _, s := range lines {
		ids, err := tok.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		ours += len(ids)
		for _, id := range ids {
			if tok.Special(id) {
				unknown++
			}
		}
	}
	if unknown > 0 {
		t.Errorf("%d unknown tokens in the training text itself", unknown)
	}
	theirs, err := Open(small + "unigram.json")
	if err != nil {
		t.Fatal(err)
	}
	reference := 0
	for _, s := range lines {
		ids, _ := theirs.Encode(s)
		reference += len(ids)
	}
	t.Logf("%d tokens, %d with SentencePiece's vocabulary", ours, reference)
	if float64(ours) > 1.02*float64(reference) {
		t.Errorf("%d tokens for the corpus, SentencePiece's vocabulary needs %d", ours, reference)
	}
}

// TestDigamma checks values known in closed form.
func TestDigamma(t *testing.T) {
	const gamma = 0.57721566490153286
	for _, test := range []struct{ x, want float64 }{
		{1, -gamma}, {2, 1 - gamma}, {0.5, -gamma - 2*math.Ln2}, {10, 7129.0/2520 - gamma},
	} {
		if got := digamma(test.x); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("digamma(%g) = %.12f, want %.12f", test.x, got, test.want)
		}
	}
}

// TestSave: what is saved comes back the same.
func TestSave(t *testing.T) {
	lines := corpus(t)
	for name, train := range map[string]func([]string, TrainOptions) (*Tokenizer, error){
		"bpe": TrainBPE, "wordpiece": TrainWordPiece, "sentencepiece": TrainSentencePieceBPE, "unigram": TrainUnigram,
	} {
		tok, err := train(lines, TrainOptions{VocabSize: 1300})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		dir := t.TempDir()
		if err := tok.Save(dir); err != nil {
			t.Fatal(err)
		}
		again, err := Open(filepath.Join(dir, "tokenizer.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range lines[:50] {
			a, _ := tok.Encode(s)
			b, err := again.Encode(s)
			if err != nil || !slices.Equal(a, b) {
				t.Fatalf("%s: %q: %v after saving, %v before, %v", name, s, b, a, err)
			}
		}
	}
	tok, err := Open(small + "bpe.model")
	if err != nil {
		t.Fatal(err)
	}
	if err := tok.Save(t.TempDir()); err == nil {
		t.Error("a tokenizer that wasn't trained here was saved")
	}
}

func TestTrainErrors(t *testing.T) {
	for _, test := range []struct {
		o    TrainOptions
		want string
	}{
		{TrainOptions{VocabSize: 100}, "vocabulary size 100"},
		{TrainOptions{VocabSize: -1}, "vocabulary size -1"},
		{TrainOptions{MinFrequency: -1}, "minimum frequency -1"},
		{TrainOptions{Special: []string{"a", "a"}}, `special token "a"`},
	} {
		if _, err := TrainBPE([]string{"a"}, test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: error %v, want one with %q", test.o, err, test.want)
		}
	}
	if _, err := TrainUnigram(nil, TrainOptions{}); err == nil {
		t.Error("a unigram model learned from nothing")
	}
}
