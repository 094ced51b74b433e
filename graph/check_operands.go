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
	return InferNode(new(detachment).of(n, func(i int, was *Value) (Value, bool) {
		if i >= len(operands) || operands[i] == nil {
			return Value{}, false
		}
		v := Value{Name: was.Name, Type: withoutShape(was.Type)}
		if t, ok := operands[i].(*tensor.Tensor); ok && t != nil {
			v.Type = TypeOf(t)
			if t.Device.IsHost() && t.IsCompact() {
				v.Const, v.Dims = t, constDims(t)
			}
		}
		return v, true
	}))
}
