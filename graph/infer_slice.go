package graph

import (
	"fmt"
	"math"
)

// inferSlice: attributes in version 1, then inputs starts, ends, axes and steps.
func inferSlice(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, nil)
	}
	b := c.sliceBounds()
	axes, n, err := c.sliceAxes(&b, len(in))
	if err != nil {
		return err
	}
	if axes == nil {
		return c.SetShape(0, c.freshShape(len(in)))
	}
	if b.okStarts && len(b.starts) != n || b.okEnds && len(b.ends) != n || b.okSteps && b.steps != nil && len(b.steps) != n {
		return nodeError(c.Node, ErrShapeMismatch, fmt.Sprintf("%d starts, ends and steps", n),
			fmt.Sprintf("%d, %d and %d", len(b.starts), len(b.ends), len(b.steps)))
	}
	list, err := c.normAxes(axes, len(in), 3)
	if err != nil {
		return err
	}
	known := b.okStarts && b.okEnds && b.okSteps
	out := append(Shape{}, in...)
	for i, a := range list {
		step := b.step(i)
		if step.Is(0) {
			return c.valueError(4, "steps other than 0", Shape(b.steps).String())
		}
		if !known {
			out[a] = c.Fresh()
			continue
		}
		d, ok := sliceDim(in[a], b.starts[i], b.ends[i], step)
		if !ok {
			d = c.Fresh()
		}
		out[a] = d
	}
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	if known && len(list) == 1 && len(in) == 1 {
		c.sliceContents(b.starts[0], b.ends[0], b.step(0))
	}
	return nil
}

// sliceBounds are the bounds of a Slice, by position in its list of axes, each with whether it is known. Without steps they
// are 1.
type sliceBounds struct {
	starts, ends, steps       []Dim
	okStarts, okEnds, okSteps bool
}

func (b *sliceBounds) step(i int) Dim {
	if b.steps == nil {
		return D(1)
	}
	return b.steps[i]
}

// sliceBounds reads the bounds from attributes or inputs.
func (c *Inference) sliceBounds() sliceBounds {
	b := sliceBounds{okStarts: true, okEnds: true, okSteps: true}
	if c.hasAttr("starts") {
		read := func(name string) (out []Dim) {
			vals, _ := c.Node.Ints(name)
			for _, v := range vals {
				out = append(out, Dim{c: v})
			}
			return out
		}
		b.starts, b.ends = read("starts"), read("ends")
		return b
	}
	b.starts, b.okStarts = c.contents(1)
	b.ends, b.okEnds = c.contents(2)
	if c.Has(4) {
		b.steps, b.okSteps = c.contents(4)
	}
	return b
}

// sliceAxes returns the axes that a Slice cuts, not normalised, and their number: by default the first ones, as many as there
// are bounds. axes is nil where they are not known.
func (c *Inference) sliceAxes(b *sliceBounds, rank int) (axes []int64, n int, err error) {
	axes, present, known := c.axesOf(3)
	switch {
	case !known:
		return nil, 0, nil
	case present:
		return append([]int64{}, axes...), len(axes), nil
	case b.okStarts:
		n = len(b.starts)
	case b.okEnds:
		n = len(b.ends)
	default:
		if n, known = c.length(1); !known {
			return nil, 0, nil
		}
	}
	if n > rank {
		return nil, 0, c.shapeError(0, fmt.Sprintf("a rank of at least %d", n))
	}
	axes = []int64{}
	for i := range n {
		axes = append(axes, int64(i))
	}
	return axes, n, nil
}

// SliceRange returns, for concrete numbers, the first index, the step and the count of what ONNX's Slice takes along an
// axis of that length: negative positions count from the end, all are clamped. The step must not be 0.
func SliceRange(length, start, end, step int64) (first, count int64) {
	clamp := func(v, lo, hi int64) int64 {
		if v < 0 {
			if v += length; v < 0 {
				v = lo
			}
		}
		return min(max(v, lo), hi)
	}
	if step > 0 {
		start, end = clamp(start, 0, length), clamp(end, 0, length)
		if end <= start {
			return start, 0
		}
		return start, (end-start-1)/step + 1
	}
	start = clamp(start, 0, length-1)
	end = clamp(end, -1, length-1)
	if length <= 0 || end >= start {
		return max(start, 0), 0
	}
	if step == math.MinInt64 {
		return start, 1
	}
	return start, (start-end-1)/-step + 1
}

// sliceDim returns the number of elements that a slice takes from d; ok is false where it depends on what is not known.
func sliceDim(d, start, end, step Dim) (n Dim, ok bool) {
	t, tc := step.Const()
	dn, dc := d.Const()
	s, sc := start.Const()
	e, ec := end.Const()
	if dc && sc && ec && tc {
		if dn < 0 {
			return Dim{}, false
		}
		_, count := SliceRange(dn, s, e, t)
		return Dim{c: count}, true
	}
	if !tc {
		return Dim{}, false
	}
	if t < 0 { // the whole axis, reversed
		if sc && ec && (s == -1 || s >= farAway) && e <= -farAway && t > -farAway {
			return d.CeilDiv(Dim{c: -t}), true
		}
		return Dim{}, false
	}
	toEnd := ec && e >= farAway || end.Equal(d)
	if length := end.Sub(start); start.NonNegative() && (toEnd || length.NonNegative()) {
		n, _ = maxDims(d.Sub(start), D(0)) // what is left of d from the start on
		if !toEnd {
			n = minDims(length, n)
		}
		if t != 1 {
			n = n.CeilDiv(Dim{c: t})
		}
		return n, !n.TooComplex()
	}
	if sc && s < 0 && s > -farAway && toEnd && t == 1 { // the last ones
		return minDims(Dim{c: -s}, d), true
	}
	lo, hi := clampPosition(start, d), clampPosition(end, d)
	span := hi.Sub(lo)
	if !lo.Is(0) && !hi.Equal(d) {
		span, _ = maxDims(span, D(0))
	}
	if t != 1 {
		span = span.CeilDiv(Dim{c: t})
	}
	return span, !span.TooComplex()
}

// farAway is what exporters write at least for "to the end".
const farAway = math.MaxInt32

// clampPosition returns a slice's position p within [0, d].
func clampPosition(p, d Dim) Dim {
	switch n, ok := p.Const(); {
	case ok && n >= farAway || p.Equal(d):
		return d
	case ok && n < -farAway:
		return Dim{}
	case ok && n < 0:
		p, _ = maxDims(d.Add(p), D(0))
		return p
	case p.Sub(d).Is(-1): // for d = 0 it is -1, which clamps to 0 as well
		p, _ = maxDims(p, D(0))
		return p
	}
	return p.Position(d)
}

func minDims(a, b Dim) Dim {
	if n, ok := b.Sub(a).least(); ok && n >= 0 {
		return a
	}
	if n, ok := a.Sub(b).least(); ok && n >= 0 {
		return b
	}
	return a.Min(b)
}

func (c *Inference) sliceContents(start, end, step Dim) {
	dims, ok := c.Dims(0)
	s, sc := start.Const()
	e, ec := end.Const()
	t, tc := step.Const()
	if !ok || !sc || !ec || !tc || !c.vectorOutput() {
		return
	}
	first, count := SliceRange(int64(len(dims)), s, e, t)
	out := make([]Dim, count)
	for i := range out {
		out[i] = dims[first+int64(i)*t]
	}
	c.SetDims(0, out)
}
