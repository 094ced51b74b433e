package cpu

import (
	"maps"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/operators"
)

// Operators returns the names of the operators of the default domain that the backend has kernels for, and "pattern:" and
// the names of its fused nodes.
func Operators() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(table)), func(name string) bool { return name == operators.Convert })
}

// EfficiencySets names the instruction sets that have a table.
func EfficiencySets() []string {
	sets, err := backend.ParseEfficiencies(efficiencyText)
	if err != nil {
		panic(err)
	}
	return slices.Sorted(maps.Keys(sets))
}
