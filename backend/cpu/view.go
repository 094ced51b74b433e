package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

func viewSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if n.Is("Dropout") && place.Drops(n) {
		return nil, property.Because(property.Attribute, "training mode of %v is not known to be off", n)
	}
	if !place.IsView(n) && !masks(n) {
		return nil, property.Because(property.Unsupported, "the second output of %v", n.Op)
	}
	if n.Is("Identity", "Dropout") && !masks(n) {
		return followSignatures(n, 1), nil
	}
	return operators.RowMajor(n), nil
}

func planView(p *planner, n *graph.Node) error {
	p.ViewOr(n.Outputs[0], n.Inputs[0], p.copyStep)
	if masks(n) && isWanted(n.Outputs[1]) {
		p.fill(p.Own([]byte{1}), p.Out(n.Outputs[1]))
	}
	return nil
}

// masks reports whether a node is a Dropout with a mask, which says of all elements that they are kept.
func masks(n *graph.Node) bool {
	return n.Is("Dropout") && len(n.Outputs) == 2 && n.Outputs[1] != nil && n.Outputs[1].Type.IsTensor() && n.Outputs[1].Type.DType == tensor.Bool
}

// viewStrided is the Strided of views: of everything but masks.
func viewStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	return !(masks(n) && v == n.Outputs[1]) && anyRows(p, n, v, m)
}

func init() {
	for _, name := range place.Views {
		table.Register(name, operator{Signatures: viewSignatures, Settle: operators.View[*planner], Plan: planView, Strided: viewStrided})
	}
}
