package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/property"
)

// Operators on rows: softmax along an axis and normalisation over the last ones.

func axisOf(n *graph.Node, def int64, rank int) int {
	a := int(n.Int("axis", def))
	if a < 0 {
		a += rank
	}
	return a
}

func softmaxSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; !isF32(x) {
		return nil, wrongDType(x)
	}
	return plainSignature(n), nil
}

func planSoftmax(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.dims[x.ID]
	var outer, cols, inner int
	if n.Op.Since < 13 { // everything from the axis on is one row
		axis := axisOf(n, 1, len(d))
		outer, cols, inner = product(d[:axis]), product(d[axis:]), 1
	} else {
		axis := axisOf(n, -1, len(d))
		outer, cols, inner = product(d[:axis]), product(d[axis:axis+1]), product(d[min(axis+1, len(d)):])
	}
	fn := vec.Softmax
	if n.Op.Name == "LogSoftmax" {
		fn = vec.LogSoftmax
	}
	each := func(dst, src []float32, rows int) { fn(dst, cols, src, cols, nil, 0, rows, cols, 1) }
	p.inPlace(y, x)
	src, dst := p.in(x), p.out(y)
	if inner == 1 {
		p.rows(src, dst, outer, float64(cols)*0.6, each, cols, cols)
		return nil
	}
	t := p.temp(src.size) // the axis last
	p.permute([]int{outer, cols, inner}, []int{0, 2, 1}, 4, src, t)
	p.rows(t, t, outer*inner, float64(cols)*0.6, each, cols, cols)
	p.permute([]int{outer, inner, cols}, []int{0, 2, 1}, 4, t, dst)
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

func init() {
	register("Softmax", operator{softmaxSignatures, planSoftmax})
	register("LogSoftmax", operator{softmaxSignatures, planSoftmax})
	register("LayerNormalization", operator{layerNormSignatures, planLayerNorm})
	register("RMSNormalization", operator{layerNormSignatures, planLayerNorm})
}
