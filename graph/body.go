package graph

import (
	"fmt"
	"slices"
	"strings"
)

// AttrOperator is the attribute of a carve.Fused or carve.Subgraph node that names the operator as which its maker wants it
// known.
const AttrOperator = "operator"

// Operator returns what n is known as: Op, or, of a Fused or Subgraph node, the operator that AttrOperator names, such as
// com.acme.Snake. Structurally the node stays what it is, so that whoever does not know the operator runs its region.
func (n *Node) Operator() Op {
	if n.IsCarve(OpFused) || n.IsCarve(OpSubgraph) {
		if s := n.Str(AttrOperator, ""); s != "" {
			if i := strings.LastIndexByte(s, '.'); i >= 0 {
				return Op{Domain: s[:i], Name: s[i+1:]}
			}
			return Op{Name: s}
		}
	}
	return n.Op
}

// OrderInputs brings the inputs of a Fused or Subgraph node, and those of its region, into another order: the i-th is the
// one that was the order[i]-th. The error wraps ErrNodeSet where order is no permutation, ErrNoBody for another node.
func (n *Node) OrderInputs(order []int) error {
	body, err := n.ordered(order, len(n.Inputs))
	if err != nil {
		return err
	}
	inner, outer := slices.Clone(body.Inputs), slices.Clone(n.Inputs)
	ports := n.ownPorts()
	for i, k := range order {
		body.Inputs[i] = inner[k]
		n.SetOperand(i, outer[k])
		if ports != nil {
			ports.Inputs[i] = n.Ports.Inputs[k]
		}
	}
	n.Ports = ports
	return nil
}

// OrderOutputs is OrderInputs for the outputs.
func (n *Node) OrderOutputs(order []int) error {
	body, err := n.ordered(order, len(n.Outputs))
	if err != nil {
		return err
	}
	inner, outer := slices.Clone(body.Outputs), slices.Clone(n.Outputs)
	ports := n.ownPorts()
	list := make([]*Value, len(order))
	for i, k := range order {
		list[i], n.Outputs[i] = inner[k], outer[k]
		if outer[k] != nil {
			outer[k].Index = i
		}
		if ports != nil {
			ports.Outputs[i] = n.Ports.Outputs[k]
		}
	}
	body.SetOutputs(list...)
	n.Ports = ports
	return nil
}

// ordered checks that order is a permutation of the ports of a node with a body, and returns the body.
func (n *Node) ordered(order []int, ports int) (*Graph, error) {
	if !n.IsCarve(OpFused) && !n.IsCarve(OpSubgraph) || len(n.Regions) != 1 {
		return nil, fmt.Errorf("%v: %w", n, ErrNoBody)
	}
	seen := make([]bool, ports)
	for _, k := range order {
		if k < 0 || k >= ports || seen[k] {
			return nil, fmt.Errorf("%v: %w: %v is no order of %d", n, ErrNodeSet, order, ports)
		}
		seen[k] = true
	}
	if len(order) != ports {
		return nil, fmt.Errorf("%v: %w: %v is no order of %d", n, ErrNodeSet, order, ports)
	}
	return n.Regions[0].Graph, nil
}

// ownPorts returns a copy of the node's signature that may be changed, nil where it has none.
func (n *Node) ownPorts() *Signature {
	if n.Ports == nil {
		return nil
	}
	s := *n.Ports
	s.Inputs, s.Outputs = slices.Clone(s.Inputs), slices.Clone(s.Outputs)
	return &s
}
