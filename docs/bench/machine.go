package main

import (
	"encoding/json"
	"os"
	"time"

	"forwardpass/pkg/tensor"
)

// limits is what one process found out about the machine, with the kernels it was told to use.
type limits struct {
	Kernels string
	Read    float64 // GB/s
	FMA     float64 // GFLOP/s
	GEMM    float64 // GFLOP/s
	GEMV    []gemv
}

type gemv struct {
	Type string
	GBs  float64
}

func serveMachine() error {
	workers := tensor.Workers()
	l := limits{Kernels: tensor.Kernels()}
	l.Read = tensor.MeasureRead(512<<20, workers) / 1e9
	l.FMA = tensor.MeasureFMA(workers) / 1e9
	var err error
	if l.GEMM, err = timeGEMM(); err != nil {
		return err
	}
	for _, t := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q4_K, tensor.Q6_K} {
		g := gemv{Type: t.String()}
		if g.GBs, err = timeGEMV(t); err != nil {
			return err
		}
		l.GEMV = append(l.GEMV, g)
	}
	return json.NewEncoder(os.Stdout).Encode(l)
}

// timeGEMM is the GFLOP/s of [512, 576] · [1536, 576]ᵀ.
func timeGEMM() (float64, error) {
	const T, in, out = 512, 576, 1536
	x, w := tensor.New(T, in), make([]float32, out*in)
	for i := range x.Data {
		x.Data[i] = float32(i%7) - 3
	}
	for i := range w {
		w[i] = float32(i%5) - 2
	}
	m, err := tensor.FromFloats(w, out, in)
	if err != nil {
		return 0, err
	}
	y := &tensor.Tensor{}
	return rate(2*T*in*out/1e9, func() error { return tensor.MatMuls(x, tensor.Product{Dst: y, W: m}) })
}

// timeGEMV is the GB/s of weights of [1, in] · [49152, in]ᵀ; the K-quants take rows of 512.
func timeGEMV(t tensor.DType) (float64, error) {
	rows, in := 49152, 576
	if block, _ := t.Block(); block == 256 {
		in = 512
	}
	data := make([]byte, rows*t.Bytes(in))
	for i := range data {
		data[i] = 0x11 // touched, so that the pages are real, and an ordinary number in every type
	}
	m, err := tensor.NewMatrix(t, rows, in, data)
	if err != nil {
		return 0, err
	}
	x, y := tensor.New(1, in), &tensor.Tensor{}
	return rate(float64(len(m.Data))/1e9, func() error { return tensor.MatMuls(x, tensor.Product{Dst: y, W: m}) })
}

// rate is work a second: the best of 100 calls (fewer if they are slow), which is what the kernel does when nothing
// disturbs it.
func rate(work float64, f func() error) (float64, error) {
	best := 0.0
	start := time.Now()
	for i := 0; i < 5 || i < 100 && time.Since(start) < 2*time.Second; i++ {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		best = max(best, work/time.Since(began).Seconds())
	}
	return best, nil
}
