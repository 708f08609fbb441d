package cuda

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecorded(t *testing.T) {
	all, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Date == "" || r.Device.Name == "" || r.Device.StandIn || len(r.Kernels) == 0 || len(r.Steps) == 0 {
			t.Errorf("a record must be of a real device, with its date: %+v", r.Device)
		}
	}
}

func TestMiniature(t *testing.T) {
	if _, err := Miniature(t.TempDir()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("want ErrUnavailable where set-up has not made the stand-in, got %v", err)
	}
	root := "../.."
	if _, err := os.Stat(filepath.Join(root, ".forwardpass", "cuda", "gpureport")); err != nil {
		t.Skip(err)
	}
	r, err := Miniature(root)
	if err != nil {
		t.Fatal(err)
	}
	check(t, r)
}

// check says what every report must be like.
func check(t *testing.T, r *Report) {
	t.Helper()
	if r.Device.Name == "" || r.Date == "" {
		t.Errorf("no device or date: %+v", r)
	}
	for _, k := range r.Kernels {
		if k.Stage == "" || k.Name == "" || k.CPU <= 0 || k.GPU <= 0 || k.Bytes <= 0 || k.Blocks < 1 || k.Threads < 32 || k.Threads > 1024 || k.Registers < 8 || k.PerSM < 1 || k.Limit == "" || k.Occupancy <= 0 || k.Occupancy > 1 {
			t.Errorf("kernel %+v", k)
		}
		tol := 5e-5
		if strings.Contains(k.Stage, "Q") { // the CPU may round activations for these
			tol = 5e-2
		}
		if !(k.Largest <= tol) {
			t.Errorf("%s differs from the CPU's by %g", k.Stage, k.Largest)
		}
	}
	if len(r.Kernels) < 12 {
		t.Errorf("only %d kernels", len(r.Kernels))
	}
	if len(r.Steps) != 2 || r.Steps[0].Phase != "prefill" || r.Steps[1].Phase != "decode" || r.Steps[0].Intensity() <= r.Steps[1].Intensity() {
		t.Errorf("want a prefill of higher intensity than the decode after it, got %+v", r.Steps)
	}
	for i, g := range r.Cache {
		if g.Formula > g.Blocks || g.Blocks > g.Device || i > 0 && g.Tokens != r.Cache[i-1].Tokens+1 {
			t.Errorf("cache of %d tokens: formula %d, blocks %d, device %d bytes", g.Tokens, g.Formula, g.Blocks, g.Device)
		}
	}
	if len(r.Cache) < 2 {
		t.Error("the cache doesn't grow")
	}
}

func TestMachine(t *testing.T) {
	if _, ok := (Device{}).Machine(); ok {
		t.Error("a device that tells no clocks has no rates")
	}
	d := Device{Capability: [2]int{9, 0}, Multiprocessors: 132, ClockMHz: 1980, MemoryClockMHz: 3201, BusBits: 6144}
	d.rates()
	m, ok := d.Machine()
	if !ok || math.Abs(m.FLOPS/66.9e12-1) > 0.01 || math.Abs(m.Bandwidth/4.917e12-1) > 0.01 {
		t.Errorf("want 66.9 TFLOPS and 4.92 TB/s, got %+v", m)
	}
}

func TestResidency(t *testing.T) {
	d := Device{Capability: [2]int{8, 0}, ThreadsPerSM: 2048, RegistersPerSM: 65536, SharedPerSM: 164 << 10}
	for _, c := range []struct {
		threads, registers, shared, blocks int
		limit                              string
	}{
		{1024, 32, 0, 2, "threads"}, {32, 16, 0, 32, "blocks"}, {256, 64, 0, 4, "registers"}, {128, 168, 46 << 10, 3, "registers"}, {128, 40, 46 << 10, 3, "shared memory"}, {256, 33, 0, 6, "registers"},
	} {
		if blocks, limit := d.Residency(c.threads, c.registers, c.shared); blocks != c.blocks || limit != c.limit {
			t.Errorf("%d threads, %d registers, %d bytes: want %d blocks for %s, got %d for %s", c.threads, c.registers, c.shared, c.blocks, c.limit, blocks, limit)
		}
	}
	if blocks, _ := d.Residency(0, 1, 1); blocks != 0 {
		t.Error("no threads, no blocks")
	}
}

func TestMessages(t *testing.T) {
	e := &Error{Op: "waiting for the device", Kernel: "norm", Code: 700, Name: "illegal address"}
	if got := e.Error(); got != "cuda: waiting for the device: kernel norm or one before it: error 700 (illegal address)" {
		t.Error(got)
	}
	e.Exact = true
	if got := e.Error(); got != "cuda: waiting for the device: kernel norm: error 700 (illegal address)" {
		t.Error(got)
	}
	m := &MemoryError{Want: 3 << 30, Free: 5 << 20, Total: 100, Err: e}
	if got := m.Error(); got != "cuda: out of device memory: want 3.00 GiB, 5.0 MiB of 100 bytes free" {
		t.Error(got)
	}
	var inner *Error
	if !errors.As(m, &inner) || inner != e {
		t.Error("a MemoryError must hold the driver's error")
	}
}
