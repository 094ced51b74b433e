package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

func batchNormSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	return normSignatures(b, n, nil)
}

// normSignatures are those of a batch normalisation with an activation behind it.
func normSignatures(b *mkl, n *graph.Node, posts []post) ([]graph.Signature, *property.Reason) {
	if why := operators.NoScale(n); why != nil {
		return nil, why
	}
	dx := operators.AssumedDims(n.Inputs[0])
	if len(dx) > 5 {
		return nil, property.Because(property.ShapeReason, "rank %d", len(dx))
	}
	act := b.activations(len(dx))
	var sigs []graph.Signature
	for _, f := range []graph.Format{act, graph.HostFormat} {
		a := b.l.ask(b.answers, b.l.batchNorm(n.Float("epsilon", 1e-5), in(f.Layout, dx), posts))
		if refused(a) != nil {
			continue
		}
		s := graph.UniformSignature(a.impl, n, graph.HostFormat)
		s.Inputs[0], s.Outputs[0] = graph.Fixed(f), graph.Fixed(f)
		sigs = append(sigs, s)
		if act == graph.HostFormat {
			break
		}
	}
	if len(sigs) == 0 {
		return nil, property.Because(property.Unsupported, "no fast implementation for %v", dx)
	}
	return sigs, nil
}

func planBatchNorm(p *planner, n *graph.Node) error {
	for _, o := range n.Outputs[1:] {
		p.Out(o)
	}
	return p.batchNorm(n, n.Inputs, n.Outputs[0], tail{})
}

// batchNorm emits a batch normalisation with an activation; in are its operands as the subgraph knows them.
func (p *planner) batchNorm(n *graph.Node, in []*graph.Value, y *graph.Value, t tail) error {
	x := in[0]
	pr, err := p.make(p.l.batchNorm(n.Float("epsilon", 1e-5), p.shape(x), t.act))
	if err != nil {
		return err
	}
	d, err := p.desc(plain(p.Dims[x.ID][1]))
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(x), pr.src, false}, arg{argScale, p.In(in[1]), d, false}, arg{argShift, p.In(in[2]), d, false},
		arg{argMean, p.In(in[3]), d, false}, arg{argVariance, p.In(in[4]), d, false}, arg{argDst, p.Out(y), pr.dst, true})
	return nil
}

// layerNormForm is a LayerNormalization over the last dims as rows.
func layerNormForm(n *graph.Node, x []int) (rows, width int, why *property.Reason) {
	axis := int(n.Int("axis", -1))
	if axis < 0 {
		axis += len(x)
	}
	if axis < 0 || axis >= len(x) {
		return 0, 0, property.Because(property.Attribute, "axis %d", axis)
	}
	return product(x[:axis]), product(x[axis:]), nil
}

func layerNormSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	for _, o := range n.Outputs[1:] {
		if o != nil {
			return nil, property.Because(property.Unsupported, "statistics as outputs")
		}
	}
	rows, width, why := layerNormForm(n, operators.AssumedDims(n.Inputs[0]))
	if why != nil {
		return nil, why
	}
	for _, v := range n.Inputs[1:] {
		if v != nil && product(operators.AssumedDims(v)) != width {
			return nil, property.Because(property.ShapeReason, "scale %v of rows of %d", v.Type, width)
		}
	}
	a := b.l.ask(b.answers, b.l.layerNorm(n.Float("epsilon", 1e-5), n.Input(2) != nil, plain(rows, width)))
	if why := refused(a); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

func planLayerNorm(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	rows, width, why := layerNormForm(n, p.Dims[x.ID])
	if why != nil {
		return why
	}
	pr, err := p.make(p.l.layerNorm(n.Float("epsilon", 1e-5), n.Input(2) != nil, plain(rows, width)))
	if err != nil {
		return err
	}
	d, err := p.desc(plain(width))
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(x), pr.src, false}, arg{argScale, p.In(n.Inputs[1]), d, false}, arg{argShift, p.In(n.Input(2)), d, false},
		arg{argDst, p.Out(y), pr.dst, true})
	return nil
}

func lrnSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !operators.IsFloat32(x) {
		return nil, operators.NotFloat32(x)
	}
	dx := operators.AssumedDims(x)
	if len(dx) != 4 {
		return nil, property.Because(property.ShapeReason, "rank %d", len(dx))
	}
	if n.Int("size", 1)%2 == 0 {
		return nil, property.Because(property.Attribute, "an even number of channels")
	}
	for _, f := range []graph.Format{b.activations(4), graph.HostFormat} {
		a := b.l.ask(b.answers, lrnRecipe(b.l, n, in(f.Layout, dx)))
		if refused(a) == nil {
			return []graph.Signature{graph.UniformSignature(a.impl, n, f)}, nil
		}
	}
	return nil, property.Because(property.Unsupported, "no fast implementation for %v", dx)
}

func lrnRecipe(l *library, n *graph.Node, x shape) recipe {
	return l.lrn(int(n.Int("size", 1)), n.Float("alpha", 1e-4), n.Float("beta", 0.75), n.Float("bias", 1), x)
}

func planLRN(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	pr, err := p.make(lrnRecipe(p.l, n, p.shape(x)))
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(x), pr.src, false}, arg{argDst, p.Out(y), pr.dst, true})
	return nil
}

// softmaxForm is a Softmax as [outer, n, inner] over the middle dim.
func softmaxForm(n *graph.Node, x []int) (dims []int, why *property.Reason) {
	def := int64(-1)
	if n.Op.Since < 13 {
		def = 1
	}
	axis := int(n.Int("axis", def))
	if axis < 0 {
		axis += len(x)
	}
	if axis < 0 || axis >= len(x) {
		return nil, property.Because(property.Attribute, "axis %d of rank %d", axis, len(x))
	}
	if n.Op.Since < 13 {
		return []int{product(x[:axis]), product(x[axis:])}, nil
	}
	dims = []int{product(x[:axis]), x[axis]}
	if inner := product(x[axis+1:]); inner != 1 {
		dims = append(dims, inner)
	}
	return dims, nil
}

func softmaxSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !operators.IsFloat32(n.Inputs[0]) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	d, why := softmaxForm(n, operators.AssumedDims(n.Inputs[0]))
	if why != nil {
		return nil, why
	}
	if why := refused(b.l.ask(b.answers, b.l.softmax(n.Is("LogSoftmax"), 1, plain(d...)))); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

// planSoftmax emits the library's primitive. The logarithm of a sum of one element, whose result is 0 and NaN where the
// element is not finite, is a product with 0: the library's approximation is 1.4e-6 off without AVX-512.
func planSoftmax(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d, why := softmaxForm(n, p.Dims[x.ID])
	if why != nil {
		return why
	}
	if n.Is("LogSoftmax") && d[1] == 1 {
		return p.activation([]post{{alg: eltLinear}}, x, y)
	}
	pr, err := p.make(p.l.softmax(n.Is("LogSoftmax"), 1, plain(d...)))
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(x), pr.src, false}, arg{argDst, p.Out(y), pr.dst, true})
	return nil
}

func init() {
	table.Register("BatchNormalization", operator{Signatures: batchNormSignatures, Settle: overFirst, Plan: planBatchNorm, Strided: byImages, Single: true})
	table.Register("LayerNormalization", operator{Signatures: layerNormSignatures, Settle: overFirst, Plan: planLayerNorm, Strided: withinImages, Single: true})
	table.Register("LRN", operator{Signatures: lrnSignatures, Plan: planLRN, Strided: byImages, Single: true})
	table.Register("Softmax", operator{Signatures: softmaxSignatures, Settle: overFirst, Plan: planSoftmax, Strided: withinImages, Single: true})
	table.Register("LogSoftmax", operator{Signatures: softmaxSignatures, Settle: overFirst, Plan: planSoftmax, Strided: withinImages, Single: true})
}
