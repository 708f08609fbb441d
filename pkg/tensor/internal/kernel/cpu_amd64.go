package kernel

import "golang.org/x/sys/cpu"

func detect() []Level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasF16C || !x.HasOSXSAVE:
		return []Level{Go}
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL:
		return []Level{Go, AVX2, AVX512}
	}
	return []Level{Go, AVX2}
}
