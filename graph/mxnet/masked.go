package mxnet

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// maskedOperators are attention that sees a part of what there is.
func maskedOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(func(o *op) *graph.Value { return maskedSoftmax(o, "Softmax", 0) }), "masked_softmax", "_npx_masked_softmax")
	named(table, single(func(o *op) *graph.Value { return maskedSoftmax(o, "LogSoftmax", math.Inf(-1)) }), "masked_log_softmax", "_npx_masked_log_softmax")
	named(table, single(windowScore), "_contrib_sldwin_atten_score", "_npx_sldwin_atten_score")
	named(table, single(windowMask), "_contrib_sldwin_atten_mask_like", "_npx_sldwin_atten_mask_like")
	named(table, single(windowContext), "_contrib_sldwin_atten_context", "_npx_sldwin_atten_context")
	return table
}

// maskedSoftmax is a softmax over the elements whose mask is true; the others are none.
func maskedSoftmax(o *op, name string, none float64) *graph.Value {
	o.inputs(2, 2)
	o.ignore("normalize")
	x, mask := o.input(0), o.truth(o.input(1))
	axis := o.axisOf(o.integer("axis", -1), o.rank(x))
	t := o.number("temperature", 1)
	o.require(t != 0, "temperature is 0")
	return o.inFull(func(xs ...*graph.Value) *graph.Value {
		y := xs[0]
		if t != 1 {
			y = o.times(y, 1/t)
		}
		lowest := -math.MaxFloat32 // a row without any element stays one of numbers
		y = o.call(name, attrs(graph.IntAttr("axis", int64(axis))), o.call("Where", nil, mask, y, o.like(y, lowest)))
		return o.call("Where", nil, mask, y, o.like(y, none))
	}, x)
}

// window is a sliding window of attention (Beltagy et al., Longformer, arXiv:2004.05150): place i of head h sees the places
// i + (j-w)·dilation[h] for j in [0, width).
type window struct {
	width  int
	places *graph.Value // [heads, S·width, 1], within the sequence
	inside *graph.Value // [S, heads, width]: whether the place is in the sequence
	at     *graph.Value // [S, heads, width]: the place
}

// sliding reads the attributes for sequences of length n, with the dilation of each head.
func (o *op) sliding(n extent, dilation *graph.Value) *window {
	w, symmetric := o.required("w"), o.flag("symmetric", true)
	o.require(w >= 0 && w <= maxParts && o.rank(dilation) == 1, "a window of %d", w)
	l := &window{width: w + 1}
	if symmetric {
		l.width += w
	}
	shifts := make([]int64, l.width)
	for j := range shifts {
		shifts[j] = int64(j - w)
	}
	by := o.call("Mul", nil, o.unsqueeze(o.index(dilation), 1), o.ints(shifts...)) // [heads, width]
	l.at = o.call("Add", nil, o.unsqueeze(o.positions(n), 1, 2), o.unsqueeze(by, 0))
	size := o.squeeze(o.one(n), 0)
	l.inside = o.call("And", nil, o.call("GreaterOrEqual", nil, l.at, o.scalar(tensor.Int64, 0)), o.call("Less", nil, l.at, size))
	places := o.transpose(o.bounded(l.at, n, "clip"), 1, 0, 2)
	l.places = o.reshape(places, o.dim(dilation, 0), rest, fixed(1))
	return l
}

// seen takes of x [B, S, heads, D] what each place sees: [heads, S, width, B, D].
func (o *op) seen(x *graph.Value, l *window) *graph.Value {
	d := o.dims(x)
	for i := range d {
		d[i].of = nil
	}
	y := o.call("GatherND", attrs(graph.IntAttr("batch_dims", 1)), o.transpose(x, 2, 1, 0, 3), l.places)
	return o.reshape(y, d[2], d[1], fixed(l.width), d[0], d[3])
}

// windowScore multiplies queries with the keys that they see: [B, S, heads, width].
func windowScore(o *op) *graph.Value {
	o.inputs(3, 3)
	q, k := o.input(0), o.input(1)
	o.require(o.rank(q) == 4 && o.rank(k) == 4, "ranks %d and %d", o.rank(q), o.rank(k))
	l := o.sliding(o.dim(k, 1), o.input(2))
	keys := o.transpose(o.seen(k, l), 3, 1, 0, 2, 4) // [B, S, heads, width, D]
	y := o.squeeze(o.call("MatMul", nil, keys, o.unsqueeze(q, 4)), 4)
	return o.call("Where", nil, l.inside, y, o.like(y, 0))
}

// windowMask is 1 where a score stands for two places of the sequence that are below its length.
func windowMask(o *op) *graph.Value {
	o.inputs(3, 3)
	score, lengths := o.input(0), o.input(2)
	o.require(o.rank(score) == 4 && o.rank(lengths) == 1, "ranks %d and %d", o.rank(score), o.rank(lengths))
	n := o.dim(score, 1)
	l := o.sliding(n, o.input(1))
	length := o.unsqueeze(o.index(lengths), 1, 2, 3)
	seen := o.call("And", nil, l.inside, o.call("Less", nil, l.at, length))
	seer := o.call("Less", nil, o.unsqueeze(o.positions(n), 0, 2, 3), length)
	return o.cast(o.call("And", nil, seen, seer), o.typeOf(score))
}

// windowContext sums the values that are seen by their scores: [B, S, heads, D].
func windowContext(o *op) *graph.Value {
	o.inputs(3, 3)
	score, v := o.input(0), o.input(1)
	o.require(o.rank(score) == 4 && o.rank(v) == 4, "ranks %d and %d", o.rank(score), o.rank(v))
	l := o.sliding(o.dim(v, 1), o.input(2))
	score = o.call("Where", nil, l.inside, score, o.like(score, 0))
	values := o.transpose(o.seen(v, l), 3, 1, 0, 2, 4)
	return o.squeeze(o.call("MatMul", nil, o.unsqueeze(score, 3), values), 3)
}
