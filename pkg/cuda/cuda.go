// Package cuda runs the forward pass on an NVIDIA GPU: it implements model.Backend with a kernel for each stage, over
// gorgonia.org/cu, the driver API.
//
//	be, err := cuda.Open(cuda.Options{})
//	m, err := model.OpenWith(path, model.Options{Backend: be})
//
// Weights are copied to the device when they are first used and stay there, as do the K/V cache and all activations; a decode
// step moves the token ids up and the logits down. The kernels are in internal/kernels/kernels.cu, their PTX is embedded.
//
// It is built with -tags cuda (linux, cgo). Without the tag, or where there is no driver or device, Open and Devices return an
// error that wraps ErrUnavailable; the program runs on. docs/gpu.md tells how to build it and how it is tested without a GPU.
package cuda

import (
	"errors"
	"fmt"
)

// ErrUnavailable is returned, wrapped with the reason, where there is no GPU to use: the program was built without
// -tags cuda, there is no driver, no device, or they are too old.
var ErrUnavailable = errors.New("no GPU to use")

// ErrLost is returned, wrapped, by everything that a backend is asked after its device has failed. Close it, and open
// another.
var ErrLost = errors.New("the device is lost")

// Options of a backend; the zero value is the first device.
type Options struct {
	Device int // ordinal, as CUDA_VISIBLE_DEVICES numbers them

	// Sync waits for every kernel, so that an error names the very kernel that failed. It is slow.
	Sync bool

	// Fast rounds activations to 16 bits where many tokens meet 16-bit weights, as PyTorch does in such a model. Without it each
	// is the sum of two F16 or three BF16 numbers, which costs as many times the work of the tensor cores and keeps the results of float32.
	Fast bool

	// KeepLogits leaves the logits on the device, for Sample; Batch.Logits then has no Data.
	KeepLogits bool
}

// Error is a failed call of the CUDA driver.
type Error struct {
	Op     string // what was asked of the driver
	Kernel string // the kernel that failed or, where later ones had been started before that was noticed, the last one
	Exact  bool   // Kernel is known to be the one
	Code   int    // CUresult
	Name   string // its name
}

func (e *Error) Error() string {
	s := "cuda: " + e.Op
	switch {
	case e.Kernel == "":
	case e.Exact:
		s += ": kernel " + e.Kernel
	default:
		s += ": kernel " + e.Kernel + " or one before it"
	}
	return fmt.Sprintf("%s: error %d (%s)", s, e.Code, e.Name)
}

// MemoryError says that the device's memory is full. It is an *Error too (errors.As).
type MemoryError struct {
	Want, Free, Total int64 // bytes
	Err               *Error
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("cuda: out of device memory: want %s, %s of %s free", bytes(e.Want), bytes(e.Free), bytes(e.Total))
}

func (e *MemoryError) Unwrap() error { return e.Err }

// bytes is a size for people.
func bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// Device is what the driver says about a GPU.
type Device struct {
	Ordinal         int
	Name            string
	Capability      [2]int // compute capability
	Memory          int64  // bytes
	Multiprocessors int
	ThreadsPerSM    int
	RegistersPerSM  int
	SharedPerSM     int     // bytes
	ClockMHz        int     // of the cores
	MemoryClockMHz  int     // 0 where the driver doesn't say
	BusBits         int     // width of the memory bus
	Driver          string  // the CUDA version that the driver supports, as in "12.2"
	Bandwidth       float64 // bytes/s that the memory clock and bus give; 0 where unknown
	FLOPs           float64 // float32 multiply-adds, two each, a second; 0 where unknown
	StandIn         bool    // a CPU that pretends to be a GPU, for tests
	Library         string  // the driver library that was loaded
	FreeMemory      int64   // bytes, when asked
}

// Stats counts what a backend has done.
type Stats struct {
	Launches  int64
	Uploaded  int64 // bytes, host to device, without weights
	Fetched   int64 // bytes, device to host
	Weights   int64 // bytes of weights on the device
	Cache     int64 // bytes of the blocks of all caches
	Allocated int64 // bytes of device memory in use: weights, activations and cache
}
