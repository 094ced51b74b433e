package partition

import (
	"context"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
)

// Assigned is an assignment that a test made: backends by node id, -1 for the host scheduler's.
type Assigned struct{ s *State }

// Assign returns the assignment of each node of g to one of the backends.
func Assign(g *graph.Graph, backends []backend.Backend, of func(n *graph.Node) int) *Assigned {
	s := NewState(g, &Options{Backends: backends}, 0)
	for n := range g.Nodes() {
		s.backend[n.ID] = hostScheduled
		if b := of(n); b >= 0 {
			s.backend[n.ID] = int32(b)
		}
	}
	return &Assigned{s}
}

// Group does what Partition does between finished claims and verified groups. It returns the number of groups.
func (x *Assigned) Group(ctx context.Context) (int, error) {
	order, err := x.s.g.Topo()
	if err != nil {
		return 0, err
	}
	_, groups, err := x.s.group(ctx, order)
	return len(groups), err
}
