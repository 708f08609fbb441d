package lesson

import (
	"fmt"
	"slices"

	"forwardpass/pkg/kvcache"
)

// cacheExercises are those of lesson 10.
func cacheExercises() map[string]exercise {
	type size struct{ layers, batch, tokens, kvHeads, headDim, bytes int }
	sizes := []size{
		{1, 1, 1, 1, 1, 1},        // one key and one value
		{4, 1, 10, 4, 16, 4},      // storyland
		{32, 1, 4096, 32, 128, 2}, // the notes' example
		{32, 8, 4096, 8, 128, 2},  // grouped heads, a batch
		{30, 1, 2048, 3, 64, 4},   // SmolLM2
		{80, 64, 32768, 8, 128, 2},
		{32, 1, 0, 32, 128, 2}, // nothing yet
	}
	type appended struct{ heads, room, dim, length, tokens int }
	appends := []appended{
		{1, 4, 2, 0, 3}, // one head: one stretch
		{1, 4, 2, 3, 1},
		{2, 4, 3, 0, 2}, // two heads: each has its own stretch
		{2, 4, 3, 2, 1},
		{4, 8, 16, 5, 3},
		{2, 4, 3, 4, 1}, // full
		{2, 4, 3, 3, 2}, // not enough room: nothing may be written
	}
	return map[string]exercise{
		"kv-bytes": task("count the numbers first: each token keeps a key and a value (2) in every layer, for every key/value head, of headDim numbers; then times the tokens of all sequences, times the bytes of a number",
			len(sizes), func(f func(layers, batch, tokens, kvHeads, headDim, bytes int) int64, i int) error {
				s := sizes[i]
				want := kvcache.Dims{Layers: s.layers, KVHeads: s.kvHeads, KDim: s.headDim, VDim: s.headDim}.Bytes(s.batch, s.tokens, s.bytes)
				if got := f(s.layers, s.batch, s.tokens, s.kvHeads, s.headDim, s.bytes); got != want {
					return fmt.Errorf("KVBytes(layers %d, batch %d, tokens %d, kvHeads %d, headDim %d, bytes %d): want %d, got %d",
						s.layers, s.batch, s.tokens, s.kvHeads, s.headDim, s.bytes, want, got)
				}
				return nil
			}),
		"cache-append": task("the new keys come token by token (head h of token j begins at (j*heads+h)*dim), the cache keeps them head by head (token p of head h begins at (h*room+p)*dim); new token j is token length+j",
			len(appends), func(f func(cache []float32, heads, room, dim, length int, k []float32) int, i int) error {
				a := appends[i]
				cache := make([]float32, a.heads*a.room*a.dim) // [heads, room, dim]
				k := make([]float32, a.tokens*a.heads*a.dim)   // [tokens, heads, dim]
				for j := range k {
					k[j] = float32(1000 + j)
				}
				for j := range cache {
					cache[j] = float32(j) + 0.5 // what was there
				}
				want, length := slices.Clone(cache), a.length
				if a.length+a.tokens <= a.room {
					for j := range a.tokens {
						for h := range a.heads {
							copy(want[(h*a.room+a.length+j)*a.dim:], k[(j*a.heads+h)*a.dim:][:a.dim])
						}
					}
					length += a.tokens
				}
				call := fmt.Sprintf("Append to %d of %d tokens, %d heads of %d, %d new", a.length, a.room, a.heads, a.dim, a.tokens)
				if got := f(cache, a.heads, a.room, a.dim, a.length, k); got != length {
					return fmt.Errorf("%s: want length %d, got %d", call, length, got)
				}
				for j := range want {
					if cache[j] != want[j] {
						return fmt.Errorf("%s: head %d, token %d, number %d: want %g, got %g", call, j/a.dim/a.room, j/a.dim%a.room, j%a.dim, want[j], cache[j])
					}
				}
				return nil
			}),
	}
}
