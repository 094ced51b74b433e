package cpu

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/property"
)

// Formats of convolution weights: see package convert, which packs them.
var (
	denseWeights     = mustFormat("ABcd16b16a")
	slimWeights      = mustFormat("Abcd16a") // depthwise, and first convolutions that read NCHW
	transposeWeights = mustFormat("BAcd16a16b")
)

func mustFormat(tag string) graph.Format {
	l, err := graph.ParseLayout(tag)
	if err != nil {
		panic(err)
	}
	return graph.On(l)
}

// planarChannels is the most input channels for which a convolution reads NCHW directly.
const planarChannels = 4

// convKind is how a convolution is run.
type convKind uint8

const (
	convDense convKind = iota
	convDepthwise
	convPlanar
	convMixed // groups that do not fall on blocks: weights are packed by the backend itself
)

// convKindOf classifies a Conv by its weights.
func convKindOf(n *graph.Node) (convKind, *property.Reason) {
	x, w := n.Input(0), n.Input(1)
	if !isF32(n.Inputs...) {
		return 0, wrongDType(x)
	}
	if !is4D(x) || len(w.Type.Shape) != 4 {
		return 0, property.Because(property.ShapeReason, "two-dimensional convolutions only, %v is %v", x, x.Type)
	}
	oc, ok1 := dimConst(w, 0)
	ic, ok2 := dimConst(w, 1)
	if !ok1 || !ok2 {
		return 0, property.Because(property.DynamicShape, "weights %v are %v", w, w.Type)
	}
	for i, v := range n.Inputs[1:] {
		if v != nil && !v.IsConst() && !isBodyInput(v) {
			return 0, property.Because(property.Unsupported, "input %d, %v, is not constant", i+1, v)
		}
	}
	groups := int(n.Int("group", 1))
	switch {
	case groups == 1 && ic <= planarChannels:
		return convPlanar, nil
	case groups == 1:
		return convDense, nil
	case ic == 1 && oc == groups:
		return convDepthwise, nil
	case ic%16 == 0 && (oc/max(groups, 1))%16 == 0:
		return convDense, nil
	}
	return convMixed, nil
}

// isBodyInput reports whether v is a parameter of a fused node's body; the constants are the fused node's operands then.
func isBodyInput(v *graph.Value) bool {
	o := v.Graph().Owner()
	return v.IsInput() && o != nil && o.IsCarve(graph.OpFused)
}

func weightFormat(k convKind) graph.Format {
	switch k {
	case convDense:
		return denseWeights
	case convDepthwise, convPlanar:
		return slimWeights
	}
	return rowMaj
}

func convSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	k, why := convKindOf(n)
	if why != nil {
		return nil, why
	}
	return []graph.Signature{convSignature(n, k, weightFormat(k))}, nil
}

func convSignature(n *graph.Node, k convKind, weights graph.Format) graph.Signature {
	s := graph.Signature{Name: "nchw16c", Outputs: []graph.Port{graph.Fixed(blocked)}}
	src := blocked
	if k == convPlanar {
		s.Name, src = "nchw-nchw16c", rowMaj
	}
	s.Inputs = append(s.Inputs, graph.Fixed(src), graph.Fixed(weights))
	for range n.Inputs[2:] {
		s.Inputs = append(s.Inputs, graph.Fixed(rowMaj))
	}
	return s
}

func planConv(p *planner, n *graph.Node) error {
	return p.conv(n, n.Inputs, n.Outputs[0], tail{})
}

// conv emits a convolution or transposed convolution with its tail.
func (p *planner) conv(n *graph.Node, in []*graph.Value, out *graph.Value, t tail) error {
	x, w := in[0], in[1]
	transposed := n.Is("ConvTranspose")
	dx, dw, dy := p.dims[x.ID], p.dims[w.ID], p.dims[out.ID]
	spec := conv.Spec{N: dx[0], C: dx[1], OC: dy[1], Groups: int(n.Int("group", 1)), Transposed: transposed}
	if x.Format == rowMaj {
		spec.Source = conv.Planar
	}
	var err error
	if spec.Map, err = convWindow(n, dx[2:], dw[2:], dy[2:]); err != nil {
		return err
	}
	t.epilogue(&spec.Epilogue, dy[1])
	plan, err := conv.NewConv(spec)
	if err != nil {
		return err
	}
	var bias *graph.Value
	if len(in) > 2 {
		bias = in[2]
	}
	return p.emitConv(n, plan, x, w, bias, t.residual, out)
}

func (p *planner) emitConv(n *graph.Node, plan *conv.Plan, x, w, bias, residual, out *graph.Value) error {
	weights := p.in(w)
	if w.Format == rowMaj { // packed by the backend: groups that do not fall on blocks
		packed, err := p.ownPack(n, plan, w)
		if err != nil {
			return err
		}
		weights = packed
	}
	var padded []float32
	if bias != nil {
		var err error
		if padded, err = p.paddedBias(n, bias, plan.BiasFloats()); err != nil {
			return err
		}
	}
	if residual != nil && residual != x { // a window of x is read after its middle was overwritten
		p.inPlace(out, residual)
	}
	src, dst := p.in(x), p.out(out)
	var res memory
	res.slot = -1
	if residual != nil {
		res = p.in(residual)
	}
	dw := p.dims[w.ID]
	flops := 2 * float64(dw[1]*dw[2]*dw[3]) * float64(product(p.dims[out.ID]))
	if n.Is("ConvTranspose") {
		flops = 2 * float64(dw[1]*dw[2]*dw[3]) * float64(product(p.dims[x.ID]))
	}
	s := step{chunks: plan.Chunks(), grain: 1}
	s.label.FLOPs = flops
	s.label.Name, s.label.Op, s.label.Origins = p.node.Name, labelOp(p.node), p.node.Provenance()
	s.grain = grainFor(float64(plan.Cost()) / float64(max(plan.Chunks(), 1)) / 3)
	s.body = func(st *state, _, lo, hi int) {
		t := conv.Tensors{Src: st.f32(src), Weights: st.f32(weights), Bias: padded, Residual: st.f32(res), Dst: st.f32(dst)}
		if err := plan.Run(lo, hi, nil, &t); err != nil {
			panic(err)
		}
	}
	p.emit(s, []memory{src, weights, res}, []memory{dst})
	return nil
}

func labelOp(n *graph.Node) string {
	if n.IsCarve(graph.OpFused) {
		return n.Str("pattern", n.Op.String())
	}
	return n.Op.String()
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// constant returns the data of a constant operand, looked up through the body of a fused node.
func (p *planner) constant(v *graph.Value) *tensor.Tensor {
	if v != nil && v.IsConst() {
		return v.Const
	}
	return nil
}

// paddedBias returns a bias padded with zeros, made once at compile time.
func (p *planner) paddedBias(n *graph.Node, bias *graph.Value, length int) ([]float32, error) {
	t := p.constant(bias)
	if t == nil {
		return nil, fmt.Errorf("bias %v is not constant", bias)
	}
	return paddedFloats(t, length)
}

func paddedFloats(t *tensor.Tensor, length int) ([]float32, error) {
	vals := tensor.Of[float32](t)
	if vals == nil {
		c, err := t.Clone()
		if err != nil {
			return nil, err
		}
		vals = tensor.Of[float32](c)
	}
	buf := make([]float32, length+16)
	off := 0
	if r := int(uintptr(unsafe.Pointer(&buf[0])) & 63); r != 0 {
		off = (64 - r) / 4
	}
	out := buf[off : off+length]
	copy(out, vals)
	return out, nil
}

// ownPack packs row-major weights for a plan, in memory of Go, once per instance.
func (p *planner) ownPack(n *graph.Node, plan *conv.Plan, w *graph.Value) (memory, error) {
	t := p.constant(w)
	if t == nil {
		return memory{slot: -1}, fmt.Errorf("weights %v are not constant", w)
	}
	dst := make([]float32, plan.WeightFloats())
	if err := plan.PackWeights(dst, t.Bytes(), 0, plan.PackChunks()); err != nil {
		return memory{slot: -1}, err
	}
	return p.data(conv.Float32s(dst)), nil
}

// data makes a slot of bytes that the planner computed.
func (p *planner) data(b []byte) memory {
	p.slots = append(p.slots, slotInfo{kind: fromData, data: b, first: -1})
	return memory{slot: len(p.slots) - 1, size: len(b)}
}

// convWindow returns the window of a convolution, transposed or not, over a source of spatial dims in.
func convWindow(n *graph.Node, in, kernel, out []int) (conv.Map, error) {
	w, err := graph.ConvAttrs(n, kernel)
	if err != nil {
		return conv.Map{}, err
	}
	if !n.Is("ConvTranspose") {
		return windowMap(&w, in, out), nil
	}
	_, begin, end, err := w.ResolveTranspose(in)
	if err != nil {
		return conv.Map{}, err
	}
	m := windowMap(&w, in, out)
	m.Pad = [4]int{begin[0], begin[1], end[0], end[1]}
	return m, nil
}

// windowMap translates a window over two axes to the kernel's terms.
func windowMap(w *graph.Window, in, out []int) conv.Map {
	m := conv.Map{H: in[0], W: in[1], OH: out[0], OW: out[1]}
	for i := range 2 {
		m.Kernel[i], m.Stride[i], m.Dilate[i] = w.Kernel[i], w.Strides[i], w.Dilations[i]
		m.Pad[i], m.Pad[i+2] = w.Pads(i, in[i], out[i])
	}
	return m
}

func convTransposeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, w := n.Input(0), n.Input(1)
	if !isF32(n.Inputs...) {
		return nil, wrongDType(x)
	}
	if !is4D(x) || len(w.Type.Shape) != 4 || !w.IsConst() && !isBodyInput(w) {
		return nil, property.Because(property.ShapeReason, "two-dimensional with constant weights only, %v is %v", w, w.Type)
	}
	if b := n.Input(2); b != nil && !b.IsConst() && !isBodyInput(b) {
		return nil, property.Because(property.Unsupported, "bias %v is not constant", b)
	}
	if n.Int("group", 1) != 1 {
		return []graph.Signature{convSignature(n, convMixed, rowMaj)}, nil
	}
	return []graph.Signature{convSignature(n, convDense, transposeWeights)}, nil
}

// Tails: what is fused behind a convolution or matrix product.

// tail is bias is the kernel's own; then residual, then an activation.
type tail struct {
	residual *graph.Value
	act      activation
}

// activation is an element-wise function at the end of a kernel.
type activation struct {
	some   bool
	clip   bool // lo and hi bound the result
	lo, hi float32
	op     vec.Op
	params vec.Params
}

// epilogue sets a convolution's epilogue.
func (t tail) epilogue(e *conv.Epilogue, _ int) {
	e.Residual = t.residual != nil
	switch {
	case !t.act.some:
	case t.act.clip && (t.act.lo != 0 || t.act.hi != 0): // both zero mean no limits there
		e.Lo, e.Hi = t.act.lo, t.act.hi
	default:
		op, params := t.act.op, t.act.params
		e.Post = func(tile []float32) { vec.Apply(op, tile, tile, params) }
	}
}

var inf = float32(math.Inf(1))

func init() {
	register("Conv", operator{convSignatures, planConv})
	register("ConvTranspose", operator{convTransposeSignatures, planConv})
}

func register(name string, op operator) {
	if operators == nil {
		operators = map[string]operator{}
	}
	operators[name] = op
}
