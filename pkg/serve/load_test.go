package serve

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"forwardpass/pkg/generate"
)

// long is how long the load tests run: FORWARDPASS_LOAD ("1m"), or a second.
func long(t testing.TB) (time.Duration, bool) {
	t.Helper()
	text := os.Getenv("FORWARDPASS_LOAD")
	if text == "" {
		return time.Second, false
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("FORWARDPASS_LOAD: %v", err)
	}
	return d, true
}

// A hundred clients at once over HTTP on the loopback interface: every answer is the one that the prompt gets alone, those who leave
// free their blocks, slow readers get theirs, too, and memory doesn't grow.
func TestHundredClients(t *testing.T) {
	d, _ := long(t)
	m, tok := storyland(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	addr := make(chan net.Addr, 1)
	done := make(chan error, 1)
	go func() {
		done <- ListenAndServe(ctx, ServerOptions{Model: m, Tokenizer: tok, Ready: func(a net.Addr) { addr <- a }, Addr: "127.0.0.1:0",
			Scheduler: Options{MaxBatch: 48, Blocks: 900, TokenBudget: 256, Prefix: RadixTree}})
	}()
	url := fmt.Sprintf("http://%v", <-addr)

	type question struct {
		prompt string
		tokens int
		want   string
	}
	var questions []question
	for i, animals := range [][2]string{{"cat", "dog"}, {"dog", "fox"}, {"owl", "sheep"}, {"fox", "hen"}, {"bird", "frog"}} {
		for _, text := range []string{"The %s chases the %s. The one who runs away is the", "The %s sings: la bo ki ta. The %s sings the same song: la", "Once there was a %s and a %s."} {
			q := question{prompt: fmt.Sprintf(text, animals[0], animals[1]), tokens: 5 + 9*i}
			ids, err := tok.Encode(q.prompt)
			if err != nil {
				t.Fatal(err)
			}
			r, err := generate.Run(ctx, m, ids, generate.Options{MaxNewTokens: q.tokens, Tokenizer: tok, EOS: []int{}})
			if err != nil {
				t.Fatal(err)
			}
			q.want = r.Text
			questions = append(questions, q)
		}
	}

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	stop := time.Now().Add(d)
	var asked, answered, left atomic.Int64
	errs := make(chan error, 100)
	var wg sync.WaitGroup
	ask := func(rng *rand.Rand, slow bool) error {
		q := questions[rng.IntN(len(questions))]
		leaveAfter := -1
		if rng.IntN(8) == 0 {
			leaveAfter = 1 + rng.IntN(q.tokens)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		body := fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"temperature":0,"ignore_eos":true,"stream":true}`, q.prompt, q.tokens)
		r, _ := http.NewRequestWithContext(ctx, "POST", url+"/v1/completions", strings.NewReader(body))
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		text := ""
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			if data == "[DONE]" {
				if text != q.want {
					return fmt.Errorf("%q: got %q, want %q", q.prompt, text, q.want)
				}
				answered.Add(1)
				return nil
			}
			_, after, _ := strings.Cut(data, `"text":"`)
			piece, _, _ := strings.Cut(after, `","`)
			text += strings.ReplaceAll(piece, `\n`, "\n")
			if leaveAfter--; leaveAfter == 0 {
				left.Add(1)
				return nil
			}
			if slow {
				time.Sleep(10 * time.Millisecond)
			}
		}
		return fmt.Errorf("%q: the stream ended after %q: %v", q.prompt, text, lines.Err())
	}
	for i := range 100 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(uint64(i), 8))
			for n := 0; n < 3 || time.Now().Before(stop) && n < 100_000; n++ { // three each, however slow the machine is
				asked.Add(1)
				if err := ask(rng, i < 10); err != nil {
					errs <- fmt.Errorf("client %d: %w", i, err)
					return
				}
			}
		}()
	}
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	time.Sleep(d / 3)
	early := heap()
	time.Sleep(d * 6 / 10)
	late := heap() // the clients are still there
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	t.Logf("%v: %d answers, %d clients left; heap %.1f MB after a third of the time, %.1f MB at the end", d, answered.Load(), left.Load(), float64(early)/1e6, float64(late)/1e6)
	if n := asked.Load(); n < 300 || answered.Load()+left.Load() != n || left.Load() == 0 {
		t.Errorf("%d questions, but %d answers and %d clients that left", n, answered.Load(), left.Load())
	}
	if late > early+early/4+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", early, late)
	}
	resp, err := client.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "forwardpass_blocks_in_use ") && lines.Text() != "forwardpass_blocks_in_use 0" {
			t.Error(lines.Text())
		}
	}
	resp.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
