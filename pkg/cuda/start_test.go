//go:build linux && cuda && cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"forwardpass/pkg/kvcache"
	"forwardpass/pkg/model"
)

const startVar = "FORWARDPASS_TEST_START"

// TestMain is also a small program that runs a model on the GPU and ends with exit code 3 and one line where it can't: what
// TestStart runs under all kinds of trouble.
func TestMain(m *testing.M) {
	if os.Getenv(startVar) == "" {
		os.Exit(m.Run())
	}
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	fmt.Println("logits")
}

func program() error {
	if _, err := Devices(); err != nil {
		return err
	}
	ordinal := 0
	fmt.Sscan(os.Getenv(startVar), &ordinal)
	b, err := Open(Options{Device: ordinal})
	if err != nil {
		return err
	}
	m, err := model.OpenWith("../../testdata/storyland", model.Options{Backend: b})
	if err != nil {
		return err
	}
	_, err = m.Logits([]int{1, 2, 3})
	return errors.Join(err, m.Close())
}

// TestStart: without driver, without device, with a driver or device that is too old, with too little memory, with a
// device that fails, a program gets an error that says so.
func TestStart(t *testing.T) {
	onStandIn(t)
	for _, c := range []struct {
		what, env, device string
		want              []string // in what it prints; empty: it works
	}{
		{"all is well", "", "0", nil},
		{"no driver", "CUDA_DRIVER_LIB=/nonexistent/libcuda.so.1", "0", []string{"no GPU to use", "no CUDA driver library", "/nonexistent"}},
		{"not a driver", "CUDA_DRIVER_LIB=libm.so.6", "0", []string{"no GPU to use", "not a CUDA driver"}},
		{"CUDA_VISIBLE_DEVICES empty", "CUDA_VISIBLE_DEVICES=", "0", []string{"no GPU to use", "no device", "CUDA_VISIBLE_DEVICES"}},
		{"no device", "CUDACPU_DEVICES=0", "0", []string{"no GPU to use", "no device"}},
		{"another device", "", "3", []string{"no GPU to use", "device 3"}},
		{"old driver", "CUDACPU_DRIVER=11080", "0", []string{"no GPU to use", "driver for CUDA 11.8", "too old", "222"}},
		{"old device", "CUDACPU_CAPABILITY=75", "0", []string{"no GPU to use", "compute capability 7.5", "8.0"}},
		{"small memory", "CUDACPU_MEMORY=500000", "0", []string{"out of device memory", "want", "free"}},
		{"failing device", "CUDACPU_LOSE_AFTER=20", "0", []string{"the device is lost", "error 719", "kernel "}},
	} {
		t.Run(c.what, func(t *testing.T) {
			cmd := exec.CommandContext(context.Background(), os.Args[0])
			cmd.Env = append(os.Environ(), startVar+"="+c.device)
			if c.env != "" {
				cmd.Env = append(cmd.Env, c.env)
			}
			out, err := cmd.CombinedOutput()
			text := strings.TrimSpace(string(out))
			t.Log(text)
			if len(c.want) == 0 {
				if err != nil || text != "logits" {
					t.Errorf("want it to work, got %v: %s", err, text)
				}
				return
			}
			if code := cmd.ProcessState.ExitCode(); code != 3 || strings.Contains(text, "panic") || strings.Contains(text, "goroutine") {
				t.Errorf("want exit code 3 and a message, got %d: %s", code, text)
			}
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("want %q in the message, got: %s", w, text)
				}
			}
		})
	}
}

// onStandIn skips what pretends things that a real device doesn't.
func onStandIn(t *testing.T) {
	t.Helper()
	list, err := Devices()
	if err != nil && os.Getenv("FORWARDPASS_GPU") != "required" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !list[0].StandIn {
		t.Skip("only on the stand-in")
	}
}

// TestFault: a kernel that fails names itself and its error, ends its backend and not the process, and another backend works.
func TestFault(t *testing.T) {
	for _, exact := range []bool{true, false} {
		b, err := open(Options{Sync: exact})
		if errors.Is(err, ErrUnavailable) && os.Getenv("FORWARDPASS_GPU") != "required" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := b.dev.do(b.dev.wait); err != nil { // on a thread that has the context
			t.Fatal(err)
		}
		b.dev.sync = exact
		x := b.NewTensor()
		err = b.dev.do(func() error {
			if _, err := b.resize(x, 100); err != nil {
				return err
			}
			if err := b.dev.launch("scale", dim{1, 1, 1}, 256, 0, at(x), float32(1), 100); err != nil {
				return err
			}
			if err := b.dev.launch("scale", dim{1 << 14, 1, 1}, 256, 0, at(x), float32(1), 1<<40); err != nil { // far over the end
				return err
			}
			return b.dev.wait()
		})
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrLost) {
			t.Fatalf("want a lost device, got %v", err)
		}
		if e.Code != 700 || e.Kernel != "scale" || e.Exact != exact {
			t.Errorf("want error 700 in kernel scale (known for certain: %v), got %+v", exact, e)
		}
		m, err := model.OpenWith("../../testdata/golden/models/llama", model.Options{Backend: b})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Logits([]int{1, 2}); !errors.Is(err, ErrLost) {
			t.Errorf("want ErrLost from what follows, got %v", err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("closing after the loss: %v", err)
		}
		again := gpu(t, Options{})
		if m, err = model.OpenWith("../../testdata/golden/models/llama", model.Options{Backend: again}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Logits([]int{1, 2}); err != nil {
			t.Errorf("a new backend after the loss: %v", err)
		}
		m.Close()
	}
}

// TestMemory: what doesn't fit is refused with sizes, and the backend works on.
func TestMemory(t *testing.T) {
	b := gpu(t, Options{})
	x := b.NewTensor()
	err := b.dev.do(func() error {
		_, err := b.resize(x, 1<<20, 1<<20) // 4 TiB
		return err
	})
	var m *MemoryError
	if !errors.As(err, &m) || m.Want < 4<<40 || m.Free <= 0 || m.Free > m.Total {
		t.Fatalf("want a MemoryError with sizes, got %v", err)
	}
	var e *Error
	if !errors.As(err, &e) || e.Code != 2 {
		t.Errorf("want error 2 behind it, got %v", e)
	}
	if err := b.dev.do(func() error {
		_, err := b.resize(x, 100)
		return err
	}); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestDroppedCache: the memory of a cache that nobody refers to any more comes back, with and without Close.
func TestDroppedCache(t *testing.T) {
	b := gpu(t, Options{})
	m, err := model.OpenWith("../../testdata/golden/models/mistral", model.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Logits([]int{1, 2}); err != nil {
		t.Fatal(err)
	}
	use := func(closed bool) {
		c, err := m.NewCache(kvcache.Options{BlockSize: 4})
		if err != nil {
			t.Fatal(err)
		}
		batch := model.Batch{Seqs: []model.Sequence{{IDs: []int{1, 2, 3}, Cache: c}}}
		if err := m.Forward(context.Background(), &batch); err != nil {
			t.Fatal(err)
		}
		if s, _ := StatsOf(b); s.Cache == 0 {
			t.Error("the cache takes no memory")
		}
		if closed {
			if err := c.Pool().Close(); err != nil {
				t.Error(err)
			}
		}
	}
	use(true)
	if s, _ := StatsOf(b); s.Cache != 0 {
		t.Errorf("%d bytes of cache after Close", s.Cache)
	}
	use(false)
	for deadline := time.Now().Add(20 * time.Second); ; {
		runtime.GC()
		if _, err := m.Logits([]int{1}); err != nil {
			t.Fatal(err)
		}
		if s, _ := StatsOf(b); s.Cache == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the memory of a dropped cache does not come back")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestClose: everything that a backend allocated is given back.
func TestClose(t *testing.T) {
	keep := gpu(t, Options{}) // holds the context
	before, _ := StatsOf(keep)
	for _, name := range []string{"mixtral", "gemma3", "deepseek-v3"} {
		b := gpu(t, Options{})
		m, err := model.OpenWith("../../testdata/golden/models/"+name, model.Options{Backend: b})
		if err != nil {
			t.Fatal(err)
		}
		c, err := m.NewCache(kvcache.Options{}) // left open
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Forward(context.Background(), &model.Batch{Seqs: []model.Sequence{{IDs: make([]int, 20), Cache: c}}}); err != nil {
			t.Fatal(err)
		}
		if s, ok := StatsOf(b); !ok || s.Allocated <= before.Allocated || s.Weights == 0 || s.Launches == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if _, err := m.Logits([]int{1}); err == nil {
			t.Error("want an error from a closed backend")
		}
	}
	if after, _ := StatsOf(keep); after.Allocated != before.Allocated {
		t.Errorf("%d bytes are still allocated", after.Allocated-before.Allocated)
	}
	if _, ok := StatsOf(model.NewCPU()); ok {
		t.Error("the CPU has no such figures")
	}
}
