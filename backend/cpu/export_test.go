package cpu

import (
	"maps"
	"slices"
)

// Operators returns the names of the operators of the default domain that the backend has kernels for, and "pattern:" and
// the names of its fused nodes.
func Operators() []string { return slices.Sorted(maps.Keys(operators)) }
