package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Shape and Size, which are left where shapes depend on data: the shape is known when the instance is made, so that the operand is
// not read, in whatever format it is.

func shapeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	list := operators.RowMajor(n)
	if is4D(n.Inputs[0]) {
		list = append(list, graph.Signature{Name: "blocked", Inputs: []graph.Port{graph.Fixed(blocked)}, Outputs: []graph.Port{graph.Fixed(rowMaj)}})
	}
	return list, nil
}

func planShape(p *planner, n *graph.Node) error {
	d := p.Dims[n.Inputs[0].ID]
	if n.Is("Size") {
		d = []int{product(d)}
	} else {
		clip := func(v int64) int {
			if v < 0 {
				v += int64(len(d))
			}
			return int(min(max(v, 0), int64(len(d))))
		}
		first, end := clip(n.Int("start", 0)), clip(n.Int("end", int64(len(d))))
		d = d[first:max(first, end)]
	}
	dst := p.Out(n.Outputs[0])
	p.emit(step{serial: func(st *state) {
		for i, o := 0, of[int64](st, dst); i < len(o); i++ {
			o[i] = int64(d[i])
		}
	}}, nil, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("Shape", operator{Signatures: shapeSignatures, Plan: planShape})
	table.Register("Size", operator{Signatures: shapeSignatures, Plan: planShape})
}
