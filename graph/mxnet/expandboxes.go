package mxnet

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// expandCorrelation compares one image with the other at one displacement a step.
func expandCorrelation(o *op, n *graph.Node) *graph.Value {
	f, err := fieldOf(n)
	if err != nil {
		o.fail(ErrAttribute, "%v", err)
	}
	o.require(o.rank(o.input(0)) == 4, "rank %d", o.rank(o.input(0)))
	even := int64(1 - f.kernel%2) // a patch with an even side stands one pixel over
	p := int64(f.pad)
	padded := func(x *graph.Value) *graph.Value {
		return o.call("Pad", nil, x, o.ints(0, 0, p, p, 0, 0, p+even, p+even), o.like(x, 0))
	}
	first, second := padded(o.input(0)), padded(o.input(1))
	end := int64(math.MaxInt64)
	if f.reach > 0 {
		end = int64(-f.reach)
	}
	first = o.call("Slice", nil, first, o.ints(int64(f.reach), int64(f.reach)), o.ints(end, end), o.ints(2, 3))
	size := o.call("Shape", attrs(graph.IntAttr("start", 2), graph.IntAttr("end", 4)), first)
	width := f.width()
	_, all := o.loop(fixed(width*width), nil, func(b *op, outer func(*graph.Value) *graph.Value, step, _ *graph.Value) (*graph.Value, *graph.Value) {
		w, at := b.scalar(tensor.Int64, float64(width)), b.unsqueeze(step, 0)
		place := b.concat(0, b.call("Div", nil, at, w), b.call("Mod", nil, at, w))
		shift := b.plus(b.times(b.plus(place, -float64(width/2)), float64(f.stride2)), float64(f.reach))
		moved := b.call("Slice", nil, outer(second), shift, b.call("Add", nil, shift, outer(size)), b.ints(2, 3))
		var y *graph.Value
		if f.multiply {
			y = b.call("Mul", nil, outer(first), moved)
		} else {
			y = b.call("Abs", nil, b.minus(outer(first), moved))
		}
		y = b.reduce("ReduceMean", y, true, 1)
		return nil, b.call("AveragePool", attrs(intsAttr("kernel_shape", []int{f.kernel, f.kernel}), intsAttr("strides", []int{f.stride1, f.stride1})), y)
	})
	return o.transpose(o.squeeze(all, 2), 1, 0, 2, 3)
}

// expandPrior makes anchors of an image whose size is known when the graph runs.
func expandPrior(o *op, n *graph.Node) *graph.Value {
	p, err := anchorsOf(n)
	if err != nil {
		o.fail(ErrAttribute, "%v", err)
	}
	x := o.input(0)
	o.require(o.rank(x) == 4, "rank %d", o.rank(x))
	var wide, high []float64
	add := func(size, ratio float64) {
		wide, high = append(wide, size*math.Sqrt(ratio)/2), append(high, size/math.Sqrt(ratio)/2)
	}
	for _, size := range p.sizes {
		add(size, p.ratios[0])
	}
	for _, r := range p.ratios[1:] {
		add(p.sizes[0], r)
	}
	real := func(v *graph.Value) *graph.Value { return o.cast(v, tensor.Float32) }
	h, w := o.dim(x, 2), o.dim(x, 3)
	place := func(i int, e extent) *graph.Value {
		at := o.plus(real(o.positions(e)), p.offsets[i])
		if p.steps[0] <= 0 || p.steps[1] <= 0 {
			return o.call("Div", nil, at, real(o.one(e)))
		}
		return o.times(at, p.steps[i])
	}
	down, right := o.reshape(place(0, h), rest, fixed(1), fixed(1)), o.reshape(place(1, w), fixed(1), rest, fixed(1))
	half := o.call("Mul", nil, o.values(tensor.Float32, wide, len(wide)), o.call("Div", nil, real(o.one(h)), real(o.one(w))))
	tall := o.values(tensor.Float32, high, len(high))
	h.of, w.of = nil, nil
	size := o.vector(h, w, fixed(len(wide)))
	var sides []*graph.Value
	for _, v := range []*graph.Value{o.minus(right, half), o.minus(down, tall), o.call("Add", nil, right, half), o.call("Add", nil, down, tall)} {
		sides = append(sides, o.unsqueeze(o.call("Expand", nil, v, size), 3))
	}
	y := o.concat(3, sides...)
	if p.clip {
		y = o.call("Clip", nil, y, o.like(y, 0), o.like(y, 1))
	}
	return o.reshape(y, fixed(1), rest, fixed(4))
}

// ranked sorts lists [B, N] downwards: numbers, and where they stood.
func (o *op) ranked(x *graph.Value) (values, places *graph.Value) {
	n := o.dim(x, 1)
	out := o.calls("", "TopK", 2, attrs(graph.IntAttr("axis", 1)), x, o.one(n))
	return out[0], out[1]
}

// taken takes elements or rows of lists [B, N] or [B, N, K] by places [B, N].
func (o *op) taken(x, places *graph.Value) *graph.Value {
	return o.call("GatherND", attrs(graph.IntAttr("batch_dims", 1)), x, o.unsqueeze(places, 2))
}

// gathered brings those of lists [B, N] for which alive holds to the front, in their order: it returns where they stood, and who is one.
func (o *op) gathered(alive, positions *graph.Value, n extent) (places, still *graph.Value) {
	at := o.cast(positions, tensor.Float32)
	key := o.call("Where", nil, alive, o.minus(o.cast(o.one(n), tensor.Float32), at), o.call("Neg", nil, at))
	values, places := o.ranked(key)
	return places, o.call("Greater", nil, values, o.like(values, 0))
}

// boxList are boxes [B, N] by their sides, of which some are alive, the best first.
type boxList struct {
	sides            [4]*graph.Value
	alive, positions *graph.Value
	class            *graph.Value // nil: a box suppresses those of all classes
	n                extent
	limit            float64
	more             bool // only what overlaps more than limit is suppressed
}

// suppressed returns who is alive when each box that is has ended those behind it that overlap it.
func (o *op) suppressed(l *boxList) *graph.Value {
	span := func(b *op, i int, s [4]*graph.Value) *graph.Value { return b.minus(s[i+2], s[i]) }
	area := o.call("Mul", nil, span(o, 0, l.sides), span(o, 1, l.sides))
	alive, _ := o.loop(l.n, l.alive, func(b *op, outer func(*graph.Value) *graph.Value, step, alive *graph.Value) (*graph.Value, *graph.Value) {
		at := b.unsqueeze(step, 0)
		this := func(x *graph.Value) *graph.Value { return b.call("Gather", attrs(graph.IntAttr("axis", 1)), x, at) }
		var cut [4]*graph.Value
		for i, s := range l.sides {
			s = outer(s)
			cut[i] = b.call([]string{"Max", "Max", "Min", "Min"}[i], nil, s, this(s))
		}
		zero := b.like(cut[0], 0)
		inner := b.call("Mul", nil, b.call("Max", nil, span(b, 0, cut), zero), b.call("Max", nil, span(b, 1, cut), zero))
		areas := outer(area)
		union := b.minus(b.call("Add", nil, areas, this(areas)), inner)
		some := b.call("Greater", nil, union, zero)
		ratio := b.call("Where", nil, some, b.call("Div", nil, inner, b.call("Where", nil, some, union, b.like(union, 1))), zero)
		compare := "GreaterOrEqual"
		if l.more {
			compare = "Greater"
		}
		ends := b.call(compare, nil, ratio, b.like(ratio, l.limit))
		ends = b.call("And", nil, ends, b.call("Greater", nil, outer(l.positions), step))
		if l.class != nil {
			class := outer(l.class)
			ends = b.call("And", nil, ends, b.call("Equal", nil, class, this(class)))
		}
		ends = b.call("And", nil, ends, this(alive))
		return b.call("And", nil, alive, b.call("Not", nil, ends)), nil
	})
	return alive
}

// columnsOf are columns from one on of rows [B, N, K], each [B, N].
func (o *op) columnsOf(x *graph.Value, from int) (c [4]*graph.Value) {
	for i := range c {
		c[i] = o.squeeze(o.column(x, from+i), 2)
	}
	return c
}

func expandNMS(o *op, n *graph.Node) *graph.Value {
	read := func(name string, def int64) int { return int(n.Int(name, def)) }
	start, score, id, background, most := read("coord_start", 2), read("score_index", 1), read("id_index", -1), read("background_id", -1), read("topk", -1)
	inCenter, outCenter := n.Int("in_center", 0) != 0, n.Int("out_center", 0) != 0
	x := o.input(0)
	dims := o.dims(x)
	o.require(len(dims) >= 2, "rank %d", len(dims))
	for i := range dims {
		dims[i].of = nil
	}
	count, k := dims[len(dims)-2], o.static(x, len(dims)-1)
	o.require(start >= 0 && start+4 <= k && score >= 0 && score < k && id < k, "coordinates from %d, score at %d and class at %d of %d numbers", start, score, id, k)
	rows := o.reshape(x, rest, count, fixed(k))
	scores := o.squeeze(o.column(rows, score), 2)
	good := o.call("Greater", nil, scores, o.like(x, float64(n.Float("valid_thresh", 0))))
	if id >= 0 && background >= 0 {
		class := o.squeeze(o.column(rows, id), 2)
		good = o.call("And", nil, good, o.call("Not", nil, o.call("Equal", nil, class, o.like(x, float64(background)))))
	}
	none := o.like(x, math.Inf(-1))
	scores, places := o.ranked(o.call("Where", nil, good, scores, none))
	l := &boxList{alive: o.call("Greater", nil, scores, none), positions: o.unsqueeze(o.positions(count), 0), n: count,
		limit: float64(n.Float("overlap_thresh", 0.5)), more: true}
	if most > 0 {
		l.alive = o.call("And", nil, l.alive, o.call("Less", nil, l.positions, o.scalar(tensor.Int64, float64(most))))
	}
	rows = o.taken(rows, places)
	if n.Int("force_suppress", 0) == 0 && id >= 0 {
		l.class = o.squeeze(o.column(rows, id), 2)
	}
	l.sides = o.cornered(o.columnsOf(rows, start), inCenter)
	if inCenter != outCenter {
		rows = o.converted(rows, l.sides, start, k, outCenter)
	}
	front, alive := o.gathered(o.suppressed(l), l.positions, count)
	rows = o.call("Where", nil, o.unsqueeze(alive, 2), o.taken(rows, front), o.like(x, -1))
	return o.reshape(rows, dims...)
}

// converted gives rows [B, N, K] boxes in the other format, but those that begin below 0.
func (o *op) converted(rows *graph.Value, sides [4]*graph.Value, start, k int, center bool) *graph.Value {
	if center {
		sum := func(i int) *graph.Value { return o.times(o.call("Add", nil, sides[i], sides[i+2]), 0.5) }
		sides = [4]*graph.Value{sum(0), sum(1), o.minus(sides[2], sides[0]), o.minus(sides[3], sides[1])}
	}
	var parts []*graph.Value
	if start > 0 {
		parts = append(parts, o.slice(rows, 2, 0, start))
	}
	for _, s := range sides {
		parts = append(parts, o.unsqueeze(s, 2))
	}
	if start+4 < k {
		parts = append(parts, o.slice(rows, 2, start+4, toEnd))
	}
	return o.call("Where", nil, o.call("Less", nil, o.column(rows, start), o.like(rows, 0)), rows, o.concat(2, parts...))
}

func expandDetection(o *op, n *graph.Node) *graph.Value {
	p := o.input(0)
	o.require(o.rank(p) == 3, "rank %d", o.rank(p))
	batch, count := o.dim(p, 0), o.dim(p, 2)
	batch.of, count.of = nil, nil
	background, most := int(n.Int("background_id", 0)), int(n.Int("nms_topk", -1))
	limit := float64(n.Float("nms_threshold", 0.5))
	kind := o.reshape(o.positions(o.dim(p, 1)), fixed(1), rest, fixed(1))
	ground := o.scalar(tensor.Int64, float64(background))
	p = o.call("Where", nil, o.call("Equal", nil, kind, ground), o.like(p, -1), p)
	score := o.reduce("ReduceMax", p, false, 1)
	id := o.call("ArgMax", attrs(graph.IntAttr("axis", 1), graph.IntAttr("keepdims", 0)), p)
	good := o.call("And", nil, o.call("Greater", nil, score, o.like(p, -1)), o.call("GreaterOrEqual", nil, score, o.like(p, float64(n.Float("threshold", 0.01)))))
	id = o.minus(id, o.cast(o.call("Greater", nil, id, ground), tensor.Int64))
	sides := o.decoded(o.reshape(o.input(1), batch, count, fixed(4)), o.reshape(o.input(2), fixed(1), count, fixed(4)), n)
	parts := []*graph.Value{o.unsqueeze(score, 2)}
	for _, s := range sides {
		parts = append(parts, o.unsqueeze(s, 2))
	}
	rows := o.concat(2, parts...)
	positions := o.unsqueeze(o.positions(count), 0)
	found, alive := o.gathered(good, positions, count)
	class, body := o.taken(o.cast(id, o.typeOf(p)), found), o.taken(rows, found)
	if limit > 0 && limit <= 1 {
		_, places := o.ranked(o.call("Where", nil, good, score, o.like(p, math.Inf(-1))))
		best := o.taken(o.cast(id, o.typeOf(p)), places)
		l := &boxList{alive: alive, positions: positions, n: count, limit: limit}
		front := alive
		sorted := o.taken(rows, places)
		if most > 0 { // behind these stands what stood there before, as no detection
			within := o.call("Less", nil, positions, o.scalar(tensor.Int64, float64(most)))
			body = o.call("Where", nil, o.unsqueeze(within, 2), sorted, body)
			front = o.call("And", nil, alive, within)
		} else {
			body = sorted
		}
		if l.alive = front; n.Int("force_suppress", 0) == 0 {
			l.class = best
		}
		l.sides = o.columnsOf(body, 1)
		class = o.call("Where", nil, o.suppressed(l), best, o.like(best, -1))
	}
	rows = o.concat(2, o.unsqueeze(class, 2), body)
	return o.call("Where", nil, o.unsqueeze(alive, 2), rows, o.like(rows, -1))
}

// decoded moves anchors [1, N, 4] by what was predicted, [B, N, 4].
func (o *op) decoded(by, anchors *graph.Value, n *graph.Node) [4]*graph.Value {
	v := n.Floats("variances")
	o.require(len(v) == 4, "%d variances", len(v))
	a, p := o.columnsOf(anchors, 0), o.columnsOf(by, 0)
	var low, high [2]*graph.Value
	for i := range 2 {
		size := o.minus(a[i+2], a[i])
		mid := o.call("Add", nil, o.call("Mul", nil, o.times(p[i], float64(v[i])), size), o.times(o.call("Add", nil, a[i], a[i+2]), 0.5))
		half := o.times(o.call("Mul", nil, o.call("Exp", nil, o.times(p[i+2], float64(v[i+2]))), size), 0.5)
		low[i], high[i] = o.minus(mid, half), o.call("Add", nil, mid, half)
	}
	out := [4]*graph.Value{low[0], low[1], high[0], high[1]}
	if n.Int("clip", 1) != 0 {
		for i, s := range out {
			out[i] = o.call("Clip", nil, s, o.like(s, 0), o.like(s, 1))
		}
	}
	return out
}
