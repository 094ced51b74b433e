package cpuid

import "golang.org/x/sys/cpu"

// detected is computed after the initialisation of the cpu package, which reads CPUID and XCR0.
var detected = detect()

func detect() Level {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return Generic
	}
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
		return AVX512
	}
	return AVX2
}
