package cpu

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Formats of convolution weights: see package convert, which packs them.
var (
	denseWeights     = mustFormat("ABcd16b16a")
	slimWeights      = mustFormat("Abcd16a") // depthwise, and first convolutions that read NCHW
	transposeWeights = mustFormat("BAcd16a16b")

	// The same for convolutions over one axis.
	denseLineWeights     = mustFormat("ABc16b16a")
	slimLineWeights      = mustFormat("Abc16a")
	transposeLineWeights = mustFormat("BAc16a16b")
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
	convMixed     // groups that do not fall on blocks: weights are packed by the backend itself
	convFew       // of few results, which are planar
	convFewPlanar // of few results, over one axis or of few channels, row-major in and out
)

// convKindOf classifies a Conv by its weights.
func convKindOf(n *graph.Node) (convKind, *property.Reason) {
	x, w := n.Input(0), n.Input(1)
	if !operators.IsFloat32(n.Inputs...) {
		return 0, operators.NotFloat32(x)
	}
	if !isImage(x) || len(w.Type.Shape) != len(x.Type.Shape) {
		return 0, property.Because(property.ShapeReason, "convolutions over one to three axes only, %v is %v", x, x.Type)
	}
	oc, ok1 := operators.ConstDim(w, 0)
	ic, ok2 := operators.ConstDim(w, 1)
	if !ok1 || !ok2 {
		return 0, property.Because(property.DynamicShape, "weights %v are %v", w, w.Type)
	}
	if why := unsuited(n, w); why != nil {
		return 0, why
	}
	groups := int(n.Int("group", 1))
	switch {
	case fewPlanar(n):
		return convFewPlanar, nil
	case groups == 1 && ic <= planarChannels:
		return convPlanar, nil
	case groups == 1 && sumsChannels(w):
		return convFew, nil
	case groups == 1:
		return convDense, nil
	case ic == 1 && oc == groups:
		return convDepthwise, nil
	case ic%16 == 0 && (oc/max(groups, 1))%16 == 0:
		return convDense, nil
	}
	return convMixed, nil
}

// unsuited is why the weights of a convolution, transposed or not, are not run: a kernel that is too large, or groups of no channels.
func unsuited(n *graph.Node, w *graph.Value) *property.Reason {
	if n.Int("group", 1) > 1 && slices.ContainsFunc(w.Type.Shape, func(d graph.Dim) bool { return d.Equal(graph.D(0)) }) {
		return property.Because(property.ShapeReason, "groups of %v have no channels", w.Type.Shape)
	}
	return largeKernel(w)
}

// largeKernel is why weights whose rows, columns or taps are too many are not run.
func largeKernel(w *graph.Value) *property.Reason {
	kernel := [2]int{1, 1}
	for i := range min(len(w.Type.Shape)-2, 2) {
		kernel[i], _ = operators.ConstDim(w, len(w.Type.Shape)-1-i)
	}
	if !conv.Fits(kernel) {
		return property.Because(property.ShapeReason, "a kernel of %v is too large", w.Type.Shape)
	}
	return nil
}

// isImage reports whether v is float32 of one, two or three spatial axes.
func isImage(v *graph.Value) bool {
	return is4D(v) || operators.IsFloat32(v) && v != nil && (len(v.Type.Shape) == 3 || len(v.Type.Shape) == 5)
}

// fixed reports whether a convolution's weights or bias are constants. Others are packed in each run, but for those that a loop
// captures, which a conversion before the loop packs.
func fixed(v *graph.Value) bool { return v == nil || v.IsConst() || fuse.InBody(v) }

func fixedWeights(n *graph.Node) bool { return fixed(n.Input(1)) && fixed(n.Input(2)) }

// weightFormat returns the format of a convolution's weights.
func weightFormat(n *graph.Node, k convKind) graph.Format {
	rank := len(n.Inputs[1].Type.Shape)
	switch {
	case k == convFewPlanar, !fixed(n.Inputs[1]) && (rank == 5 || k == convMixed || !n.Inputs[1].Invariant()):
		return rowMaj
	case k == convFew:
		return fewResultsWeights
	case k == convDense && rank == 5:
		return denseVolumeWeights
	case k == convDense && rank == 3:
		return denseLineWeights
	case k == convDense:
		return denseWeights
	case k == convPlanar && shortLine(n.Inputs[1]):
		return rowMaj
	case (k == convDepthwise || k == convPlanar) && rank == 5:
		return slimVolumeWeights
	case (k == convDepthwise || k == convPlanar) && rank == 3:
		return slimLineWeights
	case k == convDepthwise || k == convPlanar:
		return slimWeights
	}
	return groupedWeights(int(n.Int("group", 1)), false)
}

func convSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	k, why := convKindOf(n)
	if why != nil {
		return nil, why
	}
	return []graph.Signature{convSignature(n, k, weightFormat(n, k))}, nil
}

func convSignature(n *graph.Node, k convKind, weights graph.Format) graph.Signature {
	name, src, dst := "nchw16c", blocked, blocked
	switch {
	case is5D(n.Inputs[0]):
		name, src, dst = "ncdhw16c", volume, volume
		if k == convPlanar {
			name, src = "ncdhw-ncdhw16c", rowMaj
		}
	case !is4D(n.Inputs[0]): // lines change their layout within the operator
		name, src, dst = "ncw", rowMaj, rowMaj
	case k == convPlanar:
		name, src = "nchw-nchw16c", rowMaj
	case k == convFew:
		name, dst = "nchw16c-nchw", rowMaj
	case k == convFewPlanar:
		name, src, dst = "nchw", rowMaj, rowMaj
	}
	in := len(n.Inputs)
	ports := make([]graph.Port, in+1)
	for i := range ports {
		ports[i] = graph.Fixed(rowMaj)
	}
	ports[0], ports[1], ports[in] = graph.Fixed(src), graph.Fixed(weights), graph.Fixed(dst)
	return graph.Signature{Name: name, Inputs: ports[:in:in], Outputs: ports[in:]}
}

func planConv(p *planner, n *graph.Node) error {
	if n.Is("Conv") {
		return p.convOrPair(convNode{n: n, head: n, in: n.Inputs})
	}
	return p.conv(n, n.Inputs, n.Outputs[0], tail{})
}

// planar returns dims of an image of one or two spatial axes as [N, C, H, W].
func planar(d []int) []int {
	if len(d) == 3 {
		return []int{d[0], d[1], 1, d[2]}
	}
	return d
}

// conv emits a convolution or transposed convolution with its tail.
func (p *planner) conv(n *graph.Node, in []*graph.Value, out *graph.Value, t tail) error {
	if n.Is("ConvTranspose") && in[1].Format == scatteredWeights[len(p.Dims[out.ID])] {
		return p.scattered(n, in, out, t)
	}
	if len(p.Dims[out.ID]) == 5 {
		return p.volumeConv(n, in, out, t)
	}
	if in[1].Format == fewResultsWeights {
		return p.fewResults(n, in, out, t)
	}
	x, w := in[0], in[1]
	dx, dy := planar(p.Dims[x.ID]), planar(p.Dims[out.ID])
	spec := conv.Spec{N: dx[0], C: dx[1], OC: dy[1], Groups: int(n.Int("group", 1)), Transposed: n.Is("ConvTranspose")}
	line := len(p.Dims[x.ID]) == 3
	if x.Format == rowMaj && (!line || spec.C <= planarChannels && spec.Groups == 1 && !spec.Transposed) {
		spec.Source = conv.Planar
	}
	if !line {
		spec.SrcImage, spec.DstImage = p.In(x).Pitch/4, p.Want[out.ID].Pitch/4
		if t.residual != nil {
			spec.ResImage = p.In(t.residual).Pitch / 4
		}
	}
	var err error
	if spec.Map, err = convWindow(n, p.Dims[x.ID][2:], p.Dims[w.ID][2:], p.Dims[out.ID][2:]); err != nil {
		return err
	}
	if w.Format == rowMaj && fewPlanar(n) {
		return p.fewPlanar(&spec, in, out, t)
	}
	if line && spec.Source == conv.Planar && shortLine(w) {
		return p.lineProduct(&spec, in, out, t)
	}
	t.epilogue(p.kernels, &spec.Epilogue)
	c := convCall{src: p.In(x), residual: place.Nowhere, work: 1}
	var bias *graph.Value
	if len(in) > 2 {
		bias = in[2]
	}
	if m := winogradOf(w.Format.Layout); m > 0 {
		return p.winograd(m, spec, &c, w, bias, t.residual, out)
	}
	if spec.Pairs = pairsOf(w.Format); spec.Pairs != pairs.Float32 {
		spec.SrcImage = 0
	}
	switch {
	case line:
	case p.packsPixels(&spec):
		if c.src, err = p.packedPixels(&spec, c.src); err != nil {
			return err
		}
	case conv.TakesPixels(p.target, &spec):
		c.src = p.roundedPixels(&spec, c.src)
	case conv.TakesWindows(p.target, &spec) && min(spec.Pad[0], spec.Pad[1]) >= 0:
		c.src = p.roundedWindows(&spec, c.src)
	case spec.Pairs != pairs.Float32:
		c.src = p.roundedImages(spec.Pairs, dx, c.src)
	}
	if c.plan, err = conv.NewConv(p.target, spec); err != nil {
		return err
	}
	if err := p.convConstants(&c, w, bias); err != nil {
		return err
	}
	if line {
		return p.convLine(&c, &spec, dx, dy, out)
	}
	if t.residual != nil {
		c.residual = p.In(t.residual)
	}
	c.dst = p.Out(out)
	p.emitConv(c)
	return nil
}

// leastPackedFor is the fewest results for which the pixels that a convolution reads are packed.
const leastPackedFor = 64

// packsPixels reports whether pixels are packed before a convolution that reads single ones apart from each other: they lie in every second set
// of the caches or fewer, and rows of them fill few tiles (AMD Zen 4, AVX2: a stride of 2, 512 to 1024 channels of 14x14 0.86 of the time,
// 1024 to 2048 of 7x7 0.75, the copy not counted, which is 0.02; AVX-512, whose tiles read a weight for more pixels, 1.0).
func (p *planner) packsPixels(s *conv.Spec) bool {
	return p.target.Set == isa.AVX2 && s.Dense() && s.Pairs == pairs.Float32 && !s.Transposed && s.Kernel == [2]int{1, 1} && s.Pad == [4]int{} &&
		max(s.Stride[0], s.Stride[1]) > 1 && s.OC >= leastPackedFor
}

// packedPixels emits the step that packs the pixels of a source that a convolution with a single tap reads, and has the convolution read them
// where they are then, which it returns.
func (p *planner) packedPixels(s *conv.Spec, src place.Memory) (place.Memory, error) {
	dst := p.Temp(blockedBytes([]int{s.N, s.C, s.OH, s.OW}))
	err := p.pool(conv.PoolSpec{N: s.N, C: s.C, Map: s.Map, Pooling: conv.Max, SrcImage: s.SrcImage}, src, dst) // of one pixel each
	s.SrcImage, s.H, s.W, s.Stride = 0, s.OH, s.OW, [2]int{1, 1}
	return dst, err
}

// convCall is a convolution of known places.
type convCall struct {
	plan                        *conv.Plan
	src, weights, residual, dst place.Memory
	bias                        []float32
	biasAt                      place.Memory // where bias is no constant
	work                        int          // its part of the node's multiply-adds
}

// tensors returns the operands of a run.
func (c *convCall) tensors(st *state) conv.Tensors {
	t := conv.Tensors{Src: st.F32(c.src), Weights: st.F32(c.weights), Bias: c.bias, Residual: st.F32(c.residual), Dst: st.F32(c.dst)}
	if c.biasAt.Slot >= 0 {
		t.Bias = st.F32(c.biasAt)
	}
	return t
}

// packedBefore returns weights that are ready when a run begins, of so many bytes: constants, and those that were packed before the loop that captures them. It
// returns nowhere for others.
func (p *planner) packedBefore(w *graph.Value, need int) (place.Memory, error) {
	switch {
	case w.IsConst():
		return p.ConstantIn(w, w.Format, need), nil
	case w.Format == rowMaj:
		return place.Nowhere, nil
	}
	m := p.In(w)
	if m.Size < need {
		return place.Nowhere, fmt.Errorf("weights %v have %d bytes in %v, and %d are read", w, m.Size, w.Format, need)
	}
	return m, nil
}

// convConstants makes weights and bias ready.
func (p *planner) convConstants(c *convCall, w, bias *graph.Value) (err error) {
	if c.weights, err = p.packedBefore(w, 4*c.plan.WeightFloats()); err != nil {
		return err
	}
	if c.weights.Slot < 0 {
		c.weights = p.packWeights(c.plan, p.In(w))
	}
	return p.convBias(c, bias, c.plan.BiasFloats())
}

// convBias makes a bias ready, of so many numbers with its padding.
func (p *planner) convBias(c *convCall, bias *graph.Value, floats int) (err error) {
	c.biasAt = place.Nowhere
	switch {
	case bias == nil:
	case bias.IsConst():
		c.bias, err = p.paddedBias(bias, floats)
	default:
		src, dst := p.In(bias), p.Temp(4*floats)
		c.biasAt = dst
		p.emit(step{serial: func(st *state) {
			b := st.F32(dst)
			clear(b[copy(b, st.F32(src)):])
		}}, []place.Memory{src}, []place.Memory{dst})
	}
	return err
}

// packWeights emits the packing of weights that are no constants and returns their place.
func (p *planner) packWeights(plan *conv.Plan, src place.Memory) place.Memory {
	dst := p.Temp(4 * plan.WeightFloats())
	p.packWeightsTo(plan, src, dst)
	return dst
}

// packWeightsTo emits the packing of weights that are no constants.
func (p *planner) packWeightsTo(plan *conv.Plan, src, dst place.Memory) {
	chunks := plan.PackChunks()
	const bytesPerNano = 12.0
	nanos := float64(dst.Size) / bytesPerNano / float64(max(chunks, 1))
	p.emit(step{chunks: chunks, grain: grainFor(nanos), body: func(st *state, _, lo, hi int) {
		if err := plan.PackWeights(st.F32(dst), st.Bytes(src), lo, hi); err != nil {
			panic(err)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

func (p *planner) emitConv(c convCall) {
	s := p.convStep(c.plan, float64(c.plan.Cost())/3, c.tensors)
	s.work = c.work
	p.emit(s, []place.Memory{c.src, c.weights, c.biasAt, c.residual}, []place.Memory{c.dst})
}

// convStep returns a step that runs a plan of package conv; nanos is the time of all its chunks.
func (p *planner) convStep(plan *conv.Plan, nanos float64, tensors func(st *state) conv.Tensors) step {
	chunks := plan.Chunks()
	return step{chunks: chunks, grain: grainFor(nanos / float64(max(chunks, 1))), body: func(st *state, _, lo, hi int) {
		t := tensors(st)
		if err := plan.Run(lo, hi, &t); err != nil {
			panic(err)
		}
	}}
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// constant returns the data of an operand, nil where it is no constant.
func (p *planner) constant(v *graph.Value) *tensor.Tensor {
	if v != nil && v.IsConst() {
		return v.Const
	}
	return nil
}

// paddedBias returns a bias padded with zeros, made once at compile time.
func (p *planner) paddedBias(bias *graph.Value, length int) ([]float32, error) {
	t := p.constant(bias)
	if t == nil {
		return nil, fmt.Errorf("bias %v is not constant", bias)
	}
	return paddedFloats(t, length)
}

func paddedFloats(t *tensor.Tensor, length int) ([]float32, error) {
	vals := fuse.Floats(t)
	buf := make([]float32, length+16)
	off := 0
	if r := int(uintptr(unsafe.Pointer(&buf[0])) & 63); r != 0 {
		off = (64 - r) / 4
	}
	out := buf[off : off+length]
	copy(out, vals)
	return out, nil
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
	for i := max(len(w.Kernel)-2, 0); i < len(w.Kernel); i++ {
		k := i + 2 - len(w.Kernel)
		m.Pad[k], m.Pad[k+2] = begin[i], end[i]
	}
	return m, nil
}

// windowMap translates a window to the kernel's terms, which has the last two axes; one axis is the width.
func windowMap(w *graph.Window, in, out []int) conv.Map {
	m := conv.Map{H: 1, W: in[len(in)-1], OH: 1, OW: out[len(out)-1], Kernel: [2]int{1, 1}, Stride: [2]int{1, 1}, Dilate: [2]int{1, 1}}
	if len(in) > 1 {
		m.H, m.OH = in[len(in)-2], out[len(out)-2]
	}
	for i := max(len(w.Kernel)-2, 0); i < len(w.Kernel); i++ {
		k := i + 2 - len(w.Kernel)
		m.Kernel[k], m.Stride[k], m.Dilate[k] = w.Kernel[i], w.Strides[i], w.Dilations[i]
		m.Pad[k], m.Pad[k+2] = w.Pads(i, in[i], out[i])
	}
	return m
}

func convTransposeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, w := n.Input(0), n.Input(1)
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(x)
	}
	if !isImage(x) || len(w.Type.Shape) != len(x.Type.Shape) {
		return nil, property.Because(property.ShapeReason, "over one to three axes only, %v is %v", w, w.Type)
	}
	if why := unsuited(n, w); why != nil {
		return nil, why
	}
	if !fixed(w) {
		return []graph.Signature{convSignature(n, convDense, rowMaj)}, nil
	}
	if scatters(n) {
		return []graph.Signature{scatteredSignature(n)}, nil
	}
	if g := int(n.Int("group", 1)); g != 1 {
		return []graph.Signature{convSignature(n, convMixed, groupedWeights(g, true))}, nil
	}
	weights := transposeWeights
	switch len(x.Type.Shape) {
	case 3:
		weights = transposeLineWeights
	case 5:
		weights = transposeVolumeWeights
	}
	return []graph.Signature{convSignature(n, convDense, weights)}, nil
}

// Tails: what is fused behind a convolution or matrix product.

// tail is what comes behind the kernel's own bias: a residual, an activation or a PRelu, rounding to levels.
type tail struct {
	residual *graph.Value
	act      activation
	slopes   channelSlopes // none: no PRelu
	levels   fuse.Levels   // none where the scale is 0
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
func (t tail) epilogue(kernels vec.Kernels, e *conv.Epilogue) {
	e.Residual = t.residual != nil
	if t.act.clip {
		if e.Lo, e.Hi = t.act.lo, t.act.hi; e.Lo == 0 && e.Hi == 0 { // which means no limits there
			t.act.clip = false
		}
	}
	e.Post = t.postBlocks(kernels)
}

// postBlocks returns what is applied to pixels of a block of channels behind residual and limits, nil for nothing.
func (t tail) postBlocks(kernels vec.Kernels) func(x []float32, block int) {
	post := t.post(kernels)
	if t.slopes == nil && post == nil {
		return nil
	}
	return func(x []float32, block int) {
		t.slopes.apply(kernels, x, x, block)
		if post != nil {
			post(x)
		}
	}
}

// post returns what is applied to a result behind residual, limits and PRelu, nil for nothing.
func (t tail) post(kernels vec.Kernels) func(x []float32) {
	rows := t.postRows(kernels)
	if rows == nil {
		return nil
	}
	return func(x []float32) { rows(x, len(x), 1, len(x)) }
}

// postRows is post for rows of cols results, ld apart.
func (t tail) postRows(kernels vec.Kernels) func(x []float32, ld, rows, cols int) {
	var list []activation
	if t.act.some && !t.act.clip {
		list = append(list, t.act)
	}
	if t.levels.Scale != 0 {
		list = append(list, rounding(t.levels))
	}
	if list == nil {
		return nil
	}
	return func(x []float32, ld, rows, cols int) {
		for _, a := range list {
			kernels.ApplyRows(a.op, x, ld, x, ld, rows, cols, a.params)
		}
	}
}

// rounding returns the rounding to levels as an element-wise function.
func rounding(l fuse.Levels) activation {
	return activation{some: true, op: vec.FakeQuantize, params: vec.Params{A: l.Scale, B: l.Lo, C: l.Hi}}
}

var inf = float32(math.Inf(1))

func init() {
	table.Register("Conv", operator{Signatures: convSignatures, Plan: planConv, Strided: imagesStrided})
	table.Register("ConvTranspose", operator{Signatures: convTransposeSignatures, Plan: planConv, Strided: imagesStrided})
}
