package property

import (
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Rule is a SubgraphProperty as a value: a name, a kind, and a function for each hook, of which any may be nil. It is what
// carve itself makes of every property (RuleOf), so that whatever asks properties knows one form of them, and what the
// ready-mades that turn properties into others alter a copy of. A Rule must not be changed once it is in use; its functions
// are safe for concurrent use, and hold no state of a call.
//
// The package documentation has a table of the hooks, with MXNet's names for them, in the order in which they are called.
type Rule struct {
	// ID identifies the property in reports, and fused nodes to kernels: lower-case words with hyphens.
	ID string
	// Kind is what becomes of the sets; Atomic by default.
	Kind Kind
	// Selector returns a selector for one pass over g. nil selects nothing: for a property that prepares, reviews or finishes.
	Selector func(g *graph.Graph) Selector
	// PrePartition looks at the graph, or edits it, before anything is selected.
	PrePartition func(g *graph.Graph) error
	// Adjust edits chosen nodes in place instead of fusing them. Types of what it adds have to be set.
	Adjust func(nodes []*graph.Node) error
	// Review accepts, trims or vetoes a finished set: an atomic property's claim before it is fused, and, for the other
	// kinds, every finished group of the backend. nil accepts all.
	Review func(sub *graph.Graph) Verdict
	// Create says how the node that stands for a claim, or for the other kinds a finished group, is called: its name,
	// attributes and operator, of a domain of its own (see graph.Node.SetOperator). sub is its region. What spec leaves out, and all of it where it is
	// nil, stays as it is by default; of operands, results and regions nothing is read. An error turns the set down.
	Create func(sub *graph.Graph) (spec *graph.NodeSpec, err error)
	// Connect sees the new node in its place, with its operands, results and region, and may edit these: bring them into
	// another order (graph.Node.OrderInputs, OrderOutputs), add operands, or take operands away that the region does not
	// read. Each operand stays one input of the region, and each result one output of the same type. An error turns the set
	// down.
	Connect func(n *graph.Node) error
	// Attributes are those of every node that the property makes; what Review and Create say comes on top.
	Attributes []graph.Attr
	// Signatures gives the formats of a claim's fused node; without it the backend's Supports is asked about the node.
	Signatures func(fused *graph.Node) []graph.Signature
	// Kernel prepares a claim's fused node for concrete shapes, with a kernel of the user's own; see KernelProvider.
	Kernel func(fused *graph.Node, b graph.Bindings) (Kernel, error)
	// AllowEdge forbids edges between two nodes of one group where it returns false.
	AllowEdge func(from, to *graph.Node) bool
	// PostPartition finishes the graph after all groups are made.
	PostPartition func(g *graph.Graph) error

	base SubgraphProperty // that this was made from; As looks there for interfaces of others
}

// Name implements SubgraphProperty.
func (r *Rule) Name() string { return r.ID }

// NewSelector implements SubgraphProperty.
func (r *Rule) NewSelector(g *graph.Graph) Selector {
	if r.Selector == nil {
		return nothing{}
	}
	return r.Selector(g)
}

// rule returns r, also of a struct that embeds it.
func (r *Rule) rule() *Rule { return r }

// Verdict is what a Review says about a set.
type Verdict struct {
	Keep  []int        // indices of the nodes to keep, in the order of Nodes; those that do not exist are ignored
	Why   *Reason      // for what is dropped; nil has a reason made
	Attrs []graph.Attr // of the node that will stand for the set, where all of it is kept
}

// Accept returns the Verdict that keeps all nodes of a graph, and gives the node that will stand for them attributes.
func Accept(sub *graph.Graph, attrs ...graph.Attr) Verdict {
	return Verdict{Keep: KeepAll(sub), Attrs: attrs}
}

// RuleOf returns a property as a Rule, to be altered at will. Of another type than Rule, the optional interfaces are its
// functions, and what a Rule that it embeds, or a property that it is made from (Unwrapper), says where it has none. A nil
// property, here and in what is made of properties (And, Limit, Where, WithKind), is a programmer's error and panics.
func RuleOf(p SubgraphProperty) *Rule {
	r := &Rule{}
	if inner := within(p); inner != nil {
		r = RuleOf(inner)
	} else if own, ok := p.(*Rule); ok {
		*r = *own
		r.Attributes = slices.Clone(own.Attributes)
		return r
	}
	r.ID, r.Selector, r.base = p.Name(), p.NewSelector, p
	r.sets(p)
	r.nodes(p)
	return r
}

// within returns what a property of another type than Rule is made from, nil where that is nothing.
func within(p SubgraphProperty) SubgraphProperty {
	switch x := p.(type) {
	case *Rule:
		return nil
	case Unwrapper:
		return x.Unwrap()
	case interface{ rule() *Rule }:
		return x.rule()
	}
	return nil
}

// sets takes over the hooks of p about sets and the whole graph.
func (r *Rule) sets(p SubgraphProperty) {
	if x, ok := p.(Kinded); ok {
		r.Kind = x.Kind()
	}
	if x, ok := p.(PrePartitioner); ok {
		r.PrePartition = x.PrePartition
	}
	if x, ok := p.(Adjuster); ok {
		r.Adjust = x.Adjust
	}
	if x, ok := p.(Reviewer); ok {
		r.Review = func(sub *graph.Graph) Verdict {
			keep, why := x.Review(sub)
			return Verdict{Keep: keep, Why: why}
		}
	}
	if x, ok := p.(AttributeReviewer); ok {
		r.Review = x.ReviewAttributes
	}
	if x, ok := p.(EdgeFilter); ok {
		r.AllowEdge = x.AllowEdge
	}
	if x, ok := p.(PostPartitioner); ok {
		r.PostPartition = x.PostPartition
	}
}

// nodes takes over the hooks of p about the nodes that it makes.
func (r *Rule) nodes(p SubgraphProperty) {
	if x, ok := p.(NodeCreator); ok {
		r.Create = x.CreateSubgraphNode
	}
	if x, ok := p.(Connector); ok {
		r.Connect = x.ConnectSubgraph
	}
	if x, ok := p.(Signer); ok {
		r.Signatures = x.Signatures
	}
	if x, ok := p.(KernelProvider); ok {
		r.Kernel = x.Kernel
	}
}

// nothing is a selector that takes nothing.
type nothing struct{}

func (nothing) Select(*graph.Node) bool                { return false }
func (nothing) SelectInput(_, _ *graph.Node) bool      { return false }
func (nothing) SelectOutput(_, _ *graph.Node) bool     { return false }
func (nothing) Filter(set []*graph.Node) []*graph.Node { return set }
func (nothing) Reset()                                 {}
