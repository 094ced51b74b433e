package graph

// Determined reports whether the shapes of a node's operands, with what is known of their contents, determine those of its results. Where the
// results' dims are expressions of the operands' symbols that shows; others are symbols of their own, since expressions would grow
// without end or say little, and a trial tells: it infers the node with 1 for all symbols of its operands.
func Determined(n *Node) bool {
	if n.Schema == nil || n.Schema.Infer == nil || len(n.Regions) > 0 {
		return false
	}
	symbols := map[string]bool{}
	for _, v := range n.Inputs {
		if v == nil {
			continue
		}
		for _, d := range v.Type.Shape {
			d.Symbols(symbols)
		}
		for _, d := range v.Dims {
			if d.Backed() {
				d.Symbols(symbols)
			}
		}
	}
	ones := make(Bindings, len(symbols))
	for s := range symbols {
		ones[s] = 1
	}
	var d detachment
	sub := shapeValues{b: ones}
	m := d.node(n.Name, len(n.Inputs), len(n.Outputs))
	m.Op, m.Attrs, m.Schema = n.Op, n.Attrs, n.Schema
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		w := d.operand(i)
		w.Name, w.Type, w.Const = v.Name, v.Type, readable(v)
		w.Type.Shape, w.Dims = sub.put(v.Type.Shape), sub.put(v.Dims)
	}
	for i, v := range n.Outputs {
		if v != nil {
			d.result(i, v.Name, v.Type)
		}
	}
	if new(Inference).infer(m) != nil {
		return false
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if s, static := m.Outputs[i].Type.Shape.Static(); !static || len(s) != len(v.Type.Shape) {
			return false
		}
	}
	return true
}
