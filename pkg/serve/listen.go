package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"reflect"
	"strings"
	"time"

	"forwardpass/pkg/model"
	"forwardpass/pkg/tokenize"
)

// ServerOptions are what ListenAndServe needs. Model and Tokenizer must be there; the zero value of the rest is the default
// beside it.
type ServerOptions struct {
	Model     *model.Model
	Tokenizer *tokenize.Tokenizer

	Addr      string  // host:port; 127.0.0.1:8000. Without a host it is the loopback interface; port 0 is any free one
	Scheduler Options // the zero value: a gigabyte of blocks, with a radix tree where the model allows one
	Handler   HandlerOptions
	Grace     time.Duration  // how long a shutdown waits for running requests; 10 s
	Ready     func(net.Addr) // called when clients can connect
	Log       io.Writer      // what the HTTP server complains about; nil: nowhere
}

// ListenAndServe answers the OpenAI protocol until ctx ends. Then it refuses new requests, lets the running ones finish for as
// long as Grace, cancels the rest, and returns. It returns nil after a shutdown in which everything finished.
func ListenAndServe(ctx context.Context, o ServerOptions) error {
	if o.Model == nil || o.Tokenizer == nil {
		return errors.New("serve: Model and Tokenizer must be there")
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:8000"
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return fmt.Errorf("serve: address %q: want host:port: %w", o.Addr, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	run := Model(o.Model)
	if s := &o.Scheduler; reflect.ValueOf(*s).IsZero() {
		const size = 16
		s.BlockSize = size
		s.Blocks = int(max(1<<30/o.Model.CacheDims().Bytes(1, size, 4), int64(run.context()/size+1)))
		if !run.changes(1, run.context()) {
			s.Prefix = RadixTree
		}
	}
	if o.Scheduler.MaxWaiting == 0 {
		o.Scheduler.MaxWaiting = 1024
	}
	loop, err := Start(run, o.Scheduler)
	if err != nil {
		return err
	}
	stop := func(ctx context.Context) error { return loop.Shutdown(ctx) }
	h, err := NewHandler(loop, o.Model, o.Tokenizer, o.Handler)
	if err != nil {
		return errors.Join(err, stop(ctx))
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return errors.Join(fmt.Errorf("serve: %w", err), stop(ctx))
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Hour, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: logger(o.Log)}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	if o.Ready != nil {
		o.Ready(l.Addr())
	}
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serve: %w", err), stop(ctx))
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Grace)
	defer cancel()
	err = loop.Shutdown(grace) // from now on requests get 503; when it returns, all answers are complete or cancelled
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancelLast()
	if srv.Shutdown(last) != nil { // somebody still reads
		_ = srv.Close()
	}
	if err != nil {
		return fmt.Errorf("serve: requests were still running after %v and have been cancelled", o.Grace)
	}
	return nil
}

func logger(w io.Writer) *log.Logger {
	if w == nil {
		w = io.Discard
	}
	return log.New(w, "serve: ", 0)
}

// isLocal says whether host, with or without a port, names this machine.
func isLocal(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
