package main

import (
	"fmt"
	"strings"

	"forwardpass/pkg/tokenize"
)

var texts = []string{
	"The quick brown fox jumps over the lazy dog because",
	"Once upon a time there was a small village by the sea, and in that village lived",
	"def fibonacci(n):\n    if n < 2:\n        return n\n",
	"Water boils at one hundred degrees. The reason is that",
	"Question: What is the capital of France, and what is it known for?\nAnswer:",
}

// exact compares greedy text, 64 tokens after each of five prompts: every engine with our default on the same
// file, and our default on every file with that on the F32 file.
func (o *options) exact(threads int) error {
	tok, err := tokenize.Open(o.gguf)
	if err != nil {
		return err
	}
	ws, err := o.startAll(threads)
	if err != nil {
		return err
	}
	defer stopAll(ws)
	got := map[string][][]int{}
	for _, w := range ws {
		for _, text := range texts {
			ids, err := tok.Encode(text)
			if err != nil {
				return err
			}
			r, err := w.run(request{Prompt: ids, Gen: o.gen - 1})
			if err != nil {
				return err
			}
			got[w.name] = append(got[w.name], r.IDs)
		}
	}
	fmt.Printf("\nGreedy text: of five prompts, how many give the same %d tokens, and after how many tokens the others part.\n\n", o.gen)
	fmt.Print("| engine | same as ours on this type | same as ours/f32 |\n|---|---|---|\n")
	for _, w := range ws {
		kind := strings.Split(w.name, "/")[1]
		fmt.Printf("| %s | %s | %s |\n", w.name, same(got[w.name], got["ours/"+kind]), same(got[w.name], got["ours/f32"]))
	}
	return nil
}

func same(got, want [][]int) string {
	equal, parts := 0, []string{}
	for j := range want {
		n := 0
		for n < len(want[j]) && n < len(got[j]) && got[j][n] == want[j][n] {
			n++
		}
		if n == len(want[j]) {
			equal++
		} else {
			parts = append(parts, fmt.Sprint(n))
		}
	}
	if want == nil {
		return ""
	}
	s := fmt.Sprintf("%d of %d", equal, len(want))
	if len(parts) > 0 {
		s += " (" + strings.Join(parts, ", ") + ")"
	}
	return s
}
