//go:build linux && cuda && cgo

package cuda

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"forwardpass/pkg/cuda/internal/driver"
	"forwardpass/pkg/cuda/internal/kernels"

	"gorgonia.org/cu"
)

// device is a GPU with its context, the kernels and one stream. enter ties the calling goroutine to its OS thread and
// makes the context current there; everything up to leave happens on that thread: a whole forward pass.
type device struct {
	mu                      sync.Mutex
	ordinal                 int
	users                   int // backends; guarded by devices.mu
	info                    Device
	ctx                     cu.CUContext
	mod                     cu.Module
	stream                  cu.Stream
	fns                     map[string]cu.Function
	lost                    error  // the error that ended the context
	last                    string // the kernel started last, with its blocks and threads
	lastBlocks, lastThreads int
	count                   int // kernels started since the device was last waited for
	sync                    bool
	words                   []uint64 // of the parameters of a launch
	ptrs                    []unsafe.Pointer
	stats                   Stats
}

// devices are the open ones. A context takes hundreds of megabytes of a GPU's memory, so the backends of a process share one.
var devices struct {
	mu   sync.Mutex
	open map[int]*device
}

// fail turns an error of the driver into ours.
func fail(op, kernel string, exact bool, err error) *Error {
	e := &Error{Op: op, Kernel: kernel, Exact: exact, Code: -1, Name: err.Error()}
	if v := reflect.ValueOf(err); v.CanInt() {
		e.Code = int(v.Int())
	}
	if name, ok := codes[e.Code]; ok {
		e.Name = name
	}
	return e
}

// codes names results that gorgonia.org/cu doesn't know, and those that need a word of advice.
var codes = map[int]string{
	100: "no device",
	218: "the driver can't compile the kernels",
	222: "the driver is too old for the kernels' PTX",
	209: "no kernels for this device, which is too old",
	700: "illegal address",
	716: "misaligned address",
	719: "launch failed",
	999: "unknown error",
}

func available() error {
	if err := driver.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// Devices lists the GPUs that the driver shows.
func Devices() ([]Device, error) {
	if err := available(); err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, fail("counting devices", "", true, err))
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: the driver shows no device (is CUDA_VISIBLE_DEVICES empty?)", ErrUnavailable)
	}
	list := make([]Device, n)
	for i := range list {
		if list[i], err = describe(i); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// describe asks the driver about a device.
func describe(ordinal int) (Device, error) {
	d := Device{Ordinal: ordinal, Library: driver.Path()}
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrUnavailable, fail(fmt.Sprintf("device %d", ordinal), "", true, err))
	}
	if d.Name, err = dev.Name(); err != nil {
		return d, fail("device name", "", true, err)
	}
	d.StandIn = d.Name == standInName
	if d.Memory, err = dev.TotalMem(); err != nil {
		return d, fail("device memory", "", true, err)
	}
	get := func(a cu.DeviceAttribute) int {
		v, e := dev.Attribute(a)
		if e != nil {
			return 0 // newer drivers no longer tell the clocks
		}
		return v
	}
	d.Capability = [2]int{get(cu.ComputeCapabilityMajor), get(cu.ComputeCapabilityMinor)}
	d.Multiprocessors = get(cu.MultiprocessorCount)
	d.ThreadsPerSM = get(cu.MaxThreadsPerMultiprocessor)
	d.RegistersPerSM = get(cu.MaxRegistersPerMultiprocessor)
	d.SharedPerSM = get(cu.MaxSharedMemoryPerMultiprocessor)
	d.ClockMHz, d.MemoryClockMHz, d.BusBits = get(cu.ClockRate)/1000, get(cu.MemoryClockRate)/1000, get(cu.GlobalMemoryBusWidth)
	v := cu.Version()
	d.Driver = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	d.rates()
	return d, nil
}

const standInName = "CPU pretending to be a CUDA device"

// acquire opens a device or shares it with the backends that have it.
func acquire(o Options) (*device, error) {
	if err := available(); err != nil {
		return nil, err
	}
	devices.mu.Lock()
	defer devices.mu.Unlock()
	if d := devices.open[o.Device]; d != nil && d.alive() == nil {
		d.users++
		return d, nil
	}
	info, err := describe(o.Device)
	if err != nil {
		return nil, err
	}
	if info.Capability[0] < 8 {
		return nil, fmt.Errorf("%w: %s has compute capability %d.%d, want 8.0 or more", ErrUnavailable, info.Name, info.Capability[0], info.Capability[1])
	}
	d := &device{ordinal: o.Device, users: 1, info: info, fns: map[string]cu.Function{}}
	if err := d.start(); err != nil {
		return nil, fmt.Errorf("%w: %s, driver for CUDA %s: %w", ErrUnavailable, info.Name, info.Driver, err)
	}
	if devices.open == nil {
		devices.open = map[int]*device{}
	}
	devices.open[o.Device] = d
	return d, nil
}

func (d *device) start() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ptx, err := kernels.PTX()
	if err != nil {
		return err
	}
	dev, err := cu.GetDevice(d.ordinal)
	if err != nil {
		return fail("device", "", true, err)
	}
	if d.ctx, err = dev.MakeContext(cu.SchedAuto); err != nil {
		return fail("making a context", "", true, err)
	}
	if d.mod, err = cu.LoadData(ptx); err != nil {
		return errors.Join(fail("loading the kernels", "", true, err), d.destroy())
	}
	if d.stream, err = cu.MakeStream(cu.DefaultStream); err != nil {
		return errors.Join(fail("making a stream", "", true, err), d.destroy())
	}
	return nil
}

func (d *device) destroy() error {
	if err := d.ctx.Destroy(); err != nil {
		return fail("ending the context", "", true, err)
	}
	return nil
}

func (d *device) alive() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// release gives the device back; with the last backend its context ends.
func (d *device) release() error {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	d.users--
	if d.users > 0 {
		return nil
	}
	if devices.open[d.ordinal] == d {
		delete(devices.open, d.ordinal)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := d.destroy()
	if d.lost != nil {
		return nil // the driver has nothing left to end
	}
	return err
}

// enter begins a stretch of work on the device.
func (d *device) enter() error {
	d.mu.Lock()
	if d.lost != nil {
		d.mu.Unlock()
		return d.gone()
	}
	runtime.LockOSThread()
	if err := cu.SetCurrentContext(d.ctx); err != nil {
		err := d.check("making the context current", err)
		d.leave()
		return err
	}
	return nil
}

func (d *device) leave() {
	runtime.UnlockOSThread()
	d.mu.Unlock()
}

// do is one such stretch.
func (d *device) do(f func() error) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	return f()
}

func (d *device) gone() error { return fmt.Errorf("%w: %w", ErrLost, d.lost) }

// check gives an error of the driver its context. An error that has ended the device's context is remembered.
func (d *device) check(op string, err error) error {
	if err == nil {
		return nil
	}
	e := fail(op, d.last, d.count <= 1, err)
	if d.count == 0 {
		e.Kernel = ""
	}
	switch e.Code {
	case 1, 2, 3, 101, 200, 201, 209, 218, 222, 301, 400, 500, 701, 801: // the context lives on
		return e
	}
	if d.lost == nil {
		d.lost = e
	}
	return d.gone()
}

// ptr is an address in device memory.
type ptr = cu.DevicePtr

// alloc is n bytes of device memory.
func (d *device) alloc(n int64) (ptr, error) {
	p, err := cu.MemAlloc(max(n, 16))
	if err == nil {
		d.stats.Allocated += n
		return p, nil
	}
	e := d.check("allocating memory", err)
	var ce *Error
	if errors.As(e, &ce) && ce.Code == 2 {
		free, total, _ := cu.MemInfo()
		return 0, &MemoryError{Want: n, Free: free, Total: total, Err: ce}
	}
	return 0, e
}

func (d *device) free(p ptr, n int64) error {
	if p == 0 {
		return nil
	}
	d.stats.Allocated -= n
	if d.lost != nil {
		return nil
	}
	return d.check("freeing memory", cu.MemFree(p))
}

// upload copies bytes to the device, in the stream's order.
func (d *device) upload(to ptr, from unsafe.Pointer, n int64) error {
	if n == 0 {
		return nil
	}
	return d.check("copying to the device", cu.MemcpyHtoDAsync(to, from, n, d.stream))
}

// fetch copies bytes from the device, when all before it is done.
func (d *device) fetch(to unsafe.Pointer, from ptr, n int64) error {
	if n == 0 {
		return nil
	}
	d.stats.Fetched += n
	if err := d.check("copying from the device", cu.MemcpyDtoHAsync(to, from, n, d.stream)); err != nil {
		return err
	}
	return d.wait()
}

// wait lets the device finish.
func (d *device) wait() error {
	if err := d.check("waiting for the device", d.stream.Synchronize()); err != nil {
		return err
	}
	d.count = 0
	return nil
}

func (d *device) function(name string) (cu.Function, error) {
	fn, ok := d.fns[name]
	if !ok {
		var err error
		if fn, err = d.mod.Function(name); err != nil {
			return fn, fail("kernel "+name, "", true, err)
		}
		d.fns[name] = fn
	}
	return fn, nil
}

// dim is the size of a grid or block.
type dim [3]int

// launch starts a kernel. gorgonia.org/cu reads eight bytes of every parameter, so each is widened: ints become the low half
// of a little-endian word, which is right for int and long long parameters.
func (d *device) launch(name string, grid dim, threads, shared int, args ...any) error {
	if grid[0] == 0 || grid[1] == 0 || grid[2] == 0 {
		return nil
	}
	fn, err := d.function(name)
	if err != nil {
		return err
	}
	d.words, d.ptrs = d.words[:0], d.ptrs[:0]
	for i, a := range args {
		var w uint64
		switch a := a.(type) {
		case ptr:
			w = uint64(a)
		case int:
			w = uint64(int64(a))
		case int64:
			w = uint64(a)
		case bool:
			if a {
				w = 1
			}
		case float32:
			*(*float32)(unsafe.Pointer(&w)) = a
		case float64:
			*(*float64)(unsafe.Pointer(&w)) = a
		default:
			return fmt.Errorf("cuda: kernel %s: parameter %d has type %T", name, i, a)
		}
		d.words = append(d.words, w)
	}
	for i := range d.words {
		d.ptrs = append(d.ptrs, unsafe.Pointer(&d.words[i]))
	}
	d.last, d.lastBlocks, d.lastThreads = name, grid[0]*grid[1]*grid[2], threads
	d.count++
	d.stats.Launches++
	if err := fn.Launch(grid[0], grid[1], grid[2], threads, 1, 1, shared, d.stream, d.ptrs); err != nil {
		return d.check("starting", err)
	}
	if d.sync {
		return d.wait()
	}
	return nil
}
