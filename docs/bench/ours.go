package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
)

// chunk is how many tokens of a prompt run at a time: as much as keeps the activations in the second-level cache.
const chunk = 256

// serveOurs is the worker process of this project's own engine.
func serveOurs(path string) error {
	began := time.Now()
	m, err := model.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(ready{Version: runtime.Version(), Load: time.Since(began).Seconds()}); err != nil {
		return err
	}
	if p := os.Getenv("BENCH_PROFILE"); p != "" {
		f, err := os.Create(p)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		got, err := measureOurs(m, r)
		if err != nil {
			got.Error = err.Error()
		}
		if err := out.Encode(got); err != nil {
			return err
		}
	}
}

func measureOurs(m *model.Model, r request) (got reply, err error) {
	ctx := context.Background()
	n := max(1, r.Batch)
	var caches []*kvcache.Cache
	pool, err := m.NewPool(kvcache.Contiguous(len(r.Prompt)+r.Gen+1, kvcache.F32))
	if n > 1 {
		pool, err = m.NewPool(kvcache.Options{BlockSize: 64, Blocks: n * ((len(r.Prompt)+r.Gen)/64 + 2)})
	}
	if err != nil {
		return got, err
	}
	defer pool.Close()
	next := make([]int, n)
	began := time.Now()
	for i := range n {
		c := pool.NewCache()
		defer c.Free()
		caches = append(caches, c)
		var b model.Batch
		for p := 0; p < len(r.Prompt); p += chunk {
			end := min(p+chunk, len(r.Prompt))
			q := model.Sequence{IDs: r.Prompt[p:end], Cache: c, Logits: model.None}
			if end == len(r.Prompt) {
				q.Logits = model.Last
			}
			b.Seqs = append(b.Seqs[:0], q)
			if err := m.Forward(ctx, &b); err != nil {
				return got, err
			}
		}
		next[i] = argmax(b.Logits.Data)
	}
	got.Prefill = time.Since(began).Seconds()
	got.IDs = append(got.IDs, next[0])
	var b model.Batch
	for i := range n {
		b.Seqs = append(b.Seqs, model.Sequence{IDs: next[i : i+1], Cache: caches[i]})
	}
	got.IDs = slices.Grow(got.IDs, r.Gen)
	var before, after runtime.MemStats
	began = time.Now()
	for step := range r.Gen {
		if step == 2 { // the first steps make the batch's own buffers
			runtime.ReadMemStats(&before)
		}
		if err := m.Forward(ctx, &b); err != nil {
			return got, err
		}
		for i := range n {
			next[i] = argmax(b.Logits.Row(i))
		}
		got.IDs = append(got.IDs, next[0])
	}
	got.Decode = time.Since(began).Seconds()
	if r.Gen > 2 {
		runtime.ReadMemStats(&after)
		got.Allocs = float64(after.Mallocs-before.Mallocs) / float64(r.Gen-2)
	}
	got.Peak = peak("self")
	return got, nil
}

func argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// peak is the largest resident size that a process has had, from the system's own count; 0 where there is none.
func peak(pid string) int64 {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}
