package mxnet

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// editOperators take elements out of tensors, put some in, or write over them.
func editOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(deleted), "_npi_delete")
	named(table, single(inserted), "_npi_insert_scalar", "_npi_insert_slice", "_npi_insert_tensor")
	named(table, single(func(o *op) *graph.Value { return o.written("none") }), "_npx_index_update")
	named(table, single(func(o *op) *graph.Value { return o.written("add") }), "_npx_index_add")
	named(table, single(maskWritten), "_npi_boolean_mask_assign_tensor")
	named(table, single(fillDiagonal), "_npi_fill_diagonal")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(2, 2)
		x, i := o.input(0), o.input(1)
		if o.typeOf(i) == tensor.Bool {
			return o.call("GatherND", nil, x, o.call("Transpose", nil, o.call("NonZero", nil, i)))
		}
		return o.call("Gather", nil, x, o.index(i))
	}), "_npi_advanced_indexing")
	named(table, single(gatherND), "_npi_advanced_indexing_multiple")
	return table
}

// along returns x, or all of its elements behind each other where the attribute axis names none, and the axis.
func (o *op) along(x *graph.Value) (*graph.Value, int) {
	axis, ok := o.optional("axis")
	if !ok {
		return o.reshape(x, rest), 0
	}
	return x, o.axisOf(axis, o.rank(x))
}

// chosen returns the places, int64, along an axis of n elements that the attributes int_ind, or start, stop and step name, or the
// operand obj; one says that it is a single place.
func (o *op) chosen(n extent, obj *graph.Value) (places *graph.Value, one bool) {
	size := o.one(n)
	wrapped := func(i *graph.Value) *graph.Value {
		below := o.call("Less", nil, i, o.like(i, 0))
		return o.call("Where", nil, below, o.call("Add", nil, i, size), i)
	}
	if obj != nil {
		if o.typeOf(obj) == tensor.Bool {
			return o.reshape(o.call("NonZero", nil, obj), rest), false
		}
		return wrapped(o.reshape(o.index(obj), rest)), o.rank(obj) == 0
	}
	if i, ok := o.optional("int_ind"); ok {
		return wrapped(o.ints(int64(i))), true
	}
	step := int64(o.integer("step", 1))
	o.require(step != 0, "a step of 0")
	start, stop := int64(0), int64(math.MaxInt64)
	if step < 0 {
		start, stop = math.MaxInt64, math.MinInt64
	}
	if v, ok := o.optional("start"); ok {
		start = int64(v)
	}
	if v, ok := o.optional("stop"); ok {
		stop = int64(v)
	}
	return o.call("Slice", nil, o.positions(n), o.ints(start), o.ints(stop), o.ints(0), o.ints(step)), false
}

// deleted leaves elements out.
func deleted(o *op) *graph.Value {
	o.inputs(1, 2)
	x, axis := o.along(o.input(0))
	n := o.dim(x, axis)
	var obj *graph.Value
	if len(o.in) > 1 {
		obj = o.input(1)
	}
	o.ignore("start", "stop", "step", "int_ind")
	gone, _ := o.chosen(n, obj)
	hit := o.call("Equal", nil, o.unsqueeze(o.positions(n), 1), o.unsqueeze(gone, 0))
	hits := o.reduce("ReduceSum", o.cast(hit, tensor.Int32), false, 1) // none where nothing goes
	return o.call("Compress", attrs(graph.IntAttr("axis", int64(axis))), x, o.call("Equal", nil, hits, o.scalar(tensor.Int32, 0)))
}

// inserted puts values before elements: each before its own, or all of them before one.
func inserted(o *op) *graph.Value {
	o.inputs(1, 3)
	x, axis := o.along(o.input(0))
	dt, n := o.typeOf(x), o.dim(x, axis)
	ins := o.in[1:]
	var values, obj *graph.Value
	if v, ok := o.n.Attr("val"); ok && v != "None" {
		values = o.scalar(dt, o.number("val", 0))
	} else {
		o.ignore("val")
		o.require(len(ins) > 0, "no values")
		values, ins = o.cast(o.input(1), dt), ins[1:]
	}
	if len(ins) > 0 {
		obj = ins[0]
	}
	o.ignore("start", "stop", "step", "int_ind")
	at, one := o.chosen(n, obj)
	if one && o.rank(values) > 0 { // what stands at a single place lies, as in NumPy, along the first axis
		for o.rank(values) < o.rank(x) {
			values = o.unsqueeze(values, 0)
		}
		o.require(o.rank(values) == o.rank(x), "values of rank %d", o.rank(values))
		values = o.moved(values, 0, axis)
	}
	dims := o.dims(x)
	for i := range dims {
		dims[i].of = nil
	}
	places := o.call("Shape", nil, at)
	dims[axis] = extent{v: places}
	if o.rank(values) > 0 {
		k := axis - (o.rank(x) - o.rank(values))
		if k >= 0 && one {
			more := o.dim(values, k)
			more.of = nil
			dims[axis] = more
			at = o.call("Expand", nil, at, o.one(more))
		}
	}
	values = o.expand(values, dims)
	// Sorted by twice its place, and one more for what was there, each stands where it belongs.
	two := o.scalar(tensor.Int64, 2)
	keys := o.concat(0, o.call("Mul", nil, at, two), o.plus(o.call("Mul", nil, o.positions(n), two), 1))
	order := o.calls("", "TopK", 2, attrs(graph.IntAttr("axis", 0), graph.IntAttr("largest", 0)), keys, o.call("Shape", nil, keys))[1]
	return o.call("Gather", attrs(graph.IntAttr("axis", int64(axis))), o.concat(axis, values, x), order)
}

// written writes values, or adds them, at places [d, n…] that count along the first d axes.
func (o *op) written(reduction string) *graph.Value {
	o.inputs(3, 3)
	x, places, v := o.input(0), o.input(1), o.cast(o.input(2), o.typeOf(o.input(0)))
	o.require(o.rank(places) >= 1, "rank %d", o.rank(places))
	if o.rank(places) == 1 {
		places = o.unsqueeze(places, 1)
	}
	d := o.static(places, 0)
	o.require(d >= 1 && d <= o.rank(x), "places along %d axes of %d", d, o.rank(x))
	dims := append(o.dims(places)[1:], o.dims(x)[d:]...)
	v = o.expand(v, dims)
	return o.call("ScatterND", attrs(graph.StringAttr("reduction", reduction)), x, o.lastIndex(places), v)
}

// maskWritten writes values, one after the other, where a mask over the first axes is true.
func maskWritten(o *op) *graph.Value {
	o.inputs(3, 3)
	x, mask, v := o.input(0), o.truth(o.input(1)), o.cast(o.input(2), o.typeOf(o.input(0)))
	o.require(o.integer("start_axis", 0) == 0, "a mask from axis %d on is not supported", o.integer("start_axis", 0))
	places := o.call("Transpose", nil, o.call("NonZero", nil, mask))
	n := o.dim(places, 0)
	n.of = nil
	dims := append([]extent{n}, o.dims(x)[o.rank(mask):]...)
	return o.call("ScatterND", nil, x, places, o.expand(v, dims))
}

// fillDiagonal writes numbers, over and over, where all places along the axes are the same.
func fillDiagonal(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	values := o.numbers("val", 0)
	wrap := o.flag("wrap", false)
	rank := o.rank(x)
	o.require(rank >= 2 && len(values) > 0, "rank %d and %d numbers", rank, len(values))
	rows, columns := o.static(x, 0), o.static(x, 1)
	n := min(rows, columns)
	if wrap && rank == 2 {
		n = (rows*columns + columns) / (columns + 1)
	}
	o.require(n <= maxRange, "%d elements", n)
	places, v := make([]float64, 0, n*rank), make([]float64, n)
	for i := range n {
		v[i] = values[i%len(values)]
		if wrap && rank == 2 {
			at := i * (columns + 1)
			places = append(places, float64(at/columns), float64(at%columns))
			continue
		}
		for range rank {
			places = append(places, float64(i))
		}
	}
	return o.call("ScatterND", nil, x, o.values(tensor.Int64, places, n, rank), o.values(o.typeOf(x), v, n))
}
