package partition

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// Candidate is a node, or a set of nodes, that a backend would run as one: in which formats, and at what cost.
type Candidate struct {
	Backend int // index into Options.Backends
	// Node is the single node; of a set, the carve.Fused node that stands for it, nil while there is none: from when it is
	// offered and left to when it is taken.
	Node *graph.Node
	// Claim tells of a set; it is nil for a single node.
	Claim      *Claim
	Signatures []graph.Signature // best first; nodes share lists, so that who narrows one down sets another
	// Cost is one run on Options.Threads, with the best signature: as the backend says, or modelled by what it achieves (its
	// Info.Efficiency). Nanoseconds are 0 where neither is known, and nothing is modelled for Priority, which asks for no cost.
	Cost  property.Cost
	Taken bool
	// Group keeps candidates of different numbers in different groups, and those with one apart from those without; 0 for none.
	// Where a Chooser sets it on any that it takes, it counts in the place of bounding properties and claims.
	Group int32
}

// Claim is the set of nodes behind a Candidate, and who chose it.
type Claim struct {
	Property *property.Rule
	Nodes    []*graph.Node
	attrs    []graph.Attr // that a review gave its node
}

// Nodes returns the nodes of the model's graph that the candidate is about.
func (c *Candidate) Nodes() []*graph.Node {
	if c.Claim != nil {
		return c.Claim.Nodes
	}
	return []*graph.Node{c.Node}
}

// Candidates is the table of who would run what, and of who does. A Chooser fills it backend by backend (Collect) and
// decides: on each candidate as it comes, or, for those that it left, once it knows all (Take). A State makes it; of the zero
// Candidates nothing may be asked.
type Candidates struct {
	s     *State
	slabs [][]Candidate                // in the order of being offered; the last one has room
	of    []*Candidate                 // by node id: the one that was taken
	left  map[*graph.Node][]*Candidate // sets that were not taken, by their first nodes
	lists signatureLists               // of the candidates

	numbered bool // a candidate that was taken has a Group
}

// Graph returns the graph. Claims that were taken are carve.Fused nodes in it. It must not be changed.
func (t *Candidates) Graph() *graph.Graph { return t.s.g }

// Backends returns the number of backends, the first of which comes first in the user's order.
func (t *Candidates) Backends() int { return len(t.s.names) }

// Backend returns the name of a backend.
func (t *Candidates) Backend(i int) string { return t.s.names[i] }

// All returns the candidates in the order in which they were offered.
func (t *Candidates) All() iter.Seq[*Candidate] {
	return func(yield func(*Candidate) bool) {
		for _, slab := range t.slabs {
			for i := range slab {
				if !yield(&slab[i]) {
					return
				}
			}
		}
	}
}

// Free reports whether n is still nobody's.
func (t *Candidates) Free(n *graph.Node) bool {
	return n.Graph() == t.s.g && n.ID < len(t.s.backend) && t.s.backend[n.ID] == unassigned
}

// Resolved returns the signatures of a candidate with formats in the place of their variables, up to 16 of each, best first.
func (t *Candidates) Resolved(c *Candidate) []graph.Signature { return t.lists.resolve(c.Signatures) }

// SetPlacement notes what the choice comes to, for reports, where it was made by cost.
func (t *Candidates) SetPlacement(p Placement) { t.s.result.placement = &p }

// Conversion returns the modelled nanoseconds of converting v from one format to another, once, +Inf where nobody can.
func (t *Candidates) Conversion(v *graph.Value, from, to graph.Format) float64 {
	if from == to || v.IsConst() || v.IsDims() {
		return 0 // constants are converted once, when the model is compiled
	}
	return t.s.o.Registry.Cost(from, to, t.s.estimateBytes(v.Type))
}

// Collect asks a backend what it would run of the nodes that are free and not banned: the sets that it claims by means of
// its own, those of its properties, then every single node. Each candidate is shown to take, with the Fused node of a set
// in its place, and becomes the backend's where take returns true; a set that is not taken leaves its nodes free for
// others. Properties that adjust nodes instead of fusing them do so now. Whatever is turned down leaves a reason.
func (t *Candidates) Collect(ctx context.Context, backend int, take func(*Candidate) bool) error {
	return t.s.collect(ctx, int32(backend), take)
}

// Take gives the nodes of a candidate that was not taken when it was offered to its backend. It reports false where some
// of them are taken, or a set is not convex any more. Signatures may have been narrowed down since.
func (t *Candidates) Take(c *Candidate) (bool, error) {
	for _, n := range c.Nodes() {
		if !t.Free(n) {
			return false, nil
		}
	}
	if c.Claim != nil {
		n, err := t.s.contracted(c.Claim.Property, c.Claim.Nodes)
		if n == nil || err != nil {
			return false, err
		}
		if err := describe(n, c.Claim.Property, c.Claim.attrs); err != nil {
			_, fault := t.s.g.Inline(n)
			t.s.grow()
			return false, fault
		}
		c.Node = n
	}
	if err := checkSignatures(c.Node, c.Signatures); err != nil {
		return false, fmt.Errorf("backend %s, node %v: %w", t.s.names[c.Backend], c.Node, err)
	}
	t.accept(c)
	return true, nil
}

// slabSize is how many candidates are allocated at once, so that a million of them are few allocations.
const slabSize = 512

// add puts a candidate into the table.
func (t *Candidates) add(c Candidate) *Candidate {
	last := len(t.slabs) - 1
	if last < 0 || len(t.slabs[last]) == cap(t.slabs[last]) {
		t.slabs = append(t.slabs, make([]Candidate, 0, max(1, min(slabSize, t.s.g.NumNodes()))))
		last++
	}
	slab := append(t.slabs[last], c)
	t.slabs[last] = slab
	return &slab[len(slab)-1]
}

// offer adds a candidate and shows it to take.
func (t *Candidates) offer(c Candidate, take func(*Candidate) bool) bool {
	c.Signatures = t.lists.share(c.Signatures)
	p := t.add(c)
	if take(p) {
		t.accept(p)
	} else if p.Claim != nil {
		p.Node = nil // it is taken apart again
		if t.left == nil {
			t.left = map[*graph.Node][]*Candidate{}
		}
		t.left[p.Claim.Nodes[0]] = append(t.left[p.Claim.Nodes[0]], p)
	}
	return p.Taken
}

// known reports whether a set has been offered and left: properties find it again from other seeds.
func (t *Candidates) known(backend int, p *property.Rule, set []*graph.Node) bool {
	return slices.ContainsFunc(t.left[set[0]], func(c *Candidate) bool {
		return c.Backend == backend && c.Claim.Property.ID == p.ID && slices.Equal(c.Claim.Nodes, set)
	})
}

// accept makes a candidate's node its backend's.
func (t *Candidates) accept(c *Candidate) {
	c.Taken = true
	t.numbered = t.numbered || c.Group > 0
	id := c.Node.ID
	if more := t.s.g.NodeIDs() - len(t.of); more > 0 {
		t.of = append(t.of, make([]*Candidate, more)...)
	}
	t.of[id] = c
	t.s.backend[id] = int32(c.Backend)
	c.Node.Backend = t.s.names[c.Backend]
}

// taken returns the candidate that has a node, nil for the host scheduler's.
func (t *Candidates) taken(n *graph.Node) *Candidate {
	if n.ID < len(t.of) {
		return t.of[n.ID]
	}
	return nil
}

// Chooser decides who runs what.
type Chooser interface {
	// Choose has candidates collected and takes some, so that in the end every node that is not the host scheduler's belongs
	// to one. What it leaves free is an error of the partition.
	Choose(ctx context.Context, t *Candidates) error
}

// Priority is the Chooser by the order of the list: a backend gets whatever it offers to take of what those before it left.
// It asks no backend for a node that is taken.
type Priority struct {
	// Order names the backends that are asked, as indices of the list, in another order than that of the list; nil means all in
	// that order. A backend that it leaves out takes nothing.
	Order []int
}

// Unpriced is implemented by Choosers that ask for no cost, like Priority: where Unpriced reports true, nothing is modelled.
type Unpriced interface{ Unpriced() bool }

// Unpriced implements Unpriced.
func (Priority) Unpriced() bool { return true }

// isUnpriced reports whether c asks for no cost; nil stands for Priority.
func isUnpriced(c Chooser) bool {
	u, ok := c.(Unpriced)
	return c == nil || ok && u.Unpriced()
}

// Choose implements Chooser.
func (p Priority) Choose(ctx context.Context, t *Candidates) error {
	order := p.Order
	if order == nil {
		for i := range t.Backends() {
			order = append(order, i)
		}
	}
	for _, i := range order {
		if err := t.Collect(ctx, i, func(*Candidate) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}
