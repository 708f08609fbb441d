package tokenize

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkEncode encodes the texts that testdata/reference/tokenize_bench.py has
// put into the directory in FORWARDPASS_BENCH, one document after the other, with
// real vocabularies.
func BenchmarkEncode(b *testing.B) {
	dir := os.Getenv("FORWARDPASS_BENCH")
	if dir == "" {
		b.Skip("FORWARDPASS_BENCH is not set: run testdata/reference/tokenize_bench.py")
	}
	for _, file := range []string{
		"gpt2/encoder.json", "llama3.1/tokenizer.json", "qwen3/tokenizer.json", "o200k/tokenizer.json", "gemma3/tokenizer.json",
		"minilm/tokenizer.json", "xlm-roberta/tokenizer.json",
	} {
		tok, err := Open(vocabulary(b, file))
		if err != nil {
			b.Fatal(err)
		}
		for _, kind := range []string{"english", "chinese", "code"} {
			data, err := os.ReadFile(filepath.Join(dir, kind+".txt"))
			if err != nil {
				b.Fatal(err)
			}
			texts := strings.Split(string(data), "\x00")
			b.Run(filepath.Dir(file)+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					for _, s := range texts {
						if _, err := tok.Encode(s); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// BenchmarkOpen opens real vocabularies.
func BenchmarkOpen(b *testing.B) {
	for _, file := range []string{"llama3.1/tokenizer.json", "gemma3/tokenizer.json", "xlm-roberta/tokenizer.json", "llama2/tokenizer.model", "tiktoken/o200k_base.tiktoken", smolLM2} {
		path := vocabulary(b, file)
		b.Run(file, func(b *testing.B) {
			for b.Loop() {
				if _, err := Open(path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
