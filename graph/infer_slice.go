package graph

import (
	"fmt"
	"math"
)

// inferConcat: dims add up along the axis, the others agree.
func inferConcat(c *Inference) error {
	return c.concat(c.NumInputs(), c.Node.Int("axis", attrDefault(c, "axis", 0)))
}

func (c *Inference) concat(n int, axis int64) error {
	rank := -1
	for i := range n {
		if r, ok := c.rank(i); ok {
			rank = r
			break
		}
	}
	if rank < 0 {
		return c.SetShape(0, nil)
	}
	a, err := NormAxis(axis, rank)
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of rank %d", rank), axis)
	}
	var out Shape
	sum, sumKnown := Dim{}, true
	for i := range n {
		s := c.Shape(i)
		if s == nil {
			sumKnown = false
			continue
		}
		if len(s) != rank {
			return c.shapeError(i, fmt.Sprintf("rank %d", rank))
		}
		sum = sum.Add(s[a])
		if out == nil {
			out = append(Shape{}, s...)
			continue
		}
		for k, d := range s {
			if k == a {
				continue
			}
			m, ok := sameDim(out[k], d)
			if !ok {
				return c.shapeError(i, fmt.Sprintf("%v at axis %d", out[k], k))
			}
			out[k] = m
		}
	}
	if out[a] = sum; !sumKnown {
		out[a] = c.Fresh()
	}
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	if !c.vectorOutput() {
		return nil
	}
	dims := []Dim{}
	for i := range n {
		part, ok := c.Dims(i)
		if !ok || len(dims)+len(part) > maxDimsContent {
			return nil
		}
		dims = append(dims, part...)
	}
	c.SetDims(0, dims)
	return nil
}

// inferSplit: lengths from the attribute split, input 1 since version 13, or equal parts.
func inferSplit(c *Inference) error {
	in := c.Shape(0)
	outs := c.NumOutputs()
	if k := c.Node.Int("num_outputs", 0); c.Node.Attrs.Lookup("num_outputs") != nil {
		if c.Has(1) {
			return c.attrError("num_outputs", "none beside the input split", k)
		}
		if k < int64(outs) || k > maxContents {
			return c.attrError("num_outputs", fmt.Sprintf("at least %d", outs), k)
		}
		outs = int(k)
	}
	var sizes []Dim
	var present, known bool
	if c.hasAttr("split") && !c.Has(1) {
		var vals []int64
		vals, present = c.Node.Ints("split")
		known = true
		for _, v := range vals {
			sizes = append(sizes, Dim{c: v})
		}
	} else if c.Has(1) {
		present = true
		sizes, known = c.contents(1)
	}
	if in == nil {
		for i := range c.NumOutputs() {
			if err := c.SetShape(i, nil); err != nil {
				return err
			}
		}
		return nil
	}
	axis := c.Node.Int("axis", 0)
	a, err := NormAxis(axis, len(in))
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of %v", in), axis)
	}
	switch {
	case present && !known:
		sizes = nil
	case present:
		if err := c.checkSplit(sizes, in, a); err != nil {
			return err
		}
	default:
		if sizes, err = c.evenSplit(in[a], outs); err != nil {
			return err
		}
	}
	dims, hasDims := c.Dims(0)
	pos := int64(0)
	for i := range c.NumOutputs() {
		out := append(Shape{}, in...)
		if sizes == nil {
			out[a] = c.Fresh()
		} else {
			out[a] = sizes[i]
		}
		if err := c.SetShape(i, out); err != nil {
			return err
		}
		n, ok := out[a].Const()
		if hasDims = hasDims && ok && len(in) == 1 && pos+n <= int64(len(dims)); hasDims {
			c.SetDims(i, dims[pos:pos+n:pos+n])
			pos += n
		}
	}
	return nil
}

func (c *Inference) checkSplit(sizes []Dim, in Shape, a int) error {
	if len(sizes) < c.NumOutputs() {
		return nodeError(c.Node, ErrArity, fmt.Sprintf("at most %d outputs", len(sizes)), itoa(c.NumOutputs()))
	}
	sum := Dim{}
	for _, d := range sizes {
		if n, ok := d.Const(); ok && (n < 0 || n > math.MaxInt64/maxContents/2) {
			return nodeError(c.Node, ErrShapeMismatch, "lengths of at least 0", Shape(sizes).String())
		}
		sum = sum.Add(d)
	}
	if _, ok := sameDim(sum, in[a]); !ok {
		return nodeError(c.Node, ErrShapeMismatch, fmt.Sprintf("lengths that add up to %v", in[a]), Shape(sizes).String())
	}
	return nil
}

// evenSplit returns the lengths of n parts of d, the last one shorter where the version allows that.
func (c *Inference) evenSplit(d Dim, n int) ([]Dim, error) {
	if n == 0 {
		return []Dim{}, nil
	}
	sizes := make([]Dim, n)
	k, isConst := d.Const()
	part := d.FloorDiv(D(n))
	if c.Node.Schema.Since >= 18 {
		part = d.CeilDiv(D(n))
	} else if isConst && k%int64(n) != 0 {
		return nil, c.shapeError(0, fmt.Sprintf("a multiple of %d along the axis", n))
	}
	for i := range sizes {
		sizes[i] = part
	}
	if c.Node.Schema.Since >= 18 {
		last := d.Sub(part.Scale(int64(n - 1)))
		if m, ok := last.Const(); ok && m < 0 { // fewer elements than parts: those at the end are empty
			for i := range sizes {
				pn, _ := part.Const()
				sizes[i] = Dim{c: max(0, min(pn, k-int64(i)*pn))}
			}
			return sizes, nil
		}
		sizes[n-1] = last
	}
	return sizes, nil
}

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
	axes, present, known := c.listOf("axes", 3)
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

// inferPad: attributes before version 11, then inputs pads and, since version 18, axes.
func inferPad(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, nil)
	}
	switch mode := c.Node.Str("mode", "constant"); mode {
	case "constant", "reflect", "edge":
	case "wrap":
		if c.Node.Schema.Since < 19 {
			return c.attrError("mode", "constant, reflect or edge", mode)
		}
	default:
		return c.attrError("mode", "constant, reflect, edge or wrap", mode)
	}
	var pads []Dim
	ok := true
	if c.Node.Schema.Since < 11 {
		name := "pads"
		if c.Node.Schema.Since < 2 {
			name = "paddings"
		}
		vals, _ := c.Node.Ints(name)
		for _, v := range vals {
			pads = append(pads, Dim{c: v})
		}
	} else {
		if err := c.needRank(1, 1, 2); err != nil {
			return err
		}
		pads, ok = c.contents(1)
	}
	axes := make([]int, len(in))
	for i := range axes {
		axes[i] = i
	}
	if c.Has(3) {
		vals, known := c.ints(3)
		if !known {
			return c.SetShape(0, c.freshShape(len(in)))
		}
		var err error
		if axes, err = c.normAxes(vals, len(in), 3); err != nil {
			return err
		}
	}
	out := append(Shape{}, in...)
	if ok && len(pads) != 2*len(axes) {
		return nodeError(c.Node, ErrShapeMismatch, fmt.Sprintf("%d pads", 2*len(axes)), itoa(len(pads)))
	}
	for i, a := range axes {
		if !ok {
			out[a] = c.Fresh()
			continue
		}
		d := in[a].Add(pads[i]).Add(pads[len(axes)+i])
		if n, isConst := d.Const(); isConst && n < 0 {
			return nodeError(c.Node, ErrShapeMismatch, fmt.Sprintf("pads that leave at least 0 of %v at axis %d", in[a], a), Shape(pads).String())
		}
		out[a] = d
	}
	return c.SetShape(0, out)
}

// inferCenterCropPad: the dims of the axes become the contents of the shape.
func inferCenterCropPad(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, nil)
	}
	target, ok := c.contents(1)
	axes, present := c.Node.Ints("axes")
	if !present {
		for i := range in {
			axes = append(axes, int64(i))
		}
	}
	list, err := c.normAxes(axes, len(in), 1)
	if err != nil {
		return err
	}
	if ok && len(target) != len(list) {
		return c.valueError(1, fmt.Sprintf("%d dims", len(list)), itoa(len(target)))
	}
	out := append(Shape{}, in...)
	for i, a := range list {
		if out[a] = c.Fresh(); ok {
			out[a] = target[i]
		}
	}
	return c.SetShape(0, out)
}
