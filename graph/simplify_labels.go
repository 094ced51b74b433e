package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// partLabels makes classifiers give the numbers of classes where they give strings, and a LabelEncoder behind them the strings: who
// computes with numbers alone can run them then.
func (s *simplifier) partLabels() error {
	return s.each(func(n *Node) error {
		ints := "classlabels_ints"
		switch {
		case n.Op.Domain != "ai.onnx.ml" || n.Schema == nil || len(n.Outputs) == 0 || n.Outputs[0] == nil:
			return nil
		case n.Op.Name == "TreeEnsembleClassifier":
			ints = "classlabels_int64s"
		case n.Op.Name != "LinearClassifier" && n.Op.Name != "SVMClassifier":
			return nil
		}
		words, labels := n.Strs("classlabels_strings"), n.Outputs[0]
		if len(words) == 0 || n.Attrs.Lookup(ints) != nil || labels.Type.DType != tensor.String {
			return nil
		}
		numbers := make([]int64, len(words))
		for i := range numbers {
			numbers[i] = int64(i)
		}
		op := Op{Domain: n.Op.Domain, Name: "LabelEncoder"}
		op.Since = versionFor(s.g, op)
		integers := labels.Type
		integers.DType = tensor.Int64
		if s.o.NewOps != nil && !s.o.NewOps(op) || !s.has(op, labels.Type, integers) {
			return nil
		}
		attrs := []Attr{{Name: "classes_strings", Kind: AttrStrings, Strs: words}}
		if op.Since >= 2 {
			attrs = []Attr{IntsAttr("keys_int64s", numbers...), {Name: "values_strings", Kind: AttrStrings, Strs: words}}
		}
		encoder := s.g.AddNode(NodeSpec{Op: op, Attrs: attrs, Inputs: []*Value{nil}, Outputs: []string{""}, Origins: []string{}})
		encoder.Outputs[0].Type, encoder.Outputs[0].Format = labels.Type, labels.Format
		s.replace(labels, encoder.Outputs[0])
		encoder.SetInputs(labels)
		kept := slices.DeleteFunc(slices.Clone(n.Attrs), func(a Attr) bool { return a.Name == "classlabels_strings" })
		n.Rewrite(n.Op, append(kept, IntsAttr(ints, numbers...)), n.Inputs...)
		labels.Type = integers
		return nil
	})
}
