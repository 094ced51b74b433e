package partition

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// ClaimWhole looks for the If, Loop and Scan nodes of a graph that a backend takes with all that is in them: the first of the list
// that supports the node, and that pins and bans let have it and every node in its regions. Their Backend says so, by which
// HostScheduled knows them: the regions of such a node are not partitioned, and it belongs to a group like other nodes. It is called
// before NewState, for outer graphs first, with the same scope and options. Where the partition then gives the node to nobody, it bans
// it from all backends, and the host scheduler has it when the partition begins anew.
func ClaimWhole(g *graph.Graph, scope int, o *Options) {
	var b *barred
	for n := range g.Nodes() {
		if !n.IsControl() || carriesOthers(n) {
			continue
		}
		if b == nil {
			b = newBarred(o.Bans, scope, g)
		}
		for _, x := range o.Backends {
			name := x.Info().Name
			if x.Supports(n).Reason == nil && b.whyAny(n, name) == nil {
				n.Backend = name
				break
			}
		}
	}
}

// whyAny returns the reason for which n, or a node in its regions, must not go to a backend.
func (x *barred) whyAny(n *graph.Node, backend string) *property.Reason {
	if why := x.why(n, backend); why != nil {
		return why
	}
	for _, r := range n.Regions {
		for m := range r.Graph.Nodes() {
			if why := x.whyAny(m, backend); why != nil {
				return why
			}
		}
	}
	return nil
}

// giveUpWhole bans control flow that a backend supports, and that nobody has taken all the same, from all backends: the host
// scheduler runs it in the next round. It reports whether there is some.
func (s *State) giveUpWhole() bool {
	found := false
	for n := range s.g.Nodes() {
		if s.backend[n.ID] != unassigned || !n.IsControl() {
			continue
		}
		found = true
		for i := range s.names {
			s.ban(n, int32(i), stageAssign, property.Because(property.NotSelected, "nobody has chosen it whole"))
		}
	}
	return found
}
