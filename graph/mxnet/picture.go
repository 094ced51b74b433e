package mxnet

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// pictureOperators prepare pictures [H, W, C], or several [N, H, W, C], for a network.
func pictureOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(toTensor), "_image_to_tensor", "_npx__image_to_tensor")
	named(table, single(normalize), "_image_normalize", "_npx__image_normalize")
	named(table, single(cropPicture), "_image_crop", "_npx__image_crop")
	named(table, single(resizePicture), "_image_resize", "_npx__image_resize")
	for name, behind := range map[string]int{"flip_left_right": 1, "flip_top_bottom": 0} {
		named(table, single(func(o *op) *graph.Value {
			o.inputs(1, 1)
			return o.reversed(o.input(0), o.rows(o.input(0))+behind)
		}), "_image_"+name, "_npx__image_"+name)
	}
	return table
}

// rows returns the axis of the rows of pictures; that of the columns comes next, then the channels'.
func (o *op) rows(x *graph.Value) int {
	rank := o.rank(x)
	o.require(rank == 3 || rank == 4, "rank %d", rank)
	return rank - 3
}

// toTensor moves channels to the front, and makes of bytes numbers up to 1.
func toTensor(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	at := o.rows(x)
	perm := []int{at + 2, at, at + 1}
	if at == 1 {
		perm = append([]int{0}, perm...)
	}
	y := o.cast(x, tensor.Float32)
	return o.transpose(o.call("Div", nil, y, o.like(y, 255)), perm...)
}

// normalize subtracts a mean for each channel and divides by a deviation; channels stand in front of rows.
func normalize(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	o.rows(x)
	list := func(key string, def float64) *graph.Value {
		v := o.numbers(key, def)
		o.require(len(v) > 0 && len(v) <= maxParts, "%s has %d numbers", key, len(v))
		if n, ok := o.shape(x)[o.rank(x)-3].Const(); ok && int64(len(v)) > n { // more than there are channels
			v = v[:n]
		}
		return o.values(o.typeOf(x), v, len(v), 1, 1)
	}
	return o.call("Div", nil, o.call("Sub", nil, x, list("mean", 0)), list("std", 1))
}

func cropPicture(o *op) *graph.Value {
	o.inputs(1, 1)
	in := o.input(0)
	at := o.rows(in)
	x, y, w, h := o.required("x"), o.required("y"), o.required("width"), o.required("height")
	o.require(x >= 0 && y >= 0 && w > 0 && h > 0, "%d by %d from %d, %d", w, h, x, y)
	return o.slice(o.slice(in, at, y, y+h), at+1, x, x+w)
}

// resizePicture interpolates between pixels, whose middles lie half a pixel from their edges.
func resizePicture(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	at := o.rows(x)
	size, _ := o.list("size")
	if len(size) == 1 {
		size = append(size, size[0])
	}
	o.require(len(size) == 2 && size[0] > 0 && size[1] > 0, "size %v", size)
	if o.flag("keep_ratio", false) || o.integer("interp", 1) != 1 {
		o.fail(ErrUnsupported, "keep_ratio, and interpolation that is not linear")
	}
	dt := o.typeOf(x)
	first := []int{at + 2, at, at + 1}
	y := o.cast(x, tensor.Float32)
	if at == 0 {
		y = o.unsqueeze(o.transpose(y, first...), 0)
	} else {
		y = o.transpose(y, append([]int{0}, first...)...)
	}
	want := []extent{o.dim(y, 0), o.dim(y, 1), fixed(size[1]), fixed(size[0])}
	y = o.call("Resize", attrs(graph.StringAttr("mode", "linear"), graph.StringAttr("coordinate_transformation_mode", "half_pixel")), y, nil, nil,
		o.vector(want...))
	if at == 0 {
		y = o.transpose(o.squeeze(y, 0), 1, 2, 0)
	} else {
		y = o.transpose(y, 0, 2, 3, 1)
	}
	if !dt.IsFloat() {
		y = o.call("Clip", nil, awayFromZero(o, y), o.like(y, 0), o.like(y, 255))
	}
	return o.cast(y, dt)
}
