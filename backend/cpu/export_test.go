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

// BasesOf returns how many plans an executable keeps to make others of, and how often a larger one was made in vain.
func BasesOf(e backend.Executable) (kept, failed int) {
	x := &e.(*executable).bases
	for _, n := range x.rigid {
		failed += n
	}
	return len(x.list), failed
}

// WithCache returns a backend that plans for caches of a level, from 1 on, of so many bytes.
func WithCache(b backend.Backend, level, bytes int) backend.Backend {
	c := b.(cpu)
	c.target.Caches[level-1].Bytes = bytes
	return c
}

// LeastPast is the least result, in bytes, that goes past the caches.
const LeastPast = leastPast

// PairName is how profiles call a convolution of a single tap with the depthwise one behind it.
const PairName = pairName
