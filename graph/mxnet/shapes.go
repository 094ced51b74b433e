package mxnet

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// shapeOperators move elements and give tensors other shapes.
func shapeOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(flatten), "Flatten", "flatten", "_npx_batch_flatten")
	named(table, single(reshapeLegacy), "Reshape", "reshape")
	named(table, single(reshapeExtended), "_npx_reshape")
	named(table, single(reshapePlain), "_npi_reshape", "_np_reshape")
	named(table, single(reshapeLike), "reshape_like", "_npx_reshape_like")
	named(table, single(transposeAll), "transpose", "_np_transpose", "_npi_transpose")
	named(table, single(swapAxes), "SwapAxis", "swapaxes", "_npi_swapaxes")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		axis := o.required("axis")
		return o.unsqueeze(o.input(0), o.axisOf(axis, o.rank(o.input(0))+1))
	}), "expand_dims", "_npi_expand_dims")
	named(table, single(squeezeAxes), "squeeze", "_np_squeeze", "_npi_squeeze")
	named(table, single(concatAll), "Concat", "concat", "_rnn_param_concat", "_npi_concatenate", "_npi_rnn_param_concat")
	named(table, single(stack), "stack", "_npi_stack")
	named(table, operator{do: sliceChannel}, "SliceChannel", "split")
	named(table, operator{do: splitParts}, "_split_v2", "_npi_split", "_npi_array_split", "_npi_hsplit", "_npi_dsplit")
	named(table, single(sliceRanges), "slice", "crop", "_npi_slice", "_npx_slice")
	named(table, single(sliceAxis), "slice_axis")
	named(table, single(sliceLike), "slice_like")
	named(table, single(cropImage), "Crop")
	named(table, single(padding), "Pad", "pad")
	named(table, single(tile), "tile", "_npi_tile")
	named(table, single(repeat), "repeat", "_np_repeat", "_npi_repeats")
	named(table, single(reverse), "reverse", "flip", "_npi_flip")
	named(table, single(broadcastAxis), "broadcast_axis", "broadcast_axes")
	named(table, single(broadcastTo), "broadcast_to", "_npi_broadcast_to", "_np_broadcast_to")
	named(table, single(broadcastLike), "broadcast_like")
	named(table, single(depthToSpace), "depth_to_space", "space_to_depth")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		return o.call("Shape", nil, o.input(0))
	}), "shape_array", "_npx_shape_array")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		return o.unsqueeze(o.call("Size", nil, o.input(0)), 0)
	}), "size_array")
	return table
}

func flatten(o *op) *graph.Value {
	o.inputs(1, 1)
	return o.call("Flatten", nil, o.input(0))
}

// reshapeLegacy knows the codes 0 (as it is), -1 (the rest), -2 (all that follow), -3 (two made one) and -4 (one made two),
// which count from the end where reverse is set.
func reshapeLegacy(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	codes, ok := o.list("shape")
	keep := o.flag("keep_highest", false)
	reversed := o.flag("reverse", false)
	if old, has := o.list("target_shape"); has && (!ok || len(codes) == 0) && len(old) > 0 {
		list := make([]extent, len(old)) // before 0.9: 0 is the rest
		for i, n := range old {
			if list[i] = fixed(n); n == 0 {
				list[i] = rest
			}
		}
		if keep {
			list[0] = o.dim(x, 0)
		}
		return o.reshape(x, list...)
	}
	if !ok || len(codes) == 0 {
		o.fail(ErrAttribute, "shape is missing")
	}
	simple := !reversed
	for _, c := range codes {
		simple = simple && c >= -1
		o.require(c >= -4, "code %d", c)
	}
	if simple && x.Type.Shape == nil {
		list := make([]extent, len(codes))
		for i, c := range codes {
			list[i] = fixed(c)
		}
		return o.call("Reshape", nil, x, o.vector(list...))
	}
	src := o.dims(x)
	if reversed {
		slices.Reverse(src)
		slices.Reverse(codes)
	}
	out := o.codes(src, codes)
	if reversed {
		slices.Reverse(out)
	}
	return o.reshape(x, out...)
}

// reshaping reads the dims that are left of a tensor, by codes of a reshape.
type reshaping struct {
	o     *op
	left  []extent
	codes []int
}

// next takes a dim, which must be there.
func (r *reshaping) next() extent {
	r.o.require(len(r.left) > 0, "the codes %v ask for more dims than there are", r.codes)
	e := r.left[0]
	r.left = r.left[1:]
	return e
}

// skip takes a dim where there is one.
func (r *reshaping) skip() { r.left = r.left[min(1, len(r.left)):] }

// all takes the dims that are left.
func (r *reshaping) all() []extent {
	out := r.left
	r.left = nil
	return out
}

// split takes a dim and makes two of it, as the two numbers behind the code at k say.
func (r *reshaping) split(k int) []extent {
	r.o.require(k+2 < len(r.codes), "two numbers are expected behind %d", r.codes[k])
	return r.o.halves(r.next(), r.codes[k+1], r.codes[k+2])
}

// codes applies the codes of the legacy reshape to dims.
func (o *op) codes(src []extent, codes []int) (out []extent) {
	r := &reshaping{o, src, codes}
	for k := 0; k < len(codes); k++ {
		switch c := codes[k]; c {
		case 0:
			out = append(out, r.next())
		case -1:
			r.skip()
			out = append(out, rest)
		case -2:
			out = append(out, r.all()...)
		case -3:
			out = append(out, o.mul(r.next(), r.next()))
		case -4:
			out = append(out, r.split(k)...)
			k += 2
		default:
			r.skip()
			out = append(out, fixed(c))
		}
	}
	return out
}

// halves splits a dim in two, of which one may be -1.
func (o *op) halves(d extent, a, b int) []extent {
	o.require(a != 0 && b != 0 && a >= -1 && b >= -1 && (a > 0 || b > 0), "a dim cannot be split into %d and %d", a, b)
	switch {
	case a == -1:
		return []extent{o.div(d, fixed(b)), fixed(b)}
	case b == -1:
		return []extent{fixed(a), o.div(d, fixed(a))}
	}
	return []extent{fixed(a), fixed(b)}
}

func reshapeExtended(o *op) *graph.Value {
	o.inputs(1, 1)
	return o.reshapedByCodes(o.input(0))
}

// reshapedByCodes knows the codes -1 (the rest), -2 (as it is), -3 (a dim of 1 left out), -4 (all that follow), -5 (two made
// one) and -6 (one made two).
func (o *op) reshapedByCodes(x *graph.Value) *graph.Value {
	o.ignore("order")
	codes, ok := o.list("newshape")
	if !ok {
		o.fail(ErrAttribute, "newshape is missing")
	}
	reversed := o.flag("reverse", false)
	src := o.dims(x)
	if reversed {
		slices.Reverse(src)
		slices.Reverse(codes)
	}
	r := &reshaping{o, src, codes}
	var out []extent
	for k := 0; k < len(codes); k++ {
		switch c := codes[k]; c {
		case -1:
			r.skip()
			out = append(out, rest)
		case -2:
			out = append(out, r.next())
		case -3:
			e := r.next()
			o.require(e.v != nil || e.n == 1, "a dim of %d is left out", e.n)
		case -4:
			out = append(out, r.all()...)
		case -5:
			out = append(out, o.mul(r.next(), r.next()))
		case -6:
			out = append(out, r.split(k)...)
			k += 2
		default:
			o.require(c >= 0, "code %d", c)
			r.skip()
			out = append(out, fixed(c))
		}
	}
	if reversed {
		slices.Reverse(out)
	}
	return o.reshape(x, out...)
}

func reshapePlain(o *op) *graph.Value {
	o.inputs(1, 1)
	o.text("order", "C", "C")
	o.ignore("reverse")
	shape, ok := o.list("newshape")
	if !ok {
		shape, ok = o.list("shape")
	}
	if !ok {
		o.fail(ErrAttribute, "newshape is missing")
	}
	list := make([]extent, len(shape))
	for i, n := range shape {
		o.require(n >= -1, "a dim of %d", n)
		list[i] = fixed(n)
	}
	return o.reshape(o.input(0), list...)
}

// reshapeLike replaces the dims [lhs_begin, lhs_end) by those [rhs_begin, rhs_end) of the other operand.
func reshapeLike(o *op) *graph.Value {
	o.inputs(2, 2)
	x, y := o.input(0), o.input(1)
	bounds := func(begin, end string, rank int) (lo, hi int) {
		lo, hi = o.integer(begin, 0), rank
		if n, ok := o.optional(end); ok {
			hi = n
		}
		if lo < 0 {
			lo += rank
		}
		if hi < 0 {
			hi += rank
		}
		o.require(lo >= 0 && lo <= hi && hi <= rank, "dims from %d to %d of %d", lo, hi, rank)
		return lo, hi
	}
	la, lb := bounds("lhs_begin", "lhs_end", o.rank(x))
	ra, rb := bounds("rhs_begin", "rhs_end", o.rank(y))
	dx, dy := o.dims(x), o.dims(y)
	return o.reshape(x, slices.Concat(dx[:la], dy[ra:rb], dx[lb:])...)
}

func transposeAll(o *op) *graph.Value {
	o.inputs(1, 1)
	return o.permuted(o.input(0))
}

// permuted gives the axes of x the order that the attribute axes says, or turns it.
func (o *op) permuted(x *graph.Value) *graph.Value {
	axes, _ := o.list("axes")
	if len(axes) == 0 {
		return o.call("Transpose", nil, x)
	}
	if slices.ContainsFunc(axes, func(a int) bool { return a < 0 }) {
		for i := range axes {
			axes[i] = o.axisOf(axes[i], len(axes))
		}
	}
	return o.call("Transpose", attrs(intsAttr("perm", axes)), x)
}

func swapAxes(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	rank := o.rank(x)
	a, b := o.axisOf(o.integer("dim1", 0), rank), o.axisOf(o.integer("dim2", 0), rank)
	return o.swapped(x, a, b)
}

func squeezeAxes(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	axes, ok := o.list("axis")
	if !ok {
		for i := range o.rank(x) {
			if o.static(x, i) == 1 {
				axes = append(axes, i)
			}
		}
	}
	for i := range axes {
		axes[i] = o.axisOf(axes[i], o.rank(x))
	}
	slices.Sort(axes)
	axes = slices.Compact(axes)
	if !o.scalarResult() && len(axes) == o.rank(x) {
		axes = axes[:max(len(axes)-1, 0)] // something is left
	}
	if len(axes) == 0 {
		return x
	}
	return o.squeeze(x, axes...)
}

func concatAll(o *op) *graph.Value {
	o.ignore("num_args")
	o.inputs(1, 1<<16)
	var axis int
	xs := slices.Clone(o.in)
	key, def := "dim", 1
	if _, has := o.n.Attr("dim"); o.kind == "_npi_concatenate" && !has {
		key, def = "axis", 0
	}
	switch o.kind {
	case "_rnn_param_concat", "_npi_rnn_param_concat":
		if axis = o.integer("dim", 1); axis == 0 {
			if joined := o.joined(xs); joined != nil {
				return joined
			}
		}
	default:
		axis = o.integer(key, def)
		if text, has := o.n.Attr(key); has && text == "None" { // all elements behind each other
			axis = 0
			for i := range xs {
				xs[i] = o.reshape(xs[i], rest)
			}
		}
	}
	for i := 1; i < len(xs); i++ {
		_, xs[i] = o.unified(xs[0], xs[i])
	}
	return o.concat(axis, xs...)
}

// joined returns constant vectors behind each other as a constant, nil where there are others among them.
func (o *op) joined(xs []*graph.Value) *graph.Value {
	bytes, n := 0, 0
	for _, x := range xs {
		if x.Const == nil || len(x.Const.Shape) != 1 || x.Const.DType != xs[0].Const.DType {
			return nil
		}
		bytes += len(x.Const.Bytes())
		n += x.Const.Len()
	}
	o.made(bytes)
	t, err := tensor.New(xs[0].Const.DType, n)
	if err != nil {
		o.fail(ErrTooLarge, "%v", err)
	}
	at := 0
	for _, x := range xs {
		at += copy(t.Data[at:], x.Const.Bytes())
	}
	return o.constant(t)
}

func stack(o *op) *graph.Value {
	o.ignore("num_args")
	o.inputs(1, 1<<16)
	axis := o.axisOf(o.integer("axis", 0), o.rank(o.input(0))+1)
	parts := make([]*graph.Value, len(o.in))
	for i, x := range o.in {
		parts[i] = o.unsqueeze(x, axis)
	}
	return o.concat(axis, parts...)
}

// maxParts bounds the pieces that an operator cuts.
const maxParts = 1 << 12

func sliceChannel(o *op) []*graph.Value {
	o.inputs(1, 1)
	n, axis, squeeze := o.required("num_outputs"), o.integer("axis", 1), o.flag("squeeze_axis", false)
	return o.equalParts(o.input(0), n, axis, squeeze, false)
}

// equalParts cuts an axis into n pieces of one size, which uneven lets differ by one element, the longer ones first.
func (o *op) equalParts(x *graph.Value, n, axis int, squeeze, uneven bool) []*graph.Value {
	o.require(n > 0 && n <= maxParts, "%d pieces", n)
	if s := x.Type.Shape; s != nil {
		axis = o.axisOf(axis, len(s))
		if d, ok := s[axis].Const(); ok && d%int64(n) != 0 {
			o.require(uneven && !squeeze, "%d elements in %d pieces", d, n)
			sizes := slices.Repeat([]int64{d / int64(n)}, n)
			for i := range d % int64(n) {
				sizes[i]++
			}
			return slices.Clone(o.calls("", "Split", n, attrs(graph.IntAttr("axis", int64(axis))), x, o.ints(sizes...)))
		}
	}
	out := []*graph.Value{x}
	if n > 1 {
		out = o.calls("", "Split", n, attrs(graph.IntAttr("axis", int64(axis)), graph.IntAttr("num_outputs", int64(n))), x)
		out = slices.Clone(out)
	}
	if squeeze {
		for i := range out {
			out[i] = o.squeeze(out[i], axis)
		}
	}
	return out
}

// splitParts cuts an axis into sections of one size, nearly where that cannot be, or where indices say; the first of these is where the first piece begins.
func splitParts(o *op) []*graph.Value {
	o.inputs(1, 1)
	indices, _ := o.list("indices")
	axis, sections, squeeze := o.integer("axis", 1), o.integer("sections", 0), o.flag("squeeze_axis", false)
	x := o.input(0)
	if sections > 0 {
		return o.equalParts(x, sections, axis, squeeze, true)
	}
	o.require(len(indices) > 0 && len(indices) <= maxParts, "%d pieces", len(indices))
	axis = o.axisOf(axis, o.rank(x))
	out := make([]*graph.Value, len(indices))
	for i, begin := range indices {
		end := toEnd
		if i+1 < len(indices) {
			end = indices[i+1]
		}
		if out[i] = o.slice(x, axis, begin, end); squeeze {
			out[i] = o.squeeze(out[i], axis)
		}
	}
	return out
}

// sliceRanges takes from begin to end by step along the first axes; None stands for the end in the direction of the step.
func sliceRanges(o *op) *graph.Value {
	o.inputs(1, 1)
	return o.ranges(o.input(0))
}

// ranges takes the part of x that the attributes begin, end and step name.
func (o *op) ranges(x *graph.Value) *graph.Value {
	begin, ok1 := o.list("begin")
	end, ok2 := o.list("end")
	step, _ := o.list("step")
	if !ok1 || !ok2 || len(begin) != len(end) || len(begin) == 0 || len(step) != 0 && len(step) != len(begin) {
		o.fail(ErrAttribute, "begin, end and step have %d, %d and %d numbers", len(begin), len(end), len(step))
	}
	var starts, ends, axes, steps []int64
	for i := range begin {
		by := 1
		if len(step) > 0 && step[i] != none {
			by = step[i]
		}
		o.require(by != 0, "a step of 0")
		lo, hi := int64(begin[i]), int64(end[i])
		if begin[i] == none {
			if lo = 0; by < 0 {
				lo = math.MaxInt32
			}
		}
		if end[i] == none {
			if hi = math.MaxInt32; by < 0 {
				hi = math.MinInt32
			}
		}
		starts, ends, axes, steps = append(starts, lo), append(ends, hi), append(axes, int64(i)), append(steps, int64(by))
	}
	return o.call("Slice", nil, x, o.ints(starts...), o.ints(ends...), o.ints(axes...), o.ints(steps...))
}

func sliceAxis(o *op) *graph.Value {
	o.inputs(1, 1)
	axis, begin := o.required("axis"), o.required("begin")
	end, ok := o.optional("end")
	if !ok {
		end = toEnd
	}
	return o.slice(o.input(0), axis, begin, end)
}

func sliceLike(o *op) *graph.Value {
	o.inputs(2, 2)
	x, y := o.input(0), o.input(1)
	axes, _ := o.list("axes")
	if len(axes) == 0 {
		o.require(o.rank(x) == o.rank(y), "ranks %d and %d", o.rank(x), o.rank(y))
		axes = axesFrom(0, o.rank(x))
	}
	var starts, over []int64
	var ends []extent
	for _, a := range axes {
		starts, over = append(starts, 0), append(over, int64(o.axisOf(a, o.rank(x))))
		ends = append(ends, o.dim(y, o.axisOf(a, o.rank(y))))
	}
	return o.call("Slice", nil, x, o.ints(starts...), o.vector(ends...), o.ints(over...))
}

// cropImage cuts height and width to those of the second operand, or of h_w.
func cropImage(o *op) *graph.Value {
	o.ignore("num_args")
	o.inputs(1, 2)
	x := o.input(0)
	offset, size, center := o.tuple("offset", 2, 0, 0), o.tuple("h_w", 2, 0, 0), o.flag("center_crop", false)
	o.require(o.rank(x) == 4, "rank %d", o.rank(x))
	var starts, ends []extent
	for i := range 2 {
		want := fixed(size[i])
		if len(o.in) == 2 {
			o.require(o.rank(o.input(1)) == 4, "rank %d", o.rank(o.input(1)))
			want = o.dim(o.input(1), i+2)
		}
		from := fixed(offset[i])
		if center {
			from = o.div(o.sub(o.dim(x, i+2), want), fixed(2))
		}
		starts = append(starts, from)
		ends = append(ends, o.arith("Add", func(a, b int64) int64 { return a + b }, from, want))
	}
	return o.call("Slice", nil, x, o.vector(starts...), o.vector(ends...), o.ints(2, 3))
}

func padding(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	mode := o.text("mode", "constant", "constant", "edge", "reflect")
	width, ok := o.list("pad_width")
	if !ok || len(width)%2 != 0 {
		o.fail(ErrAttribute, "pad_width has %d numbers", len(width))
	}
	v := o.number("constant_value", 0)
	return o.padded(x, mode, v, width)
}

// padded adds so many elements before and behind along every axis.
func (o *op) padded(x *graph.Value, mode string, v float64, width []int) *graph.Value {
	n := len(width) / 2
	pads := make([]int64, 2*n)
	for i := range n {
		o.require(width[2*i] >= 0 && width[2*i+1] >= 0, "padding of %d and %d", width[2*i], width[2*i+1])
		pads[i], pads[n+i] = int64(width[2*i]), int64(width[2*i+1])
	}
	if mode != "constant" {
		return o.call("Pad", attrs(graph.StringAttr("mode", mode)), x, o.ints(pads...))
	}
	return o.call("Pad", nil, x, o.ints(pads...), o.like(x, v))
}

func tile(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	reps, ok := o.list("reps")
	if !ok {
		o.fail(ErrAttribute, "reps is missing")
	}
	for _, r := range reps {
		o.require(r >= 0, "a repeat of %d", r)
	}
	if more := len(reps) - o.rank(x); more > 0 {
		axes := make([]int, more)
		for i := range axes {
			axes[i] = i
		}
		x = o.unsqueeze(x, axes...)
	}
	for len(reps) < o.rank(x) {
		reps = append([]int{1}, reps...)
	}
	return o.call("Tile", nil, x, o.ints(ints64(reps)...))
}

// repeat repeats every element along an axis, or of all where there is none, each as often as the others or so often as its number
// in a list says.
func repeat(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	list, _ := o.list("repeats")
	o.require(len(list) > 0, "repeats is missing")
	axis, ok := o.optional("axis")
	if !ok {
		x, axis = o.reshape(x, rest), 0
	}
	rank := o.rank(x)
	axis = o.axisOf(axis, rank)
	if len(list) > 1 {
		o.require(len(list) == o.static(x, axis), "%d repeats of %d elements", len(list), o.static(x, axis))
		var places []int64
		for i, n := range list {
			o.require(n >= 0 && n <= maxRange-len(places), "%d repeats", n)
			places = append(places, slices.Repeat([]int64{int64(i)}, n)...)
		}
		return o.call("Gather", attrs(graph.IntAttr("axis", int64(axis))), x, o.ints(places...))
	}
	n := list[0]
	o.require(n >= 1, "%d repeats", n)
	reps := slices.Repeat([]int64{1}, rank+1)
	reps[axis+1] = int64(n)
	dims := o.dims(x)
	dims[axis] = o.mul(dims[axis], fixed(n))
	return o.reshape(o.call("Tile", nil, o.unsqueeze(x, axis+1), o.ints(reps...)), dims...)
}

// reversed turns the order along axes.
func (o *op) reversed(x *graph.Value, axes ...int) *graph.Value {
	var starts, ends, over, steps []int64
	for _, a := range axes {
		starts, ends, over, steps = append(starts, -1), append(ends, math.MinInt32), append(over, int64(a)), append(steps, -1)
	}
	return o.call("Slice", nil, x, o.ints(starts...), o.ints(ends...), o.ints(over...), o.ints(steps...))
}

func reverse(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	axes, ok := o.list("axis")
	if !ok {
		o.require(o.numpyName(), "axis is missing")
		axes = axesFrom(0, o.rank(x))
	}
	return o.reversed(x, axes...)
}

func (o *op) expand(x *graph.Value, dims []extent) *graph.Value {
	return o.call("Expand", nil, x, o.vector(dims...))
}

func broadcastAxis(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	axes, _ := o.list("axis")
	sizes, _ := o.list("size")
	o.require(len(axes) == len(sizes), "%d axes and %d sizes", len(axes), len(sizes))
	dims := o.dims(x)
	for i, a := range axes {
		o.require(sizes[i] >= 0, "a size of %d", sizes[i])
		dims[o.axisOf(a, len(dims))] = fixed(sizes[i])
	}
	return o.expand(x, dims)
}

// broadcastTo broadcasts to a shape in which 0 stands for the operand's dim; under NumPy's names -1 does, or -2.
func broadcastTo(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	shape, ok := o.list("shape")
	if !ok {
		o.fail(ErrAttribute, "shape is missing")
	}
	dims := make([]extent, len(shape))
	for i, n := range shape {
		o.require(n >= -2, "a dim of %d", n)
		dims[i] = fixed(n)
		if n < 0 || n == 0 && !o.numpyName() {
			k := i - (len(shape) - o.rank(x))
			o.require(k >= 0, "no dim for the entry %d of shape", i)
			dims[i] = o.dim(x, k)
		}
	}
	return o.expand(x, dims)
}

func broadcastLike(o *op) *graph.Value {
	o.inputs(2, 2)
	x, y := o.input(0), o.input(1)
	la, ok1 := o.list("lhs_axes")
	ra, ok2 := o.list("rhs_axes")
	if !ok1 && !ok2 {
		return o.call("Expand", nil, x, o.call("Shape", nil, y))
	}
	o.require(len(la) == len(ra), "%d and %d axes", len(la), len(ra))
	dims := o.dims(x)
	for i := range la {
		dims[o.axisOf(la[i], len(dims))] = o.dim(y, o.axisOf(ra[i], o.rank(y)))
	}
	return o.expand(x, dims)
}

func depthToSpace(o *op) *graph.Value {
	o.inputs(1, 1)
	name := "DepthToSpace"
	if o.kind == "space_to_depth" {
		name = "SpaceToDepth"
	}
	return o.call(name, attrs(graph.IntAttr("blocksize", int64(o.required("block_size")))), o.input(0))
}
