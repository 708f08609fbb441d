package lesson

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"forwardpass/pkg/cuda"
)

// Launch runs a kernel as a GPU's launch does, on one thread of this CPU: for every block and every thread of it, once. The
// order of threads means nothing, which is what a kernel has to live with.
func Launch(blocks, threads int, kernel func(block, thread int)) {
	for b := range blocks {
		for t := range threads {
			kernel(b, t)
		}
	}
}

// Block runs one block whose code has barriers (__syncthreads) between its phases: a phase begins when all threads have
// finished the one before. The threads run in the order given, or from 0 on where order is nil: code without a race gives the
// same in every order.
func Block(threads int, order []int, phases ...func(thread int)) {
	for _, phase := range phases {
		for t := range threads {
			if order != nil {
				t = order[t]
			}
			phase(t)
		}
	}
}

// SectorBytes is what a GPU's memory hands over at least: the 32 threads of a warp that read next to each other share sectors.
const SectorBytes = 32

// Sectors is how many sectors of memory hold the given bytes' addresses.
func Sectors(addresses []int) int {
	seen := map[int]bool{}
	for _, a := range addresses {
		seen[a/SectorBytes] = true
	}
	return len(seen)
}

// SM is what a multiprocessor has to share out among blocks.
type SM struct{ Threads, Blocks, Registers, Shared int }

// Hopper is an H100's or H200's multiprocessor (compute capability 9.0; CUDA C++ Programming Guide, table of technical
// specifications).
var Hopper = SM{Threads: 2048, Blocks: 32, Registers: 65536, Shared: 228 << 10}

// Fit is how many blocks of a kernel run at once on the multiprocessor, what part of its threads that is, and which of its
// resources is the limit. threads of a block, registers of a thread, bytes of shared memory of a block, to which the system adds
// 1 KiB. Registers are given out by warp, 256 at a time.
func (s SM) Fit(threads, registers, shared int) (blocks int, occupancy float64, limit string) {
	warps := (threads + 31) / 32
	perBlock := (registers*32 + 255) / 256 * 256 * warps
	blocks, limit = s.Blocks, "blocks"
	for _, r := range []struct {
		name        string
		have, wants int
	}{{"threads", s.Threads, warps * 32}, {"registers", s.Registers, perBlock}, {"shared memory", s.Shared, shared + 1<<10}} {
		if n := r.have / max(r.wants, 1); n < blocks {
			blocks, limit = n, r.name
		}
	}
	return blocks, float64(blocks*warps*32) / float64(s.Threads), limit
}

// GPU is what lesson 13 shows of a real GPU: the report recorded on one; where there is none, that of the CPU stand-in for the
// driver, whose times mean nothing. note says in a line which it is.
func GPU() (r *cuda.Report, note string, err error) {
	all, err := cuda.Recorded()
	if err != nil {
		return nil, "", err
	}
	if len(all) > 0 {
		r := &all[len(all)-1]
		return r, fmt.Sprintf("recorded on %s, %s", r.Device.Name, r.Date), nil
	}
	r, err = miniature()
	if err != nil { // not built, or from other kernels than these: the lesson goes on without it
		return &cuda.Report{}, fmt.Sprint("nothing to show: ", err), nil
	}
	return r, "from the CPU stand-in, whose times mean nothing", nil
}

// miniature is the stand-in's report. Since the stand-in takes seconds and a cell is a program of its own, the report is kept
// beside it until it is built again.
func miniature() (*cuda.Report, error) {
	dir := filepath.Join(Root(), ".forwardpass", "cuda")
	kept, r := filepath.Join(dir, "miniature.json"), &cuda.Report{}
	if newer(kept, filepath.Join(dir, "gpureport"), filepath.Join(dir, "libcudacpu.so")) {
		if data, err := os.ReadFile(kept); err == nil && json.Unmarshal(data, r) == nil {
			return r, nil
		}
	}
	r, err := cuda.Miniature(Root())
	if err != nil {
		return nil, err
	}
	if data, err := json.Marshal(r); err == nil {
		os.WriteFile(kept, data, 0o644) // only to save time
	}
	return r, nil
}

// newer says whether a file is there and younger than all others.
func newer(file string, others ...string) bool {
	f, err := os.Stat(file)
	if err != nil {
		return false
	}
	for _, other := range others {
		if o, err := os.Stat(other); err != nil || !o.ModTime().Before(f.ModTime()) {
			return false
		}
	}
	return true
}
