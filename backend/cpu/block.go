package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// DepthToSpace and SpaceToDepth: transpositions of six axes.

func blockSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if len(n.Inputs[0].Type.Shape) != 4 || n.Int("blocksize", 0) < 1 {
		return nil, property.Because(property.ShapeReason, "blocks of %d in %v", n.Int("blocksize", 0), n.Inputs[0].Type)
	}
	return operators.RowMajor(n), nil
}

func planBlock(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	d, b := p.Dims[x.ID], int(n.Int("blocksize", 0))
	var dims, perm []int
	switch {
	case n.Is("SpaceToDepth"):
		dims, perm = []int{d[0], d[1], d[2] / b, b, d[3] / b, b}, []int{0, 3, 5, 1, 2, 4}
	case n.Str("mode", "DCR") == "CRD":
		dims, perm = []int{d[0], d[1] / (b * b), b, b, d[2], d[3]}, []int{0, 1, 4, 2, 5, 3}
	default:
		dims, perm = []int{d[0], b, b, d[1] / (b * b), d[2], d[3]}, []int{0, 3, 4, 1, 5, 2}
	}
	if product(dims) != product(d) {
		return property.Because(property.ShapeReason, "blocks of %d do not divide %v", b, d)
	}
	p.permute(dims, perm, x.Type.DType.Size(), p.In(x), p.Out(n.Outputs[0]))
	return nil
}

func init() {
	table.Register("DepthToSpace", operator{Signatures: blockSignatures, Plan: planBlock, Strided: operators.WholeDims[*planner]})
	table.Register("SpaceToDepth", operator{Signatures: blockSignatures, Plan: planBlock, Strided: operators.WholeDims[*planner]})
}
