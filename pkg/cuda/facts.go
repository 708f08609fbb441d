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
