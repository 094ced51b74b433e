package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Views: operators that give a row-major tensor another shape. They cost nothing: the result lies where the operand lies.

var viewOps = map[string]bool{"Reshape": true, "Flatten": true, "Squeeze": true, "Unsqueeze": true, "Identity": true, "Dropout": true}

func isView(n *graph.Node) bool {
	return n.Op.Domain == "" && viewOps[n.Op.Name] && (len(n.Outputs) == 1 || n.Outputs[1] == nil)
}

func viewSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !isView(n) {
		return nil, property.Because(property.Unsupported, "the second output of %v", n.Op)
	}
	if n.Is("Dropout") && trains(n) {
		return nil, property.Because(property.Attribute, "training mode of %v is not known to be off", n)
	}
	if n.Is("Identity", "Dropout") {
		return followSignatures(n, 1), nil
	}
	return plainSignature(n), nil
}

// trains reports whether a Dropout may drop something: its training_mode is there and not a constant false.
func trains(n *graph.Node) bool {
	v := n.Input(2)
	if v == nil {
		return n.Op.Since < 7 && n.Int("is_test", 0) == 0
	}
	return !v.IsConst() || v.Const.Len() != 1 || v.Const.DType != tensor.Bool || v.Const.Bytes()[0] != 0
}

func planView(p *planner, n *graph.Node) error {
	p.alias(n.Outputs[0], n.Inputs[0])
	return nil
}

func init() {
	for name := range viewOps {
		register(name, operator{viewSignatures, planView})
	}
}
