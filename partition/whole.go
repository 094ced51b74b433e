package partition

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/flops"
	"github.com/carve-dev/carve/property"
)

// ClaimWhole looks for the If, Loop and Scan nodes of a graph that a backend takes with all that is in them: the first of the list
// that supports the node, and that pins and bans let have it and every node in its regions. Their Backend says so, by which
// HostScheduled knows them: the regions of such a node are not partitioned, and it belongs to a group like other nodes. It is called
// before NewState, for outer graphs first, with the same scope and options. Where the partition then gives the node to nobody, it bans
// it from all backends, and the host scheduler has it when the partition begins anew. So does ClaimWhole where the Chooser goes by
// cost, all backends that would take the node say what it costs them, and its parts cost less on the backends that run them fastest.
func ClaimWhole(g *graph.Graph, scope int, o *Options) {
	var b *barred
	for n := range g.Nodes() {
		if !n.IsControl() || carriesOthers(n) {
			continue
		}
		if b == nil {
			b = newBarred(o.Bans, scope, g)
		}
		b.claimWhole(n, o)
	}
}

// claimWhole has the first backend that may claim n.
func (x *barred) claimWhole(n *graph.Node, o *Options) {
	var takers []string
	least, bound := math.Inf(1), false
	for _, k := range o.Backends {
		name := k.Info().Name
		bound = bound || x.why(n, name) != nil // a pin is no matter of cost
		if can := supports(k, n); can.Reason == nil && x.whyAny(n, name) == nil {
			takers, least = append(takers, name), min(least, can.Cost.Nanoseconds)
		}
	}
	if len(takers) == 0 {
		return
	}
	if !bound && !isUnpriced(o.Chooser) && least > 0 {
		if parts := newParts(x, o).node(n); parts < least {
			for _, name := range takers {
				x.ban(n, name, Stages()[stageAssign].Name, property.Because(property.Dearer,
					"its parts are modelled to take %.3g ms on other backends, and %.3g ms are the least that it takes whole", parts/1e6, least/1e6))
			}
			return
		}
	}
	n.Backend = takers[0]
}

// parts models control flow that the host scheduler runs.
type parts struct {
	x        *barred
	o        *Options
	names    []string
	launches []float64
}

func newParts(x *barred, o *Options) *parts {
	p := &parts{x: x, o: o, launches: Launches(o.Backends, o.Threads)}
	for _, b := range o.Backends {
		p.names = append(p.names, b.Info().Name)
	}
	return p
}

// node returns the nanoseconds of control flow with every node in it on the backend that runs it fastest, one group for each backend
// and iteration, and without conversions: infinity where iterations are not known, or nobody says what a node takes. Of the arms of
// an If the slower one counts.
func (p *parts) node(n *graph.Node) float64 {
	runs, known := flops.Iterations(n, p.o.Sizes)
	if !known {
		return math.Inf(1)
	}
	sum, most := 0.0, 0.0
	for _, r := range n.Regions {
		t := p.graph(r.Graph)
		sum, most = sum+t, max(most, t)
	}
	if n.Is("If") {
		sum = most
	}
	if sum == 0 {
		return 0 // and not infinitely often nothing
	}
	return runs * sum
}

func (p *parts) graph(g *graph.Graph) float64 {
	sum, used := 0.0, make([]bool, len(p.names))
	for n := range g.Nodes() {
		if n.IsControl() {
			sum += p.node(n)
			continue
		}
		ns, at := math.Inf(1), -1
		for i := range p.o.Backends {
			if t := p.on(i, n); t > 0 && t < ns {
				ns, at = t, i
			}
		}
		if sum += ns; at >= 0 {
			used[at] = true
		}
	}
	for i, u := range used {
		if u {
			sum += p.launches[i]
		}
	}
	return sum
}

// on returns the nanoseconds of a node on a backend, 0 where that may not have it or does not say.
func (p *parts) on(i int, n *graph.Node) float64 {
	b := p.o.Backends[i]
	can := supports(b, n)
	if can.Reason != nil || p.x.why(n, p.names[i]) != nil {
		return 0
	}
	c, _ := priced(b.Info().Efficiency, n, can.Cost, can.Signatures, p.o)
	return c.Nanoseconds
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

// explainWhole notes by what cost backends have lost control flow that the host scheduler has for that.
func (s *State) explainWhole() {
	for n := range s.g.Nodes() {
		if !n.IsControl() || !HostScheduled(n) {
			continue
		}
		for i := range s.names {
			if why := s.allowed(n, int32(i)); why != nil && why.Code == property.Dearer {
				for _, name := range n.Provenance() {
					s.result.lost = append(s.result.lost, Rejection{Node: name, Backend: s.names[i], Reason: why})
				}
			}
		}
	}
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
