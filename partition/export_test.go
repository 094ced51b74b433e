package partition

import (
	"context"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
)

// Assigned is an assignment that a test made: backends by node id, -1 for the host scheduler's.
type Assigned struct{ a *assignment }

// Assign returns the assignment of each node of g to one of the backends.
func Assign(g *graph.Graph, backends []backend.Backend, of func(n *graph.Node) int) *Assigned {
	a := newAssignment(g, &Options{Backends: backends})
	for n := range g.Nodes() {
		a.backend[n.ID] = hostScheduled
		if b := of(n); b >= 0 {
			a.backend[n.ID] = int32(b)
		}
	}
	return &Assigned{a}
}

// Group does what Partition does between finished claims and verified groups. It returns the number of groups.
func (x *Assigned) Group(ctx context.Context) (int, error) {
	order, err := x.a.g.Topo()
	if err != nil {
		return 0, err
	}
	_, groups, err := group(ctx, x.a, order)
	return len(groups), err
}
