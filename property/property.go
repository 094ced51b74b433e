package property

import "github.com/carve-dev/carve/graph"

// SubgraphProperty chooses sets of nodes for its backend. It is immutable and safe for concurrent use: state lives in
// the Selector, which is made fresh for every pass.
type SubgraphProperty interface {
	// Name identifies the property in reports: lower-case words with hyphens.
	Name() string
	// NewSelector returns a selector for one pass over g, or nil, which chooses nothing. Tables that it makes of g cost their time once.
	NewSelector(g *graph.Graph) Selector
}

// Selector grows candidate sets from seeds, as in MXNet: Select is asked for each node that is still free, in topological
// order; from an accepted seed the set grows over operands (SelectInput, in order) and consumers (SelectOutput, by id) of
// its nodes, first come first served, until nobody accepts more; Filter then chooses what to keep. A node that is refused
// may be asked for again over another edge. Before each attempt but the first (the next seed, or the same seed again when
// the set would not be convex) Reset is called.
//
// Nodes show fan-out (Value.Uses), graph outputs (Value.IsOutput), types, formats and constness. Nodes are told apart by
// their address: ids change when a claim is undone.
type Selector interface {
	Select(seed *graph.Node) bool
	SelectInput(cur, input *graph.Node) bool
	SelectOutput(cur, output *graph.Node) bool
	// Filter returns the nodes to keep of the candidates, which come in topological order. Candidates that it drops may be
	// chosen from other seeds. What it keeps is divided into connected sets.
	Filter(candidates []*graph.Node) []*graph.Node
	Reset()
}

// Judge is implemented by selectors that look once more at a set that is about to become a claim, after Filter and
// convexity have cut it. It returns why the set is turned down, or nil.
type Judge interface {
	Judge(set []*graph.Node) *Reason
}

// Explainer is implemented by selectors that say why a node was turned down. Why is asked right after Select refused the
// node or Filter dropped it; nil means that there is nothing to tell.
type Explainer interface {
	Why(n *graph.Node) *Reason
}

// Kind is what becomes of a property's sets.
type Kind uint8

const (
	// Atomic claims are fused units: one node with the kernel of the property's backend stands for the set.
	Atomic Kind = iota
	// Bounding claims are borders of groups: no final group of the backend holds nodes of the set and others.
	Bounding
	// Admitting claims limit what a backend takes: where it has such properties, only nodes in a set of each of them.
	Admitting
)

// String returns "atomic", "bounding" or "admitting".
func (k Kind) String() string {
	switch k {
	case Atomic:
		return "atomic"
	case Bounding:
		return "bounding"
	case Admitting:
		return "admitting"
	}
	return "unknown"
}

// Kinded is implemented by properties whose claims are not atomic.
type Kinded interface{ Kind() Kind }

// KindOf returns the kind of a property's claims.
func KindOf(p SubgraphProperty) Kind { return RuleOf(p).Kind }

// PrePartitioner is implemented by properties that look at, or prepare, the graph before selection.
type PrePartitioner interface{ PrePartition(g *graph.Graph) error }

// PostPartitioner is implemented by properties that finish the graph after all groups are made.
type PostPartitioner interface{ PostPartition(g *graph.Graph) error }

// Reviewer accepts, trims or vetoes a finished set: an atomic property's claim before it is fused, and, for the other kinds,
// every finished group of the backend. The set is given as a graph of its own, whose nodes are in the order of Nodes. Review
// returns the indices to keep, all of them for acceptance, and a reason for what it drops. Dropped nodes of a claim are left
// to other seeds and properties; those of a group go to backends further down the list.
type Reviewer interface {
	Review(sub *graph.Graph) (keep []int, why *Reason)
}

// AttributeReviewer is a Reviewer that also gives the node that will stand for the set attributes; its own word counts where
// a property is both.
type AttributeReviewer interface {
	ReviewAttributes(sub *graph.Graph) Verdict
}

// KeepAll returns the indices of all nodes of a graph: a Review that accepts.
func KeepAll(sub *graph.Graph) []int {
	if sub == nil {
		return nil
	}
	keep := make([]int, sub.NumNodes())
	for i := range keep {
		keep[i] = i
	}
	return keep
}

// NodeCreator says how the node that stands for an accepted claim, or for a finished group where the property's claims are
// not atomic, is called; see Rule.Create. sub is its region, with the nodes in it. By default an atomic claim becomes a
// carve.Fused with the attribute "pattern", which is the property's name whatever spec says, and a group a carve.Subgraph
// with the attribute "backend". Of the properties of a backend, the first that returns a spec for a group names it.
type NodeCreator interface {
	CreateSubgraphNode(sub *graph.Graph) (spec *graph.NodeSpec, err error)
}

// Connector sees, and edits, operands and results of the node that stands for a claim or a finished group when it has been
// put in their place; see Rule.Connect.
type Connector interface {
	ConnectSubgraph(n *graph.Node) error
}

// Adjuster edits the chosen nodes in place instead of fusing them. Types of what it adds have to be set.
type Adjuster interface {
	Adjust(nodes []*graph.Node) error
}

// EdgeFilter forbids edges between two nodes of one group.
type EdgeFilter interface {
	AllowEdge(from, to *graph.Node) bool
}

// Signer gives the signatures of a claim whose region is the fused node's; without it the backend's Supports is asked about
// the fused node.
type Signer interface {
	Signatures(fused *graph.Node) []graph.Signature
}

// Unwrapper is implemented by properties made from another one, whose optional interfaces count as theirs where they have none
// of their own.
type Unwrapper interface{ Unwrap() SubgraphProperty }

// As returns p, or the first property that it is made from, that implements T: an interface that a backend asks for beyond
// those of this package, which RuleOf has all in one.
func As[T any](p SubgraphProperty) (T, bool) {
	for p != nil {
		if t, ok := p.(T); ok {
			return t, true
		}
		if r, ok := p.(*Rule); ok {
			p = r.base
		} else {
			p = within(p)
		}
	}
	var none T
	return none, false
}
