package mxnet

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// detectionOperators are boxes of detectors.
func detectionOperators() map[string]operator {
	table := map[string]operator{}
	named(table, own(single(multiBoxPrior)), "_contrib_MultiBoxPrior", "MultiBoxPrior", "_npx_multibox_prior")
	named(table, own(single(multiBoxDetection)), "_contrib_MultiBoxDetection", "MultiBoxDetection", "_npx_multibox_detection")
	named(table, own(operator{do: boxNMS}), "_contrib_box_nms", "_contrib_box_non_maximum_suppression", "box_nms")
	named(table, single(boxIoU), "_contrib_box_iou", "box_iou")
	named(table, single(boxDecode), "_contrib_box_decode")
	return table
}

func floats32(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}

// pair reads two numbers.
func (o *op) pair(key string, def float64) []float64 {
	v := o.numbers(key, def, def)
	if len(v) == 1 {
		v = append(v, v[0])
	}
	o.require(len(v) == 2, "%s: 2 numbers are expected, found %d", key, len(v))
	return v
}

// multiBoxPrior makes anchors of an image's size: constants where that is known.
func multiBoxPrior(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	p := &anchors{sizes: o.numbers("sizes", 1), ratios: o.numbers("ratios", 1), steps: o.pair("steps", -1), offsets: o.pair("offsets", 0.5),
		clip: o.flag("clip", false)}
	o.require(len(p.sizes) > 0 && len(p.ratios) > 0, "no sizes or ratios")
	o.require(o.rank(x) == 4, "rank %d", o.rank(x))
	for _, r := range p.ratios {
		o.require(r > 0, "a ratio of %v", r)
	}
	h, ok1 := x.Type.Shape[2].Const()
	w, ok2 := x.Type.Shape[3].Const()
	if ok1 && ok2 {
		o.require(h >= 0 && w >= 0 && (w == 0 || h <= maxRange/w/int64(p.each())), "an image of %d by %d", h, w)
		v := p.boxes(int(h), int(w))
		return o.values(tensor.Float32, v, 1, len(v)/4, 4)
	}
	return o.calls(Domain, "MultiBoxPrior", 1, attrs(graph.FloatsAttr("sizes", floats32(p.sizes)...), graph.FloatsAttr("ratios", floats32(p.ratios)...),
		graph.FloatsAttr("steps", floats32(p.steps)...), graph.FloatsAttr("offsets", floats32(p.offsets)...), flagAttr("clip", p.clip)), x)[0]
}

// anchors says which boxes stand around every pixel.
type anchors struct {
	sizes, ratios, steps, offsets []float64
	clip                          bool
}

// each returns the number of boxes of a pixel.
func (p *anchors) each() int { return len(p.sizes) + len(p.ratios) - 1 }

// boxes returns the corners of all boxes, [h·w·each, 4]: all sizes in the first ratio, then the first size in the other ratios.
func (p *anchors) boxes(h, w int) []float64 {
	steps := []float64{p.steps[0], p.steps[1]}
	if steps[0] <= 0 || steps[1] <= 0 {
		steps = []float64{1 / float64(h), 1 / float64(w)}
	}
	out := make([]float64, 0, h*w*p.each()*4)
	add := func(x, y, size, ratio float64) {
		bw, bh := size*float64(h)/float64(w)*ratio/2, size/ratio/2
		for _, v := range [...]float64{x - bw, y - bh, x + bw, y + bh} {
			if p.clip {
				v = math.Min(math.Max(v, 0), 1)
			}
			out = append(out, v)
		}
	}
	for i := range h {
		y := (float64(i) + p.offsets[0]) * steps[0]
		for j := range w {
			x := (float64(j) + p.offsets[1]) * steps[1]
			for _, size := range p.sizes {
				add(x, y, size, math.Sqrt(p.ratios[0]))
			}
			for _, r := range p.ratios[1:] {
				add(x, y, p.sizes[0], math.Sqrt(r))
			}
		}
	}
	return out
}

func multiBoxDetection(o *op) *graph.Value {
	o.inputs(3, 3)
	v := o.numbers("variances", 0.1, 0.1, 0.2, 0.2)
	o.require(len(v) == 4, "variances: 4 numbers are expected, found %d", len(v))
	return o.calls(Domain, "MultiBoxDetection", 1, attrs(flagAttr("clip", o.flag("clip", true)), graph.FloatAttr("threshold", float32(o.number("threshold", 0.01))),
		graph.IntAttr("background_id", int64(o.integer("background_id", 0))), graph.FloatAttr("nms_threshold", float32(o.number("nms_threshold", 0.5))),
		flagAttr("force_suppress", o.flag("force_suppress", false)), graph.FloatsAttr("variances", floats32(v)...),
		graph.IntAttr("nms_topk", int64(o.integer("nms_topk", -1)))), o.in...)[0]
}

func boxNMS(o *op) []*graph.Value {
	o.inputs(1, 1)
	in, out := o.text("in_format", "corner", "corner", "center"), o.text("out_format", "corner", "corner", "center")
	y := o.calls(Domain, "BoxNMS", 1, attrs(graph.FloatAttr("overlap_thresh", float32(o.number("overlap_thresh", 0.5))),
		graph.FloatAttr("valid_thresh", float32(o.number("valid_thresh", 0))), graph.IntAttr("topk", int64(o.integer("topk", -1))),
		graph.IntAttr("coord_start", int64(o.integer("coord_start", 2))), graph.IntAttr("score_index", int64(o.integer("score_index", 1))),
		graph.IntAttr("id_index", int64(o.integer("id_index", -1))), graph.IntAttr("background_id", int64(o.integer("background_id", -1))),
		flagAttr("force_suppress", o.flag("force_suppress", false)), flagAttr("in_center", in == "center"), flagAttr("out_center", out == "center")), o.input(0))
	return []*graph.Value{y[0], nil}
}

// column takes one of the numbers of boxes.
func (o *op) column(x *graph.Value, i int) *graph.Value { return o.slice(x, o.rank(x)-1, i, i+1) }

// corners returns left, top, right and bottom of boxes, each [..., 1].
func (o *op) corners(x *graph.Value, center bool) [4]*graph.Value {
	var c [4]*graph.Value
	for i := range c {
		c[i] = o.column(x, i)
	}
	return o.cornered(c, center)
}

// cornered returns left, top, right and bottom of boxes that are given by these, or by center and size.
func (o *op) cornered(c [4]*graph.Value, center bool) [4]*graph.Value {
	if !center {
		return c
	}
	hw, hh := o.times(c[2], 0.5), o.times(c[3], 0.5)
	return [4]*graph.Value{o.minus(c[0], hw), o.minus(c[1], hh), o.call("Add", nil, c[0], hw), o.call("Add", nil, c[1], hh)}
}

// boxIoU is the overlap of all boxes of one operand with all of the other, divided by what they cover together.
func boxIoU(o *op) *graph.Value {
	o.inputs(2, 2)
	center := o.text("format", "corner", "corner", "center") == "center"
	a, b := o.input(0), o.input(1)
	da, db := o.dims(a), o.dims(b)
	o.require(len(da) > 0 && len(db) > 0, "ranks %d and %d", len(da), len(db))
	ca := o.corners(o.reshape(a, rest, fixed(4)), center)
	cb := o.corners(o.reshape(b, rest, fixed(4)), center)
	for i := range cb {
		cb[i] = o.transpose(cb[i], 1, 0)
	}
	side := func(c [4]*graph.Value, i int) *graph.Value {
		return o.call("Max", nil, o.call("Sub", nil, c[i+2], c[i]), o.like(a, 0))
	}
	cross := func(i int) *graph.Value {
		return o.call("Max", nil, o.call("Sub", nil, o.call("Min", nil, ca[i+2], cb[i+2]), o.call("Max", nil, ca[i], cb[i])), o.like(a, 0))
	}
	inner := o.call("Mul", nil, cross(0), cross(1))
	areas := o.call("Add", nil, o.call("Mul", nil, side(ca, 0), side(ca, 1)), o.call("Mul", nil, side(cb, 0), side(cb, 1)))
	union := o.call("Sub", nil, areas, inner)
	empty := o.call("LessOrEqual", nil, union, o.like(a, 0))
	iou := o.call("Where", nil, empty, o.like(a, 0), o.call("Div", nil, inner, o.call("Where", nil, empty, o.like(a, 1), union)))
	out := append(append([]extent{}, da[:len(da)-1]...), db[:len(db)-1]...)
	for i := range out {
		out[i].of = nil
	}
	return o.reshape(iou, out...)
}

// boxDecode applies predicted shifts to anchors.
func boxDecode(o *op) *graph.Value {
	o.inputs(2, 2)
	x, a := o.input(0), o.input(1)
	limit := o.number("clip", -1)
	center := o.text("format", "center", "corner", "center") == "center"
	var c [4]*graph.Value // center and size of the anchors
	for i := range c {
		c[i] = o.column(a, i)
	}
	if !center {
		w, h := o.call("Sub", nil, c[2], c[0]), o.call("Sub", nil, c[3], c[1])
		c = [4]*graph.Value{o.call("Add", nil, c[0], o.times(w, 0.5)), o.call("Add", nil, c[1], o.times(h, 0.5)), w, h}
	}
	var mid, half [2]*graph.Value
	for i := range 2 {
		std0, std1 := o.number([]string{"std0", "std1"}[i], 1), o.number([]string{"std2", "std3"}[i], 1)
		mid[i] = o.call("Add", nil, o.call("Mul", nil, o.times(o.column(x, i), std0), c[i+2]), c[i])
		size := o.times(o.column(x, i+2), std1)
		if limit > 0 {
			size = o.call("Min", nil, size, o.like(x, limit))
		}
		half[i] = o.times(o.call("Mul", nil, o.call("Exp", nil, size), c[i+2]), 0.5)
	}
	return o.concat(o.rank(x)-1, o.call("Sub", nil, mid[0], half[0]), o.call("Sub", nil, mid[1], half[1]),
		o.call("Add", nil, mid[0], half[0]), o.call("Add", nil, mid[1], half[1]))
}
