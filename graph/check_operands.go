package graph

import "github.com/carve-dev/carve/graph/tensor"

// CheckOperands reports whether a run may give n these operands, nil standing for an omitted one: their types, shapes and
// contents satisfy the schema, as inference would find if they were constants. Nodes without a schema, and those with
// regions, pass. It changes nothing and costs about as much as InferNode. The error is that of InferNode.
func CheckOperands(n *Node, operands []tensor.Value) error {
	if n == nil {
		return errNilNode
	}
	if n.Schema == nil || n.Schema.Infer == nil || len(n.Regions) > 0 {
		return nil
	}
	var d detachment
	m := d.node(n.Name, len(n.Inputs), len(n.Outputs))
	m.Op, m.Attrs, m.Schema = n.Op, n.Attrs, n.Schema
	for i, was := range n.Inputs {
		if was == nil || i >= len(operands) || operands[i] == nil {
			continue
		}
		v := d.operand(i)
		v.Name, v.Type = was.Name, withoutShape(was.Type)
		if t, ok := operands[i].(*tensor.Tensor); ok && t != nil {
			v.Type = TypeOf(t)
			if t.Device.IsHost() && t.IsCompact() {
				v.Const, v.Dims = t, constDims(t)
			}
		}
	}
	for i, was := range n.Outputs {
		if was != nil {
			d.result(i, was.Name, was.Type)
		}
	}
	return InferNode(m)
}
