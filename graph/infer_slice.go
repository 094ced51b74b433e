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
	var starts, ends, steps []Dim
	okS, okE, okT := true, true, true
	if c.hasAttr("starts") {
		read := func(name string) (out []Dim) {
			vals, _ := c.Node.Ints(name)
			for _, v := range vals {
				out = append(out, Dim{c: v})
			}
			return out
		}
		starts, ends = read("starts"), read("ends")
	} else {
		starts, okS = c.contents(1)
		ends, okE = c.contents(2)
		if c.Has(4) {
			steps, okT = c.contents(4)
		}
	}
	axes, present, known := c.axesOf(3)
	if !known {
		return c.SetShape(0, c.freshShape(len(in)))
	}
	n := len(axes)
	if !present {
		switch {
		case okS:
			n = len(starts)
		case okE:
			n = len(ends)
		default:
			k, ok := c.length(1)
			if !ok {
				return c.SetShape(0, c.freshShape(len(in)))
			}
			n = k
		}
		if n > len(in) {
			return c.shapeError(0, fmt.Sprintf("a rank of at least %d", n))
		}
		for i := range n {
			axes = append(axes, int64(i))
		}
	}
	if okS && len(starts) != n || okE && len(ends) != n || okT && steps != nil && len(steps) != n {
		return nodeError(c.Node, ErrShapeMismatch, fmt.Sprintf("%d starts, ends and steps", n),
			fmt.Sprintf("%d, %d and %d", len(starts), len(ends), len(steps)))
	}
	list, err := c.normAxes(axes, len(in), 3)
	if err != nil {
		return err
	}
	out := append(Shape{}, in...)
	for i, a := range list {
		step := D(1)
		if steps != nil {
			step = steps[i]
		}
		if step.Is(0) {
			return c.valueError(4, "steps other than 0", Shape(steps).String())
		}
		if !okS || !okE || !okT {
			out[a] = c.Fresh()
			continue
		}
		d, ok := sliceDim(in[a], starts[i], ends[i], step)
		if !ok {
			d = c.Fresh()
		}
		out[a] = d
	}
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	if okS && okE && okT && len(list) == 1 && len(in) == 1 {
		step := D(1)
		if steps != nil {
			step = steps[0]
		}
		c.sliceContents(starts[0], ends[0], step)
	}
	return nil
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
	lo, ok := clampPosition(start, d)
	hi, ok2 := clampPosition(end, d)
	if !ok || !ok2 {
		return Dim{}, false
	}
	span := hi.Sub(lo)
	if !lo.Is(0) {
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
func clampPosition(p, d Dim) (Dim, bool) {
	if n, ok := p.Const(); ok {
		switch {
		case n >= farAway:
			return d, true
		case n == 0:
			return p, true
		case n < -farAway:
			return Dim{}, true
		case n < 0:
			return maxDims(d.Add(p), D(0))
		}
		return minDims(p, d), true
	}
	if p.Equal(d) {
		return d, true
	}
	if p.NonNegative() {
		return minDims(p, d), true
	}
	if diff := p.Sub(d); diff.Is(-1) { // for d = 0 this is -1, which clamps to 0 as well
		return maxDims(p, D(0))
	}
	return Dim{}, false
}

func minDims(a, b Dim) Dim {
	if sign, ok := compareDims(a, b); ok {
		if sign <= 0 {
			return a
		}
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
