package gradient

import (
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
)

// productRules are those of products of matrices and of convolutions.
var productRules = map[string]func(*step){
	"MatMul":        matMul,
	"Gemm":          gemm,
	"Einsum":        einsum,
	"Conv":          conv,
	"ConvTranspose": convTranspose,
}

func (b *builder) product(x, y *graph.Value) *graph.Value { return b.call("MatMul", nil, x, y) }

// matMul treats a vector as a matrix with one row in front, and with one column behind.
func matMul(s *step) {
	a, b, g := s.in(0), s.in(1), s.byOut()
	row, column := s.ints(-2), s.ints(-1)
	rowA, columnB := rank(a) == 1, rank(b) == 1
	if columnB {
		b, g = s.call("Unsqueeze", nil, b, column), s.call("Unsqueeze", nil, g, column)
	}
	if rowA {
		a, g = s.call("Unsqueeze", nil, a, row), s.call("Unsqueeze", nil, g, row)
	}
	if s.wants(0) {
		byA := s.product(g, s.turned(b))
		if rowA {
			byA = s.call("Squeeze", nil, byA, row)
		}
		s.give(0, byA)
	}
	if s.wants(1) {
		byB := s.product(s.turned(a), g)
		if columnB {
			byB = s.call("Squeeze", nil, byB, column)
		}
		s.give(1, byB)
	}
}

// gemm is alpha·A'·B' + beta·C.
func gemm(s *step) {
	a, b, g := s.in(0), s.in(1), s.scaled(s.byOut(), s.float("alpha", 1))
	transA, transB := s.n.Int("transA", 0), s.n.Int("transB", 0)
	product := func(x, y *graph.Value, transX, transY int64) *graph.Value {
		return s.call("Gemm", attrs(graph.IntAttr("transA", transX), graph.IntAttr("transB", transY)), x, y)
	}
	switch {
	case !s.wants(0):
	case transA != 0:
		s.give(0, product(b, g, transB, 1))
	default:
		s.give(0, product(g, b, 0, 1-transB))
	}
	switch {
	case !s.wants(1):
	case transB != 0:
		s.give(1, product(g, a, 1, transA))
	default:
		s.give(1, product(a, g, 1-transA, 0))
	}
	if s.wants(2) {
		s.give(2, s.scaled(s.byOut(), s.float("beta", 1)))
	}
}

// einsum is by an operand the Einsum of the result's derivative and of the other operands.
func einsum(s *step) {
	e, err := graph.ParseEinsum(s.n.Str("equation", ""))
	require(err == nil && len(e.Inputs) == len(s.n.Inputs), ErrNoRule, "the equation %q", s.n.Str("equation", ""))
	for i, term := range e.Inputs {
		if !s.wants(i) {
			continue
		}
		terms, operands := []string{e.Output.String()}, []*graph.Value{s.byOut()}
		for k, other := range e.Inputs {
			if k != i {
				terms, operands = append(terms, other.String()), append(operands, s.in(k))
			}
		}
		others, alone := strings.Join(terms, ""), false
		for _, label := range term.Before + term.After {
			require(strings.Count(term.String(), string(label)) == 1, ErrNoRule, "a diagonal in %q", term)
			alone = alone || !strings.ContainsRune(others, label)
		}
		require(term.Ellipsis || !strings.Contains(others, "."), ErrNoRule, "an ellipsis that %q lacks", term)
		if alone { // axes that are summed in the operand alone
			terms, operands = append(terms, term.String()), append(operands, s.filled(s.in(i), 1))
		}
		s.give(i, s.call("Einsum", attrs(graph.StringAttr("equation", strings.Join(terms, ",")+"->"+term.String())), operands...))
	}
}

// window is the geometry of a convolution, with the pads that apply. Where dims of its weights are not known its Kernel is nil.
type window struct {
	graph.Window
	axes       int
	begin, end []int
}

// window returns the geometry of a convolution of operand 0 with weights w.
func (s *step) window(w *graph.Value, transposed bool) window {
	out := window{axes: rank(w) - 2}
	require(out.axes > 0 && rank(s.in(0)) == out.axes+2, ErrShape, "a convolution without axes")
	kernel, known := w.Type.Shape[2:].Static()
	if !known {
		kernel = nil
	}
	var err error
	if out.Window, err = graph.ConvAttrs(s.n, kernel); err != nil {
		panic(fault{err})
	}
	out.Strides, out.Dilations = filled(out.Strides, 1, out.axes), filled(out.Dilations, 1, out.axes)
	out.begin, out.end = filled(out.Begin, 0, out.axes), filled(out.End, 0, out.axes)
	if out.AutoPad == graph.PadValid && out.OutputShape == nil {
		out.begin, out.end = filled(nil, 0, out.axes), filled(nil, 0, out.axes)
		return out
	}
	if out.AutoPad == graph.PadExplicit && out.OutputShape == nil {
		return out
	}
	input, open := s.in(0).Type.Shape[2:].Static()
	require(known && open, ErrShape, "pads that depend on open dims")
	if transposed {
		_, out.begin, out.end, err = out.ResolveTranspose(input)
	} else {
		_, out.begin, out.end, err = out.Resolve(input)
	}
	if err != nil {
		panic(fault{err})
	}
	return out
}

// filled returns list, or where it is empty, as many defaults.
func filled(list []int, def, count int) []int {
	if len(list) > 0 {
		return list
	}
	return slices.Repeat([]int{def}, count)
}

func (w *window) attrs(group int, more ...graph.Attr) []graph.Attr {
	return append(more, graph.IntAttr("group", int64(group)), graph.IntsAttr("strides", wide(w.Strides)...),
		graph.IntsAttr("dilations", wide(w.Dilations)...), graph.IntsAttr("pads", append(wide(w.begin), wide(w.end)...)...))
}

func conv(s *step) {
	x, w, g := s.in(0), s.in(1), s.byOut()
	if s.wants(2) {
		s.give(2, s.channelSums(g))
	}
	if !s.wants(0) && !s.wants(1) {
		return
	}
	win := s.window(w, false)
	if s.wants(0) {
		s.give(0, s.convByInput(g, w, win))
	}
	if s.wants(1) {
		s.give(1, s.convByWeights(x, g, w, win))
	}
}

// convTranspose is what a convolution of the result is by its input.
func convTranspose(s *step) {
	x, w, g := s.in(0), s.in(1), s.byOut()
	if s.wants(2) {
		s.give(2, s.channelSums(g))
	}
	if !s.wants(0) && !s.wants(1) {
		return
	}
	win := s.window(w, true)
	if s.wants(0) {
		by := s.call("Conv", win.attrs(win.Group), g, w)
		s.give(0, s.like(by, x))
	}
	if s.wants(1) {
		s.give(1, s.convByWeights(g, x, w, win))
	}
}

// channelSums sums [N, C, d…] over all but C.
func (b *builder) channelSums(g *graph.Value) *graph.Value {
	axes := append([]int{0}, series(2, rank(g))...)
	return b.call("ReduceSum", attrs(graph.IntAttr("keepdims", 0)), g, b.ints(wide(axes)...))
}

// convByInput returns the derivative of a convolution by its input. Elements at the end that no window reached are zero.
func (s *step) convByInput(g, w *graph.Value, win window) *graph.Value {
	x, y := s.in(0), s.out()
	missing, known := make([]int64, win.axes), win.Kernel != nil
	for i := range win.Kernel {
		full := y.Type.Shape[2+i].Sub(graph.D(1)).Scale(int64(win.Strides[i])).Add(graph.D(win.Extent(i) - win.begin[i] - win.end[i]))
		n, ok := x.Type.Shape[2+i].Sub(full).Const()
		missing[i], known = n, known && ok && n >= 0 && win.begin[i] >= 0 && win.end[i] >= 0
	}
	if known {
		return s.call("ConvTranspose", win.attrs(win.Group, graph.IntsAttr("output_padding", missing...)), g, w)
	}
	uncut := win
	uncut.begin, uncut.end = make([]int, win.axes), make([]int, win.axes)
	all := s.call("ConvTranspose", uncut.attrs(win.Group), g, w)
	begin := make([]int64, 2+win.axes)
	for i, p := range win.begin {
		begin[2+i] = -int64(p)
	}
	first := s.ints(begin...)
	last := s.minus(s.minus(s.shape(x), s.shape(all)), first)
	return s.like(s.call("Pad", nil, all, s.concat(0, first, last)), x)
}

// spatial returns the dims of x behind the first two, as a vector of int64.
func (b *builder) spatial(x *graph.Value) *graph.Value {
	return b.call("Slice", nil, b.shape(x), b.ints(2), b.ints(int64(rank(x))))
}

// convByWeights returns the derivative of a convolution of x by its weights w, given that by its result: the convolution of x, with samples as channels, by g.
// Windows step as the weights' elements are apart, and the other way around.
func (b *builder) convByWeights(x, g, w *graph.Value, win window) *graph.Value {
	axes, groups := win.axes, win.Group
	spatial := series(2, 2+axes)
	if groups == 1 {
		x = b.transpose(x, append([]int{1, 0}, spatial...))
	} else { // [N, G·C, d…] to [C, G·N, d…]
		parts := b.concat(0, b.dim(x, 0), b.ints(int64(groups), -1), b.spatial(x))
		apart := b.call("Reshape", nil, x, parts)
		apart = b.transpose(apart, append([]int{2, 1, 0}, series(3, 3+axes)...))
		together := b.concat(0, b.dim(w, 1), b.ints(-1), b.spatial(x))
		x = b.call("Reshape", nil, apart, together)
	}
	swapped := win
	swapped.Strides, swapped.Dilations = win.Dilations, win.Strides
	by := b.call("Conv", swapped.attrs(groups), x, b.transpose(g, append([]int{1, 0}, spatial...)))
	by = b.transpose(by, append([]int{1, 0}, spatial...))
	by = b.call("Slice", nil, by, b.ints(make([]int64, axes)...), b.spatial(w), b.ints(wide(spatial)...))
	return b.like(by, w)
}

// poolDefinitions are those of poolings: windows of the mean as a convolution with ones, and maxima as what is gathered at their places.
var poolDefinitions = map[string]func(*step) []*graph.Value{
	"AveragePool":       averagePool,
	"MaxPool":           maxPool,
	"GlobalAveragePool": func(s *step) []*graph.Value { return one(s.reduce("ReduceMean", s.in(0), series(2, rank(s.in(0)))...)) },
	"GlobalMaxPool":     func(s *step) []*graph.Value { return one(s.reduce("ReduceMax", s.in(0), series(2, rank(s.in(0)))...)) },
}

func averagePool(s *step) []*graph.Value {
	x := s.in(0)
	require(s.n.Int("ceil_mode", 0) == 0, ErrNoRule, "ceil_mode")
	kernel, _ := s.n.Ints("kernel_shape")
	sizes := append([]int64{1, 1}, kernel...)
	ones := s.call("Expand", nil, s.number(x, 1), s.ints(sizes...))
	as := attrs()
	for _, a := range s.n.Attrs {
		if a.Name != "count_include_pad" && a.Name != "ceil_mode" && a.Name != "storage_order" {
			as = append(as, a)
		}
	}
	pool := func(x *graph.Value) *graph.Value { return s.call("Conv", as, x, ones) }
	planes := s.call("Reshape", nil, x, s.concat(0, s.ints(-1, 1), s.spatial(x))) // channels are samples
	count := s.number(x, float64(product(narrow(kernel))))
	if s.n.Int("count_include_pad", 0) == 0 {
		count = pool(s.call("Expand", nil, s.number(x, 1), s.concat(0, s.ints(1, 1), s.spatial(x))))
	}
	return one(s.reshape(s.over(pool(planes), count), s.shape(s.out())))
}

func narrow(list []int64) []int {
	out := make([]int, len(list))
	for i, x := range list {
		out[i] = int(x)
	}
	return out
}

func maxPool(s *step) []*graph.Value {
	require(s.n.Int("storage_order", 0) == 0, ErrNoRule, "places by columns")
	places := s.n.Output(1)
	if places == nil {
		places = s.calls("MaxPool", 2, s.n.Attrs, s.in(0))[1]
	}
	return one(s.call("Gather", nil, s.flat(s.in(0)), places))
}
