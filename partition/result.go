package partition

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Result tells what Partition did to a graph. The graph then consists of Subgraph nodes (the groups), Convert nodes
// between them, and the host scheduler's nodes.
type Result struct {
	Groups   []*Group    // in topological order
	Rejected []Rejection // nodes that a backend, asked before the one that has them, turned down
	Packs    []Pack      // constants to be converted, each once

	graph     *graph.Graph
	names     []string    // of the backends
	placement *Placement  // of a choice by cost
	lost      []Rejection // by cost
	chosen    []Chosen
}

// Chosen is how a node is run, or a set that is one node, as it was decided before groups negotiated formats.
type Chosen struct {
	Node        *graph.Node
	Property    string // that made a set one node, "" for single nodes
	Signature   *graph.Signature
	Nanoseconds float64 // modelled, 0 where they are not known
}

// Chosen returns how nodes are run, in topological order. It is known from ChooseFormats on, and not to be changed.
func (r *Result) Chosen() []Chosen { return r.chosen }

// Group is a subgraph that one backend owns.
type Group struct {
	Backend string
	Node    *graph.Node  // the Subgraph node; the body is its region
	Body    *graph.Graph // the subgraph
	Dynamic bool         // its shapes depend on data
}

// Rejection says why a node of the model is not on a backend.
type Rejection struct {
	Node    string // a name in the model
	Backend string
	Reason  *property.Reason
}

// Pack is a constant that groups read in another format. Data of Packed is filled in by whoever executes the pack; it is
// shared by all groups that want the constant in that format.
type Pack struct {
	Name     string // of the constant in the model
	Constant *tensor.Tensor
	Format   graph.Format
	Packed   *tensor.Tensor
}

// Placement tells what a choice by cost comes to; nil where backends took turns.
func (r *Result) Placement() *Placement { return r.placement }
