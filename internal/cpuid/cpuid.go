// Package cpuid reports what the processor offers that kernels are chosen by: instruction-set extensions that it and the
// operating system support, and traits of its microarchitecture.
//
// It is a leaf: it imports nothing of carve. It reports facts and decides nothing: package isa says which kernels they
// admit.
package cpuid

import (
	"strings"
	"sync"
)

// Features is a set of features. The zero value is a processor without any that kernels ask for.
type Features uint64

// Features of amd64 processors, each only where the operating system saves the registers that it needs.
const (
	AVX2 Features = 1 << iota
	FMA
	F16C
	AVX512F
	AVX512BW
	AVX512DQ
	AVX512VL
	// AVX512VNNI multiplies integers of 8 or 16 bits and adds the products to sums of 32 bits, with 512-bit vectors and, where
	// AVX512VL is, shorter ones.
	AVX512VNNI
	// Split512 is no extension but a trait: 512-bit vectors are computed in two halves (AMD Zen 4), so that a load
	// broadcast to a vector costs as much as two of 256 bits and feeds no more multiply-adds.
	Split512
	// ASIMD is the vector unit of arm64 processors, NEON.
	ASIMD
	// BMI2 shifts by a count in any register, and leaves flags alone.
	BMI2
	// ASIMDDP multiplies integers of 8 bits of one signedness and adds four products at a time to sums of 32 bits (SDOT and UDOT).
	ASIMDDP
	// I8MM does so where one operand is signed and the other is not (USDOT and SUDOT), and for matrices of 2 x 8 such integers (USMMLA).
	I8MM
	// AVX512BF16 rounds float32 to bfloat16, and multiplies bfloat16 in pairs and adds the products to sums of 32 bits.
	AVX512BF16
	// AVX512VBMI chooses bytes from one or two vectors by their numbers (VPERMI2B).
	AVX512VBMI
	// ASIMDHP computes with vectors of float16 on arm64.
	ASIMDHP
	// BF16 rounds float32 to bfloat16, and multiplies bfloat16 in pairs and adds the products to sums of 32 bits, on arm64.
	BF16
	// AMXInt8 multiplies tiles of 16 rows of 64 integers of 8 bits, of either signedness, and adds four products at a time to sums of 32 bits, where
	// the system lets this process use tiles.
	AMXInt8
	// AMXBF16 does so for bfloat16, two products at a time, and float32.
	AMXBF16
)

var names = [...]string{"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "split512", "asimd", "bmi2", "asimddp", "i8mm", "avx512_bf16", "avx512vbmi", "asimdhp", "bf16",
	"amx_int8", "amx_bf16"}

// Has reports whether f has all of the features of want.
func (f Features) Has(want Features) bool { return f&want == want }

// String returns the lower-case names of the features, in order, with spaces between: those of /proc/cpuinfo where it has
// them. Bits without a meaning are left out.
func (f Features) String() string {
	var list []string
	for i, name := range names {
		if f.Has(1 << i) {
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

// Host returns the features of this processor. It does not change while the process runs.
//
// Where the processor has AMX, the first call asks Linux for the process's permission to use tiles, which every thread of it has from then on:
// the frames of its signals take 8 KiB more.
func Host() Features { return host() }

// host reads what package cpu found in CPUID and XCR0; it obeys GODEBUG=cpu.avx512f=off.
var host = sync.OnceValue(detect)
