package mxnet

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// statisticsOperators count and weigh elements.
func statisticsOperators() map[string]operator {
	table := map[string]operator{}
	named(table, operator{do: average}, "_npi_average")
	named(table, operator{do: normNumPy}, "_npi_norm")
	named(table, single(percentile), "_npi_percentile")
	named(table, single(binCount), "_npi_bincount")
	named(table, operator{do: histogram}, "_histogram", "_npi_histogram")
	named(table, operator{do: distinct}, "_npi_unique")
	named(table, single(neighbours), "_npi_ediff1d")
	named(table, single(interpolated), "_npi_interp")
	return table
}

// average is a mean, weighted where there are weights, and their sum.
func average(o *op) []*graph.Value {
	x := o.floating(o.input(0))
	axes, _ := o.reducedAxes(x, "axis")
	weighted := o.flag("weighted", true)
	o.flag("returned", false)
	if !weighted {
		o.inputs(1, 2)
		y := o.reduce("ReduceMean", x, false, axes...)
		count := o.call("Div", nil, o.call("Size", nil, x), o.call("Size", nil, y))
		return []*graph.Value{y, o.cast(count, o.typeOf(x))}
	}
	o.inputs(2, 2)
	w := o.cast(o.input(1), o.typeOf(x))
	if o.rank(w) == 1 && o.rank(x) > 1 {
		o.require(len(axes) == 1, "weights of one axis for %d", len(axes))
		list := make([]extent, o.rank(x))
		for i := range list {
			list[i] = fixed(1)
		}
		list[axes[0]] = rest
		w = o.reshape(w, list...)
	}
	w = o.call("Expand", nil, w, o.call("Shape", nil, x))
	sum := o.reduce("ReduceSum", w, false, axes...)
	return []*graph.Value{o.call("Div", nil, o.reduce("ReduceSum", o.call("Mul", nil, x, w), false, axes...), sum), sum}
}

// normNumPy is a norm of vectors, or Frobenius's of matrices. The attribute flag says which: -1 for the one that ord names.
func normNumPy(o *op) []*graph.Value {
	o.inputs(1, 1)
	x := o.floating(o.input(0))
	axes, all := o.reducedAxes(x, "axis")
	keep, flag, p := o.flag("keepdims", false), o.integer("flag", -1), o.number("ord", 2)
	var y *graph.Value
	switch {
	case flag == -2 || flag == 1 || flag == -1 && p == 2 && len(axes) == 1:
		y = o.reduce("ReduceL2", x, keep, axes...)
	case flag == -1 && len(axes) == 1 && p == 1:
		y = o.reduce("ReduceL1", x, keep, axes...)
	case flag == -1 && len(axes) == 1 && p != 0 && !math.IsInf(p, 0):
		y = o.call("Pow", nil, o.call("Abs", nil, x), o.like(x, p))
		y = o.call("Pow", nil, o.reduce("ReduceSum", y, keep, axes...), o.like(x, 1/p))
	default:
		o.fail(ErrUnsupported, "a norm of order %v of %d axes (all: %v), flag %d", p, len(axes), all, flag)
	}
	return []*graph.Value{y, nil, nil, nil}
}

// percentile is the number below which so many hundredths of the elements lie, between two of them by the attribute interpolation.
func percentile(o *op) *graph.Value {
	x := o.floating(o.input(0))
	axes, _ := o.reducedAxes(x, "axis")
	keep := o.flag("keepdims", false)
	way := o.text("interpolation", "linear", "linear", "lower", "higher", "midpoint", "nearest")
	var q *graph.Value
	if _, ok := o.optionalNumber("q_scalar"); ok {
		o.inputs(1, 1)
		q = o.scalar(tensor.Float64, o.number("q_scalar", 0))
	} else {
		o.inputs(2, 2)
		q = o.cast(o.input(1), tensor.Float64)
	}
	o.require(o.rank(q) <= 1, "percentages of rank %d", o.rank(q))
	rows, dims := o.lastTogether(x, axes)
	last := o.rank(rows) - 1
	n := o.dim(rows, last)
	sorted := o.calls("", "TopK", 2, attrs(graph.IntAttr("axis", int64(last)), graph.IntAttr("largest", 0)), rows, o.one(n))[0]
	place := o.call("Mul", nil, o.times(q, 0.01), o.cast(o.squeeze(o.minus(o.one(n), o.ints(1)), 0), tensor.Float64))
	at := func(p *graph.Value) *graph.Value {
		return o.call("Gather", attrs(graph.IntAttr("axis", int64(last))), sorted, o.cast(p, tensor.Int64))
	}
	low, high := o.call("Floor", nil, place), o.call("Ceil", nil, place)
	var y *graph.Value
	switch way {
	case "lower":
		y = at(low)
	case "higher":
		y = at(high)
	case "nearest":
		y = at(o.call("Round", nil, place))
	case "midpoint":
		y = o.times(o.call("Add", nil, at(low), at(high)), 0.5)
	default:
		share := o.cast(o.minus(place, low), o.typeOf(x))
		y = o.call("Add", nil, at(low), o.call("Mul", nil, o.minus(at(high), at(low)), share))
	}
	if keep {
		list := dims
		if o.rank(q) == 1 {
			list = append(append([]extent{}, dims...), rest)
		}
		y = o.reshape(y, list...)
	}
	if o.rank(q) == 1 {
		return o.moved(y, o.rank(y)-1, 0)
	}
	return y
}

// optionalNumber reports whether an attribute is a number.
func (o *op) optionalNumber(key string) (float64, bool) {
	if o.value(key) == "" {
		return 0, false
	}
	return o.number(key, 0), true
}

// lastTogether moves axes, all where none are named, to the end as one. dims are those of x with 1 for them.
func (o *op) lastTogether(x *graph.Value, axes []int) (rows *graph.Value, dims []extent) {
	if len(axes) == 0 {
		axes = axesFrom(0, o.rank(x))
	}
	dims = o.dims(x)
	var kept []int
	var list []extent
	gone := map[int]bool{}
	for _, a := range axes {
		gone[a] = true
	}
	for i := range dims {
		dims[i].of = nil
		if gone[i] {
			dims[i] = fixed(1)
			continue
		}
		kept, list = append(kept, i), append(list, dims[i])
	}
	return o.reshape(o.transpose(x, append(kept, axes...)...), append(list, rest)...), dims
}

// binCount counts how often each whole number occurs, or sums the weights where it does.
func binCount(o *op) *graph.Value {
	least := o.integer("minlength", 0)
	o.require(least >= 0, "minlength is %d", least)
	kind := o.typeOf(o.input(0))
	x := o.index(o.input(0))
	o.require(o.rank(x) == 1, "rank %d", o.rank(x))
	most := o.call("Add", nil, o.call("ReduceMax", attrs(graph.IntAttr("keepdims", 0)), x), o.scalar(tensor.Int64, 1))
	depth := o.call("Max", nil, most, o.scalar(tensor.Int64, float64(least)))
	hot := func(dt tensor.DType) *graph.Value {
		return o.call("OneHot", attrs(graph.IntAttr("axis", 0)), x, depth, o.values(dt, []float64{0, 1}, 2))
	}
	if !o.flag("has_weights", false) {
		o.inputs(1, 1)
		return o.cast(o.reduce("ReduceSum", hot(tensor.Int64), false, 1), kind)
	}
	o.inputs(2, 2)
	w := o.input(1)
	return o.reduce("ReduceSum", o.call("Mul", nil, hot(o.typeOf(w)), w), false, 1)
}

// histogram counts the elements between neighbouring edges, of which the last one counts too, and returns the edges.
func histogram(o *op) []*graph.Value {
	x := o.reshape(o.floating(o.input(0)), rest)
	var edges *graph.Value
	if bins, ok := o.optional("bin_cnt"); ok {
		o.inputs(1, 1)
		bounds := o.numbers("range")
		o.require(bins > 0 && bins <= maxParts && len(bounds) == 2 && bounds[0] < bounds[1], "%d bins from %v", bins, bounds)
		edges = o.values(o.typeOf(x), spaced(bounds[0], bounds[1], bins+1, bins), bins+1)
	} else {
		o.ignore("range")
		o.inputs(2, 2)
		edges = o.cast(o.input(1), o.typeOf(x))
		o.require(o.rank(edges) == 1, "edges of rank %d", o.rank(edges))
	}
	n := o.static(edges, 0)
	o.require(n >= 2, "%d edges", n)
	count := func(compare string, e *graph.Value) *graph.Value {
		hit := o.call(compare, nil, o.unsqueeze(x, 0), o.unsqueeze(e, 1))
		return o.reduce("ReduceSum", o.cast(hit, tensor.Int64), false, 1)
	}
	from := count("GreaterOrEqual", o.slice(edges, 0, 0, n-1))
	behind := count("Greater", o.slice(edges, 0, n-1, n))
	if n > 2 {
		behind = o.concat(0, count("GreaterOrEqual", o.slice(edges, 0, 1, n-1)), behind)
	}
	return []*graph.Value{o.minus(from, behind), edges}
}

// distinct returns the elements, or slices along an axis, that differ, and where the first of each stands, which of them each is, and
// how often it is there, as the attributes ask.
func distinct(o *op) []*graph.Value {
	o.inputs(1, 1)
	var as []graph.Attr
	if axis, ok := o.optional("axis"); ok {
		as = attrs(graph.IntAttr("axis", int64(o.axisOf(axis, o.rank(o.input(0))))))
	}
	all := o.calls("", "Unique", 4, as, o.input(0))
	out := []*graph.Value{all[0]}
	for i, key := range []string{"return_index", "return_inverse", "return_counts"} {
		if o.flag(key, false) {
			out = append(out, all[i+1])
		}
	}
	return out
}

// neighbours are the differences of neighbouring elements, with numbers or tensors before and behind.
func neighbours(o *op) *graph.Value {
	x, at := o.reshape(o.input(0), rest), 1
	d := o.minus(o.slice(x, 0, 1, toEnd), o.slice(x, 0, 0, -1))
	end := func(side string) *graph.Value {
		given := o.flag("to_"+side+"_arr_given", false)
		v, ok := o.optionalNumber("to_" + side + "_scalar")
		switch {
		case given:
			at++
			return o.reshape(o.cast(o.input(at-1), o.typeOf(x)), rest)
		case ok:
			return o.values(o.typeOf(x), []float64{v}, 1)
		}
		return nil
	}
	list := []*graph.Value{}
	if v := end("begin"); v != nil {
		list = append(list, v)
	}
	list = append(list, d)
	if v := end("end"); v != nil {
		list = append(list, v)
	}
	o.inputs(at, at)
	return o.concat(0, list...)
}

// interpolated is the function that lines through points describe, whose places grow.
func interpolated(o *op) *graph.Value {
	o.value("period")
	if p, ok := o.optionalNumber("period"); ok {
		o.fail(ErrUnsupported, "a period of %v", p)
	}
	xp, fp := o.floating(o.input(0)), o.floating(o.input(1))
	var x *graph.Value
	if o.flag("x_is_scalar", false) {
		o.inputs(2, 2)
		x = o.like(xp, o.number("x_scalar", 0))
	} else {
		o.ignore("x_scalar")
		o.inputs(3, 3)
		x = o.cast(o.input(2), o.typeOf(xp))
	}
	o.require(o.rank(xp) == 1 && o.rank(fp) == 1, "points of ranks %d and %d", o.rank(xp), o.rank(fp))
	n := o.static(xp, 0)
	o.require(n >= 2, "%d points", n)
	end := func(v *graph.Value, i int) *graph.Value { return o.squeeze(o.slice(v, 0, i, i+1), 0) }
	bound := func(key string, i int) *graph.Value {
		if v, ok := o.optionalNumber(key); ok {
			return o.like(fp, v)
		}
		return end(fp, i)
	}
	left, right := bound("left", 0), bound("right", n-1)
	below := o.call("GreaterOrEqual", nil, o.unsqueeze(x, o.rank(x)), xp) // which points are at or before each place
	i := o.reduce("ReduceSum", o.cast(below, tensor.Int64), false, o.rank(x))
	i = o.bounded(o.call("Sub", nil, i, o.scalar(tensor.Int64, 1)), fixed(n-1), "clip")
	next := o.plus(i, 1)
	at := func(v, i *graph.Value) *graph.Value { return o.call("Gather", nil, v, i) }
	slope := o.call("Div", nil, o.minus(at(fp, next), at(fp, i)), o.minus(at(xp, next), at(xp, i)))
	y := o.call("Add", nil, at(fp, i), o.call("Mul", nil, slope, o.minus(x, at(xp, i))))
	y = o.call("Where", nil, o.call("Less", nil, x, end(xp, 0)), left, y)
	return o.call("Where", nil, o.call("Greater", nil, x, end(xp, n-1)), right, y)
}
