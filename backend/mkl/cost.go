package mkl

import (
	_ "embed"
	"runtime"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// efficiencyText has what the library and carve's own loops achieve, by class of processors. See internal/bench/cost.
//
//go:embed efficiency.txt
var efficiencyText string

// efficiencyOf returns what is achieved by a class of processors.
var efficiencyOf = backend.EfficiencySets(efficiencyText)

// efficiency returns what is known for the instructions that the library uses.
func (b *mkl) efficiency() *backend.Efficiency {
	const avx512, amx = 0x20, 0x200 // of the library's steps
	set := isa.AVX2
	switch bits := b.l.isaBits(); {
	case runtime.GOARCH == "arm64":
		set = isa.NEON
	case bits&amx != 0: // what was measured with 2 MiB of second cache was with it
		return efficiencyOf(isa.Host().Class())
	case bits&avx512 != 0:
		set = isa.AVX512
	}
	return efficiencyOf(set.String())
}
