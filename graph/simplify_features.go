package graph

import "github.com/carve-dev/carve/graph/tensor"

// joinFeatures makes a FeatureVectorizer of whole rows a Concat, of float32: what makes these can write them where they belong then.
func (s *simplifier) joinFeatures() error {
	return s.each(func(n *Node) error {
		if n.Op.Domain != "ai.onnx.ml" || n.Op.Name != "FeatureVectorizer" || n.Schema == nil || !onlyFirst(n) || len(n.Inputs) == 0 {
			return nil
		}
		cast, concat := Op{Name: "Cast"}, Op{Name: "Concat"}
		widths, given := n.Ints("inputdimensions")
		types := make([]Type, len(n.Inputs))
		for i, v := range n.Inputs {
			if v == nil || !v.Type.IsTensor() || len(v.Type.Shape) != 2 || given && (i >= len(widths) || !v.Type.Shape[1].Equal(Dim{c: widths[i]})) {
				return nil
			}
			types[i] = TensorType(tensor.Float32, v.Type.Shape)
			if v.Type.DType != tensor.Float32 && !s.has(cast, types[i], v.Type) {
				return nil
			}
		}
		if !s.has(concat, n.Outputs[0].Type, types...) {
			return nil
		}
		in := make([]*Value, len(n.Inputs))
		for i, v := range n.Inputs {
			if in[i] = v; v.Type.DType != tensor.Float32 {
				c := s.g.AddNode(NodeSpec{Op: cast, Attrs: []Attr{IntAttr("to", int64(tensor.Float32))}, Inputs: []*Value{v}, Outputs: []string{""}, Origins: []string{}})
				c.Outputs[0].Type = types[i]
				in[i] = c.Outputs[0]
			}
		}
		s.changes++
		n.Rewrite(concat, []Attr{IntAttr("axis", 1)}, in...)
		return nil
	})
}
