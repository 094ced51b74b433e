package picture

import (
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/cost"
)

// candidates says of every backend of the list what it is for a node.
func (b *builder) candidates(n *graph.Node, chosen string) []Candidate {
	out := make([]Candidate, 0, len(b.src.Backends))
	from := modelNodes(n)
	if chosen == Host { // what is in its regions has candidates of its own
		from = n.Provenance()
	}
	for _, be := range b.src.Backends {
		c := Candidate{Backend: be.Info().Name}
		c.Chosen = c.Backend == chosen
		if chosen != Host {
			c.Nanoseconds = math.Round(b.price(be, n, c.Chosen))
			c.Measured = math.Round(b.measured(be, n, c.Chosen))
		}
		c.Reasons = b.reasons(from, c.Backend)
		out = append(out, c)
	}
	return out
}

// reasons returns why nodes of the model are not on a backend, each reason once; with the node where it is not that of all.
func (b *builder) reasons(nodes []string, backend string) []string {
	var said []string
	about := map[string][]string{}
	for _, name := range nodes {
		for _, r := range b.d.rejected[name] {
			if r.Backend != backend {
				continue
			}
			if about[r.Reason] == nil {
				said = append(said, r.Reason)
			}
			if !slices.Contains(about[r.Reason], name) {
				about[r.Reason] = append(about[r.Reason], name)
			}
		}
	}
	var out []string
	for i, why := range said {
		if i == maxReasons {
			return append(out, fmt.Sprintf("… %d more", len(said)-maxReasons))
		}
		text := short(why)
		switch of := about[why]; {
		case len(of) == len(nodes):
		case len(of) == 1:
			text = short(of[0]) + ": " + text
		default:
			text = fmt.Sprintf("%s and %d more: %s", short(of[0]), len(of)-1, text)
		}
		out = append(out, text)
	}
	return out
}

// price models the time of a node on a backend in nanoseconds, 0 where it does not run it or says nothing. What is fused counts as one
// where the backend has it so, and as its parts elsewhere.
func (b *builder) price(be backend.Backend, n *graph.Node, owner bool) float64 {
	e := be.Info().Efficiency
	if !fused(n) {
		can := be.Supports(n)
		if can.Reason != nil {
			return 0
		}
		return b.nanoseconds(e, n, can.Signatures, can.Cost.Nanoseconds)
	}
	if owner {
		return b.nanoseconds(e, n, nil, 0)
	}
	sum := 0.0
	for m := range n.Region("body").Nodes() {
		ns := b.price(be, m, false)
		if ns == 0 {
			return 0
		}
		sum += ns
	}
	return sum
}

// mostResolved bounds the signatures that one with variables stands for.
const mostResolved = 16

// measured returns what was measured of a node on a backend in nanoseconds: in the formats in which the owner runs it, elsewhere in the
// best ones, what is fused as its parts; 0 where something of that is not known.
func (b *builder) measured(be backend.Backend, n *graph.Node, owner bool) float64 {
	name := be.Info().Name
	switch {
	case b.src.Measured == nil:
		return 0
	case owner && n.Ports != nil:
		sig := *n.Ports
		sig.Name = n.SigName
		return b.src.Measured(n, name, &sig)
	case !fused(n):
		least := 0.0
		for _, s := range be.Supports(n).Signatures {
			for _, sig := range s.ResolveAll(mostResolved) {
				if ns := b.src.Measured(n, name, &sig); ns > 0 && (least == 0 || ns < least) {
					least = ns
				}
			}
		}
		return least
	}
	sum := 0.0
	for m := range n.Region("body").Nodes() {
		ns := b.measured(be, m, false)
		if ns == 0 {
			return 0
		}
		sum += ns
	}
	return sum
}

// nanoseconds returns the time that a backend names, or else that of the best signature by its efficiencies.
func (b *builder) nanoseconds(e *backend.Efficiency, n *graph.Node, sigs []graph.Signature, said float64) float64 {
	if said > 0 || e == nil {
		return said
	}
	w := cost.MeasureAt(n, b.src.Sizes)
	if len(sigs) == 0 {
		return cost.Nanoseconds(e, &w, n.SigName, b.src.Threads)
	}
	least := 0.0
	for k := range sigs {
		if ns := cost.Nanoseconds(e, &w, sigs[k].Name, b.src.Threads); ns > 0 && (least == 0 || ns < least) {
			least = ns
		}
	}
	return least
}

// Answer is what there is to say of one node of the model.
type Answer struct {
	Node       *Node  // that runs it; nil where nobody does
	Folded     string // why nobody does
	Candidates []Candidate
}

// Ask returns what is known of a node of the model, by its name there. found is false for a node that there is not.
func (d *Document) Ask(name string) (a Answer, found bool) {
	for i := range d.Nodes {
		if n := &d.Nodes[i]; (n.Kind == KindOp || n.Kind == KindHost) && slices.Contains(n.Nodes, short(name)) {
			a.Node, found = n, true
			break
		}
	}
	for _, f := range d.Folded {
		if !found && f.Node == name {
			a.Folded, found = f.Kind, true
		}
	}
	for _, be := range d.Backends {
		c := Candidate{Backend: be.Name}
		for _, r := range d.rejected[name] {
			if r.Backend == be.Name && !slices.Contains(c.Reasons, r.Reason) {
				c.Reasons = append(c.Reasons, r.Reason)
			}
		}
		if a.Node != nil {
			for _, of := range a.Node.Candidates {
				if of.Backend == be.Name {
					c.Chosen, c.Nanoseconds, c.Measured = of.Chosen, of.Nanoseconds, of.Measured
				}
			}
		}
		a.Candidates = append(a.Candidates, c)
	}
	return a, found
}
