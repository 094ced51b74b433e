package quant

import (
	"math"
	"unsafe"

	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Kernels are the functions of this package for one target. It is a value of four bytes, made once by who plans (For) and copied into
// what runs; the zero value is those in portable Go. Safe for concurrent use. A slice that is too short is the caller's bug
// and panics before anything is written; memory outside of the given ranges is neither read nor written.
type Kernels struct {
	set      isa.Set
	by       multiplier
	permutes bool // AVX-512's VPERMI2B chooses among 128 bytes
	tiles    bool // AMX multiplies tiles, where they are not too few
}

// multiplier says what multiplies integers of 8 bits and adds the products to sums of 32.
type multiplier uint8

const (
	widening multiplier = iota // nothing does: they are widened to 16 bits first
	paired                     // AVX2's VPMADDUBSW, which adds two products in 16 bits
	vnni                       // AVX-512's VPDPBUSD, of an unsigned and a signed operand
	dots                       // NEON's SDOT and UDOT, of operands of one signedness
	mixed                      // NEON's USDOT and SUDOT, of an unsigned and a signed operand, and USMMLA, of matrices of them
)

// Prepares reports whether products prepare their rows for the panels of a call, so that calls of more panels take less time.
func (k Kernels) Prepares() bool { return k.by == paired || k.by == widening }

// Turns reports whether kernels turn the upper bits of A's unsigned and B's signed elements around as they read them, as they do where A's gather around the middle:
// products of few rows take less time where that has been done.
func (k Kernels) Turns() bool { return k.by == paired }

// For returns the kernels of a target.
func For(t isa.Target) Kernels {
	k := Kernels{set: t.Set}
	switch t.Set {
	case isa.AVX512:
		k.permutes = t.Features.Has(cpuid.AVX512VBMI)
		if t.Features.Has(cpuid.AVX512VNNI) {
			k.by, k.tiles = vnni, t.Int8Tiles()
		}
	case isa.NEON:
		if t.Features.Has(cpuid.ASIMDDP) {
			k.by = dots
		}
		if t.Features.Has(cpuid.I8MM) {
			k.by = mixed
		}
	case isa.AVX2:
		k.by = paired
	case isa.Portable:
	}
	return k
}

// Levels are how floats become integers of 8 bits: round(x/Scale) + Zero, rounded half to even and bounded to the type. An integer q
// is (q - Zero)·Scale.
type Levels struct {
	Scale  float32
	Zero   int
	Signed bool // int8, else uint8
}

// levels is what a kernel reads of Levels. The generator knows the offsets of the fields.
type levels struct {
	lo, hi float32 // bounds, less the zero point
	zero   int32
	scale  float32
}

// least returns the smallest integer of the type.
func (l Levels) least() int {
	if l.Signed {
		return math.MinInt8
	}
	return 0
}

// bound returns the integer of the type that is nearest to x.
func (l Levels) bound(x int) int { return min(max(x, l.least()), l.least()+math.MaxUint8) }

// within returns the levels bounded by lo and hi, integers of the type.
func (l Levels) within(lo, hi int) levels {
	return levels{lo: float32(lo - l.Zero), hi: float32(hi - l.Zero), zero: int32(l.Zero), scale: l.Scale}
}

func (l Levels) all() levels { return l.within(l.least(), l.least()+math.MaxUint8) }

// callElements bounds the elements of one call of assembly, which cannot be preempted: some ten microseconds.
const callElements = 1 << 14

// first returns the address of the first of n > 0 elements, having checked that they are there.
func first[T any](x []T, n int) *T {
	_ = x[n-1]
	return unsafe.SliceData(x)
}

// advance moves a pointer by n elements.
func advance[T any](x *T, n int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(x), n*int(unsafe.Sizeof(*x))))
}

// view returns n elements at x.
func view[T any](x *T, n int) []T { return unsafe.Slice(x, n) }
