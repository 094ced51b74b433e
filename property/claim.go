package property

import "github.com/carve-dev/carve/graph"

// Cost is a modelled cost of running a node or claim once, in nanoseconds. Zero means not known.
type Cost struct {
	Nanoseconds float64
	FLOPs       float64
	Bytes       float64
}

// Claim is a set of nodes that a backend offers to run as one unit (Atomic) or wants to keep apart from its other nodes
// (Bounding). Sets that are not convex are divided.
type Claim struct {
	Name  string // of what claims, for reports; of an atomic claim also the fused node's attribute "pattern"
	Nodes []*graph.Node
	Kind  Kind
	Cost  Cost
}
