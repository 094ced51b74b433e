package reference

import (
	_ "embed"
	"sync"

	"github.com/carve-dev/carve/backend"
)

// efficiencyText has what the kernels achieve: they are the same Go everywhere. See internal/bench/cost.
//
//go:embed efficiency.txt
var efficiencyText string

// efficiency is the parsed text, which is a part of the program: a fault in it is a programmer's.
var efficiency = sync.OnceValue(func() *backend.Efficiency {
	sets, err := backend.ParseEfficiencies(efficiencyText)
	if err != nil {
		panic(err)
	}
	return sets["any"]
})
