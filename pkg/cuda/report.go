package cuda

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"forwardpass/pkg/model"
)

// Report is what was measured on one device: what lesson 13 shows.
type Report struct {
	Date    string // day of the run
	Device  Device
	Kernels []Kernel
	Steps   []Step
	Cache   []Growth
}

// Kernel is one stage on the GPU beside the CPU's, on the same numbers.
type Kernel struct {
	Stage   string  // "norm", "attention, decode" …
	Name    string  // of the kernel: "flash_8_2"
	Shape   string  // of the input, in words
	Largest float64 // difference between the two results, as a part of the root mean square of the CPU's
	CPU     float64 // seconds
	GPU     float64 // seconds
	FLOPs   float64 // of the stage
	Bytes   float64 // that have to be moved, at least

	Threads   int     // of a block
	Blocks    int     // of the launch
	Registers int     // of a thread
	Shared    int     // bytes of shared memory of a block
	PerSM     int     // blocks that a multiprocessor can hold
	Limit     string  // what stops it there; see Device.Residency
	Occupancy float64 // threads that it holds then, of those that it could
}

// Intensity is FLOPs for each byte moved.
func (k Kernel) Intensity() float64 { return k.FLOPs / k.Bytes }

// Step is a forward pass of a whole model.
type Step struct {
	Phase   string  // "prefill" or "decode"
	Tokens  int     // new ones
	Seen    int     // tokens that the last of them sees
	Seconds float64 // median
	FLOPs   float64
	Bytes   float64
}

// Intensity is FLOPs for each byte moved.
func (s Step) Intensity() float64 { return s.FLOPs / s.Bytes }

// Growth is the memory of a K/V cache.
type Growth struct {
	Tokens  int
	Formula int64 // bytes by the formula
	Blocks  int64 // bytes of the blocks in use
	Device  int64 // bytes of device memory behind the pool
}

// Machine is the device as model's cost formulas take it: the rates that its clocks allow. ok is false where the driver doesn't
// tell them.
func (d Device) Machine() (m model.Machine, ok bool) {
	return model.Machine{FLOPS: d.FLOPs, Bandwidth: d.Bandwidth}, d.FLOPs > 0 && d.Bandwidth > 0
}

//go:embed figures.json
var figures []byte

// Recorded are the reports of real devices that are kept with this package, each with its date and device.
func Recorded() ([]Report, error) {
	var all []Report
	if err := json.Unmarshal(figures, &all); err != nil {
		return nil, fmt.Errorf("cuda: figures.json: %w", err)
	}
	return all, nil
}

// Miniature is the report of the CPU stand-in for the driver, in small sizes: the kernels are the same, the times mean
// nothing. root is the repository; .ci/cuda.sh setup makes what this needs. Without that the error wraps ErrUnavailable.
func Miniature(root string) (*Report, error) {
	dir := filepath.Join(root, ".forwardpass", "cuda")
	program := filepath.Join(dir, "gpureport")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w: nor its stand-in: .ci/cuda.sh setup makes it", ErrUnavailable)
	}
	cmd := exec.Command(program, filepath.Join(root, "testdata", "storyland"))
	cmd.Env = append(os.Environ(), "CUDA_DRIVER_LIB="+filepath.Join(dir, "libcudacpu.so"))
	return decode(cmd)
}

func decode(cmd *exec.Cmd) (*Report, error) {
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return nil, fmt.Errorf("cuda: %s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	r := &Report{}
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", filepath.Base(cmd.Path), err)
	}
	return r, nil
}
