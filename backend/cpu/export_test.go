package cpu

import (
	"maps"
	"slices"

	"github.com/carve-dev/carve/internal/operators"
)

// Operators returns the names of the operators of the default domain that the backend has kernels for, and "pattern:" and
// the names of its fused nodes.
func Operators() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(table)), func(name string) bool { return name == operators.Convert })
}

// EfficiencySets names the instruction sets that have a table.
func EfficiencySets() []string { return slices.Sorted(maps.Keys(efficiencies())) }
