package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The storyland model answers over HTTP, only with the key, and stops when asked to.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	at, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() { ended <- run(ctx, "storyland", "127.0.0.1:0", "secret", func(a net.Addr) { at <- a }) }()
	var base string
	select {
	case a := <-at:
		base = "http://" + a.String()
	case err := <-ended:
		t.Fatal(err)
	}
	ask := func(key string) (int, []byte) {
		r, err := http.NewRequest("POST", base+"/v1/completions", strings.NewReader(`{"model":"storyland","prompt":"The cat","max_tokens":4,"temperature":0}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, body
	}
	if status, body := ask("wrong"); status != http.StatusUnauthorized {
		t.Errorf("a wrong key: status %d: %s", status, body)
	}
	status, body := ask("secret")
	var v struct{ Choices []struct{ Text string } }
	if err := json.Unmarshal(body, &v); err != nil || status != 200 || len(v.Choices) != 1 || v.Choices[0].Text == "" {
		t.Errorf("status %d, %v: %s", status, err, body)
	}
	taken := strings.TrimPrefix(base, "http://")
	if err := run(t.Context(), "storyland", taken, "", func(net.Addr) {}); err == nil || !strings.Contains(err.Error(), "-addr") {
		t.Errorf("a taken address: %v, want advice", err)
	}
	if err := run(t.Context(), "no-such-model", "127.0.0.1:0", "", func(net.Addr) {}); err == nil || !strings.Contains(err.Error(), "-model") {
		t.Errorf("an unknown model: %v, want advice", err)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("still running 20 s after it was asked to stop")
	}
}
