package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

func viewSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if n.Is("Dropout") && place.Drops(n) {
		return nil, property.Because(property.Attribute, "training mode of %v is not known to be off", n)
	}
	if !place.IsView(n) {
		return nil, property.Because(property.Unsupported, "the second output of %v", n.Op)
	}
	if n.Is("Identity", "Dropout") {
		return followSignatures(n, 1), nil
	}
	return operators.RowMajor(n), nil
}

func planView(p *planner, n *graph.Node) error {
	p.ViewOr(n.Outputs[0], n.Inputs[0], p.copyStep)
	return nil
}

func init() {
	for _, name := range place.Views {
		table.Register(name, operator{Signatures: viewSignatures, Settle: operators.View[*planner], Plan: planView, Strided: anyRows})
	}
}
