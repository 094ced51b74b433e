// Package isa names the instruction sets that kernels are written for, and says which of them a processor runs.
//
// Nothing here is decided behind a planner's back: who plans asks for a Target once (Host, or Named where a user forces one)
// and hands it down to the kernels' plans, which look up their kernels in it when they are made. Two plans in one process
// may have different targets.
//
// It is imported by the kernel packages, by their generators and by those who plan with them, and imports internal/cpuid
// alone.
package isa

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/cpuid"
)

// Set is an instruction set that kernels are written for. Results of two sets may differ in the last bits, results within
// a set never do.
type Set uint8

// The sets. Those of one architecture are ordered: a processor that runs one runs those of its architecture before it.
const (
	// Portable is Go. It runs everywhere and is the oracle of the others.
	Portable Set = iota
	// AVX2 needs AVX2, FMA3, F16C and BMI2: 16 vector registers of 8 floats.
	AVX2
	// AVX512 needs AVX-512 F, BW, DQ and VL besides: 32 registers of 16 floats, and masks.
	AVX512
	// NEON is the vector unit of every arm64 processor: 32 registers of 4 floats.
	NEON
	sets
)

// facts is what is known of each set.
var facts = [sets]struct {
	name  string
	lanes int
	needs cpuid.Features
}{
	Portable: {"portable", 1, 0},
	AVX2:     {"avx2", 8, cpuid.AVX2 | cpuid.FMA | cpuid.F16C | cpuid.BMI2},
	AVX512: {"avx512", 16, cpuid.AVX2 | cpuid.FMA | cpuid.F16C | cpuid.BMI2 | cpuid.AVX512F | cpuid.AVX512BW | cpuid.AVX512DQ |
		cpuid.AVX512VL},
	NEON: {"neon", 4, cpuid.ASIMD},
}

// String returns the lower-case name.
func (s Set) String() string {
	if s < sets {
		return facts[s].name
	}
	return fmt.Sprintf("set(%d)", uint8(s))
}

// Lanes returns how many float32 a vector holds; 1 for Portable.
func (s Set) Lanes() int { return facts[s].lanes }

// Target is what a plan is made for: an instruction set, and the features of the processor that choices within the set
// depend on, with its caches. It is a value, comparable; the zero value is portable Go on a processor of which nothing is known.
type Target struct {
	Set      Set
	Features cpuid.Features
	Caches   cpuid.Caches
}

// FirstCache returns the bytes of a core's first cache of data, 32 KiB where nothing is known of it.
func (t Target) FirstCache() int { return cmp.Or(t.Caches[0].Bytes, 32<<10) }

// SecondCache returns the bytes of a core's second cache, 1 MiB where nothing is known of it.
func (t Target) SecondCache() int { return cmp.Or(t.Caches[1].Bytes, 1<<20) }

// LastCache returns the bytes of the last cache, which cores share, 32 MiB where nothing is known of it.
func (t Target) LastCache() int { return cmp.Or(t.Caches[2].Bytes, 32<<20) }

// wideCache is the second cache from which on a processor with AVX-512 is of a class of its own: Intel's server processors since 2023.
const wideCache = 2 << 20

// Class names the processors whose kernels of the set take about as long: that of the set, or, where AVX-512 comes with a second cache of
// 2 MiB, avx512-2MiB. These have two whole multiply-adds of 512 bits a cycle, where AMD's Zen 4 halves vectors.
func (t Target) Class() string {
	if t.Set == AVX512 && t.SecondCache() >= wideCache {
		return t.Set.String() + "-2MiB"
	}
	return t.Set.String()
}

// BFloat16 reports whether kernels of the set multiply bfloat16.
func (t Target) BFloat16() bool {
	return t.Set == AVX512 && t.Features.Has(cpuid.AVX512BF16) || t.Set == NEON && t.Features.Has(cpuid.BF16)
}

// Int8Tiles reports whether kernels of the set multiply tiles of integers of 8 bits (package amx).
func (t Target) Int8Tiles() bool { return t.Set == AVX512 && t.Features.Has(cpuid.AMXInt8) }

// BFloat16Tiles reports whether kernels of the set multiply tiles of bfloat16 (package amx).
func (t Target) BFloat16Tiles() bool {
	return t.Set == AVX512 && t.Features.Has(cpuid.AMXBF16|cpuid.AVX512BF16)
}

// WithoutTiles returns the target of the same processor as if it had no AMX.
func (t Target) WithoutTiles() Target {
	t.Features &^= cpuid.AMXInt8 | cpuid.AMXBF16
	return t
}

// Float16 reports whether kernels of the set multiply float16.
func (t Target) Float16() bool { return t.Set == NEON && t.Features.Has(cpuid.ASIMDHP) }

// String returns the name of the set.
func (t Target) String() string { return t.Set.String() }

// Host returns the target with the best set that this processor runs.
func Host() Target {
	all := Targets()
	return all[len(all)-1]
}

// Targets returns a target for every set that this processor runs, the portable one first, the best last. Tests range
// over it.
func Targets() []Target {
	list := Of(cpuid.Host())
	for i := range list {
		list[i].Caches = cpuid.HostCaches()
	}
	return list
}

// Of returns the targets of a processor with these features, of whose caches nothing is known; see Targets.
func Of(f cpuid.Features) []Target {
	var list []Target
	for s := range sets {
		if f.Has(facts[s].needs) {
			list = append(list, Target{Set: s, Features: f})
		}
	}
	return list
}

// ErrUnknown is wrapped by the error of Named.
var ErrUnknown = errors.New("this processor runs no such instruction set")

// Named returns this processor's target with the set of a name. The error wraps ErrUnknown and lists the names that there
// are.
func Named(name string) (Target, error) {
	var names []string
	for _, t := range Targets() {
		if t.String() == name {
			return t, nil
		}
		names = append(names, t.String())
	}
	return Target{}, fmt.Errorf("%w: %q, only %s", ErrUnknown, name, strings.Join(names, ", "))
}
