package mkl

import (
	_ "embed"
	"runtime"

	"github.com/carve-dev/carve/backend"
)

// efficiencyText has what the library and carve's own loops achieve, by instruction set. See internal/bench/cost.
//
//go:embed efficiency.txt
var efficiencyText string

// efficiencyOf returns what is achieved with an instruction set.
var efficiencyOf = backend.EfficiencySets(efficiencyText)

// efficiency returns what is known for the instructions that the library uses.
func (b *mkl) efficiency() *backend.Efficiency {
	const avx512 = 0x20 // of the library's steps
	set := "avx2"
	switch {
	case runtime.GOARCH == "arm64":
		set = "neon"
	case b.l.isaBits()&avx512 != 0:
		set = "avx512"
	}
	return efficiencyOf(set)
}
