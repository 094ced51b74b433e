package operators

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/place"
)

// View settles operators whose result is their first operand, in another shape or format of the same bytes.
func View[P Planner](p P, n *graph.Node) { p.Base().View(n.Outputs[0], n.Inputs[0]) }

// Transpose settles transpositions that keep the bytes.
func Transpose[P Planner](p P, n *graph.Node) {
	dims := p.Base().Dims[n.Inputs[0].ID]
	if perm := fuse.Perm(n, len(dims)); perm != nil && KeepsBytes(dims, perm) {
		View(p, n)
	}
}

// KeepsBytes reports whether a transposition of a row-major tensor moves dims of 1 only.
func KeepsBytes(dims, perm []int) bool {
	seen := -1
	for _, a := range perm {
		if dims[a] == 1 {
			continue
		}
		if a < seen {
			return false
		}
		seen = a
	}
	return true
}

// WholeDims is the Strided of row-major kernels that step through their operands and results by strides.
func WholeDims[P Planner](p P, _ *graph.Node, v *graph.Value, m place.Memory) bool {
	if v.Format != graph.HostFormat {
		return false
	}
	_, ok := m.Strides(p.Base().Dims[v.ID], v.Type.DType.Size())
	return ok
}
