package mxnet

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// indexOperators take elements by numbers, and sort. Numbers are float32 in MXNet unless a model says otherwise.
func indexOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(take), "take", "_npi_take")
	named(table, single(pick), "pick", "choose_element_0index", "_npx_pick")
	named(table, single(batchTake), "batch_take")
	named(table, single(gatherND), "gather_nd", "_npx_gather_nd", "_npi_gather_nd")
	named(table, single(scatterND), "scatter_nd")
	named(table, single(indexCopy), "_contrib_index_copy")
	named(table, single(oneHot), "one_hot", "_npx_one_hot")
	named(table, single(where), "where", "_npi_where")
	named(table, operator{do: topK}, "topk", "_npx_topk")
	named(table, single(argSort), "argsort", "_npi_argsort")
	named(table, single(sortAll), "sort", "_npi_sort")
	named(table, single(argExtreme), "argmax", "argmin", "_npi_argmax", "_npi_argmin")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		return o.cast(o.call("ArgMax", attrs(graph.IntAttr("axis", 1), graph.IntAttr("keepdims", 0)), o.input(0)), tensor.Float32)
	}), "argmax_channel")
	named(table, single(sequenceMask), "SequenceMask", "_npx_sequence_mask")
	named(table, single(sequenceLast), "SequenceLast")
	named(table, single(sequenceReverse), "SequenceReverse")
	named(table, single(ravel), "_ravel_multi_index", "ravel_multi_index")
	named(table, single(unravel), "_unravel_index", "unravel_index")
	return table
}

// bounded brings numbers into [0, n): by the modulus for wrap, else by cutting them off.
func (o *op) bounded(i *graph.Value, n extent, mode string) *graph.Value {
	size := o.one(n)
	if n.v == nil {
		size = o.scalar(tensor.Int64, float64(n.n))
	}
	switch mode {
	case "wrap":
		return o.call("Mod", nil, i, size)
	case "clip":
		last := o.call("Sub", nil, size, o.scalar(tensor.Int64, 1))
		return o.call("Min", nil, o.call("Max", nil, i, o.scalar(tensor.Int64, 0)), last)
	}
	return i
}

func take(o *op) *graph.Value {
	o.inputs(2, 2)
	mode := o.text("mode", "clip", "clip", "wrap", "raise")
	x := o.input(0)
	axis, ok := o.optional("axis")
	if !ok {
		if text, has := o.n.Attr("axis"); has && text == "None" || o.numpyName() {
			x = o.reshape(x, rest)
		}
	}
	axis = o.axisOf(axis, o.rank(x))
	i := o.bounded(o.index(o.input(1)), o.dim(x, axis), mode)
	return o.call("Gather", attrs(graph.IntAttr("axis", int64(axis))), x, i)
}

// pick takes one element of each row along an axis.
func pick(o *op) *graph.Value {
	o.inputs(2, 2)
	x := o.input(0)
	mode, keep := o.text("mode", "clip", "clip", "wrap"), o.flag("keepdims", false)
	axis, ok := o.optional("axis")
	if !ok {
		if text, has := o.n.Attr("axis"); has && text == "None" {
			o.fail(ErrUnsupported, "axis None")
		}
		axis = -1
	}
	axis = o.axisOf(axis, o.rank(x))
	i := o.index(o.input(1))
	if o.rank(i) == o.rank(x)-1 {
		i = o.unsqueeze(i, axis)
	}
	o.require(o.rank(i) == o.rank(x), "numbers of rank %d for rank %d", o.rank(i), o.rank(x))
	y := o.call("GatherElements", attrs(graph.IntAttr("axis", int64(axis))), x, o.bounded(i, o.dim(x, axis), mode))
	if keep {
		return y
	}
	return o.legacyScalar(o.squeeze(y, axis), o.rank(x) == 1)
}

func batchTake(o *op) *graph.Value {
	o.inputs(2, 2)
	x := o.input(0)
	o.require(o.rank(x) == 2, "rank %d", o.rank(x))
	i := o.bounded(o.unsqueeze(o.reshape(o.index(o.input(1)), rest), 1), o.dim(x, 1), "clip")
	return o.squeeze(o.call("GatherElements", attrs(graph.IntAttr("axis", 1)), x, i), 1)
}

// lastIndex moves the first axis of numbers, which stands for the axes that they count along, to the end.
func (o *op) lastIndex(i *graph.Value) *graph.Value {
	perm := []int{}
	for k := 1; k < o.rank(i); k++ {
		perm = append(perm, k)
	}
	return o.transpose(o.index(i), append(perm, 0)...)
}

func gatherND(o *op) *graph.Value {
	o.inputs(2, 2)
	return o.call("GatherND", nil, o.input(0), o.lastIndex(o.input(1)))
}

func scatterND(o *op) *graph.Value {
	o.inputs(2, 2)
	x := o.input(0)
	shape, ok := o.list("shape")
	if !ok {
		o.fail(ErrAttribute, "shape is missing")
	}
	return o.call("ScatterND", nil, o.zeros(o.typeOf(x), shape, 0), o.lastIndex(o.input(1)), x)
}

func indexCopy(o *op) *graph.Value {
	o.inputs(3, 3)
	return o.call("ScatterND", nil, o.input(0), o.unsqueeze(o.index(o.input(1)), 1), o.input(2))
}

// oneHot is on where the number is the place along the new last axis; numbers outside are nowhere.
func oneHot(o *op) *graph.Value {
	o.inputs(1, 1)
	depth := o.required("depth")
	on, off := o.number("on_value", 1), o.number("off_value", 0)
	dt := o.dtype("dtype", tensor.Float32)
	o.require(depth >= 0 && depth <= 1<<24, "a depth of %d", depth)
	i := o.index(o.input(0))
	hit := o.call("Equal", nil, o.unsqueeze(i, o.rank(i)), o.positions(fixed(depth)))
	return o.call("Where", nil, hit, o.scalar(dt, on), o.scalar(dt, off))
}

// where chooses by elements, or by rows where the condition is a vector.
func where(o *op) *graph.Value {
	o.inputs(3, 3)
	c, x, y := o.input(0), o.input(1), o.input(2)
	x, y = o.unified(x, y)
	c = o.truth(c)
	if !o.numpyName() && o.rank(c) == 1 && o.rank(x) > 1 {
		axes := axesFrom(1, o.rank(x))
		c = o.unsqueeze(c, axes...)
	}
	return o.call("Where", nil, c, x, y)
}

// sorted returns the first k elements along an axis in order, and their places; all where k is 0. No axis means all elements
// as a vector.
func (o *op) sorted(x *graph.Value, k int, ascending bool, axis int, flat bool) (values, places, from *graph.Value, along int) {
	if flat {
		x, axis = o.reshape(x, rest), 0
	}
	axis = o.axisOf(axis, o.rank(x))
	o.require(k >= 0, "k is %d", k)
	count := fixed(k)
	if d, ok := o.shape(x)[axis].Const(); k == 0 || ok && int64(k) > d {
		count = o.dim(x, axis)
	}
	out := o.calls("", "TopK", 2, attrs(graph.IntAttr("axis", int64(axis)), flagAttr("largest", !ascending)), x, o.vector(count))
	return out[0], out[1], x, axis
}

// sortAxis reads the attribute axis, of which None means all elements as a vector.
func (o *op) sortAxis() (axis int, flat bool) {
	if text, has := o.n.Attr("axis"); has && text == "None" {
		o.ignore("axis")
		return 0, true
	}
	return o.integer("axis", -1), false
}

func topK(o *op) []*graph.Value {
	o.inputs(1, 1)
	axis, flat := o.sortAxis()
	k, ascending := o.integer("k", 1), o.flag("is_ascend", false)
	dt := o.dtype("dtype", tensor.Float32)
	kind := o.text("ret_typ", "indices", "indices", "value", "both", "mask")
	x := o.input(0)
	values, places, from, along := o.sorted(x, k, ascending, axis, flat)
	switch kind {
	case "value":
		return []*graph.Value{values}
	case "both":
		return []*graph.Value{values, o.cast(places, dt)}
	case "mask":
		ones := o.fill(places, o.typeOf(x), 1)
		mask := o.call("ScatterElements", attrs(graph.IntAttr("axis", int64(along))), o.fill(from, o.typeOf(x), 0), places, ones)
		if flat {
			mask = o.reshape(mask, o.dims(x)...)
		}
		return []*graph.Value{mask}
	}
	return []*graph.Value{o.cast(places, dt)}
}

func argSort(o *op) *graph.Value {
	o.inputs(1, 1)
	axis, flat := o.sortAxis()
	dt := o.dtype("dtype", tensor.Float32)
	_, places, _, _ := o.sorted(o.input(0), 0, o.flag("is_ascend", true), axis, flat)
	return o.cast(places, dt)
}

func sortAll(o *op) *graph.Value {
	o.inputs(1, 1)
	axis, flat := o.sortAxis()
	values, _, _, _ := o.sorted(o.input(0), 0, o.flag("is_ascend", true), axis, flat)
	return values
}

func argExtreme(o *op) *graph.Value {
	o.inputs(1, 1)
	name := "ArgMax"
	if o.kind == "argmin" || o.kind == "_npi_argmin" {
		name = "ArgMin"
	}
	keep := o.flag("keepdims", false)
	x := o.input(0)
	axis, ok := o.optional("axis")
	var y *graph.Value
	if !ok {
		y = o.call(name, attrs(graph.IntAttr("axis", 0), flagAttr("keepdims", !o.scalarResult() || keep)), o.reshape(x, rest))
		if keep && o.rank(x) > 1 {
			y = o.reshape(y, slices.Repeat([]extent{fixed(1)}, o.rank(x))...)
		}
	} else {
		y = o.call(name, attrs(graph.IntAttr("axis", int64(axis)), flagAttr("keepdims", keep)), x)
		if !o.scalarResult() && !keep && len(y.Type.Shape) == 0 && y.Type.Shape != nil {
			y = o.unsqueeze(y, 0)
		}
	}
	if o.numpyName() {
		return y
	}
	return o.cast(y, tensor.Float32)
}

// sequence reads operands and attributes of operators on sequences [T, N, …], or [N, T, …] where axis is 1.
func (o *op) sequence() (x, lengths *graph.Value, axis int) {
	x = o.input(0)
	axis = o.integer("axis", 0)
	o.require((axis == 0 || axis == 1) && o.rank(x) >= 2, "axis %d of %v", axis, x.Type)
	if o.flag("use_sequence_length", false) {
		o.inputs(2, 2)
		lengths = o.index(o.input(1))
	}
	return x, lengths, axis
}

func sequenceMask(o *op) *graph.Value {
	x, lengths, axis := o.sequence()
	v := o.number("value", 0)
	if lengths == nil {
		return x
	}
	pos, at := o.positions(o.dim(x, axis)), []int{1}
	if axis == 1 {
		at = []int{0}
	}
	for i := 2; i < o.rank(x); i++ {
		at = append(at, i)
	}
	// Places along the axis of time, lengths along that of the batch.
	lengthAxes := append([]int{axis}, at[1:]...)
	mask := o.call("Less", nil, o.unsqueeze(pos, at...), o.unsqueeze(lengths, lengthAxes...))
	return o.call("Where", nil, mask, x, o.like(x, v))
}

func sequenceLast(o *op) *graph.Value {
	x, lengths, axis := o.sequence()
	if lengths == nil {
		return o.squeeze(o.slice(x, axis, -1, toEnd), axis)
	}
	if axis == 0 {
		perm := []int{1, 0}
		for i := 2; i < o.rank(x); i++ {
			perm = append(perm, i)
		}
		x = o.transpose(x, perm...)
	}
	last := o.call("Sub", nil, lengths, o.scalar(tensor.Int64, 1))
	return o.call("GatherND", attrs(graph.IntAttr("batch_dims", 1)), x, o.unsqueeze(last, 1))
}

func sequenceReverse(o *op) *graph.Value {
	x, lengths, axis := o.sequence()
	o.require(axis == 0, "axis %d", axis)
	if lengths == nil {
		return o.reversed(x, 0)
	}
	return o.call("ReverseSequence", attrs(graph.IntAttr("time_axis", 0), graph.IntAttr("batch_axis", 1)), x, lengths)
}

// placeShape reads the attribute shape of ravel and unravel, and the distances between elements along each axis.
func (o *op) placeShape() (shape []int, strides []int64) {
	shape, ok := o.list("shape")
	if !ok {
		o.fail(ErrAttribute, "shape is missing")
	}
	strides = make([]int64, len(shape))
	step := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = step
		n := int64(shape[i])
		o.require(n > 0 || n == -1 && i == 0, "a dim of %d", n)
		o.require(n == -1 || step <= math.MaxInt64/n, "shape %v", shape)
		step *= n
	}
	return shape, strides
}

func ravel(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	shape, strides := o.placeShape()
	list := []extent{fixed(len(shape))}
	for range o.rank(x) - 1 {
		list = append(list, fixed(1))
	}
	sum := o.reduce("ReduceSum", o.call("Mul", nil, o.index(x), o.reshape(o.ints(strides...), list...)), false, 0)
	return o.cast(sum, o.typeOf(x))
}

func unravel(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	shape, strides := o.placeShape()
	i := o.index(x)
	parts := make([]*graph.Value, len(shape))
	for k := range shape {
		p := o.call("Div", nil, i, o.scalar(tensor.Int64, float64(strides[k])))
		if k > 0 {
			p = o.call("Mod", nil, p, o.scalar(tensor.Int64, float64(shape[k])))
		}
		parts[k] = o.unsqueeze(p, 0)
	}
	return o.cast(o.concat(0, parts...), o.typeOf(x))
}
