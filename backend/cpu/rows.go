package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
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
	if x := n.Inputs[0]; !operators.IsFloat32(x) {
		return nil, operators.NotFloat32(x)
	}
	return operators.RowMajor(n), nil
}

func planSoftmax(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[x.ID]
	var outer, cols, inner int
	if n.Op.Since < 13 { // everything from the axis on is one row
		axis := axisOf(n, 1, len(d))
		outer, cols, inner = product(d[:axis]), product(d[axis:]), 1
	} else {
		axis := axisOf(n, -1, len(d))
		outer, cols, inner = product(d[:axis]), product(d[axis:axis+1]), product(d[min(axis+1, len(d)):])
	}
	p.softmax(p.In(x), p.Out(y), []int{outer, cols, inner}, n.Is("LogSoftmax"))
	return nil
}

// softmax emits a softmax, or its logarithm, over the middle one of three dims.
func (p *planner) softmax(src, dst place.Memory, dims []int, logarithm bool) {
	outer, cols, inner := dims[0], dims[1], dims[2]
	fn := p.kernels.Softmax
	if logarithm {
		fn = p.kernels.LogSoftmax
	}
	each := func(dst []float32, ldd int, src []float32, lds, rows int) {
		fn(dst, ldd, src, lds, nil, 0, rows, cols, 1)
	}
	if inner == 1 {
		p.rows(src, dst, outer, float64(cols)*0.6, each, cols, cols)
		return
	}
	if p.softmaxColumns(src, dst, dims, logarithm) {
		return
	}
	t := p.Temp(4 * product(dims)) // the axis last
	p.permute(dims, []int{0, 2, 1}, 4, src, t)
	p.rows(t, t, outer*inner, float64(cols)*0.6, each, cols, cols)
	p.permute([]int{outer, inner, cols}, []int{0, 2, 1}, 4, t, dst)
}

// rowsFrom is for operators of rows that end with the last dim and begin at an axis: the attribute, or def.
// Where others are behind it, the axis is brought to the end.
func rowsFrom(def int64) func(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	return func(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
		d := p.Dims[v.ID]
		if v != n.Inputs[0] && v != n.Outputs[0] {
			return false
		}
		_, ok := m.Runs(product(d[axisOf(n, def, len(d)):]) * 4)
		return ok
	}
}

// softmaxStrided is the Strided of softmaxes: of whole rows, or along an axis that is transposed to the end.
func softmaxStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	if n.Op.Since < 13 {
		return rowsFrom(1)(p, n, v, m)
	}
	d := p.Dims[v.ID]
	axis := axisOf(n, -1, len(d))
	if inner := product(d[min(axis+1, len(d)):]); inner != 1 {
		_, ok := m.Strides([]int{product(d[:axis]), d[axis], inner}, 4)
		return ok
	}
	return rowsFrom(-1)(p, n, v, m)
}

// rows emits a function of rows of colsIn elements at distances of lds to rows of colsOut at distances of ldd; nanos is its
// time per row. Each row of a strided place holds whole rows of these.
func (p *planner) rows(src, dst place.Memory, rows int, nanos float64, fn func(dst []float32, ldd int, src []float32, lds, rows int), colsOut, colsIn int) {
	if rows == 0 {
		return
	}
	from, _ := src.Runs(4 * colsIn)
	to, _ := dst.Runs(4 * colsOut)
	p.emit(step{chunks: rows, grain: grainFor(nanos + 5), body: func(st *state, _, lo, hi int) {
		d, s := st.F32(dst), st.F32(src)
		for lo < hi {
			at, n := to.At(lo, hi-lo)
			of, n := from.At(lo, n)
			fn(d[at/4:][:(n-1)*to.Near/4+colsOut], to.Near/4, s[of/4:][:(n-1)*from.Near/4+colsIn], from.Near/4, n)
			lo += n
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

func layerNormSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	if stash := n.Int("stash_type", 1); stash != 1 && slices.ContainsFunc(n.Outputs[1:], isWanted) {
		return nil, property.Because(property.Attribute, "stash_type %d of a mean or a deviation", stash)
	}
	rank := len(n.Inputs[0].Type.Shape)
	axis := axisOf(n, -1, rank)
	for _, v := range n.Inputs[1:] {
		if v != nil && len(v.Type.Shape) != rank-axis {
			return nil, property.Because(property.ShapeReason, "scale %v of shape %v", v, v.Type.Shape)
		}
	}
	if microsoft.SpreadsScale(n) {
		return nil, property.Because(property.ShapeReason, "a scale that is spread over rows")
	}
	return operators.RowMajor(n), nil
}

// normScales is a LayerNormalization, or RMSNormalization, of rows of cols elements, and where its scale and bias lie.
type normScales struct {
	rows, cols  int
	gamma, beta place.Memory
	eps         float32
}

// scalesOf returns those of a node whose operands these are, or stand for.
func (p *planner) scalesOf(n *graph.Node, operands []*graph.Value) (s normScales, err error) {
	d := p.Dims[operands[0].ID]
	axis := axisOf(n, -1, len(d))
	s = normScales{rows: product(d[:axis]), cols: product(d[axis:]), gamma: place.Nowhere, beta: place.Nowhere, eps: n.Float("epsilon", 1e-5)}
	for i, m := range []*place.Memory{&s.gamma, &s.beta} {
		if i+1 >= len(operands) || operands[i+1] == nil {
			continue
		}
		if *m = p.In(operands[i+1]); m.Size != s.cols*4 {
			return s, property.Because(property.ShapeReason, "scale of %d bytes for rows of %d", m.Size, s.cols)
		}
	}
	return s, nil
}

// normOf returns the kernel of a LayerNormalization or RMSNormalization.
func normOf(kernels vec.Kernels, n *graph.Node) func(dst []float32, ldd int, src []float32, lds int, gamma, beta []float32, rows, cols int, eps float32) {
	if n.Op.Name == "RMSNormalization" {
		return kernels.RMSNorm
	}
	return kernels.LayerNorm
}

func planLayerNorm(p *planner, n *graph.Node) error {
	k, err := p.scalesOf(n, n.Inputs)
	if err != nil {
		return err
	}
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	moments := p.moments(n, k.cols, k.eps)
	norm := normOf(p.into(dst), n)
	from, _ := src.Runs(4 * k.cols)
	to, _ := dst.Runs(4 * k.cols)
	p.emit(step{chunks: k.rows, grain: grainFor(float64(k.cols)*0.3 + 10), body: func(st *state, worker, lo, hi int) {
		d, s, g, b := st.F32(dst), st.F32(src), st.F32(k.gamma), st.F32(k.beta)
		for lo < hi {
			at, n := to.At(lo, hi-lo)
			of, n := from.At(lo, n)
			moments.of(st, worker, s[of/4:], from.Near/4, lo, n) // the result may lie where the operand does
			norm(d[at/4:], to.Near/4, s[of/4:], from.Near/4, g, b, n, k.cols, k.eps)
			lo += n
		}
	}}, []place.Memory{src, k.gamma, k.beta}, []place.Memory{dst, moments.mean, moments.inverse, moments.work.at})
	return nil
}

// layerNormRows is a LayerNormalization or RMSNormalization of half precision.
func layerNormRows(p *planner, n *graph.Node, operands []*graph.Value) (rowKernel, error) {
	k, err := p.scalesOf(n, operands)
	norm := normOf(p.kernels, n)
	return rowKernel{rows: k.rows, in: k.cols, out: k.cols, nanos: float64(k.cols)*0.3 + 10, reads: []place.Memory{k.gamma, k.beta}, apply: func(st *state, dst, src []float32, _, rows int) {
		norm(dst, k.cols, src, k.cols, st.F32(k.gamma), st.F32(k.beta), rows, k.cols, k.eps)
	}}, err
}

// isWanted reports whether somebody reads a result.
func isWanted(v *graph.Value) bool { return v != nil && (v.NumUses() > 0 || v.IsOutput()) }

// rowMoments is where a LayerNormalization puts the means of its rows, and the inverses of their deviations, where they are results.
type rowMoments struct {
	kernels       vec.Kernels
	mean, inverse place.Memory
	work          scratch // a row, less its mean
	cols          int
	eps           float32
}

// moments returns where those of a node go.
func (p *planner) moments(n *graph.Node, cols int, eps float32) rowMoments {
	m := rowMoments{kernels: p.kernels, mean: place.Nowhere, inverse: place.Nowhere, work: scratch{at: place.Nowhere}, cols: cols, eps: eps}
	if len(n.Outputs) > 1 {
		m.mean = p.Out(n.Outputs[1])
	}
	if len(n.Outputs) > 2 {
		m.inverse = p.Out(n.Outputs[2])
	}
	if slices.ContainsFunc(n.Outputs[1:], isWanted) {
		m.work = p.scratch(4 * cols)
	}
	return m
}

// of writes those of n rows from number first on, lds elements apart in src.
func (m *rowMoments) of(st *state, worker int, src []float32, lds, first, n int) {
	if m.work.at.Slot < 0 {
		return
	}
	means, inverses, near := st.F32(m.mean), st.F32(m.inverse), m.work.floats(st, worker)[:m.cols]
	for r := range n {
		row := src[r*lds:][:m.cols]
		mean := reduceRow(m.kernels, vec.ReduceSum, row) / float32(m.cols)
		if len(means) > 0 {
			means[first+r] = mean
		}
		if len(inverses) > 0 {
			m.kernels.BinaryScalar(vec.Sub, near, row, mean)
			variance := float64(reduceRow(m.kernels, vec.ReduceSumSquares, near)) / float64(m.cols)
			inverses[first+r] = float32(1 / math.Sqrt(variance+float64(m.eps)))
		}
	}
}

func init() {
	table.Register("Softmax", operator{Signatures: softmaxSignatures, Settle: overFirst, Plan: planSoftmax, Strided: softmaxStrided})
	table.Register("LogSoftmax", operator{Signatures: softmaxSignatures, Settle: overFirst, Plan: planSoftmax, Strided: softmaxStrided})
	table.Register("LayerNormalization", operator{Signatures: layerNormSignatures, Settle: overFirst, Plan: planLayerNorm, Strided: rowsFrom(-1)})
	table.Register("RMSNormalization", operator{Signatures: layerNormSignatures, Settle: overFirst, Plan: planLayerNorm, Strided: rowsFrom(-1)})
}
