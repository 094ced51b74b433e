package cpu

import (
	_ "embed"
	"sync"

	"github.com/carve-dev/carve/backend"
)

// efficiencyText has what the kernels achieve, by instruction set. See internal/bench/cost.
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
