//go:build js && wasm

// Command explorer is package sample compiled for the browser: the sliders of the sampling lesson call the very code that the
// lesson's cells call.
//
//	GOOS=js GOARCH=wasm go build -ldflags="-s -w" -o sample.wasm ./pkg/sample/explorer
//
// It defines one JavaScript function,
//
//	forwardpassSample(logits, options, history?)
//
// where logits is a Float32Array [V], options is sample.Options as a JSON string (Order may be the name of a preset), and
// history an array of token ids. It returns an object:
//
//	error    a message, or "" when the rest is there
//	order    the steps that ran, with their settings: "temperature T = 0.8 → top-k k = 40"
//	probs    Float64Array [V], the distribution to draw from
//	by       Int8Array [V], the step (index) that dropped each token; −1 when it was kept, −2 when its logit was −Inf
//	entropy  of probs, in nats
//	steps    [{name, setting, kept, dropped, entropy}] with the numbers of tokens
package main

import (
	"encoding/json"
	"syscall/js"
	"unsafe"

	"forwardpass/pkg/sample"
)

func main() {
	js.Global().Set("forwardpassSample", js.FuncOf(func(_ js.Value, args []js.Value) any {
		out, err := run(args)
		if err != nil {
			return map[string]any{"error": err.Error()}
		}
		return out
	}))
	select {} // the page keeps calling
}

func run(args []js.Value) (map[string]any, error) {
	var opts sample.Options
	if err := json.Unmarshal([]byte(args[1].String()), &opts); err != nil {
		return nil, err
	}
	switch opts.Order {
	case "Transformers":
		opts.Order = sample.Transformers
	case "VLLM":
		opts.Order = sample.VLLM
	case "LlamaCpp":
		opts.Order = sample.LlamaCpp
	}
	p, err := sample.NewPipeline(opts)
	if err != nil {
		return nil, err
	}
	var history []int
	if len(args) > 2 && args[2].Truthy() {
		for i := range args[2].Length() {
			history = append(history, args[2].Index(i).Int())
		}
	}
	logits := make([]float32, args[0].Length())
	if len(logits) > 0 {
		js.CopyBytesToGo(raw(logits), bytesOf(args[0]))
	}
	steps, err := p.Steps(logits, history)
	if err != nil {
		return nil, err
	}

	last := steps[len(steps)-1]
	by := make([]int8, len(logits))
	for i := range by {
		by[i] = -2
	}
	for _, id := range last.Kept {
		by[id] = -1
	}
	report := make([]any, len(steps))
	for i, s := range steps {
		for _, id := range s.Dropped {
			by[id] = int8(i)
		}
		report[i] = map[string]any{"name": s.Name, "setting": s.Setting, "kept": len(s.Kept), "dropped": len(s.Dropped), "entropy": s.Entropy}
	}
	return map[string]any{
		"error": "", "order": p.String(), "entropy": last.Entropy, "steps": report,
		"probs": typed("Float64Array", last.After), "by": typed("Int8Array", by),
	}, nil
}

// typed copies a Go slice into a new JavaScript array of the given kind.
func typed[T any](kind string, s []T) js.Value {
	a := js.Global().Get(kind).New(len(s))
	js.CopyBytesToJS(bytesOf(a), raw(s))
	return a
}

// bytesOf is the Uint8Array over the same memory as a typed array.
func bytesOf(a js.Value) js.Value {
	return js.Global().Get("Uint8Array").New(a.Get("buffer"), a.Get("byteOffset"), a.Get("byteLength"))
}

// raw is the memory of a slice; WebAssembly is little endian, as typed arrays are on every machine that runs it.
func raw[T any](s []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t)))
}
