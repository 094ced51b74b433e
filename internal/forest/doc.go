// Package forest reads the ensembles of decision trees of domain ai.onnx.ml (TreeEnsemble, version 5; TreeEnsembleRegressor and
// TreeEnsembleClassifier, versions 1 to 5) and evaluates them.
//
// Read makes a Forest of a node's attributes, with all places checked. Compile turns it into arrays that are walked without a
// branch that depends on data: every comparison becomes x ≤ split, chains of comparisons for equality become searches by halves, and leaves lead to
// themselves, so that four walks go on side by side until none moves. Where a processor has kernels of package internal/kernel/trees, eight or 32 do,
// in its layout.
package forest

import "fmt"

// Error is the error of this package: the attribute that is at fault, and why.
type Error struct {
	Attr   string
	Reason string
}

// Error returns `nodes_modes: "BRANCH"`.
func (e *Error) Error() string { return e.Attr + ": " + e.Reason }

func failf(attr, format string, args ...any) error {
	return &Error{Attr: attr, Reason: fmt.Sprintf(format, args...)}
}

// Mode is the comparison of a node, in the order of TreeEnsemble's enumeration.
type Mode uint8

// The comparisons: of a feature with the node's split, or with the members of a set. Leaf compares nothing.
const (
	LEQ Mode = iota
	LT
	GTE
	GT
	EQ
	NEQ
	Member
	Leaf
)

// Node is a node of any tree.
type Node struct {
	Mode    Mode
	Missing bool // NaN takes the branch Yes
	Feature int  // column, at least 0
	Yes, No int  // indices of Forest.Nodes
	Split   float64
	Members []float64
	Votes   []Vote
}

// Vote is what a leaf adds to a target.
type Vote struct {
	Target int
	Weight float64
}

// Forest is a set of decision trees. Nodes may belong to several of them; from no node a way leads back to it.
type Forest struct {
	Nodes    []Node
	Roots    []int
	Targets  int
	Features int  // one more than the largest feature that a node compares
	Wide     bool // splits or weights come from tensors of another type than float32
	First    bool // all votes are for target 0
	Positive bool // no weight is negative
}
