// Package operators is what backends of the host are made of that turn nodes into steps one after the other: a table of
// operators, each of which says in which formats it runs, how its results lie with regard to its operands, and plans steps;
// the walk of Backend.Supports over a node; and what signatures and placement have in common whatever the kernels are.
//
// The package imports backend and what is below it, internal/fuse and internal/place.
package operators

import (
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Planner is a backend's own planner, which embeds a place.Plan.
type Planner interface{ Base() *place.Plan }

// Operator is what a backend knows of one kind of node. S is the type of the function that it asks for signatures.
type Operator[S any, P Planner] struct {
	// Signatures returns the ways to run n, or the reason why not. Operands and results have passed the check of Supports.
	Signatures S
	// Settle says which operand the result may overwrite, or lies in. nil: the results of n have memory of their own.
	Settle func(p P, n *graph.Node)
	// Plan emits the steps of n for concrete shapes. Its results have their places.
	Plan func(p P, n *graph.Node) error
	// Strided reports whether Plan takes v, an operand or the result of n, at m in strided rows (place.Memory). nil: never.
	Strided func(p P, n *graph.Node, v *graph.Value, m place.Memory) bool
	// Single says that Plan takes contiguous values only; where there are strided rows it is called image by image.
	Single bool
}

// Convert is the name under which Convert nodes are registered.
const Convert = "convert"

// Pattern is the name of the nodes that are fused by a pattern.
func Pattern(name string) string { return "pattern:" + name }

// Of is the name of the operators of a domain that is not the default one.
func Of(domain, name string) string { return domain + ":" + name }

// Table maps names to operators: those of the default domain, Of for others, Pattern of fused nodes, Convert.
type Table[S any, P Planner] map[string]Operator[S, P]

// Register adds an operator. It is called from init, and panics on a name that is taken.
func (t Table[S, P]) Register(name string, op Operator[S, P]) {
	if _, dup := t[name]; dup {
		panic("operators: " + name + " is registered twice")
	}
	t[name] = op
}

// Lookup returns the operator of a node.
func (t Table[S, P]) Lookup(n *graph.Node) (op Operator[S, P], ok bool) {
	switch {
	case n.IsCarve(graph.OpFused):
		op, ok = t[Pattern(n.Str("pattern", ""))]
	case n.IsCarve(graph.OpConvert):
		op, ok = t[Convert]
	case n.Op.Domain == "":
		op, ok = t[n.Op.Name]
	default:
		op, ok = t[Of(n.Op.Domain, n.Op.Name)]
	}
	return op, ok
}

// Supports is the walk of Backend.Supports: the operator has to be known, each operand and result pass check, and ask, which
// asks for signatures, give some. what a backend has for operators is named in the reason: "kernel", for example.
func (t Table[S, P]) Supports(n *graph.Node, what string, check func(v *graph.Value) *property.Reason,
	ask func(signatures S) ([]graph.Signature, *property.Reason)) backend.Support {
	op, ok := t.Lookup(n)
	if !ok || n.IsCarve(graph.OpConvert) {
		return backend.No(property.Unsupported, "no %s for %v", what, n.Op)
	}
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v == nil {
				continue
			}
			if why := check(v); why != nil {
				return backend.Support{Reason: why}
			}
		}
	}
	sigs, why := ask(op.Signatures)
	if why != nil {
		return backend.Support{Reason: why}
	}
	return backend.Support{Signatures: sigs}
}

// Order returns the nodes of a subgraph in order of execution. The error wraps backend.ErrUnavailable where one is not known.
func Order(sub *graph.Graph, what string, known func(n *graph.Node) bool) ([]*graph.Node, error) {
	order, err := sub.Topo()
	if err != nil {
		return nil, err
	}
	for _, n := range order {
		if !known(n) {
			return nil, fmt.Errorf("%w: no %s for %v", backend.ErrUnavailable, what, n)
		}
	}
	return order, nil
}
