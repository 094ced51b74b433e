// Package cpuid says which family of vector kernels the processor can run.
//
// It is a leaf: it imports nothing of carve. Kernel packages ask Best once per call of a planning function (or once per
// kernel call where the call is large) and index a table with the answer, so that no test is made per element.
package cpuid

import (
	"fmt"
	"sync/atomic"
)

// Level is a family of instruction sets for which kernels are written. Levels are ordered: a processor that runs a level
// runs every lower one. Results of the levels may differ in the last bits, results within a level never do.
type Level int32

const (
	// Generic is portable Go. It runs everywhere and is the oracle of the other levels.
	Generic Level = iota
	// AVX2 needs AVX2, FMA3 and F16C, enabled by the operating system.
	AVX2
	// AVX512 needs AVX-512 F, BW, DQ and VL besides everything AVX2 needs.
	AVX512
)

// String returns the lower-case name of the level.
func (l Level) String() string {
	switch l {
	case Generic:
		return "generic"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return fmt.Sprintf("level(%d)", int32(l))
}

// limit is the forced level plus one, or 0 when none is forced.
var limit atomic.Int32

// Detected returns the highest level that this processor and operating system support, whatever is forced.
func Detected() Level { return detected }

// Best returns the level that kernels are to use: Detected, or the lower level set by Force. It costs one atomic load and
// is safe for concurrent use.
func Best() Level {
	if l := limit.Load(); l != 0 {
		return Level(l - 1)
	}
	return detected
}

// Levels returns every level that this machine can run, lowest first. Tests range over it.
func Levels() []Level {
	ls := make([]Level, 0, int(detected)+1)
	for l := Generic; l <= detected; l++ {
		ls = append(ls, l)
	}
	return ls
}

// Force makes Best return min(l, Detected()) until the returned function is called, which restores what was in force
// before. It exists for tests and for comparing levels; objects planned before the call keep the level that they were
// planned for. Safe for concurrent use, but it acts on the whole process.
func Force(l Level) (restore func()) {
	l = max(Generic, min(l, detected))
	old := limit.Swap(int32(l) + 1)
	return func() { limit.Store(old) }
}
