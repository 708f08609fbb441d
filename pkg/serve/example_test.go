package serve_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"forwardpass/pkg/generate"
	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
	"forwardpass/pkg/serve"
	"forwardpass/pkg/tokenize"
)

// Three users ask at once; the model answers them in one batch.
func ExampleStart() {
	m, err := model.Open("../../testdata/storyland")
	if err != nil {
		log.Fatal(err)
	}
	tok, err := tokenize.Open("../../testdata/storyland")
	if err != nil {
		log.Fatal(err)
	}
	loop, err := serve.Start(serve.Model(m), serve.Options{Prefix: serve.RadixTree})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	var streams []*serve.Stream
	for _, text := range []string{"The cat chases the dog. The one who runs away is the", "The cat chases the dog. The one who chases is the", "I love"} {
		ids, err := tok.Encode(text)
		if err != nil {
			log.Fatal(err)
		}
		s, err := loop.Submit(ctx, &serve.Request{Prompt: ids, Options: generate.Options{MaxNewTokens: 1, Tokenizer: tok}})
		if err != nil {
			log.Fatal(err)
		}
		streams = append(streams, s)
	}
	for _, s := range streams {
		r, err := s.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r[0].Text)
	}
	if err := loop.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	//  dog
	//  cat
	//  datawhale
}

// Four requests on two places: static batching keeps the second place empty while the long request runs, continuous batching gives it
// to the next. A step takes a second here.
func ExampleReplay() {
	var trace []*serve.Request
	for i, n := range []int{8, 2, 3, 3} {
		trace = append(trace, &serve.Request{Prompt: []int{i, 1, 2}, Options: generate.Options{MaxNewTokens: n}})
	}
	for _, p := range []serve.Policy{serve.Static, serve.Mixed} {
		run, err := serve.Replay(context.Background(), serve.Cost{Step: 1}.Simulate(), serve.Options{Policy: p, MaxBatch: 2}, trace)
		if err != nil {
			log.Fatal(err)
		}
		_, _, states := run.Grid(int(run.End().Seconds()))
		fmt.Println(p)
		for _, row := range states {
			for _, state := range row {
				fmt.Print([]string{" ", ".", "P", "d", "x"}[int(state)])
			}
			fmt.Println("|")
		}
	}
	// Output:
	// static
	// Pddddddd   |
	// Pd         |
	// ........Pdd|
	// ........Pdd|
	// mixed
	// Pddddddd|
	// Pd      |
	// ..Pdd   |
	// .....Pdd|
}

// A model of eight billion parameters on an accelerator that this machine doesn't have: what does chunked prefill do for the pauses
// between tokens?
func ExampleCompare() {
	w, err := model.Config{HiddenSize: 4096, IntermediateSize: 14336, NumLayers: 32, NumHeads: 32, NumKVHeads: 8, HeadDim: 128, VocabSize: 128256}.Work(2)
	if err != nil {
		log.Fatal(err)
	}
	cost := serve.Roofline(w, model.Machine{FLOPS: 400e12, Bandwidth: 2e12}, 16, 25e9)
	out, err := serve.Compare(context.Background(), cost.Simulate(), serve.Load{Requests: 500, Rate: 10, Prompt: 800, New: 100}.Trace(), serve.SLO{TTFT: time.Second},
		serve.Case{Name: "whole prompts", Options: serve.Options{Policy: serve.PrefillFirst, TokenBudget: 8192}},
		serve.Case{Name: "chunks of 256", Options: serve.Options{TokenBudget: 256}},
	)
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range out {
		fmt.Printf("%s: 99%% of the pauses are at most %v, of the first tokens %v\n", o.Name, o.Summary.ITL.P99.Round(time.Millisecond), o.Summary.TTFT.P99.Round(time.Millisecond))
	}
	// Output:
	// whole prompts: 99% of the pauses are at most 95ms, of the first tokens 186ms
	// chunks of 256: 99% of the pauses are at most 10ms, of the first tokens 178ms
}

// Where two conversations part, the tree splits; the blocks before that stay shared.
func ExampleCommon() {
	a := []int{1, 2, 3, 4, 5, 6, 7, 8}
	b := []int{1, 2, 3, 4, 5, 9, 9}
	n := serve.Common(a, b)
	p, err := kvcache.NewPool(kvcache.Dims{Layers: 1, KVHeads: 1, KDim: 1, VDim: 1}, kvcache.Options{BlockSize: 4})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d tokens in common: %d full block of %d shared, the next one copied before it is written to\n", n, n/p.BlockSize(), p.BlockSize())
	// Output:
	// 5 tokens in common: 1 full block of 4 shared, the next one copied before it is written to
}
