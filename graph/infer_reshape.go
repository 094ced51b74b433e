package graph

import (
	"fmt"
	"math"
	"slices"
)

// inferReshape: contents of the shape with 0 (copy, unless allowzero) and one -1.
func inferReshape(c *Inference) error {
	in := c.Shape(0)
	var target []Dim
	known := false
	if c.hasAttr("shape") { // version 1
		vals, _ := c.Node.Ints("shape")
		for _, v := range vals {
			target = append(target, Dim{c: v})
		}
		known = true
	} else {
		if err := c.needRank(1, 1, 1); err != nil {
			return err
		}
		target, known = c.contents(1)
	}
	if n, ok := c.length(1); !known && ok && n > 0 && n <= maxRank {
		return c.SetShape(0, c.freshShape(n))
	} else if !known && (!ok || n > 0) { // of an empty list nothing is left to know
		return c.SetShape(0, nil)
	}
	if len(target) > maxRank {
		return c.valueError(1, fmt.Sprintf("a rank of at most %d", maxRank), fmt.Sprint(len(target)))
	}
	out, err := c.reshapeDims(in, target)
	if err != nil {
		return err
	}
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	if c.vectorOutput() {
		if dims, _, ok := gridOf(c.Node.Inputs[0], followDepth); ok {
			c.SetDims(0, dims)
		}
	}
	return nil
}

func (c *Inference) reshapeDims(in Shape, target []Dim) (Shape, error) {
	allowZero := c.Node.Int("allowzero", 0) != 0
	out := make(Shape, len(target))
	open, told := -1, true
	for i, d := range target {
		n, isConst := d.Const()
		switch {
		case isConst && n == -1:
			if open >= 0 {
				return nil, c.valueError(1, "at most one -1", Shape(target).String())
			}
			open = i
		case d.hasUnknown(): // it may be -1, or 0, which copies; and nothing but the run checks it
			out[i], told = c.Fresh(), false
		case isConst && n < -1:
			return nil, c.valueError(1, "dims of at least -1", Shape(target).String())
		case isConst && n == 0 && !allowZero:
			switch {
			case in == nil:
				out[i] = c.Fresh()
			case i >= len(in):
				return nil, c.valueError(1, fmt.Sprintf("no 0 past the %d dims of the input", len(in)), Shape(target).String())
			default:
				out[i] = in[i]
			}
		default:
			out[i] = d
		}
	}
	if in == nil || !told {
		if open >= 0 {
			out[open] = c.Fresh()
		}
		return out, nil
	}
	// Cancel dims that both sides have, so that what remains is a short product.
	left, right := append(Shape{}, in...), Shape{}
	for i, d := range out {
		if i == open {
			continue
		}
		found := false
		for k, e := range left {
			if e.Equal(d) && !d.Is(0) {
				left = append(left[:k:k], left[k+1:]...)
				found = true
				break
			}
		}
		if !found {
			right = append(right, d)
		}
	}
	return out, c.closeReshape(out, open, left, right, target)
}

// closeReshape computes the dim at open from the products of the dims left and right, or compares the products.
func (c *Inference) closeReshape(out Shape, open int, left, right Shape, target []Dim) error {
	l, ok := numElements(left)
	r, ok2 := numElements(right)
	mismatch := func() error {
		return c.valueError(1, fmt.Sprintf("a shape of as many elements as %v", c.Shape(0)), Shape(target).String())
	}
	if !ok || !ok2 {
		if open >= 0 {
			out[open] = c.Fresh()
		}
		return nil
	}
	ln, lc := l.Const()
	rn, rc := r.Const()
	switch {
	case open < 0:
		if lc && rc && ln != rn {
			return mismatch()
		}
	case rc && rn == 0:
		if lc && ln != 0 {
			return mismatch()
		}
		out[open] = c.Fresh()
	case lc && rc:
		if ln%rn != 0 {
			return mismatch()
		}
		out[open] = Dim{c: ln / rn}
	default:
		out[open] = quotient(l, r)
	}
	return nil
}

// inferFlatten: a matrix, split at the axis.
func inferFlatten(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, c.freshShape(2))
	}
	axis := c.Node.Int("axis", 1)
	if axis < -int64(len(in)) || axis > int64(len(in)) {
		return c.attrError("axis", fmt.Sprintf("an axis of %v or its rank", in), axis)
	}
	if axis < 0 {
		axis += int64(len(in))
	}
	out := make(Shape, 2)
	for i, part := range []Shape{in[:axis], in[axis:]} {
		n, ok := numElements(part)
		if !ok {
			n = c.Fresh()
		}
		out[i] = n
	}
	return c.SetShape(0, out)
}

// normAxes is NormAxes for axes of input 0; port is the input that gives them, where it is not the attribute axes.
func (c *Inference) normAxes(axes []int64, rank, port int) ([]int, error) {
	out, err := NormAxes(axes, rank)
	if err == nil {
		return out, nil
	}
	expected := fmt.Sprintf("distinct axes of rank %d", rank)
	if c.hasAttr("axes") {
		return nil, c.attrError("axes", expected, axes)
	}
	return nil, c.valueError(port, expected, fmt.Sprint(axes))
}

// inferSqueeze: dims of 1 are removed, those of the axes (attribute before version 13, then input 1) or all.
func inferSqueeze(c *Inference) error {
	in := c.Shape(0)
	axes, present, known := c.axesOf(1)
	if in == nil || !known {
		n, ok := c.length(1)
		if in != nil && ok && n <= len(in) {
			return c.SetShape(0, c.freshShape(len(in)-n))
		}
		return c.SetShape(0, nil)
	}
	drop := make([]bool, len(in))
	if present {
		list, err := c.normAxes(axes, len(in), 1)
		if err != nil {
			return err
		}
		for _, a := range list {
			if n, ok := in[a].Const(); ok && n != 1 {
				return c.shapeError(0, fmt.Sprintf("1 at axis %d", a))
			}
			drop[a] = true
		}
	} else {
		for i, d := range in {
			if _, ok := d.Const(); !ok { // a symbol may be 1
				return c.SetShape(0, nil)
			}
			drop[i] = d.Is(1)
		}
	}
	out := Shape{}
	for i, d := range in {
		if !drop[i] {
			out = append(out, d)
		}
	}
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	c.mapDims(func(d Dim) (Dim, bool) { return d, true })
	return nil
}

// inferUnsqueeze: dims of 1 are inserted at the axes of the result.
func inferUnsqueeze(c *Inference) error {
	in := c.Shape(0)
	axes, present, known := c.axesOf(1)
	if !present {
		return c.attrError("axes", "a list of ints", "none")
	}
	if in == nil || !known {
		if n, ok := c.length(1); in != nil && ok && n <= maxRank {
			return c.SetShape(0, c.freshShape(len(in)+n))
		}
		return c.SetShape(0, nil)
	}
	if len(axes) > maxRank {
		return c.valueError(1, "fewer axes", fmt.Sprint(len(axes)))
	}
	rank := len(in) + len(axes)
	list, err := c.normAxes(axes, rank, 1)
	if err != nil {
		return err
	}
	out := make(Shape, rank)
	isNew := make([]bool, rank)
	for _, a := range list {
		isNew[a] = true
	}
	rest := in
	for i := range out {
		if isNew[i] {
			out[i] = D(1)
		} else {
			out[i], rest = rest[0], rest[1:]
		}
	}
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	c.mapDims(func(d Dim) (Dim, bool) { return d, true })
	return nil
}

// inferTranspose: perm, by default reversed.
func inferTranspose(c *Inference) error {
	in := c.Shape(0)
	perm, ok := c.Node.Ints("perm")
	for i := range perm {
		if len(perm) > maxRank || !slices.Contains(perm, int64(i)) { // unlike axes, negative ones do not count from the end
			return c.attrError("perm", fmt.Sprintf("a permutation of %d axes", len(perm)), perm)
		}
	}
	if in == nil {
		if ok && len(perm) <= maxRank {
			return c.SetShape(0, c.freshShape(len(perm)))
		}
		return c.SetShape(0, nil)
	}
	out := make(Shape, len(in))
	if !ok {
		for i, d := range in {
			out[len(in)-1-i] = d
		}
		return c.SetShape(0, out)
	}
	if len(perm) != len(in) {
		return c.attrError("perm", fmt.Sprintf("a permutation of %d axes", len(in)), perm)
	}
	for i, a := range perm {
		out[i] = in[a]
	}
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	c.mapDims(func(d Dim) (Dim, bool) { return d, true })
	return nil
}

// inferShape: the dims of the input as contents, from start to end since version 15.
func inferShape(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, Shape{c.Fresh()})
	}
	rank := int64(len(in))
	clamp := func(v int64) int64 {
		if v < 0 {
			v += rank
		}
		return min(max(v, 0), rank)
	}
	lo, hi := clamp(c.Node.Int("start", 0)), clamp(c.Node.Int("end", rank))
	dims := in[:0:0]
	if lo < hi {
		dims = in[lo:hi:hi]
	}
	if err := c.SetShape(0, Shape{D(len(dims))}); err != nil {
		return err
	}
	c.SetDims(0, append([]Dim{}, dims...))
	return nil
}

// inferSize: the number of elements.
func inferSize(c *Inference) error {
	if err := c.SetShape(0, Shape{}); err != nil {
		return err
	}
	if n, ok := numElements(c.Shape(0)); ok {
		c.SetDims(0, []Dim{n})
	}
	return nil
}

// inferExpand: the input broadcasts with the contents of the shape.
func inferExpand(c *Inference) error {
	if err := c.needRank(1, 1, 1); err != nil {
		return err
	}
	in := c.Shape(0)
	target, ok := c.contents(1)
	if !ok || in == nil {
		n, known := c.length(1)
		if ok {
			n, known = len(target), true
		}
		if known && in != nil && n <= maxRank {
			return c.SetShape(0, c.freshShape(max(n, len(in))))
		}
		return c.SetShape(0, nil)
	}
	if len(target) > maxRank {
		return c.valueError(1, fmt.Sprintf("a rank of at most %d", maxRank), fmt.Sprint(len(target)))
	}
	for _, d := range target {
		if n, isConst := d.Const(); isConst && n < 0 {
			return c.valueError(1, "dims of at least 0", Shape(target).String())
		}
	}
	out, ok := broadcastDims(in, Shape(target))
	if !ok {
		return c.valueError(1, "a shape that broadcasts with "+in.String(), Shape(target).String())
	}
	for i, d := range target {
		if k := len(out) - len(target) + i; d.hasUnknown() && !out[k].Equal(d) { // the run has to check that
			out[k] = c.Fresh()
		}
	}
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	if dims, ok := c.Dims(0); ok && len(dims) == 1 && len(out) == 1 && c.vectorOutput() {
		if n, ok := out[0].Const(); ok && n <= maxDimsContent {
			rep := make([]Dim, n)
			for i := range rep {
				rep[i] = dims[0]
			}
			c.SetDims(0, rep)
		}
	}
	return nil
}

// inferTile: dims times repeats.
func inferTile(c *Inference) error {
	in := c.Shape(0)
	if c.Node.Schema.Since < 6 { // tiles along one axis
		return c.SetShape(0, c.freshShapeOf(in))
	}
	if err := c.needRank(1, 1, 1); err != nil {
		return err
	}
	rep, ok := c.contents(1)
	if in != nil {
		if n, known := c.length(1); known && n != len(in) {
			return c.shapeError(1, fmt.Sprintf("%d repeats", len(in)))
		}
	}
	switch {
	case in == nil && ok && len(rep) <= maxRank:
		return c.SetShape(0, c.freshShape(len(rep)))
	case in == nil || !ok:
		return c.SetShape(0, c.freshShapeOf(in))
	case len(rep) != len(in):
		return c.valueError(1, fmt.Sprintf("%d repeats", len(in)), fmt.Sprint(len(rep)))
	}
	out := make(Shape, len(in))
	for i, d := range in {
		if n, isConst := rep[i].Const(); isConst && n < 0 {
			return c.valueError(1, "repeats of at least 0", Shape(rep).String())
		}
		if out[i], ok = mulDims(d, rep[i]); !ok {
			if bothConst(d, rep[i]) {
				return c.valueError(1, fmt.Sprintf("a size of at most %d", int64(math.MaxInt64)), Shape(rep).String())
			}
			out[i] = c.Fresh()
		}
	}
	return c.SetShape(0, out)
}

func bothConst(a, b Dim) bool {
	_, ok := a.Const()
	_, ok2 := b.Const()
	return ok && ok2
}

// freshShapeOf returns fresh dims of the same rank, or an unknown rank.
func (c *Inference) freshShapeOf(s Shape) Shape {
	if s == nil {
		return nil
	}
	return c.freshShape(len(s))
}
