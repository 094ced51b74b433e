package mxnet

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// furtherOperators are operators that fewer models have.
func furtherOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(einsum), "_npi_einsum")
	named(table, single(booleanMask), "_contrib_boolean_mask", "_npi_boolean_mask")
	named(table, unary(func(o *op, x *graph.Value) *graph.Value { return o.call("Transpose", nil, o.call("NonZero", nil, x)) }),
		"_npx_nonzero", "_npi_nonzero")
	named(table, unary(func(o *op, x *graph.Value) *graph.Value { return o.triangle(x, false) }), "_npi_tril")
	named(table, unary(func(o *op, x *graph.Value) *graph.Value { return o.triangle(x, true) }), "_npi_triu")
	named(table, unary(func(o *op, x *graph.Value) *graph.Value {
		x = o.floating(x)
		bad := o.call("Or", nil, o.call("IsNaN", nil, x), o.call("IsInf", nil, x))
		return o.call("Not", nil, bad)
	}), "_npi_isfinite")
	named(table, single(moveAxis), "_np_moveaxis", "_npi_moveaxis")
	named(table, single(whereScalar), "_npi_where_lscalar", "_npi_where_rscalar")
	named(table, single(deformable), "_contrib_DeformableConvolution", "_npx_deformable_convolution", "_contrib_ModulatedDeformableConvolution")
	return table
}

func einsum(o *op) *graph.Value {
	o.ignore("num_args", "optimize")
	o.inputs(1, maxParts)
	equation := o.value("subscripts")
	if equation == "" {
		o.fail(ErrAttribute, "subscripts is missing")
	}
	return o.call("Einsum", attrs(graph.StringAttr("equation", equation)), o.in...)
}

// booleanMask takes the rows along an axis whose number in the second operand is not 0.
func booleanMask(o *op) *graph.Value {
	o.inputs(2, 2)
	return o.call("Compress", attrs(graph.IntAttr("axis", int64(o.integer("axis", 0)))), o.input(0), o.truth(o.input(1)))
}

// triangle keeps what is on one side of a diagonal.
func (o *op) triangle(x *graph.Value, upper bool) *graph.Value {
	k := o.integer("k", 0)
	return o.call("Trilu", attrs(flagAttr("upper", upper)), x, o.scalar(tensor.Int64, float64(k)))
}

// lenient takes the other number where one is none.
func lenient(name string) binaryFunc {
	return func(o *op, a, b *graph.Value) *graph.Value {
		if !o.typeOf(a).IsFloat() {
			return o.call(name, nil, a, b)
		}
		y := o.call("Where", nil, o.call("IsNaN", nil, b), a, o.call(name, nil, a, b))
		return o.call("Where", nil, o.call("IsNaN", nil, a), b, y)
	}
}

// remainder has the sign of the dividend.
func remainder(o *op, a, b *graph.Value) *graph.Value {
	return o.call("Mod", attrs(graph.IntAttr("fmod", 1)), a, b)
}

func moveAxis(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	from, ok1 := o.list("source")
	to, ok2 := o.list("destination")
	rank := o.rank(x)
	o.require(ok1 && ok2 && len(from) == len(to) && len(from) <= rank, "%d axes go to %d places", len(from), len(to))
	perm := slices.Repeat([]int{-1}, rank)
	for i := range from {
		from[i] = o.axisOf(from[i], rank)
		at := o.axisOf(to[i], rank)
		o.require(perm[at] < 0, "two axes go to %d", at)
		perm[at] = from[i]
	}
	rest := 0
	for i := range perm {
		if perm[i] >= 0 {
			continue
		}
		for slices.Contains(from, rest) {
			rest++
		}
		perm[i] = rest
		rest++
	}
	return o.transpose(x, perm...)
}

// whereScalar is where with a number for the first of the two, or the second.
func whereScalar(o *op) *graph.Value {
	o.inputs(2, 2)
	c, x, v := o.truth(o.input(0)), o.input(1), o.requiredNumber("scalar")
	if o.kind == "_npi_where_lscalar" {
		return o.call("Where", nil, c, o.like(x, v), x)
	}
	return o.call("Where", nil, c, x, o.like(x, v))
}

// within changes offsets [N, 2·places, h, w] so that sampling places between the last pixel and the edge are on the last pixel, and
// those before the first one outside: there the operator without a mask gives what ONNX's interpolates with zeros.
func (o *op) within(x, offset *graph.Value, k, stride, dilate, pad []int) *graph.Value {
	o.require(o.rank(x) == 4 && o.rank(offset) == 4, "ranks %d and %d", o.rank(x), o.rank(offset))
	rows, columns := o.static(offset, 2), o.static(offset, 3)
	o.require(rows > 0 && columns > 0 && rows <= maxRange/columns/(2*k[0]*k[1]), "offsets of %d by %d places", rows, columns)
	o.require(o.static(offset, 1)%(2*k[0]*k[1]) == 0, "%d offsets for %v places", o.static(offset, 1), k)
	groups := o.static(offset, 1) / (2 * k[0] * k[1])
	base := make([]float64, 0, 2*k[0]*k[1]*rows*columns)
	last := make([]float64, 0, 2*k[0]*k[1])
	for p := range k[0] * k[1] {
		for axis, at := range []int{p / k[1], p % k[1]} {
			last = append(last, float64(o.static(x, axis+2)-1))
			for c := range rows * columns {
				place := []int{c / columns, c % columns}[axis]
				base = append(base, float64(place*stride[axis]-pad[axis]+at*dilate[axis]))
			}
		}
	}
	dt, n := o.typeOf(offset), len(last)
	from, end := o.values(dt, base, 1, n, rows, columns), o.values(dt, last, 1, n, 1, 1)
	if groups > 1 {
		from, end = o.call("Tile", nil, from, o.ints(1, int64(groups), 1, 1)), o.call("Tile", nil, end, o.ints(1, int64(groups), 1, 1))
	}
	place := o.call("Add", nil, offset, from)
	outside := o.call("Or", nil, o.call("Less", nil, place, o.like(place, 0)), o.call("GreaterOrEqual", nil, place, o.plus(end, 1)))
	place = o.call("Where", nil, outside, o.like(place, -10), o.call("Min", nil, place, end))
	return o.call("Sub", nil, place, from)
}

// deformable is a convolution whose sampling places offsets move, and whose samples a mask weighs.
func deformable(o *op) *graph.Value {
	k := o.kernel()
	o.require(len(k) == 2, "a kernel of %d axes", len(k))
	stride, dilate, pad := o.window(k)
	filters, groups := o.required("num_filter"), o.integer("num_group", 1)
	offsets := o.integer("num_deformable_group", 1)
	o.ignore("workspace", "im2col_step")
	o.text("layout", "NCHW", "NCHW")
	o.require(filters > 0 && groups > 0 && offsets > 0, "%d filters in %d groups, %d of offsets", filters, groups, offsets)
	ins, at := []*graph.Value{o.input(0), nil, o.input(1), nil, nil}, 2
	if o.kind == "_contrib_ModulatedDeformableConvolution" {
		ins[4], at = o.input(2), 3
	} else {
		ins[2] = o.within(ins[0], ins[2], k, stride, dilate, pad)
	}
	ins[1] = o.input(at)
	if !o.flag("no_bias", false) {
		ins[3] = o.input(at + 1)
		at++
	}
	o.inputs(at+1, at+1)
	for ins[len(ins)-1] == nil {
		ins = ins[:len(ins)-1]
	}
	return o.call("DeformConv", attrs(intsAttr("kernel_shape", k), intsAttr("strides", stride), intsAttr("dilations", dilate),
		intsAttr("pads", append(slices.Clone(pad), pad...)), graph.IntAttr("group", int64(groups)), graph.IntAttr("offset_group", int64(offsets))), ins...)
}
