package graph

import (
	"fmt"
	"slices"
)

// AttrStandsFor is the attribute of a Fused or Subgraph node that goes by an operator of its maker's own, such as
// com.acme.Snake: it says which of the two it is. The node has the schema of that, and IsCarve knows it as that, so that
// whoever does not know the operator runs its region.
const AttrStandsFor = "stands_for"

// SetOperator has a Fused or Subgraph node go by an operator of its maker's own; by carve's, it is plainly what it is again.
// The error wraps ErrNoBody for another node, and ErrOperator for an operator without a name, or in a domain of ONNX's: there
// it would mean something else to all who know it.
func (n *Node) SetOperator(op Op) error {
	plain := n.carveName()
	switch {
	case plain != OpFused && plain != OpSubgraph:
		return fmt.Errorf("%v: %w", n, ErrNoBody)
	case op.Domain == CarveDomain && op.Name == plain:
		n.Op = Op{Domain: CarveDomain, Name: plain, Since: n.Schema.Since}
		n.Attrs = n.Attrs.Without(AttrStandsFor)
		return nil
	case op.Name == "" || ownDomain(domainKey(op.Domain)):
		return fmt.Errorf("%v: %w: %v is in none of its maker's own", n, ErrOperator, op)
	}
	n.Op = Op{Domain: op.Domain, Name: op.Name}
	n.Attrs = n.Attrs.With(StringAttr(AttrStandsFor, plain))
	return nil
}

// standsFor returns the schema of what a node with an operator of its maker's own stands for, nil for others.
func standsFor(op Op, attrs Attrs) *Schema {
	a := attrs.Lookup(AttrStandsFor)
	if a == nil || a.Kind != AttrString || a.Str != OpFused && a.Str != OpSubgraph || ownDomain(domainKey(op.Domain)) {
		return nil
	}
	return LookupSchema(CarveDomain, a.Str, 1)
}

// carveName returns which of carve's own operators n is, "" for another node.
func (n *Node) carveName() string {
	switch {
	case n.Op.Domain == CarveDomain:
		return n.Op.Name
	case n.Op.Domain != "" && n.Schema != nil && n.Schema.Domain == CarveDomain:
		return n.Schema.Name
	}
	return ""
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
