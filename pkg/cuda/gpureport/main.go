// Gpureport measures every kernel against its CPU stage, and prefill and decode of a model, and prints a cuda.Report
// as JSON.
//
//	gpureport MODEL
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"forwardpass/pkg/cuda"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gpureport MODEL")
		os.Exit(2)
	}
	r, err := cuda.Measure(os.Args[1], cuda.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "\t")
	if err := e.Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
