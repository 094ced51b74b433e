// Package property says how nodes are grouped: SubgraphProperty and Selector as MXNet's users know them, with the holes
// closed, the claims that they make, and ready-made properties.
//
// A property belongs to one backend. What its selectors choose are claims: atomic ones are fused units that are never
// split; bounding ones are borders that no final group of that backend crosses. Every node that a property turns down
// carries a typed Reason.
//
// The package imports graph and nothing above it.
package property

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
)

// SubgraphProperty chooses sets of nodes for its backend. It is immutable and safe for concurrent use: state lives in
// the Selector, which is made fresh for every seed.
type SubgraphProperty interface {
	// Name identifies the property in reports: lower-case words with hyphens.
	Name() string
	// NewSelector returns a selector for one pass over g.
	NewSelector(g *graph.Graph) Selector
}

// Selector grows one candidate set from a seed, as in MXNet: Select is asked for each node in topological order; from an
// accepted seed the set grows over operands (SelectInput) and consumers (SelectOutput) of its nodes until nobody accepts
// more; Filter then chooses what to keep. Before another attempt from the same seed (when the set would not be convex)
// Reset and then Select are called again.
//
// Nodes show fan-out (Value.Uses), graph outputs (Value.IsOutput), types, formats and constness.
type Selector interface {
	Select(seed *graph.Node) bool
	SelectInput(cur, input *graph.Node) bool
	SelectOutput(cur, output *graph.Node) bool
	// Filter returns the nodes to keep of the candidates, which come in topological order. Candidates that it drops may be
	// chosen from other seeds.
	Filter(candidates []*graph.Node) []*graph.Node
	Reset()
}

// Kind is what becomes of a property's sets.
type Kind uint8

// Atomic claims are fused units; bounding claims are borders of groups; group claims say which supported nodes may be
// grouped at all.
const (
	Atomic Kind = iota
	Bounding
)

// Kinded is implemented by properties whose claims are not atomic.
type Kinded interface{ Kind() Kind }

// PrePartitioner is implemented by properties that look at, or prepare, the graph before selection.
type PrePartitioner interface{ PrePartition(g *graph.Graph) error }

// PostPartitioner is implemented by properties that finish the graph after all groups are made.
type PostPartitioner interface{ PostPartition(g *graph.Graph) error }

// Reviewer accepts, trims or vetoes a finished set. The set is given as a graph of its own, whose nodes are in the order
// of nodes. It returns the indices to keep, all of them for acceptance, and a reason for what it drops.
type Reviewer interface {
	Review(sub *graph.Graph) (keep []int, why *Reason)
}

// NodeCreator makes the node that stands for an accepted atomic claim. sub is its region, with the claim's nodes in it;
// the node that is returned through spec gets that region as "body". A nil spec keeps the default: carve.Fused with the
// attribute "pattern" set to the property's name.
type NodeCreator interface {
	CreateSubgraphNode(sub *graph.Graph) (spec *graph.NodeSpec, err error)
}

// Adjuster edits the chosen nodes in place instead of fusing them.
type Adjuster interface {
	Adjust(nodes []*graph.Node) error
}

// EdgeFilter forbids edges between two nodes of one group.
type EdgeFilter interface {
	AllowEdge(from, to *graph.Node) bool
}

// Signer gives the signatures of a claim whose region is sub; without it the backend's Supports is asked about the fused
// node.
type Signer interface {
	Signatures(fused *graph.Node) []graph.Signature
}

// Cost is a modelled cost of running a node or claim once, in nanoseconds. Zero means not known.
type Cost struct {
	Nanoseconds float64
	FLOPs       float64
	Bytes       float64
}

// Claim is a set of nodes that a backend offers to run as one unit.
type Claim struct {
	Backend  string
	Property string // "" for a single supported node
	Nodes    []*graph.Node
	Kind     Kind
	Cost     Cost
}

// Code is the kind of a Reason.
type Code string

// The reasons for which a node is not on a backend.
const (
	Unsupported    Code = "unsupported"     // the backend has no kernel for the operator
	Version        Code = "version"         // not for this version of the operator
	DTypeReason    Code = "dtype"           // not for these element types
	ShapeReason    Code = "shape"           // not for these shapes
	DynamicShape   Code = "dynamic-shape"   // the shape depends on data
	Attribute      Code = "attribute"       // not for this value of an attribute
	Layout         Code = "layout"          // not for these layouts
	Priority       Code = "priority"        // a backend earlier in the list has it
	Pinned         Code = "pinned"          // the user pinned the node elsewhere, or excluded it
	Cycle          Code = "cycle"           // taking the node would make groups depend on each other
	Veto           Code = "veto"            // a property or backend turned the finished set down
	TooSmall       Code = "too-small"       // the group does not earn its boundary
	CompileFailed  Code = "compile-failed"  // the group did not compile
	HostScheduled  Code = "host-scheduled"  // control flow, sequences, optionals and maps run in the host scheduler
	Unavailable    Code = "unavailable"     // the backend's library is absent
	SpecializeFail Code = "specialize-fail" // the group was refused for concrete shapes
)

// Reason says why a node is not on a backend.
type Reason struct {
	Code     Code
	Property string // the property that turned the node down, "" where it was the backend
	Detail   string // whole words: what was expected and what was found
}

// Because returns a Reason with a formatted detail.
func Because(code Code, format string, args ...any) *Reason {
	return &Reason{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// String returns "code: detail".
func (r *Reason) String() string {
	if r == nil {
		return ""
	}
	s := string(r.Code)
	if r.Property != "" {
		s += " (" + r.Property + ")"
	}
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return s
}

// Error makes a Reason usable as an error.
func (r *Reason) Error() string { return r.String() }
