// Command serve answers the OpenAI protocol with a model of the course, so that any client of vLLM,
// SGLang, TGI or llama.cpp can talk to it. go run ./notebooks -serve builds and starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"forwardpass/pkg/lesson"
	"forwardpass/pkg/serve"
)

func main() {
	fs := flag.NewFlagSet("go run ./notebooks -serve", flag.ContinueOnError)
	addr := fs.String("addr", "127.0.0.1:8000", "host:port to listen on; without a host, this machine only")
	key := fs.String("key", "", "what clients must send as their API key; empty: none")
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "go run ./notebooks -serve [-addr HOST:PORT] [-key KEY] [MODEL]\n\nMODEL is %s, or the path of a checkpoint; storyland without one.\n\n", strings.Join(lesson.Available(), ", "))
		fs.PrintDefaults()
	}
	if err := fs.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		os.Exit(2)
	}
	name := "storyland"
	switch fs.NArg() {
	case 0:
	case 1:
		name = fs.Arg(0)
	default:
		fmt.Fprintf(os.Stderr, "serve: want one model, got %q\n", fs.Args())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, name, *addr, *key, func(at net.Addr) { announce(at, name) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves a model until ctx ends.
func run(ctx context.Context, name, addr, key string, ready func(net.Addr)) error {
	lm, err := lesson.Open(name)
	if err != nil {
		return err
	}
	err = serve.ListenAndServe(ctx, serve.ServerOptions{
		Model: lm.Model, Tokenizer: lm.Tok, Addr: addr,
		Handler: serve.HandlerOptions{Name: name, Key: key},
		Ready:   ready, Log: os.Stderr,
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("serve: %s is taken: give another with -addr, such as -addr 127.0.0.1:8001", addr)
	}
	return errors.Join(err, lm.Close())
}

func announce(at net.Addr, name string) {
	fmt.Printf(`%s answers at http://%s/v1 (Ctrl-C stops it)

  curl http://%s/v1/completions -H 'Content-Type: application/json' \
    -d '{"model": "%s", "prompt": "The cat", "max_tokens": 16, "temperature": 0}'
`, name, at, at, name)
}
