package mkl

import (
	"math"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// integerJob is a convolution or matrix product on integers of eight bits, with what is fused behind it:
//
//	(x - x.zero) · w.Q, · x.scale · w.Scales, + bias, + residual, activation, and to the integers of y
type integerJob struct {
	n       *graph.Node // Conv, MatMul, Gemm or a QLinear operator: it has the attributes
	x, w    *graph.Value
	out     *graph.Value // of the node
	conv    bool
	qx, qy  quant
	float   bool // the result is no integer
	weights *fuse.Integers
	bias    []float64 // nil, or one number per output

	residual      *graph.Value // nil, or what is added, of the result's shape
	qr            quant
	floatResidual bool
	posts         []post // the activation
}

// job is what a chain asks for. Values are those of the graph that the chain is in.
func (l *qlinks) job() *integerJob {
	j := &integerJob{n: l.Head, x: l.dx.Inputs[0], w: l.Head.Inputs[1], out: l.Head.Outputs[0], conv: l.Head.Is("Conv"), qx: l.x, qy: l.y,
		float: l.q == nil, weights: l.w, posts: l.posts}
	bias := l.Bias
	if bias == nil {
		bias = l.Head.Input(2)
	}
	if c := fuse.Behind(bias); c != nil && c.Const != nil {
		for _, x := range fuse.Floats(c.Const) {
			j.bias = append(j.bias, float64(x))
		}
	}
	if l.Sum != nil {
		j.residual, j.qr, j.floatResidual = l.Residual, l.r, l.dr == nil
		if l.dr != nil {
			j.residual = l.dr.Inputs[0]
		}
	}
	return j
}

// channelsLast is the format of images of integers: the library's kernels for them read all channels of a pixel at once.
func channelsLast(rank int) graph.Format {
	if rank < 3 || rank > 5 {
		return graph.HostFormat
	}
	order := []int{0}
	for i := 2; i < rank; i++ {
		order = append(order, i)
	}
	l, ok := tagLayout(append(order, 1), nil)
	if !ok {
		return graph.HostFormat
	}
	return graph.On(l)
}

// epilogue returns the unit in which scaled products are handed on, and the operations that follow: the residual, the
// activation, and the way to the integers of y. It works in steps of y where the activation allows that.
func (j *integerJob) epilogue(residual shape) (unit float64, list []post) {
	step := stepOf(j.posts, j.qy, j.float)
	unit = step
	a, c := 1.0, 0.0
	if j.residual != nil {
		list = append(list, post{kind: postBinaryAdd, src: residual})
		unit = 1
		if !j.floatResidual {
			unit = float64(j.qr.scale)
			c = -unit / step * float64(j.qr.zero)
		}
		a = unit / step
	}
	return unit, finish(list, a, c, j.posts, j.qy, j.float)
}

// stepOf is the unit in which an activation is applied: steps of y where limits can be told in them, else 1.
func stepOf(posts []post, y quant, float bool) float64 {
	if float {
		return 1
	}
	for _, x := range posts {
		if x.alg != eltRelu && x.alg != eltClip {
			return 1
		}
	}
	return float64(y.scale)
}

// finish appends what makes results of numbers v: the activation of a·v + c, which is in the units of stepOf, and the way to
// the integers of y. Limits are applied to the integers, those of their type by the library's saturation.
func finish(list []post, a, c float64, posts []post, y quant, float bool) []post {
	linear := func(a, c float64) {
		if a != 1 || c != 0 {
			list = append(list, post{alg: eltLinear, alpha: float32(a), beta: float32(c)})
		}
	}
	step, zero := stepOf(posts, y, float), float64(y.zero)
	lo, hi, limits := limitsOf(posts)
	switch {
	case float:
		linear(a, c)
		return append(list, posts...)
	case limits:
		linear(a, c+zero)
		lo, hi = lo/step+zero, hi/step+zero
		if least, most := float64(y.least()), float64(y.least()+math.MaxUint8); lo > least || hi < most {
			list = append(list, post{alg: eltClip, alpha: float32(max(lo, least)), beta: float32(min(max(hi, least), most))})
		}
		return list
	}
	linear(a, c)
	list = append(list, posts...)
	linear(step/float64(y.scale), zero)
	return list
}

// limitsOf returns the limits that activations set, infinite ones where there are none; ok is false for other activations.
func limitsOf(posts []post) (lo, hi float64, ok bool) {
	lo, hi = math.Inf(-1), math.Inf(1)
	for _, x := range posts {
		switch {
		case x.alg == eltRelu && x.alpha == 0:
			lo, hi = max(lo, 0), max(hi, 0)
		case x.alg == eltClip:
			lo, hi = min(max(lo, float64(x.alpha)), float64(x.beta)), max(min(hi, float64(x.beta)), float64(x.alpha))
		default:
			return 0, 0, false
		}
	}
	return lo, hi, true
}

// repeated reports whether an algorithm comes twice in a list: kernels of version 2 give both the numbers of the first.
func repeated(list []post) bool {
	for i, x := range list {
		if slices.ContainsFunc(list[:i], func(y post) bool { return x.kind == postEltwise && y.kind == postEltwise && x.alg == y.alg }) {
			return true
		}
	}
	return false
}

// integerPlan is a job for concrete shapes.
type integerPlan struct {
	recipe   recipe
	weights  shape // as the constant is stored
	decode   func(blocking) (graph.Layout, bool)
	bias     []float32
	residual shape
	partly   bool // windows leave the image in some dims, and not in others
}

// integerPlan resolves a job for these dims of x, its weights and the result, in formats of source and result.
func (b *mkl) integerPlan(j *integerJob, dx, dw, dy []int, src, dst graph.Format) (*integerPlan, *property.Reason) {
	p := &integerPlan{}
	dtype := dtypeOf(j.qy.dtype)
	if j.float {
		dtype = dtypeF32
	}
	var from, to, bias, weights shape
	scaled := scaling{of: argWeights, result: 1 << 1}
	var c *convDims
	var rows, columns int
	if j.conv {
		var why *property.Reason
		if c, why = resolveConv(j.n, dx, dw, dy); why != nil {
			return nil, why
		}
		from, to, weights = in(src.Layout, dx), in(dst.Layout, dy), anyOf(c.weights)
		scaled.operand = 1
		if c.groups > 1 {
			scaled.operand = 3
		}
		columns, bias, p.weights, p.decode = dy[1], plain(dy[1]), c.rowMajor(), c.format
	} else {
		f, ok := integerMatrix(j.n, dx, dw)
		if !ok {
			return nil, property.Because(property.ShapeReason, "product of %v and %v", dx, dw)
		}
		rows, columns = f.rows, f.columns
		from, to, weights, bias = plain(rows, f.k), plain(rows, columns), anyOf([]int{f.k, columns}), plain(1, columns)
		scaled.operand = 1 << 1
		p.weights, p.decode = matrixWeights(f)
	}
	if summands := product(dw) / max(columns, 1); summands > math.MaxInt32/math.MaxUint8/max(j.weights.Most, 1) {
		return nil, property.Because(property.ShapeReason, "sums of %d products may not fit into 32 bits", summands)
	}
	if len(j.weights.Scales) != columns || j.bias != nil && len(j.bias) != columns {
		return nil, property.Because(property.ShapeReason, "%d scales and %d biases for %d outputs", len(j.weights.Scales), len(j.bias), columns)
	}
	from.dtype, weights.dtype, p.weights.dtype, to.dtype = dtypeOf(j.qx.dtype), dtypeS8, dtypeS8, dtype
	p.residual = to
	if j.residual != nil {
		p.residual.dtype = dtypeF32
		if !j.floatResidual {
			p.residual.dtype = dtypeOf(j.qr.dtype)
		}
	}
	unit, posts := j.epilogue(p.residual)
	if repeated(posts) {
		return nil, property.Because(property.Unsupported, "an activation that is no limit between two changes of unit")
	}
	if j.conv && !unpadded(c.window) {
		scaled.src, p.partly = int32(j.qx.zero), partlyPadded(c.window)
		if c.single && scaled.src != 0 && product(c.w[2:]) == miscounted {
			return nil, property.Because(property.Unsupported, "a padded zero point under windows of %d taps, one channel each", miscounted)
		}
	}
	// Version 2.6.3 packs some such weights (of 8 outputs in 4 or 8 groups, say) with wrong sums of their outputs, which signed and
	// padded integers need, and not every time.
	if j.conv && b.l.major == 2 && c.groups > 1 && c.w[1] > 1 && product(c.w[2:]) == 1 && (j.qx.dtype == tensor.Int8 || scaled.src != 0) {
		return nil, property.Because(property.Unsupported, "groups of channels under windows of one tap, of signed or padded integers")
	}
	scaled.factors = p.numbers(b, j, unit, scaled.src == 0)
	if p.bias == nil {
		bias = shape{}
	}
	if j.conv {
		p.recipe = b.l.convolution(convDirect, c.window, from, weights, bias, to, posts)
	} else {
		p.recipe = b.l.matmul(from, weights, bias, to, posts)
	}
	p.recipe.scaled = scaled
	return p, nil
}

// matrixWeights returns how a product's constant weights lie before they are packed, as [k, columns], and what reads the
// library's blocking of them back as a layout of the constant's own dims.
func matrixWeights(f productForm) (shape, func(b blocking) (graph.Layout, bool)) {
	w := shape{dims: []int{f.k, f.columns}, strides: []int{f.columns, 1}}
	if !f.transposed {
		w.strides = []int{1, f.k}
	}
	return w, func(b blocking) (graph.Layout, bool) {
		l, ok := b.layout()
		if ok && !f.transposed {
			return swapped(l, 2)
		}
		return l, ok
	}
}

// miscounted are the taps per channel for which the library subtracts a wrong share of a zero point from convolutions of
// single channels: in versions 2.6.3 and 3.2, on processors with AVX2 and not more, where weights lie in blocks of 8; windows
// of 1 to 64 other taps are right.
const miscounted = 8

// unpadded reports whether a window never leaves the image, so that a zero point is the same for every place.
func unpadded(w window) bool {
	positive := func(x int) bool { return x > 0 }
	return !slices.ContainsFunc(w.padL, positive) && !slices.ContainsFunc(w.padR, positive)
}

// partlyPadded reports whether a window that leaves the image stays within it along some dim.
func partlyPadded(w window) bool {
	for i := range w.padL {
		if w.padL[i] <= 0 && w.padR[i] <= 0 {
			return true
		}
	}
	return false
}

// numbers fills in biases and returns factors. A zero point that the library is not told of becomes a part of the bias.
func (p *integerPlan) numbers(b *mkl, j *integerJob, unit float64, folded bool) []float32 {
	n := len(j.weights.Scales)
	factors := numbers[float32](n)
	if j.bias != nil || folded && j.qx.zero != 0 {
		p.bias = numbers[float32](n)
	}
	for i, s := range j.weights.Scales {
		scale := float64(j.qx.scale) * float64(s) / unit
		factors[i] = float32(scale)
		if p.bias == nil {
			continue
		}
		x := 0.0
		if j.bias != nil {
			x = j.bias[i] / unit
		}
		if folded {
			x -= float64(j.qx.zero) * float64(j.weights.Sums[i]) * scale
		}
		p.bias[i] = b.l.biasOf(x, scale)
	}
	return factors
}

// integerMatrix returns the form of a matrix product.
func integerMatrix(n *graph.Node, a, b []int) (f productForm, ok bool) {
	if len(b) != 2 || len(a) < 1 {
		return f, false
	}
	f.transposed = !n.Is("Gemm") || n.Int("transB", 0) == 0
	f.k, f.columns = b[0], b[1]
	if !f.transposed {
		f.k, f.columns = b[1], b[0]
	}
	f.rows = product(a[:len(a)-1])
	return f, a[len(a)-1] == f.k && f.rows > 0 && f.k > 0 && f.columns > 0
}

// integerPorts returns the format of the job's image and result, and the name of the library's implementation.
func (b *mkl) integerPorts(j *integerJob) (s graph.Signature, why *property.Reason) {
	f := graph.HostFormat
	if j.conv {
		if f = channelsLast(len(j.x.Type.Shape)); f == graph.HostFormat {
			return s, property.Because(property.ShapeReason, "one to three spatial dims, found %v", j.x.Type)
		}
	}
	if j.conv && j.residual != nil && j.n.Int("group", 1) > 1 {
		return s, property.Because(property.Unsupported, "kernels of groups add the wrong elements of %v", j.residual)
	}
	p, why := b.integerPlan(j, operators.AssumedDims(j.x), operators.AssumedDims(j.w), operators.AssumedDims(j.out), f, f)
	if why != nil {
		return s, why
	}
	a := b.l.ask(b.answers, p.recipe)
	if why := refused(a); why != nil {
		return s, why
	}
	// Its kernels for AMX, in versions 2.6.3 and 3.2, then subtract a wrong share of the zero point: of wide images, or behind windows deeper than 1.
	if p.partly && p.recipe.scaled.src != 0 && strings.Contains(a.impl, "amx") {
		return s, property.Because(property.Unsupported, "a zero point padded in some dims alone, with AMX")
	}
	return graph.Signature{Name: a.impl, Inputs: []graph.Port{graph.Fixed(f)}, Outputs: []graph.Port{graph.Fixed(f)}}, nil
}

// integers emits a job: x, w, r and out are its operands, residual and result as the subgraph knows them.
func (p *planner) integers(j *integerJob, x, w, r, out *graph.Value) error {
	q, why := p.b.integerPlan(j, p.Dims[x.ID], p.Dims[w.ID], p.Dims[out.ID], x.Format, out.Format)
	if why != nil {
		return why
	}
	pr, err := p.make(q.recipe)
	if err != nil {
		return err
	}
	format, err := p.b.weightFormat(p.Dims[w.ID], q.weights, pr.weights, q.decode, pr.key)
	if err != nil {
		return err
	}
	weights, err := p.constant(w, format)
	if err != nil {
		return err
	}
	args, err := p.scalingArgs(q.recipe.scaled)
	args = append(args, arg{argSrc, p.In(x), pr.src, false}, arg{argWeights, weights, pr.weights, false})
	add := func(a arg, err2 error) {
		args = append(args, a)
		if err == nil {
			err = err2
		}
	}
	if q.bias != nil {
		d, err2 := p.desc(q.recipe.shapes[2])
		add(arg{argBias, data(p, q.bias), d, false}, err2)
	}
	if r != nil {
		d, err2 := p.desc(q.residual)
		add(arg{p.l.binaryArg(0), p.In(r), d, false}, err2)
	}
	if err != nil {
		return err
	}
	p.run(pr, append(args, arg{argDst, p.Out(out), pr.dst, true})...)
	return nil
}

// integerSignatures: image, residual and result in one format, everything else row-major.
func integerSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	l, err := b.parseIntegers(n)
	if err != nil {
		return nil, property.Because(property.Veto, "%v", err)
	}
	j := l.job()
	ports, why := b.integerPorts(j)
	if why != nil {
		return nil, why
	}
	s := graph.Signature{Name: ports.Name, Outputs: ports.Outputs}
	for _, v := range n.Regions[0].Graph.Inputs {
		port := graph.Fixed(graph.HostFormat)
		if v == j.x || v == j.residual {
			port = ports.Inputs[0]
		}
		s.Inputs = append(s.Inputs, port)
	}
	return []graph.Signature{s}, nil
}

func planIntegers(p *planner, n *graph.Node) error {
	l, err := p.b.parseIntegers(n)
	if err != nil {
		return err
	}
	j := l.job()
	return p.integers(j, fuse.Outer(n, j.x), fuse.Outer(n, l.dw.Inputs[0]), fuse.Outer(n, j.residual), n.Outputs[0])
}

func init() {
	table.Register(operators.Pattern(integerPattern), operator{Signatures: integerSignatures, Plan: planIntegers})
}
