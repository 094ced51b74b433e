package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// form is what a property of the backend recognises.
type form interface {
	comparable
	nodes() []*graph.Node // all that it stands for
}

// formOf recognises in the body of a fused node what its property has recognised in the graph: read is asked for every node, and the
// answer counts that is the whole body. what names it for the reason why there is none.
func formOf[T form](n *graph.Node, what string, read func(m *graph.Node) T) (T, *property.Reason) {
	body, none := n.Regions[0].Graph, *new(T)
	for m := range body.Nodes() {
		if f := read(m); f != none && len(f.nodes()) == body.NumNodes() {
			return f, nil
		}
	}
	return none, property.Because(property.Veto, "body of %v is no %s", n, what)
}
