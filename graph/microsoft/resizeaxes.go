package microsoft

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Operands of Resize.
const (
	resizeScales = 2
	resizeSizes  = 3
)

// keepsAxes reports whether a Resize names no axes, or what the others become is not 1 times what they are alone.
func keepsAxes(n *graph.Node) bool {
	axes, ok := n.Ints("axes")
	rank := int64(len(n.Inputs[0].Type.Shape))
	if !ok || rank == 0 || n.Str("keep_aspect_ratio_policy", "stretch") != "stretch" || n.Str("coordinate_transformation_mode", "") == "tf_crop_and_resize" {
		return true
	}
	seen := map[int64]bool{}
	for _, a := range axes {
		if a < 0 {
			a += rank
		}
		if a < 0 || a >= rank || seen[a] {
			return true
		}
		seen[a] = true
	}
	which := n.Input(resizeSizes)
	if scales := n.Input(resizeScales); which == nil {
		which = scales
	} else if scales != nil {
		return true
	}
	return which == nil || len(axes) == 0 || len(which.Type.Shape) != 1 || !which.Type.Shape[0].Equal(graph.D(len(axes)))
}

// spreadScales returns scales of all axes.
func spreadScales(scales *tensor.Tensor, axes []int64, rank int) *tensor.Tensor {
	all := make([]float32, rank)
	for a := range all {
		all[a] = 1
	}
	for k, v := range tensor.Elements[float32](scales)[:min(len(axes), scales.Len())] {
		all[(axes[k]+int64(rank))%int64(rank)] = v
	}
	return tensor.From(all)
}

// allAxes says a Resize of some axes by one of all: the others have a scale of 1, or the size that they have.
func allAxes(o *op) {
	axes, _ := o.n.Ints("axes")
	x, which := o.in[0], resizeScales
	if o.has(resizeSizes) {
		which = resizeSizes
	}
	rank := o.rank(x)
	in := []*graph.Value{x, nil, nil, nil}
	if scales := o.in[which].Const; which == resizeScales && scales != nil { // so that they tell the shape
		in[which] = o.constant(spreadScales(scales, axes, rank))
		o.set(0, o.call("Resize", o.attrsWithout("axes"), in...))
		return
	}
	parts := make([]*graph.Value, rank)
	for k, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		parts[a] = o.slice(o.in[which], 0, int64(k), int64(k)+1)
	}
	for a := range parts {
		switch {
		case parts[a] != nil:
		case which == resizeSizes:
			parts[a] = o.dim(x, a)
		default:
			parts[a] = o.constant(tensor.From([]float32{1}))
		}
	}
	in[which] = o.concat(0, parts...)
	o.set(0, o.call("Resize", o.attrsWithout("axes"), in...))
}
