package mkl

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

var reduceAlgs = map[string]reduceAlg{"ReduceMean": reduceMean, "ReduceSum": reduceSum, "ReduceMax": reduceMax, "ReduceMin": reduceMin,
	"ReduceProd": reduceMul, "ReduceL2": reduceNormSum}

// reduceForm returns the dims of a reduction with runs of reduced and kept dims merged, and the same with 1 for what
// is reduced.
func reduceForm(n *graph.Node, x []int, axes []int) (from, to []int, why *property.Reason) {
	if len(axes) == 0 {
		if n.Int("noop_with_empty_axes", 0) != 0 {
			return nil, nil, property.Because(property.Attribute, "nothing to reduce")
		}
		for i := range x {
			axes = append(axes, i)
		}
	}
	over := make([]bool, len(x))
	for _, a := range axes {
		if a < 0 {
			a += len(x)
		}
		if a < 0 || a >= len(x) {
			return nil, nil, property.Because(property.Attribute, "axes %v of rank %d", axes, len(x))
		}
		over[a] = true
	}
	last := -1
	for i, k := range x {
		kind := 0
		if over[i] {
			kind = 1
		}
		if kind != last {
			from, to = append(from, 1), append(to, 1)
			last = kind
		}
		from[len(from)-1] *= k
		if kind == 0 {
			to[len(to)-1] *= k
		}
	}
	return from, to, nil
}

// constAxes are the axes of a reduction that are known when the model is compiled.
func constAxes(n *graph.Node) ([]int, bool) {
	v, _ := n.Ints("axes")
	if w := n.Input(1); w != nil {
		v = nil
		for _, d := range w.Dims {
			x, known := d.Const()
			if !known {
				return nil, false
			}
			v = append(v, x)
		}
		if !w.IsDims() || len(w.Type.Shape) != 1 {
			return nil, false
		}
	}
	var out []int
	for _, x := range v {
		out = append(out, int(x))
	}
	return out, true
}

func reduceSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !operators.IsFloat32(n.Inputs[0]) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	axes, ok := constAxes(n)
	if !ok || len(n.Inputs[0].Type.Shape) == 0 {
		return nil, property.Because(property.DynamicShape, "axes of %v are not known", n)
	}
	from, to, why := reduceForm(n, operators.AssumedDims(n.Inputs[0]), axes)
	if why != nil {
		return nil, why
	}
	if len(from) > 5 || slices.Equal(from, to) {
		return nil, property.Because(property.ShapeReason, "axes %v", axes)
	}
	if s, ok := b.spatialMean(n, axes); ok {
		return []graph.Signature{s}, nil
	}
	if why := refused(b.l.ask(b.answers, b.reduceRecipe(n, from, to))); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

// spatialMean is the signature of a mean or maximum over all spatial dims, which reads activations in their own layout: the
// result is one pixel, whose channels lie as in a row.
func (b *mkl) spatialMean(n *graph.Node, axes []int) (s graph.Signature, ok bool) {
	x := n.Inputs[0]
	rank := len(x.Type.Shape)
	act := b.activations(rank)
	c, known := operators.ConstDim(x, 1)
	if act == graph.HostFormat || len(axes) != rank-2 || !known || b.block > 0 && c%b.block != 0 || !n.Is("ReduceMean", "ReduceMax") {
		return s, false
	}
	for _, a := range axes {
		if a < 0 {
			a += rank
		}
		if a < 2 {
			return s, false
		}
	}
	if refused(b.l.ask(b.answers, b.l.pooling(spatialPool(n, operators.AssumedDims(x), act.Layout)))) != nil {
		return s, false
	}
	s = graph.UniformSignature("pooling", n, graph.HostFormat)
	s.Inputs[0] = graph.Fixed(act)
	return s, true
}

// spatialPool are the arguments of the pooling that a mean or maximum over all spatial dims is.
func spatialPool(n *graph.Node, x []int, l graph.Layout) (alg int, w window, src, dst shape) {
	alg = poolInside
	if n.Is("ReduceMax") {
		alg = poolMax
	}
	ones, zeros := slices.Repeat([]int{1}, len(x)-2), make([]int, len(x)-2)
	w = window{kernel: x[2:], strides: ones, dilations: ones, padL: zeros, padR: zeros}
	return alg, w, in(l, x), in(l, append([]int{x[0], x[1]}, ones...))
}

// reduceRecipe is a reduction, as an average pooling over two dims where that is what it is.
func (b *mkl) reduceRecipe(n *graph.Node, from, to []int) recipe {
	if len(from) == 2 && to[1] == 1 && to[0] == from[0] && n.Is("ReduceMean", "ReduceMax") {
		alg := poolInside
		if n.Is("ReduceMax") {
			alg = poolMax
		}
		w := window{kernel: []int{1, from[1]}, strides: []int{1, 1}, dilations: []int{1, 1}, padL: []int{0, 0}, padR: []int{0, 0}}
		r := b.l.pooling(alg, w, plain(1, from[0], 1, from[1]), plain(1, from[0], 1, 1))
		if a := b.l.ask(b.answers, r); a.err == nil && !slow(a.impl) {
			return r
		}
	}
	return b.l.reduction(reduceAlgs[n.Op.Name], 2, plain(from...), plain(to...))
}

func planReduce(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	axes, _ := constAxes(n)
	from, to, why := reduceForm(n, p.Dims[x.ID], axes)
	if why != nil {
		return why
	}
	if x.Format == graph.HostFormat && slices.Equal(from, to) { // of lengths of 1, which a library's reduction may not have
		if n.Is("ReduceL2") {
			return p.activation([]post{{alg: eltAbs}}, x, y)
		}
		p.copyStep(p.Out(y), p.In(x), p.Bytes(y))
		return nil
	}
	r := p.b.reduceRecipe(n, from, to)
	if x.Format != graph.HostFormat {
		r = p.l.pooling(spatialPool(n, p.Dims[x.ID], x.Format.Layout))
	}
	pr, err := p.make(r)
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(x), pr.src, false}, arg{argDst, p.Out(y), pr.dst, true})
	return nil
}

func init() {
	for name := range reduceAlgs {
		table.Register(name, operator{Signatures: reduceSignatures, Plan: planReduce})
	}
}
