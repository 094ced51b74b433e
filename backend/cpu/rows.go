package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/property"
)

// Operators on rows: softmax and normalisation over the last axes, and reductions.

func axisOf(n *graph.Node, def int64, rank int) int {
	a := int(n.Int("axis", def))
	if a < 0 {
		a += rank
	}
	return a
}

func softmaxSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !isF32(x) {
		return nil, wrongDType(x)
	}
	rank := len(x.Type.Shape)
	if n.Op.Since >= 13 && axisOf(n, -1, rank) != rank-1 {
		return nil, property.Because(property.Attribute, "axis %d of rank %d", axisOf(n, -1, rank), rank)
	}
	return plainSignature(n), nil
}

func planSoftmax(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.dims[x.ID]
	axis := len(d) - 1
	if n.Op.Since < 13 { // everything from the axis on is one row
		axis = axisOf(n, 1, len(d))
	}
	rows, cols := product(d[:axis]), product(d[axis:])
	p.inPlace(y, x)
	log := n.Op.Name == "LogSoftmax"
	p.rows(p.in(x), p.out(y), rows, float64(cols)*0.6, func(dst, src []float32, rows int) {
		if log {
			vec.LogSoftmax(dst, cols, src, cols, nil, 0, rows, cols, 1)
		} else {
			vec.Softmax(dst, cols, src, cols, nil, 0, rows, cols, 1)
		}
	}, cols, cols)
	return nil
}

// rows emits a function of rows of colsIn elements to rows of colsOut; nanos is its time per row.
func (p *planner) rows(src, dst memory, rows int, nanos float64, fn func(dst, src []float32, rows int), colsOut, colsIn int) {
	if rows == 0 {
		return
	}
	p.emit(step{chunks: rows, grain: grainFor(nanos + 5), body: func(st *state, _, lo, hi int) {
		d, s := st.f32(dst), st.f32(src)
		fn(d[lo*colsOut:hi*colsOut], s[lo*colsIn:hi*colsIn], hi-lo)
	}}, []memory{src}, []memory{dst})
}

func layerNormSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !isF32(n.Inputs...) {
		return nil, wrongDType(n.Inputs[0])
	}
	for _, o := range n.Outputs[1:] {
		if o != nil && (o.NumUses() > 0 || o.IsOutput()) {
			return nil, property.Because(property.Unsupported, "mean or inverse deviation as an output")
		}
	}
	rank := len(n.Inputs[0].Type.Shape)
	axis := axisOf(n, -1, rank)
	for _, v := range n.Inputs[1:] {
		if v != nil && len(v.Type.Shape) != rank-axis {
			return nil, property.Because(property.ShapeReason, "scale %v of shape %v", v, v.Type.Shape)
		}
	}
	return plainSignature(n), nil
}

func planLayerNorm(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.dims[x.ID]
	axis := axisOf(n, -1, len(d))
	rows, cols := product(d[:axis]), product(d[axis:])
	eps := n.Float("epsilon", 1e-5)
	p.inPlace(y, x)
	none := memory{slot: -1}
	gamma, beta := none, none
	if v := n.Input(1); v != nil {
		gamma = p.in(v)
	}
	if v := n.Input(2); v != nil {
		beta = p.in(v)
	}
	for _, m := range []memory{gamma, beta} {
		if m.slot >= 0 && m.size != cols*4 {
			return property.Because(property.ShapeReason, "scale of %d bytes for rows of %d", m.size, cols)
		}
	}
	src, dst := p.in(x), p.out(y)
	for _, o := range n.Outputs[1:] {
		if o != nil {
			p.out(o)
		}
	}
	rms := n.Op.Name == "RMSNormalization"
	p.emit(step{chunks: rows, grain: grainFor(float64(cols)*0.3 + 10), body: func(st *state, _, lo, hi int) {
		d, s, g, b := st.f32(dst), st.f32(src), st.f32(gamma), st.f32(beta)
		if rms {
			vec.RMSNorm(d[lo*cols:hi*cols], cols, s[lo*cols:hi*cols], cols, g, b, hi-lo, cols, eps)
		} else {
			vec.LayerNorm(d[lo*cols:hi*cols], cols, s[lo*cols:hi*cols], cols, g, b, hi-lo, cols, eps)
		}
	}}, []memory{src, gamma, beta}, []memory{dst})
	return nil
}

// reductions

var reductions = map[string]vec.ReduceOp{"ReduceSum": vec.ReduceSum, "ReduceMean": vec.ReduceSum, "ReduceMax": vec.ReduceMax, "ReduceMin": vec.ReduceMin}

// reduceAxes returns the axes of a reduction, known at compile time.
func reduceAxes(n *graph.Node) (axes []int, ok bool) {
	rank := len(n.Inputs[0].Type.Shape)
	var list []int64
	given := false
	if v := n.Input(1); v != nil {
		if !v.IsConst() || v.Dims == nil {
			return nil, false
		}
		given = true
		for _, d := range v.Dims {
			c, _ := d.Const()
			list = append(list, c)
		}
	} else if l, has := n.Ints("axes"); has {
		list, given = l, true
	}
	if !given || len(list) == 0 {
		if n.Int("noop_with_empty_axes", 0) != 0 {
			return nil, false
		}
		for i := range rank {
			axes = append(axes, i)
		}
		return axes, true
	}
	seen := make([]bool, rank)
	for _, a := range list {
		if a < 0 {
			a += int64(rank)
		}
		if a < 0 || int(a) >= rank {
			return nil, false
		}
		seen[a] = true
	}
	for i, s := range seen {
		if s {
			axes = append(axes, i)
		}
	}
	return axes, true
}

func reduceSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !isF32(x) {
		return nil, wrongDType(x)
	}
	axes, ok := reduceAxes(n)
	if !ok {
		return nil, property.Because(property.Attribute, "axes of %v are not known at compile time", n)
	}
	for i := range axes {
		if axes[i] != axes[0]+i {
			return nil, property.Because(property.Attribute, "axes %v are not adjacent", axes)
		}
	}
	plain := plainSignature(n)
	if n.Op.Name == "ReduceMean" && is4D(x) && len(axes) == 2 && axes[0] == 2 {
		return append(globalPoolSignatures(n, n.Int("keepdims", 1) != 0), plain...), nil
	}
	return plain, nil
}

func planReduce(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if x.Format == blocked {
		return planGlobalPool(p, n)
	}
	axes, _ := reduceAxes(n)
	d := p.dims[x.ID]
	outer, count, inner := 1, 1, 1
	for i, k := range d {
		switch {
		case len(axes) > 0 && i < axes[0]:
			outer *= k
		case len(axes) > 0 && i <= axes[len(axes)-1]:
			count *= k
		default:
			inner *= k
		}
	}
	op, mean := reductions[n.Op.Name], n.Op.Name == "ReduceMean"
	scale := 1 / float32(max(count, 1))
	src, dst := p.in(x), p.out(y)
	if outer*inner == 0 {
		return nil
	}
	if inner == 1 {
		p.rows(src, dst, outer, float64(count)*0.1, func(o, s []float32, rows int) {
			if mean {
				vec.Mean(o, s, count, rows, count)
			} else {
				vec.ReduceRows(op, o, s, count, rows, count)
			}
		}, 1, count)
		return nil
	}
	p.emit(step{chunks: outer, grain: grainFor(float64(count*inner) * 0.1), body: func(st *state, _, lo, hi int) {
		o, s := st.f32(dst), st.f32(src)
		for i := lo; i < hi; i++ {
			row := o[i*inner : (i+1)*inner]
			vec.ReduceColumns(op, row, s[i*count*inner:(i+1)*count*inner], inner, count, inner)
			if mean {
				vec.BinaryScalar(vec.Mul, row, row, scale)
			}
		}
	}}, []memory{src}, []memory{dst})
	return nil
}

func init() {
	register("Softmax", operator{softmaxSignatures, planSoftmax})
	register("LogSoftmax", operator{softmaxSignatures, planSoftmax})
	register("LayerNormalization", operator{layerNormSignatures, planLayerNorm})
	register("RMSNormalization", operator{layerNormSignatures, planLayerNorm})
	for name := range reductions {
		register(name, operator{reduceSignatures, planReduce})
	}
}
