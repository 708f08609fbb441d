package main

import (
	"context"
	"os"
	"path/filepath"
)

// startServer builds the server of notebooks/serve and becomes it. It is a program of its own, so that
// the launcher starts at once and still works while a package of the course does not compile.
func startServer(args []string) error {
	ctx := context.Background()
	p, err := findPlaces(ctx)
	if err != nil {
		return err
	}
	program, err := buildProgram(ctx, p, "serve")
	if err != nil {
		return err
	}
	return become(program, args, append(os.Environ(), "FORWARDPASS_ROOT="+p.root))
}

// buildProgram compiles notebooks/NAME and says where it is.
func buildProgram(ctx context.Context, p places, name string) (string, error) {
	program := filepath.Join(p.bin, name)
	return program, runTool(ctx, p.root, os.Environ(), nil, "go", "build", "-ldflags=-s -w", "-o", program, "./notebooks/"+name)
}
