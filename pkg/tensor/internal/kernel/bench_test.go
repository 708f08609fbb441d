package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The shapes are SmolLM2-135M's: 576 × 1536 is its MLP, 49152 × 576 its vocabulary.
func BenchmarkMatVec(b *testing.B) {
	for _, rows := range []int{1536, 49152} {
		for _, typ := range all {
			k := 576
			if blocks[typ].len == 256 {
				k = 512
			}
			rng := rand.New(rand.NewPCG(1, 1))
			w, x := weights(rng, typ, rows*k), append(make([]float32, 0, 4096), floats(rng, k)...)
			y := make([]float32, rows)
			for _, l := range levels {
				b.Run(fmt.Sprintf("%dx%d/%s/%v", rows, k, names[typ], l), func(b *testing.B) {
					defer Use(level)
					Use(l)
					for b.Loop() {
						matMul(y, rows, x, k, 1, typ, w, rows, k)
					}
					b.ReportMetric(float64(len(w))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
				})
			}
		}
	}
}

func BenchmarkMatMul(b *testing.B) {
	for _, T := range []int{4, 8, 16, 32, 128, 512} {
		for _, typ := range []Type{F32, BF16, Q8_0, Q4_1, Q4_K, Q6_K} {
			rows, k := 1536, 576
			if blocks[typ].len == 256 {
				k = 512
			}
			rng := rand.New(rand.NewPCG(1, 1))
			w, x := weights(rng, typ, rows*k), floats(rng, T*k)
			y := make([]float32, T*rows)
			for _, l := range levels {
				b.Run(fmt.Sprintf("%dx%dx%d/%s/%v", T, k, rows, names[typ], l), func(b *testing.B) {
					defer Use(level)
					Use(l)
					for b.Loop() {
						for r := 0; r < rows; r += 128 {
							n := typ.bytes(k)
							matMul(y[r:], rows, x, k, T, typ, w[r*n:(r+128)*n], 128, k)
						}
					}
					b.ReportMetric(2*float64(T*rows*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}
