package mxnet

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// proposalOperators are where the detectors of two stages look (Ren et al., Faster R-CNN, 10.1109/TPAMI.2016.2577031).
func proposalOperators() map[string]operator {
	table := map[string]operator{}
	named(table, own(operator{do: proposals}), "_contrib_Proposal", "_contrib_MultiProposal", "Proposal")
	return table
}

// regions are the attributes of proposals.
type regions struct {
	stride         int
	scales, ratios []float64
}

// boxes returns the anchors of all places of a map of h by w, [h·w·each, 4] by their corners in pixels.
func (r *regions) boxes(h, w int) []float64 {
	side, out := float64(r.stride), make([]float64, 0, h*w*len(r.scales)*len(r.ratios)*4)
	mid := (side - 1) / 2
	for y := range h {
		for x := range w {
			cx, cy := mid+float64(x*r.stride), mid+float64(y*r.stride)
			for _, ratio := range r.ratios {
				wide := math.Floor(math.Sqrt(math.Floor(side*side/ratio)) + 0.5)
				for _, scale := range r.scales {
					bw, bh := (wide*scale-1)/2, (math.Floor(wide*ratio+0.5)*scale-1)/2
					out = append(out, cx-bw, cy-bh, cx+bw, cy+bh)
				}
			}
		}
	}
	return out
}

// proposals are the boxes that most probably hold something: of every image the best of them, [N·count, 5] with the image's number,
// and their scores. Where too few are left, or were looked at, they are repeated.
func proposals(o *op) []*graph.Value {
	o.inputs(3, 3)
	score, delta, info := o.input(0), o.input(1), o.input(2)
	r := &regions{stride: o.integer("feature_stride", 16), scales: o.numbers("scales", 4, 8, 16, 32), ratios: o.numbers("ratios", 0.5, 1, 2)}
	before, count := o.integer("rpn_pre_nms_top_n", 6000), o.integer("rpn_post_nms_top_n", 300)
	limit, least, free := o.number("threshold", 0.7), o.integer("rpn_min_size", 16), o.flag("iou_loss", false)
	o.flag("output_score", false)
	each := len(r.scales) * len(r.ratios)
	o.require(o.rank(score) == 4 && o.rank(delta) == 4 && o.rank(info) == 2, "ranks %d, %d and %d", o.rank(score), o.rank(delta), o.rank(info))
	o.require(r.stride > 0 && each > 0 && each <= maxParts && o.static(score, 1) == 2*each && o.static(delta, 1) == 4*each,
		"%d anchors of stride %d, %d scores and %d shifts", each, r.stride, o.static(score, 1), o.static(delta, 1))
	for _, v := range append(append([]float64{}, r.scales...), r.ratios...) {
		o.require(v > 0, "a scale or ratio of %v", v)
	}
	h, w := o.static(score, 2), o.static(score, 3)
	o.require(h > 0 && w > 0 && h <= maxRange/w/each/4, "a map of %d by %d", h, w)
	all := h * w * each
	if before <= 0 || before > all {
		before = all
	}
	if count <= 0 {
		count = before
	}
	o.require(count <= maxRange/4, "%d proposals", count)
	dt, n := o.typeOf(score), o.dim(score, 0)
	n.of = nil
	s := o.reshape(o.transpose(o.slice(score, 1, each, 2*each), 0, 2, 3, 1), n, fixed(all))
	d := o.reshape(o.transpose(o.reshape(delta, n, fixed(each), fixed(4), fixed(h), fixed(w)), 0, 3, 4, 1, 2), n, fixed(all), fixed(4))
	sides := o.shifted(o.values(dt, r.boxes(h, w), 1, all, 4), d, free)
	about := func(i int) *graph.Value { return o.slice(info, 1, i, i+1) } // height, width and scale of the images, [N, 1]
	zero := o.like(s, 0)
	for i := range sides {
		sides[i] = o.call("Max", nil, o.call("Min", nil, sides[i], o.plus(about(1-i%2), -1)), zero)
	}
	s = o.call("Where", nil, o.outside(about, r.stride, h, w, each), o.like(s, -1), s)
	smallest := o.times(about(2), float64(least))
	small := o.call("Or", nil, o.call("Less", nil, o.plus(o.minus(sides[2], sides[0]), 1), smallest),
		o.call("Less", nil, o.plus(o.minus(sides[3], sides[1]), 1), smallest))
	grown := o.call("Where", nil, small, o.times(smallest, 0.5), zero)
	s = o.call("Where", nil, small, o.like(s, -1), s)
	rows := []*graph.Value{o.unsqueeze(s, 2)}
	for i, v := range sides {
		if i < 2 {
			v = o.minus(v, grown)
		} else {
			v = o.plus(o.call("Add", nil, v, grown), 1) // boxes reach to the end of their last pixel
		}
		rows = append(rows, o.unsqueeze(v, 2))
	}
	best := o.calls(Domain, "BoxNMS", 1, attrs(graph.FloatAttr("overlap_thresh", float32(limit)), graph.FloatAttr("valid_thresh", -2),
		graph.IntAttr("topk", int64(before)), graph.IntAttr("coord_start", 1), graph.IntAttr("score_index", 0)), o.concat(2, rows...))[0]
	return o.repeated(best, n, count)
}

// shifted moves anchors by what was predicted: center and logarithm of the size, or, where free, each side. [N, anchors] a side.
func (o *op) shifted(anchors, by *graph.Value, free bool) (sides [4]*graph.Value) {
	a, p := o.columnsOf(anchors, 0), o.columnsOf(by, 0)
	if free {
		for i := range sides {
			sides[i] = o.call("Add", nil, a[i], p[i])
		}
		return sides
	}
	for i := range 2 {
		size := o.plus(o.minus(a[i+2], a[i]), 1)
		mid := o.call("Add", nil, a[i], o.times(o.plus(size, -1), 0.5))
		mid = o.call("Add", nil, o.call("Mul", nil, p[i], size), mid)
		half := o.times(o.plus(o.call("Mul", nil, o.call("Exp", nil, p[i+2]), size), -1), 0.5)
		sides[i], sides[i+2] = o.minus(mid, half), o.call("Add", nil, mid, half)
	}
	return sides
}

// outside says of which anchors the place is in the padding behind the image, [N, anchors].
func (o *op) outside(about func(int) *graph.Value, stride, h, w, each int) *graph.Value {
	var out *graph.Value
	for i := range 2 {
		at := make([]float64, 0, h*w*each)
		for k := range h * w * each {
			place := k / each / w
			if i == 1 {
				place = k / each % w
			}
			at = append(at, float64(place))
		}
		size := about(i)
		real := o.call("Floor", nil, o.times(size, 1/float64(stride)))
		behind := o.call("GreaterOrEqual", nil, o.values(o.typeOf(size), at, 1, len(at)), real)
		if out == nil {
			out = behind
		} else {
			out = o.call("Or", nil, out, behind)
		}
	}
	return out
}

// repeated takes the first rows of each image, and begins anew where there are no more.
func (o *op) repeated(rows *graph.Value, n extent, count int) []*graph.Value {
	alive := o.cast(o.call("Greater", nil, o.squeeze(o.column(rows, 3), 2), o.like(rows, 0)), tensor.Int64)
	found := o.call("Max", nil, o.reduce("ReduceSum", alive, true, 1), o.scalar(tensor.Int64, 1)) // [N, 1]
	places := o.call("Mod", nil, o.unsqueeze(o.positions(fixed(count)), 0), found)
	taken := o.taken(rows, places)
	image := o.cast(o.reshape(o.positions(n), rest, fixed(1), fixed(1)), o.typeOf(rows))
	image = o.call("Expand", nil, image, o.vector(n, fixed(count), fixed(1)))
	boxes := o.concat(2, image, o.slice(taken, 2, 1, 3), o.plus(o.slice(taken, 2, 3, 5), -1))
	return []*graph.Value{o.reshape(boxes, rest, fixed(5)), o.reshape(o.column(taken, 0), rest, fixed(1))}
}
