package mxnet

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// regionOperators pool what lies in regions of images by places that a run computes. Places are computed in float32, step by step as
// MXNet does, since it rounds some of them to whole pixels.
func regionOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(positionPooling), "_contrib_PSROIPooling")
	named(table, operator{do: deformablePooling}, "_contrib_DeformablePSROIPooling")
	named(table, single(rotatedAlign), "_contrib_RROIAlign")
	return table
}

// roi is a pooling of regions of images [N, C, H, W] on the way. Its values have the axes of the result from the region on.
type roi struct {
	o          *op
	x          *graph.Value // the images, in the type in which is computed
	dt         tensor.DType // float32, or float64 where the images are
	high, wide int          // of the images
	image      *graph.Value // the image of each region, [R]
	sides      []*graph.Value
}

// rois reads images and regions, of which each is a row: the number of its image, then what sides holds, each [R].
func (o *op) rois(columns int) *roi {
	x, rows := o.input(0), o.input(1)
	o.require(o.rank(x) == 4 && o.rank(rows) == 2, "ranks %d and %d", o.rank(x), o.rank(rows))
	r := &roi{o: o, dt: tensor.Float32, high: o.static(x, 2), wide: o.static(x, 3)}
	o.require(r.high > 0 && r.wide > 0 && r.high <= 1<<20 && r.wide <= 1<<20, "images of %d by %d", r.high, r.wide)
	if o.typeOf(x) == tensor.Float64 {
		r.dt = tensor.Float64
	}
	r.x, rows = o.cast(x, r.dt), o.cast(rows, r.dt)
	column := func(i int) *graph.Value { return o.squeeze(o.slice(rows, 1, i, i+1), 1) }
	r.image = o.index(column(0))
	for i := 1; i < columns; i++ {
		r.sides = append(r.sides, column(i))
	}
	return r
}

// grid returns output_dim, pooled_size and group_size, of grids with as many rows as columns.
func (r *roi) grid(o *op) (dim, pooled, group int) {
	dim, pooled = o.required("output_dim"), o.required("pooled_size")
	group = o.integer("group_size", 0)
	if group == 0 {
		group = pooled
	}
	o.require(dim > 0 && pooled > 0 && group > 0 && pooled <= 1<<8 && group <= 1<<8 && dim <= 1<<20, "%d channels on a grid of %d in groups of %d", dim, pooled, group)
	o.require(o.static(r.x, 1) == dim*group*group, "%d channels for %d on a grid of %d", o.static(r.x, 1), dim, group)
	return dim, pooled, group
}

// onAxis gives a vector as many axes as rank says, of which its own is the given one.
func (o *op) onAxis(v *graph.Value, axis, rank int) *graph.Value {
	shape := make([]extent, rank)
	for i := range shape {
		shape[i] = fixed(1)
	}
	shape[axis] = rest
	return o.reshape(v, shape...)
}

// scaledSides are begin and size of regions along an axis, 0 for x: of corners in whole pixels, of which the last one counts.
func (r *roi) scaledSides(axis int, scale, shift float64) (begin, size *graph.Value) {
	o := r.o
	begin = o.plus(o.times(awayFromZero(o, r.sides[axis]), scale), shift)
	end := o.plus(o.times(o.plus(awayFromZero(o, r.sides[axis+2]), 1), scale), shift)
	return begin, o.call("Max", nil, o.minus(end, begin), o.like(begin, 0.1))
}

// grouped returns for each of pooled places the group that it is in.
func grouped(pooled, group int) []float64 {
	out := make([]float64, pooled)
	for i := range out {
		out[i] = float64(min(int(math.Floor(float64(float32(i)*float32(group)/float32(pooled)))), group-1))
	}
	return out
}

// pixels takes rows of a table [rows, K] by the sum of a base, y and x, whole numbers that are broadcast together.
func (r *roi) pixels(table, base, y, x *graph.Value) *graph.Value {
	o := r.o
	at := o.call("Add", nil, o.call("Add", nil, base, o.times(y, float64(r.wide))), x)
	return o.call("Gather", attrs(graph.IntAttr("axis", 0)), table, at)
}

// positionPooling averages the pixels of each cell of a grid in a region, of channels that are the cell's own (Dai et al., R-FCN,
// arXiv:1605.06409).
func positionPooling(o *op) *graph.Value {
	o.inputs(2, 2)
	r := o.rois(5)
	dim, pooled, group := r.grid(o)
	scale := o.requiredNumber("spatial_scale")
	// A table of pixels by image, group's row and column, y and x, with the channels of the result side by side.
	table := o.reshape(o.transpose(o.reshape(r.x, rest, fixed(dim), fixed(group), fixed(group), fixed(r.high), fixed(r.wide)), 0, 2, 3, 4, 5, 1), rest, fixed(dim))
	const rank = 5 // region, row and column of the grid, y and x in the cell
	places, inside, counts := [2]*graph.Value{}, [2]*graph.Value{}, [2]*graph.Value{}
	for axis, size := range []int{r.wide, r.high} {
		begin, length := r.scaledSides(axis, scale, 0)
		begin = o.unsqueeze(begin, 1)
		cell := o.unsqueeze(o.call("Div", nil, length, o.like(length, float64(pooled))), 1)
		edge := func(first int, round string) *graph.Value {
			e := o.call(round, nil, o.call("Add", nil, o.call("Mul", nil, r.counted(first, pooled), cell), begin))
			return o.index(o.call("Clip", nil, e, o.like(e, 0), o.like(e, float64(size))))
		}
		lo, hi := edge(0, "Floor"), edge(1, "Ceil")
		counts[axis] = o.call("Max", nil, o.minus(hi, lo), o.scalar(tensor.Int64, 0)) // [R, pooled]
		most := o.reduce("ReduceMax", o.concat(0, o.reshape(counts[axis], rest), o.ints(0)), false)
		steps := o.call("Range", nil, o.scalar(tensor.Int64, 0), most, o.scalar(tensor.Int64, 1))
		grid, cellAxis := 2-axis, 4-axis
		shape := []extent{rest, fixed(1), fixed(1), fixed(1), fixed(1)}
		shape[grid] = fixed(pooled)
		lo, n := o.reshape(lo, shape...), o.reshape(counts[axis], shape...)
		steps = o.onAxis(steps, cellAxis, rank)
		inside[axis] = o.call("Less", nil, steps, n)
		places[axis] = o.call("Min", nil, o.call("Add", nil, lo, steps), o.scalar(tensor.Int64, float64(size-1)))
	}
	of := func(axis int) *graph.Value {
		return o.onAxis(o.values(tensor.Int64, grouped(pooled, group), pooled), axis, rank)
	}
	base := o.call("Add", nil, o.times(o.onAxis(r.image, 0, rank), float64(group)), of(1))
	base = o.times(o.call("Add", nil, o.times(base, float64(group)), of(2)), float64(r.high*r.wide))
	y := r.pixels(table, base, places[1], places[0])
	y = o.call("Where", nil, o.unsqueeze(o.call("And", nil, inside[0], inside[1]), rank), y, o.like(y, 0))
	y = o.reduce("ReduceSum", y, false, 3, 4)
	area := o.cast(o.call("Mul", nil, o.unsqueeze(counts[1], 2), o.unsqueeze(counts[0], 1)), r.dt)
	y = o.call("Div", nil, y, o.unsqueeze(o.call("Max", nil, area, o.like(area, 1)), 3)) // an empty cell has the sum 0
	return o.cast(o.transpose(y, 0, 3, 1, 2), o.typeOf(o.input(0)))
}

// between returns the pixels on both sides of places along an axis of size pixels, as whole numbers, and how far behind the first one a
// place is.
func (r *roi) between(at *graph.Value, size int) (lo, hi, behind *graph.Value) {
	o := r.o
	at = o.call("Clip", nil, at, o.like(at, 0), o.like(at, float64(size-1)))
	floor := o.call("Floor", nil, at)
	lo = o.index(floor)
	hi = o.call("Min", nil, o.plus(lo, 1), o.scalar(tensor.Int64, float64(size-1)))
	return lo, hi, o.minus(at, floor)
}

// sampled is the sum over the axes of samples at places y and x of a table's rows: interpolated between four pixels, 0 where inside is
// not true.
func (r *roi) sampled(table, base, y, x, inside *graph.Value, over ...int) *graph.Value {
	o := r.o
	top, bottom, down := r.between(y, r.high)
	left, right, aside := r.between(x, r.wide)
	up, back := o.minus(o.like(down, 1), down), o.minus(o.like(aside, 1), aside)
	rank := max(o.rank(y), o.rank(x), o.rank(base), o.rank(inside))
	corner := func(py, px, wy, wx *graph.Value) *graph.Value {
		return o.call("Mul", nil, o.unsqueeze(o.call("Mul", nil, wy, wx), rank), r.pixels(table, base, py, px))
	}
	sum := o.call("Add", nil, corner(top, left, up, back), corner(top, right, up, aside))
	sum = o.call("Add", nil, sum, corner(bottom, left, down, back))
	sum = o.call("Add", nil, sum, corner(bottom, right, down, aside))
	sum = o.call("Where", nil, o.unsqueeze(inside, rank), sum, o.like(sum, 0))
	return o.reduce("ReduceSum", sum, false, over...)
}

// deformablePooling averages samples in each cell of a grid in a region, which offsets move, of channels that are the cell's own (Dai et
// al., Deformable convolutional networks, 10.1109/ICCV.2017.89).
func deformablePooling(o *op) []*graph.Value {
	still := o.flag("no_trans", false)
	n := 3
	if still {
		n = 2
	}
	o.inputs(n, n)
	o.require(o.integer("group_size", 0) > 0, "group_size is missing")
	r := o.rois(5)
	dim, pooled, group := r.grid(o)
	scale, samples, part := o.requiredNumber("spatial_scale"), o.integer("sample_per_part", 1), o.integer("part_size", 0)
	if part == 0 {
		part = pooled
	}
	o.require(samples > 0 && samples <= 1<<6 && part > 0 && part <= 1<<8, "%d samples of parts of %d", samples, part)
	std := o.number("trans_std", 0)
	classes := 1
	var offsets *graph.Value // [R, classes, 2, pooled, pooled]
	if !still {
		t := o.cast(o.input(2), r.dt)
		o.require(o.rank(t) == 4 && o.static(t, 1) >= 2 && o.static(t, 2) == part && o.static(t, 3) == part, "offsets %v for parts of %d", t.Type.Shape, part)
		classes = o.static(t, 1) / 2
		o.require(o.static(t, 1) == 2*classes && dim%classes == 0, "%d channels of %d classes", dim, classes)
		at := make([]float64, pooled)
		for i := range at {
			at[i] = math.Floor(float64(float32(i) / float32(pooled) * float32(part)))
		}
		list := o.values(tensor.Int64, at, pooled)
		offsets = o.reshape(t, rest, fixed(classes), fixed(2), fixed(part), fixed(part))
		offsets = o.call("Gather", attrs(graph.IntAttr("axis", 3)), offsets, list)
		offsets = o.times(o.call("Gather", attrs(graph.IntAttr("axis", 4)), offsets, list), std)
	}
	each := dim / classes
	// A table of pixels by image, class, group's row and column, y and x, with the channels of a class side by side.
	table := o.reshape(r.x, rest, fixed(classes), fixed(each), fixed(group), fixed(group), fixed(r.high), fixed(r.wide))
	table = o.reshape(o.transpose(table, 0, 1, 3, 4, 5, 6, 2), rest, fixed(each))
	const rank = 6 // region, class, row and column of the grid, y and x of the sample
	var at [2]*graph.Value
	var inside *graph.Value
	for axis, size := range []int{r.wide, r.high} {
		begin, length := r.scaledSides(axis, scale, -0.5)
		cell := o.call("Div", nil, length, o.like(length, float64(pooled)))
		step := o.call("Div", nil, cell, o.like(cell, float64(samples)))
		v := o.call("Mul", nil, o.onAxis(r.counted(0, pooled), 3-axis, rank), o.onAxis(cell, 0, rank))
		v = o.call("Add", nil, v, o.onAxis(begin, 0, rank))
		if offsets != nil {
			shift := o.unsqueeze(o.squeeze(o.slice(offsets, 2, axis, axis+1), 2), 4, 5)
			v = o.call("Add", nil, v, o.call("Mul", nil, shift, o.onAxis(length, 0, rank)))
		}
		v = o.call("Add", nil, v, o.call("Mul", nil, o.onAxis(r.counted(0, samples), 5-axis, rank), o.onAxis(step, 0, rank)))
		in := o.call("And", nil, o.call("GreaterOrEqual", nil, v, o.like(v, -0.5)), o.call("LessOrEqual", nil, v, o.like(v, float64(size)-0.5)))
		if at[axis] = v; inside != nil {
			in = o.call("And", nil, inside, in)
		}
		inside = in
	}
	whole := func(n int) *graph.Value { return o.positions(fixed(n)) }
	of := func(axis int) *graph.Value {
		return o.onAxis(o.values(tensor.Int64, grouped(pooled, group), pooled), axis, rank)
	}
	base := o.call("Add", nil, o.times(o.onAxis(r.image, 0, rank), float64(classes)), o.onAxis(whole(classes), 1, rank))
	base = o.call("Add", nil, o.times(base, float64(group)), of(2))
	base = o.times(o.call("Add", nil, o.times(base, float64(group)), of(3)), float64(r.high*r.wide))
	y := r.sampled(table, base, at[1], at[0], inside, 4, 5) // [R, classes, pooled, pooled, each]
	count := o.reduce("ReduceSum", o.cast(inside, r.dt), false, 4, 5)
	y = o.call("Div", nil, y, o.unsqueeze(o.call("Max", nil, count, o.like(count, 1)), 4))
	y = o.reshape(o.transpose(y, 0, 1, 4, 2, 3), rest, fixed(dim), fixed(pooled), fixed(pooled))
	return []*graph.Value{o.cast(y, o.typeOf(o.input(0))), nil}
}

// counted returns n whole numbers from first on in the type in which places are computed.
func (r *roi) counted(first, n int) *graph.Value {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(first + i)
	}
	return r.o.values(r.dt, v, n)
}

// rotatedAlign averages samples in each cell of a grid in regions that are turned: image, center, width, height and angle in degrees (Ma
// et al., Arbitrary-oriented scene text detection via rotation proposals, 10.1109/TMM.2018.2818020).
func rotatedAlign(o *op) *graph.Value {
	o.inputs(2, 2)
	r := o.rois(6)
	pooled := o.tuple("pooled_size", 2, 0, 1)
	o.require(pooled[0] > 0 && pooled[0] <= 1<<8 && pooled[1] <= 1<<8, "pooled_size is missing or too large")
	scale, ratio := o.requiredNumber("spatial_scale"), o.integer("sampling_ratio", -1)
	o.require(ratio <= 1<<6, "%d samples", ratio)
	const rank = 5 // region, row and column of the grid, y and x of the sample
	table := o.reshape(o.transpose(r.x, 0, 2, 3, 1), rest, fixed(o.static(r.x, 1)))
	var from, inside, counts [2]*graph.Value // places from the center, along x and y of the region
	for axis, n := range []int{pooled[1], pooled[0]} {
		length := o.times(r.sides[axis+2], scale)
		length = o.call("Max", nil, length, o.like(length, 1))
		cell := o.call("Div", nil, length, o.like(length, float64(n)))
		samples := r.counted(0, max(ratio, 0))
		counts[axis] = o.like(cell, float64(ratio))
		if ratio <= 0 { // as many samples as pixels
			counts[axis] = o.onAxis(o.call("Ceil", nil, cell), 0, rank)
			most := o.index(o.reduce("ReduceMax", o.concat(0, o.reshape(counts[axis], rest), o.values(r.dt, []float64{0}, 1)), false))
			samples = o.cast(o.call("Range", nil, o.scalar(tensor.Int64, 0), most, o.scalar(tensor.Int64, 1)), r.dt)
		}
		samples = o.onAxis(samples, 4-axis, rank)
		inside[axis] = o.call("Less", nil, samples, counts[axis])
		cell = o.onAxis(cell, 0, rank)
		v := o.call("Add", nil, o.onAxis(o.times(length, -0.5), 0, rank), o.call("Mul", nil, o.onAxis(r.counted(0, n), 2-axis, rank), cell))
		from[axis] = o.call("Add", nil, v, o.call("Div", nil, o.call("Mul", nil, o.plus(samples, 0.5), cell), counts[axis]))
	}
	angle := o.onAxis(o.times(r.sides[4], math.Pi/180), 0, rank)
	cos, sin := o.call("Cos", nil, angle), o.call("Sin", nil, angle)
	place := func(a, b *graph.Value, op string, axis int) *graph.Value {
		v := o.call(op, nil, o.call("Mul", nil, a, cos), o.call("Mul", nil, b, sin))
		return o.call("Add", nil, v, o.onAxis(o.times(r.sides[axis], scale), 0, rank))
	}
	x, y := place(from[0], from[1], "Add", 0), place(from[1], from[0], "Sub", 1)
	in := o.call("And", nil, inside[0], inside[1])
	for i, v := range []*graph.Value{x, y} {
		in = o.call("And", nil, in, o.call("And", nil, o.call("GreaterOrEqual", nil, v, o.like(v, -1)),
			o.call("LessOrEqual", nil, v, o.like(v, float64([]int{r.wide, r.high}[i])))))
	}
	base := o.onAxis(o.times(r.image, float64(r.high*r.wide)), 0, rank)
	sum := r.sampled(table, base, y, x, in, 3, 4)
	n := o.call("Mul", nil, counts[0], counts[1])
	if ratio <= 0 {
		n = o.squeeze(n, 4)
	}
	return o.cast(o.transpose(o.call("Div", nil, sum, n), 0, 3, 1, 2), o.typeOf(o.input(0)))
}
