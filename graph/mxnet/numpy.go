package mxnet

import (
	"math"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// numpyOperators follow NumPy's functions, and take parts of tensors or put them in place.
func numpyOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(around), "_npi_around")
	named(table, unary(func(o *op, x *graph.Value) *graph.Value { return o.infinite(x, true) }), "_npi_isposinf")
	named(table, unary(func(o *op, x *graph.Value) *graph.Value { return o.infinite(x, false) }), "_npi_isneginf")
	named(table, unary(func(o *op, x *graph.Value) *graph.Value { return o.call("BitwiseNot", nil, x) }), "_npi_bitwise_not")
	named(table, single(nanToNum), "_npi_nan_to_num")
	for i, name := range []string{"_np_atleast_1d", "_np_atleast_2d", "_np_atleast_3d"} {
		named(table, operator{do: func(o *op) []*graph.Value { return o.atLeast(i + 1) }}, name)
	}
	named(table, single(roll), "_np_roll")
	named(table, single(rotate), "_npi_rot90")
	named(table, single(difference), "_npi_diff")
	named(table, single(tensordotAxes), "_npi_tensordot")
	named(table, single(polynomial), "_npi_polyval")
	named(table, single(padNested), "_npi_pad")
	named(table, single(indices), "_npi_indices")
	named(table, single(logspace), "_npi_logspace")
	for name, c := range map[string][3]float64{"_npi_hanning": {0.5, 0.5, 0}, "_npi_hamming": {0.54, 0.46, 0}, "_npi_blackman": {0.42, 0.5, 0.08}} {
		named(table, single(func(o *op) *graph.Value { return o.cosines(c) }), name)
	}
	named(table, single(func(o *op) *graph.Value {
		o.ignore("dim")
		return o.concat(2, o.atLeast(3)...)
	}), "_npi_dstack")
	named(table, single(func(o *op) *graph.Value { return o.stacked(0) }), "_npi_vstack", "_np_vstack")
	named(table, single(func(o *op) *graph.Value { return o.stacked(1) }), "_npi_hstack", "_np_hstack")
	named(table, single(columnStack), "_npi_column_stack")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		x, y := o.requiredNumber("x"), o.requiredNumber("y")
		return o.call("Where", nil, o.truth(o.input(0)), o.scalar(tensor.Float32, x), o.scalar(tensor.Float32, y))
	}), "_npi_where_scalar2")
	named(table, single(maskAssign), "_npi_boolean_mask_assign_scalar")
	named(table, single(sliceAssign), "_slice_assign", "_crop_assign", "_npi_slice_assign", "_slice_assign_scalar", "_crop_assign_scalar", "_npi_slice_assign_scalar")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(3, 3)
		o.list("shape")
		return o.call("ScatterND", nil, o.input(0), o.lastIndex(o.input(2)), o.input(1))
	}), "_scatter_set_nd", "_npi_scatter_set_nd")
	return table
}

// around rounds to decimals, halves to the even digit.
func around(o *op) *graph.Value {
	o.inputs(1, 1)
	x, digits := o.input(0), o.integer("decimals", 0)
	o.require(digits >= -30 && digits <= 30, "%d decimals", digits)
	if !o.typeOf(x).IsFloat() || digits == 0 {
		if o.typeOf(x).IsFloat() {
			return o.call("Round", nil, x)
		}
		return x
	}
	scale := math.Pow10(digits)
	return o.inFull(func(xs ...*graph.Value) *graph.Value {
		return o.times(o.call("Round", nil, o.times(xs[0], scale)), 1/scale)
	}, x)
}

func (o *op) infinite(x *graph.Value, positive bool) *graph.Value {
	if !o.typeOf(x).IsFloat() {
		return o.fill(x, tensor.Bool, 0)
	}
	return o.call("IsInf", attrs(flagAttr("detect_positive", positive), flagAttr("detect_negative", !positive)), x)
}

// nanToNum replaces what is no number, and infinities; these by the largest numbers where the attributes say nothing.
func nanToNum(o *op) *graph.Value {
	o.inputs(1, 1)
	o.ignore("copy")
	x := o.input(0)
	nan, most := o.number("nan", 0), math.MaxFloat32
	switch o.typeOf(x) {
	case tensor.Float64:
		most = math.MaxFloat64
	case tensor.Float16:
		most = 65504
	}
	hi, lo := o.number("posinf", most), o.number("neginf", -most)
	if !o.typeOf(x).IsFloat() {
		return x
	}
	y := o.call("Where", nil, o.call("IsNaN", nil, x), o.like(x, nan), x)
	y = o.call("Where", nil, o.infinite(x, true), o.like(x, hi), y)
	return o.call("Where", nil, o.infinite(x, false), o.like(x, lo), y)
}

// atLeast gives each operand so many dims.
func (o *op) atLeast(n int) []*graph.Value {
	o.ignore("num_args")
	o.inputs(1, maxParts)
	out := slices.Clone(o.in)
	for i, x := range out {
		switch rank := o.rank(x); {
		case rank == 0:
			out[i] = o.unsqueeze(x, []int{0, 1, 2}[:n]...)
		case rank == 1 && n == 2:
			out[i] = o.unsqueeze(x, 0)
		case rank == 1 && n == 3:
			out[i] = o.unsqueeze(x, 0, 2)
		case rank == 2 && n == 3:
			out[i] = o.unsqueeze(x, 2)
		}
	}
	return out
}

// roll moves elements along axes, or along all elements; what leaves at the end comes in at the beginning.
func roll(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	by, ok := o.list("shift")
	o.require(ok && len(by) > 0, "shift is missing")
	axes, along := o.list("axis")
	if !along {
		o.require(len(by) == 1, "%d shifts of all elements", len(by))
		return o.reshape(o.rolled(o.reshape(x, rest), 0, by[0]), o.dims(x)...)
	}
	if len(by) == 1 {
		by = slices.Repeat(by, len(axes))
	}
	o.require(len(by) == len(axes), "%d shifts of %d axes", len(by), len(axes))
	for i, a := range axes {
		x = o.rolled(x, o.axisOf(a, o.rank(x)), by[i])
	}
	return x
}

func (o *op) rolled(x *graph.Value, axis, by int) *graph.Value {
	n := o.static(x, axis)
	if n == 0 {
		return x
	}
	if by = ((by % n) + n) % n; by == 0 {
		return x
	}
	return o.concat(axis, o.slice(x, axis, n-by, toEnd), o.slice(x, axis, 0, n-by))
}

// rotate turns by right angles in the plane of two axes.
func rotate(o *op) *graph.Value {
	o.inputs(1, 1)
	x, k := o.input(0), o.integer("k", 1)
	axes, ok := o.list("axes")
	if !ok {
		axes = []int{0, 1}
	}
	o.require(len(axes) == 2, "%d axes", len(axes))
	a, b := o.axisOf(axes[0], o.rank(x)), o.axisOf(axes[1], o.rank(x))
	o.require(a != b, "axes %d and %d", a, b)
	switch ((k % 4) + 4) % 4 {
	case 1:
		return o.swapped(o.reversed(x, b), a, b)
	case 2:
		return o.reversed(x, a, b)
	case 3:
		return o.reversed(o.swapped(x, a, b), b)
	}
	return x
}

// difference subtracts neighbours along an axis, n times.
func difference(o *op) *graph.Value {
	o.inputs(1, 1)
	x, n := o.input(0), o.integer("n", 1)
	axis := o.axisOf(o.integer("axis", -1), o.rank(x))
	o.require(n >= 0 && n <= maxParts, "%d times", n)
	for range n {
		x = o.call("Sub", nil, o.slice(x, axis, 1, toEnd), o.slice(x, axis, 0, -1))
	}
	return x
}

// tensordotAxes sums over pairs of axes.
func tensordotAxes(o *op) *graph.Value {
	o.inputs(2, 2)
	a, b := o.input(0), o.input(1)
	first, _ := o.list("a_axes_summed")
	second, _ := o.list("b_axes_summed")
	o.require(len(first) == len(second), "%d and %d axes", len(first), len(second))
	order := func(x *graph.Value, axes []int, last bool) *graph.Value {
		var kept []int
		for i := range axes {
			axes[i] = o.axisOf(axes[i], o.rank(x))
			o.require(!slices.Contains(axes[:i], axes[i]), "an axis twice")
		}
		for i := range o.rank(x) {
			if !slices.Contains(axes, i) {
				kept = append(kept, i)
			}
		}
		if last {
			return o.transpose(x, append(kept, axes...)...)
		}
		return o.transpose(x, append(slices.Clone(axes), kept...)...)
	}
	return o.contracted(order(a, first, true), order(b, second, false), len(first))
}

// polynomial evaluates the polynomial whose coefficients, the highest first, are the first operand.
func polynomial(o *op) *graph.Value {
	o.inputs(2, 2)
	p, x := o.input(0), o.input(1)
	o.require(o.rank(p) == 1, "rank %d", o.rank(p))
	n := o.static(p, 0)
	o.require(n > 0 && n <= maxParts, "%d coefficients", n)
	y := o.call("Mul", nil, o.call("Sub", nil, x, x), o.slice(p, 0, 0, 1))
	for i := range n {
		y = o.call("Add", nil, o.call("Mul", nil, y, x), o.squeeze(o.slice(p, 0, i, i+1), 0))
	}
	return y
}

// padNested is padding with a pair of numbers for each axis.
func padNested(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	mode := o.text("mode", "constant", "constant", "edge", "reflect", "symmetric", "maximum", "minimum")
	v := o.number("constant_value", o.number("constant_values", 0))
	o.text("reflect_type", "even", "even")
	flat := strings.NewReplacer("(", "", ")", "", "[", "", "]", "", " ", "").Replace(o.value("pad_width"))
	rank := o.rank(x)
	width, fields := make([]int, 2*rank), strings.FieldsFunc(flat, func(r rune) bool { return r == ',' })
	o.require(len(fields) == 2*rank, "pad_width has %d numbers for %d axes", len(fields), rank)
	for i, f := range fields {
		n, ok := parseInt(f)
		o.require(ok && n >= 0 && n <= math.MaxInt32, "padding of %.20q", f)
		width[i] = int(n)
	}
	switch mode {
	case "symmetric":
		return o.mirrored(x, width)
	case "maximum", "minimum":
		return o.bordered(x, map[string]string{"maximum": "ReduceMax", "minimum": "ReduceMin"}[mode], width)
	}
	return o.padded(x, mode, v, width)
}

// mirrored pads with the elements at the border, which come twice, and those behind them.
func (o *op) mirrored(x *graph.Value, width []int) *graph.Value {
	for axis := range o.rank(x) {
		before, after := width[2*axis], width[2*axis+1]
		if before+after == 0 {
			continue
		}
		n := o.static(x, axis)
		o.require(n > 0 && before+n+after <= maxRange, "padding of %d and %d for %d elements", before, after, n)
		places := make([]int64, before+n+after)
		for i := range places {
			k := ((i-before)%(2*n) + 2*n) % (2 * n)
			places[i] = int64(min(k, 2*n-1-k))
		}
		x = o.call("Gather", attrs(graph.IntAttr("axis", int64(axis))), x, o.ints(places...))
	}
	return x
}

// bordered pads, axis by axis, with the largest or the smallest element along the axis.
func (o *op) bordered(x *graph.Value, extreme string, width []int) *graph.Value {
	for axis := range o.rank(x) {
		var parts []*graph.Value
		border := o.reduce(extreme, x, true, axis)
		add := func(n int) {
			if n > 0 {
				reps := slices.Repeat([]int64{1}, o.rank(x))
				reps[axis] = int64(n)
				parts = append(parts, o.call("Tile", nil, border, o.ints(reps...)))
			}
		}
		add(width[2*axis])
		parts = append(parts, x)
		add(width[2*axis+1])
		x = o.concat(axis, parts...)
	}
	return x
}

// wholeType is the type of whole numbers where nothing is said about it.
func (o *op) wholeType() tensor.DType {
	if o.sym.Version < 20000 {
		return tensor.Int32
	}
	return tensor.Int64
}

// indices is a grid of places: for each axis, the number along it.
func indices(o *op) *graph.Value {
	o.inputs(0, 0)
	o.ignore("ctx")
	size, _ := o.list("dimensions")
	dt := o.dtype("dtype", o.wholeType())
	o.require(len(size) > 0 && len(size) <= 8, "%d dims", len(size))
	total := len(size)
	for _, n := range size {
		o.require(n >= 0 && (n == 0 || total <= maxRange/n), "dims %v", size)
		total *= n
	}
	out, step := make([]float64, 0, total), make([]int, len(size))
	each := 1
	for i := len(size) - 1; i >= 0; i-- {
		step[i] = each
		each *= size[i]
	}
	for i := range size {
		for k := range each {
			out = append(out, float64(k/step[i]%size[i]))
		}
	}
	return o.values(dt, out, append([]int{len(size)}, size...)...)
}

// logspace is powers whose exponents have equal distances.
func logspace(o *op) *graph.Value {
	o.inputs(0, 0)
	o.ignore("ctx")
	start, stop, n := o.requiredNumber("start"), o.requiredNumber("stop"), o.required("num")
	base, parts := o.number("base", 10), n
	if o.flag("endpoint", true) {
		parts--
	}
	dt := o.dtype("dtype", tensor.Float32)
	o.require(n >= 0 && n <= maxRange, "%d numbers", n)
	out := spaced(start, stop, n, parts)
	for i, x := range out {
		out[i] = math.Pow(base, x)
	}
	return o.values(dt, out, n)
}

// cosines is a window: c0 - c1·cos(2πi/(M-1)) + c2·cos(4πi/(M-1)).
func (o *op) cosines(c [3]float64) *graph.Value {
	o.inputs(0, 0)
	o.ignore("ctx")
	n := o.required("M")
	dt := o.dtype("dtype", tensor.Float32)
	o.require(n >= 0 && n <= maxRange, "%d numbers", n)
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
		if n > 1 {
			t := 2 * math.Pi * float64(i) / float64(n-1)
			out[i] = c[0] - c[1]*math.Cos(t) + c[2]*math.Cos(2*t)
		}
	}
	return o.values(dt, out, n)
}

// stacked concatenates vertically, by axis 0, or horizontally, by axis 1 where there is one.
func (o *op) stacked(axis int) *graph.Value {
	o.ignore("dim")
	list := o.atLeast(2 - axis)
	return o.concat(min(axis, o.rank(list[0])-1), list...)
}

// columnStack makes vectors columns, and concatenates by axis 1.
func columnStack(o *op) *graph.Value {
	o.ignore("num_args")
	o.inputs(1, maxParts)
	list := slices.Clone(o.in)
	for i, x := range list {
		if o.rank(x) < 2 {
			list[i] = o.reshape(x, rest, fixed(1))
		}
	}
	return o.concat(1, list...)
}

// maskAssign puts a number where a mask, which has the first dims from an axis on, is not 0.
func maskAssign(o *op) *graph.Value {
	o.inputs(2, 2)
	x, mask := o.input(0), o.truth(o.input(1))
	v, axis := o.requiredNumber("value"), o.integer("start_axis", 0)
	behind := o.rank(x) - axis - o.rank(mask)
	o.require(axis >= 0 && behind >= 0, "a mask of rank %d from axis %d on", o.rank(mask), axis)
	axes := make([]int, behind)
	for i := range axes {
		axes[i] = o.rank(mask) + i
	}
	if behind > 0 {
		mask = o.unsqueeze(mask, axes...)
	}
	return o.call("Where", nil, mask, o.like(x, v), x)
}

// sliceAssign puts the second operand, or a number, into the part of the first that slice would take.
func sliceAssign(o *op) *graph.Value {
	scalar := strings.HasSuffix(o.kind, "_scalar")
	x := o.input(0)
	dims, n := o.dims(x), fixed(1)
	for _, d := range dims {
		n = o.mul(n, d)
	}
	part := o.ranges(o.reshape(o.positions(n), dims...))
	places := o.reshape(part, rest)
	var values *graph.Value
	if scalar {
		o.inputs(1, 1)
		values = o.fill(places, o.typeOf(x), o.number("scalar", 0))
	} else {
		o.inputs(2, 2)
		values = o.reshape(o.call("Expand", nil, o.cast(o.input(1), o.typeOf(x)), o.call("Shape", nil, part)), rest)
	}
	return o.reshape(o.call("ScatterElements", nil, o.reshape(x, rest), places, values), dims...)
}
