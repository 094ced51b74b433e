package mxnet

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// imageOperators sample and resize images.
func imageOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(roiPooling), "ROIPooling", "_npx_roi_pooling")
	named(table, single(roiAlign), "_contrib_ROIAlign")
	named(table, single(gridGenerator), "GridGenerator")
	named(table, single(bilinearSampler), "BilinearSampler")
	named(table, single(spatialTransformer), "SpatialTransformer")
	named(table, single(upSampling), "UpSampling")
	named(table, single(bilinearResize), "_contrib_BilinearResize2D")
	named(table, single(imageToColumns), "im2col")
	named(table, single(columnsToImage), "col2im")
	named(table, own(single(correlation)), "Correlation")
	return table
}

func roiPooling(o *op) *graph.Value {
	o.inputs(2, 2)
	size := o.tuple("pooled_size", 2, 0, 1)
	o.require(size[0] > 0, "pooled_size is missing")
	return o.call("MaxRoiPool", attrs(intsAttr("pooled_shape", size), graph.FloatAttr("spatial_scale", float32(o.requiredNumber("spatial_scale")))),
		o.input(0), o.input(1))
}

func roiAlign(o *op) *graph.Value {
	o.inputs(2, 2)
	size := o.tuple("pooled_size", 2, 0, 1)
	o.require(size[0] > 0, "pooled_size is missing")
	mode := "output_half_pixel"
	if o.flag("aligned", false) {
		mode = "half_pixel"
	}
	ratio := max(o.integer("sample_ratio", -1), 0)
	rois := o.input(1)
	image := o.index(o.squeeze(o.slice(rois, 1, 0, 1), 1))
	y := o.call("RoiAlign", attrs(graph.StringAttr("coordinate_transformation_mode", mode), graph.IntAttr("output_height", int64(size[0])),
		graph.IntAttr("output_width", int64(size[1])), graph.IntAttr("sampling_ratio", int64(ratio)),
		graph.FloatAttr("spatial_scale", float32(o.requiredNumber("spatial_scale")))), o.input(0), o.slice(rois, 1, 1, 5), image)
	if !o.flag("position_sensitive", false) {
		return y
	}
	// Every place of the grid has channels of its own: of the places of each, the one that is its own is taken.
	places := size[0] * size[1]
	o.require(places <= maxParts && o.static(o.input(0), 1)%places == 0, "%d channels for %d places", o.static(o.input(0), 1), places)
	y = o.reshape(y, rest, fixed(o.static(o.input(0), 1)/places), fixed(places), fixed(places))
	own := o.values(o.typeOf(y), eyeOf(places, places, 0), places, places)
	y = o.reduce("ReduceSum", o.call("Mul", nil, y, own), false, 2)
	return o.reshape(y, rest, fixed(o.static(o.input(0), 1)/places), fixed(size[0]), fixed(size[1]))
}

// affineGrid makes sampling places [N, h, w, 2] of transformations [N, 6].
func (o *op) affineGrid(theta *graph.Value, size []int) *graph.Value {
	o.require(size[0] > 0 && size[1] > 0, "target_shape is missing")
	n := o.dim(theta, 0)
	n.of = nil
	theta = o.reshape(theta, rest, fixed(2), fixed(3))
	return o.call("AffineGrid", attrs(graph.IntAttr("align_corners", 1)), theta, o.vector(n, fixed(1), fixed(size[0]), fixed(size[1])))
}

func (o *op) sample(x, grid *graph.Value) *graph.Value {
	return o.call("GridSample", attrs(graph.IntAttr("align_corners", 1), graph.StringAttr("mode", "linear"), graph.StringAttr("padding_mode", "zeros")), x, grid)
}

// gridGenerator makes places [N, 2, h, w] of transformations [N, 6], or of a flow [N, 2, h, w].
func gridGenerator(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	size := o.tuple("target_shape", 2, 0, 0)
	if o.text("transform_type", "", "affine", "warp") == "affine" {
		return o.transpose(o.affineGrid(x, size), 0, 3, 1, 2)
	}
	o.require(o.rank(x) == 4, "rank %d", o.rank(x))
	// The flow is added to the places of the pixels, which are then brought into [-1, 1].
	out := make([]*graph.Value, 2)
	for i := range out { // x, then y
		axis := 3 - i
		shape := []extent{fixed(1), fixed(1), fixed(1), fixed(1)}
		shape[axis] = rest
		place := o.reshape(o.cast(o.positions(o.dim(x, axis)), o.typeOf(x)), shape...)
		n := o.static(x, axis)
		o.require(n > 1, "an image of %d pixels", n)
		out[i] = o.plus(o.times(o.call("Add", nil, o.slice(x, 1, i, i+1), place), 2/float64(n-1)), -1)
	}
	return o.concat(1, out...)
}

func bilinearSampler(o *op) *graph.Value {
	o.inputs(2, 2)
	o.ignore("cudnn_off")
	return o.sample(o.input(0), o.transpose(o.input(1), 0, 2, 3, 1))
}

func spatialTransformer(o *op) *graph.Value {
	o.inputs(2, 2)
	o.ignore("cudnn_off")
	o.text("transform_type", "", "affine")
	o.text("sampler_type", "", "bilinear")
	return o.sample(o.input(0), o.affineGrid(o.input(1), o.tuple("target_shape", 2, 0, 0)))
}

// upSampling enlarges images by a whole number: by repeating pixels, or by a transposed convolution with the weight that is
// the second operand.
func upSampling(o *op) *graph.Value {
	scale := o.required("scale")
	o.require(scale >= 1 && scale <= 1<<12, "a scale of %d", scale)
	kind := o.text("sample_type", "", "nearest", "bilinear")
	mode := o.text("multi_input_mode", "concat", "concat", "sum")
	filters := o.integer("num_filter", 0)
	o.ignore("num_args", "workspace")
	x := o.input(0)
	if kind == "bilinear" {
		o.inputs(2, 2)
		k, pad := 2*scale-scale%2, scale/2 // ceil((scale-1)/2)
		o.require(filters > 0, "num_filter is missing")
		return o.call("ConvTranspose", attrs(intsAttr("kernel_shape", []int{k, k}), intsAttr("strides", []int{scale, scale}),
			intsAttr("pads", []int{pad, pad, pad, pad}), graph.IntAttr("group", int64(filters))), x, o.input(1))
	}
	o.inputs(1, maxParts)
	var parts []*graph.Value
	for i, v := range o.in {
		by := []float64{1, 1, float64(scale), float64(scale)}
		if i > 0 { // brought to the size that the first gets
			for a := 2; a < 4; a++ {
				want, have := scale*o.static(x, a), o.static(v, a)
				o.require(have > 0 && want%have == 0, "sizes %d and %d", want, have)
				by[a] = float64(want / have)
			}
		}
		scales := o.values(tensor.Float32, by, 4)
		parts = append(parts, o.call("Resize", attrs(graph.StringAttr("mode", "nearest"), graph.StringAttr("nearest_mode", "floor"),
			graph.StringAttr("coordinate_transformation_mode", "asymmetric")), v, nil, scales))
	}
	if mode == "sum" && len(parts) > 1 {
		return o.call("Sum", nil, parts...)
	}
	return o.concat(1, parts...)
}

func bilinearResize(o *op) *graph.Value {
	o.inputs(1, 2)
	x := o.input(0)
	height, width := o.integer("height", 1), o.integer("width", 1)
	sh, hasH := o.n.Attr("scale_height")
	sw, hasW := o.n.Attr("scale_width")
	scaleH, scaleW := o.number("scale_height", 0), o.number("scale_width", 0)
	mode := o.text("mode", "size", "size", "like", "odd_scale", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up")
	o.require(mode != "like" || len(o.in) == 2, "mode like needs a second operand")
	corners := "half_pixel"
	if o.flag("align_corners", true) {
		corners = "align_corners"
	}
	o.require(o.rank(x) == 4, "rank %d", o.rank(x))
	size := []extent{fixed(height), fixed(width)}
	switch {
	case mode == "like":
		size = []extent{o.dim(o.input(1), 2), o.dim(o.input(1), 3)}
	case mode != "size":
		for i, scale := range []float64{scaleH, scaleW} {
			size[i] = fixed(resized(mode, o.static(x, i+2), scale))
		}
	case hasH && sh != "None" && hasW && sw != "None":
		size = []extent{fixed(int(float64(o.static(x, 2)) * scaleH)), fixed(int(float64(o.static(x, 3)) * scaleW))}
	}
	for i := range size {
		size[i].of = nil
	}
	d := o.dims(x)
	return o.call("Resize", attrs(graph.StringAttr("mode", "linear"), graph.StringAttr("coordinate_transformation_mode", corners)),
		x, nil, nil, o.vector(d[0], d[1], size[0], size[1]))
}

// resized returns the size that a mode of BilinearResize2D makes of one.
func resized(mode string, n int, scale float64) int {
	odd := n % 2
	switch mode {
	case "odd_scale":
		if odd == 0 {
			return int(float64(n) * scale)
		}
		return int(float64(n-1)*scale) + 1
	case "to_even_down":
		return n - odd
	case "to_even_up":
		return n + odd
	case "to_odd_down":
		return n - 1 + odd
	}
	return n + 1 - odd
}

// imageToColumns lays the windows of an image out as columns: [N, C·kernel, places].
func imageToColumns(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	k := o.kernel()
	stride, dilate, pad := o.window(k)
	n := len(k)
	o.require(o.rank(x) == n+2, "rank %d", o.rank(x))
	count := 1
	for _, e := range k {
		o.require(e <= maxParts && count <= maxParts/e, "a kernel of %v", k)
		count *= e
	}
	if slices.Max(pad) > 0 {
		pads := make([]int64, 2*(n+2))
		for i, p := range pad {
			pads[2+i], pads[n+4+i] = int64(p), int64(p)
		}
		x = o.call("Pad", nil, x, o.ints(pads...), o.like(x, 0))
	}
	batch, channels := o.dim(x, 0), o.dim(x, 1)
	var axes, steps []int64
	for i := range k {
		axes, steps = append(axes, int64(i+2)), append(steps, int64(stride[i]))
	}
	parts := make([]*graph.Value, count)
	for c := range parts {
		var starts, ends []int64
		rest := c
		at := make([]int, n)
		for i := n - 1; i >= 0; i-- {
			at[i], rest = rest%k[i], rest/k[i]
		}
		for i := range k {
			// The last window begins so many elements before the end.
			last := (k[i] - 1 - at[i]) * dilate[i]
			starts = append(starts, int64(at[i]*dilate[i]))
			if ends = append(ends, toEnd); last > 0 {
				ends[i] = int64(-last)
			}
		}
		p := o.call("Slice", nil, x, o.ints(starts...), o.ints(ends...), o.ints(axes...), o.ints(steps...))
		parts[c] = o.unsqueeze(p, 2)
	}
	y := o.concat(2, parts...)
	batch.of, channels.of = nil, nil
	return o.reshape(y, batch, o.mul(channels, fixed(count)), rest)
}

// columnsToImage adds columns up where their windows stand in an image.
func columnsToImage(o *op) *graph.Value {
	o.inputs(1, 1)
	size, _ := o.list("output_size")
	k := o.kernel()
	stride, dilate, pad := o.window(k)
	o.require(len(size) == len(k), "output_size %v of a kernel %v", size, k)
	return o.call("Col2Im", attrs(intsAttr("strides", stride), intsAttr("dilations", dilate), intsAttr("pads", append(slices.Clone(pad), pad...))),
		o.input(0), o.ints(ints64(size)...), o.ints(ints64(k)...))
}

func correlation(o *op) *graph.Value {
	o.inputs(2, 2)
	as := attrs(graph.IntAttr("kernel_size", int64(o.integer("kernel_size", 1))), graph.IntAttr("max_displacement", int64(o.integer("max_displacement", 1))),
		graph.IntAttr("stride1", int64(o.integer("stride1", 1))), graph.IntAttr("stride2", int64(o.integer("stride2", 1))),
		graph.IntAttr("pad_size", int64(o.integer("pad_size", 0))), flagAttr("is_multiply", o.flag("is_multiply", true)))
	return o.calls(Domain, "Correlation", 1, as, o.input(0), o.input(1))[0]
}
