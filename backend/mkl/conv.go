package mkl

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// planarChannels is the most input channels for which a convolution reads row-major images directly.
const planarChannels = 4

// convDims are the shapes of a convolution.
type convDims struct {
	x, w, y    []int // as ONNX has them
	weights    []int // as the library has them
	groups     int
	single     bool // one output per group
	transposed bool
	window     window
}

// resolveConv brings a Conv or ConvTranspose into the library's terms.
func resolveConv(n *graph.Node, x, w, y []int) (*convDims, *property.Reason) {
	c := &convDims{x: x, w: w, y: y, groups: int(n.Int("group", 1)), transposed: n.Is("ConvTranspose")}
	if len(x) < 3 || len(x) > 5 || len(w) != len(x) || len(y) != len(x) || c.groups < 1 {
		return nil, property.Because(property.ShapeReason, "one to three spatial dims, found %v and %v", x, w)
	}
	var err error
	if c.window, err = resolveWindow(n, x[2:], w[2:], y[2:], c.transposed); err != nil {
		return nil, property.Because(property.Attribute, "%v", err)
	}
	oc, ic := w[0], w[1]
	if c.transposed {
		oc, ic = w[1]*c.groups, w[0]/c.groups
	}
	if oc%c.groups != 0 || oc < 1 || ic < 1 {
		return nil, property.Because(property.ShapeReason, "%d groups of %v", c.groups, w)
	}
	c.weights = append([]int{oc, ic}, w[2:]...)
	if c.groups > 1 {
		c.weights = append([]int{c.groups, oc / c.groups, ic}, w[2:]...)
		c.single = oc == c.groups
	}
	return c, nil
}

// format decodes the library's choice of weights into a layout of the constant.
func (c *convDims) format(b blocking) (graph.Layout, bool) {
	switch {
	case c.groups > 1 && c.transposed:
		return graph.Layout{}, false
	case c.groups > 1:
		return foldGroups(b)
	}
	l, ok := b.layout()
	if ok && c.transposed {
		return swapped(l, len(b.dims))
	}
	return l, ok
}

// weightShape describes a constant in layout f to the library; ok is false where that is not possible.
func (c *convDims) weightShape(f graph.Layout) (shape, bool) {
	rank := len(c.w)
	switch {
	case c.groups > 1 && c.transposed:
		if !f.IsRowMajor() {
			return shape{}, false
		}
		return c.rowMajor(), true
	case c.groups > 1:
		l, ok := unfoldGroups(f, rank, c.single)
		return in(l, c.weights), ok
	case c.transposed:
		l, ok := swapped(f, rank)
		return in(l, c.weights), ok
	}
	return in(f, c.weights), true
}

// weightsIn describes a constant in a format to the library; ok is false where that is not possible.
func (b *mkl) weightsIn(c *convDims, f graph.Format) (shape, bool) {
	if w := b.packedLayout(f.Layout); w != nil {
		return w.to, slices.Equal(w.dims, c.w)
	}
	if f.Layout.IsOpaque() {
		return shape{}, false
	}
	return c.weightShape(f.Layout)
}

// rowMajor describes the constant as it is in the model.
func (c *convDims) rowMajor() shape {
	k := product(c.w[2:])
	spatial := make([]int, len(c.w)-2)
	n := 1
	for i := len(spatial) - 1; i >= 0; i-- {
		spatial[i] = n
		n *= c.w[2+i]
	}
	s := plain(c.weights...)
	switch {
	case c.groups > 1 && c.transposed: // [G·I, O, …]
		s.strides = append([]int{c.weights[2] * c.weights[1] * k, k, c.weights[1] * k}, spatial...)
	case c.transposed: // [I, O, …]
		s.strides = append([]int{k, c.weights[0] * k}, spatial...)
	}
	return s
}

func convSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, w := n.Input(0), n.Input(1)
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(x)
	}
	for i, v := range n.Inputs[1:] {
		if v != nil && !fuse.IsConst(v) {
			return nil, property.Because(property.Unsupported, "input %d, %v, is not constant", i+1, v)
		}
	}
	for i := range w.Type.Shape {
		if _, ok := operators.ConstDim(w, i); !ok {
			return nil, property.Because(property.DynamicShape, "weights %v are %v", w, w.Type)
		}
	}
	dx, dy := operators.AssumedDims(x), operators.AssumedDims(n.Outputs[0])
	c, why := resolveConv(n, dx, operators.AssumedDims(w), dy)
	if why != nil {
		return nil, why
	}
	var bias shape
	if n.Input(2) != nil {
		bias = plain(dy[1])
	}
	act := b.activations(len(dx))
	src := act
	if c.groups == 1 && dx[1] <= planarChannels && !c.transposed && b.block > 0 {
		src = graph.HostFormat
	}
	if c.winograd() {
		a := b.l.ask(b.answers, b.l.convolution(convWinograd, c.window, in(src.Layout, dx), anyOf(c.weights), bias, in(act.Layout, dy), nil))
		if refused(a) == nil {
			return b.convSignature(n, c, a, src, act)
		}
	}
	a := b.l.ask(b.answers, b.l.convolution(c.alg(), c.window, in(src.Layout, dx), anyOf(c.weights), bias, in(act.Layout, dy), nil))
	if (a.err != nil || slow(a.impl)) && src != act {
		src = act
		a = b.l.ask(b.answers, b.l.convolution(c.alg(), c.window, in(src.Layout, dx), anyOf(c.weights), bias, in(act.Layout, dy), nil))
	}
	if (a.err != nil || slow(a.impl)) && act != graph.HostFormat {
		src, act = graph.HostFormat, graph.HostFormat
		a = b.l.ask(b.answers, b.l.convolution(c.alg(), c.window, in(src.Layout, dx), anyOf(c.weights), bias, in(act.Layout, dy), nil))
	}
	if why := refused(a); why != nil {
		return nil, why
	}
	return b.convSignature(n, c, a, src, act)
}

// convSignature is the signature of a convolution that the library answered for. While shapes are open, weights for which
// carve has no layout of its own stay as they are: what they have to be is known with the shapes.
func (b *mkl) convSignature(n *graph.Node, c *convDims, a answer, src, dst graph.Format) ([]graph.Signature, *property.Reason) {
	weights, err := b.weightFormat(c.w, c.rowMajor(), a.weights, c.format, a.how)
	if err != nil {
		return nil, property.Because(property.Unsupported, "%v", err)
	}
	if _, static := n.Inputs[0].Type.Shape.Static(); !static && weights.Layout.IsOpaque() {
		weights = graph.HostFormat
	}
	s := graph.Signature{Name: a.impl, Inputs: []graph.Port{graph.Fixed(src), graph.Fixed(weights)}, Outputs: []graph.Port{graph.Fixed(dst)}}
	for range n.Inputs[2:] {
		s.Inputs = append(s.Inputs, graph.Fixed(graph.HostFormat))
	}
	return []graph.Signature{s}, nil
}

// alg is the direct algorithm.
func (c *convDims) alg() int {
	if c.transposed {
		return deconvDirect
	}
	return convDirect
}

// algOf is the algorithm that weights are for.
func (c *convDims) algOf(weights shape) int {
	if weights.known != nil && weights.known.isWinograd() {
		return convWinograd
	}
	return c.alg()
}

// Winograd's algorithm needs fewer multiplications for windows of 3 by 3, and pays where channels and pixels are many: its
// weights take four times the memory, and the library transforms a window in some 0.8 µs, as much as 13 runs save where
// it is applied to 28 by 28 pixels, and 50 where it is to 14 by 14 (oneDNN 2.6.3, one core of an AMD EPYC 9004).
const (
	winogradChannels = 64
	winogradPixels   = 28 * 28
)

// winograd reports whether Winograd's algorithm may be worth it. Its results differ from the direct sum's by some 1e-5 of
// the largest.
func (c *convDims) winograd() bool {
	if c.transposed || c.groups != 1 || len(c.x) != 4 || min(c.x[1], c.y[1]) < winogradChannels || c.y[2]*c.y[3] < winogradPixels {
		return false
	}
	for i := range 2 {
		if c.window.kernel[i] != 3 || c.window.strides[i] != 1 || c.window.dilations[i] != 1 {
			return false
		}
	}
	return true
}

// refused is the reason why the library's answer is none to build on, nil where it is.
func refused(a answer) *property.Reason {
	if a.err != nil {
		return property.Because(property.Unsupported, "%v", a.err)
	}
	if slow(a.impl) {
		return property.Because(property.Unsupported, "the library has its plain implementation only, %s", a.impl)
	}
	return nil
}

func planConv(p *planner, n *graph.Node) error {
	return p.conv(n, n.Inputs, n.Outputs[0], tail{})
}

// conv emits a convolution or transposed convolution with its tail; in are its operands as the subgraph knows them.
func (p *planner) conv(n *graph.Node, in []*graph.Value, out *graph.Value, t tail) error {
	x, w := in[0], in[1]
	c, why := resolveConv(n, p.Dims[x.ID], p.Dims[w.ID], p.Dims[out.ID])
	if why != nil {
		return why
	}
	var bias *graph.Value
	if len(in) > 2 {
		bias = in[2]
	}
	posts, residual := p.tail(t, out, p.shape(out))
	try := func(alg int, weights shape) (*primitive, error) {
		return p.make(p.l.convolution(alg, c.window, p.shape(x), weights, p.shape(bias), p.shape(out), posts))
	}
	var pr *primitive
	format := w.Format
	if given, ok := p.b.weightsIn(c, format); ok && format != graph.HostFormat {
		pr, _ = try(c.algOf(given), given)
	}
	if pr == nil || slow(pr.impl) { // the library wants them otherwise for these shapes
		pr = nil
		if c.winograd() {
			pr, _ = try(convWinograd, anyOf(c.weights))
		}
		var err error
		if pr == nil {
			if pr, err = try(c.alg(), anyOf(c.weights)); err != nil {
				return err
			}
		}
		if format, err = p.b.weightFormat(c.w, c.rowMajor(), pr.weights, c.format, pr.key); err != nil {
			return err
		}
	}
	if misplaces(pr.impl, c.groups, posts) {
		if err := p.conv(n, in, out, tail{}); err != nil {
			return err
		}
		return p.tailBehind(t, out)
	}
	weights, err := p.constant(w, format)
	if err != nil {
		return err
	}
	p.run(pr, append(residual, arg{argSrc, p.In(x), pr.src, false}, arg{argWeights, weights, pr.weights, false},
		p.plainArg(argBias, bias), arg{argDst, p.Out(out), pr.dst, true})...)
	return nil
}

// plainArg is the argument of an operand in its own format.
func (p *planner) plainArg(id int32, v *graph.Value) arg {
	if v == nil {
		return arg{at: place.Nowhere}
	}
	d, err := p.desc(p.shape(v))
	if err != nil {
		return arg{at: place.Nowhere}
	}
	return arg{id, p.In(v), d, false}
}

func init() {
	table.Register("Conv", operator{Signatures: convSignatures, Plan: planConv, Strided: byImages, Single: true})
	table.Register("ConvTranspose", operator{Signatures: convSignatures, Plan: planConv, Strided: byImages, Single: true})
}
