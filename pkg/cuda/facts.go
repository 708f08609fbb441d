package cuda

// rates fills in what follows from the driver's figures.
func (d *Device) rates() {
	cores := 0
	switch { // float32 multiply-adds a clock and multiprocessor: CUDA C++ Programming Guide, table of arithmetic throughput
	case d.Capability == [2]int{8, 0}:
		cores = 64
	case d.Capability[0] >= 8:
		cores = 128
	}
	d.FLOPs = 2 * float64(d.Multiprocessors) * float64(cores) * float64(d.ClockMHz) * 1e6
	d.Bandwidth = 2 * float64(d.MemoryClockMHz) * 1e6 * float64(d.BusBits) / 8 // two transfers a clock
}

// Residency is how many blocks of a kernel a multiprocessor holds at once, and what stops it there: "threads", "registers",
// "shared memory" or "blocks". Blocks wait for memory in turns, so a kernel that has to hide that wants many; one that
// keeps its numbers in registers can do with few (CUDA C++ Programming Guide, "Hardware Multithreading").
func (d Device) Residency(threads, registers, shared int) (blocks int, limit string) {
	if threads < 1 || d.ThreadsPerSM < 1 {
		return 0, "threads"
	}
	warps := (threads + 31) / 32
	most := 32
	switch {
	case d.Capability == [2]int{8, 6}:
		most = 16
	case d.Capability == [2]int{8, 9} || d.Capability[0] == 12:
		most = 24
	}
	blocks, limit = most, "blocks"
	lower := func(n int, what string) {
		if n < blocks {
			blocks, limit = n, what
		}
	}
	lower(d.ThreadsPerSM/(32*warps), "threads")
	if registers > 0 { // a warp's are given out in units of 256
		lower(d.RegistersPerSM/((32*registers+255)/256*256)/warps, "registers")
	}
	lower(d.SharedPerSM/(shared+1024), "shared memory") // of each block's, 1 KiB is the driver's
	return blocks, limit
}
