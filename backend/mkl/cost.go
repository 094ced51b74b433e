package mkl

import (
	_ "embed"
	"runtime"
	"sync"

	"github.com/carve-dev/carve/backend"
)

// efficiencyText has what the library and carve's own loops achieve, by instruction set. See internal/bench/cost.
//
//go:embed efficiency.txt
var efficiencyText string

// efficiencies is the parsed text, which is a part of the program: a fault in it is a programmer's.
var efficiencies = sync.OnceValue(func() map[string]*backend.Efficiency {
	sets, err := backend.ParseEfficiencies(efficiencyText)
	if err != nil {
		panic(err)
	}
	return sets
})

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
	return efficiencies()[set]
}
