package plugin

import (
	"cmp"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Operators returns what the plugin lists for the processor, sorted by domain and name: each operator once, with the first
// version that the plugin knows. Which nodes it takes Supports says.
func (b *Backend) Operators() []graph.Op {
	var out []graph.Op
	for k, list := range b.operators {
		first := slices.MinFunc(list, func(x, y cOp) int { return cmp.Compare(x.sinceMin, y.sinceMin) })
		out = append(out, graph.Op{Domain: k.domain, Name: k.name, Since: int(first.sinceMin)})
	}
	slices.SortFunc(out, func(a, b graph.Op) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name))
	})
	return out
}
