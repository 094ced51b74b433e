package graph

import (
	"fmt"
	"math"
)

// inferConcat: dims add up along the axis, which was 1 by default before version 4; the others agree.
func inferConcat(c *Inference) error {
	axis := int64(0)
	if c.Node.Schema.Since < 4 {
		axis = 1
	}
	return c.concat(c.NumInputs(), c.Node.Int("axis", attrDefault(c, "axis", axis)))
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
	var lengths []Dim
	sumKnown := true
	for i := range n {
		s := c.Shape(i)
		if s == nil {
			sumKnown = false
			continue
		}
		if len(s) != rank {
			return c.shapeError(i, fmt.Sprintf("rank %d", rank))
		}
		lengths = append(lengths, s[a])
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
	if out[a] = sumDims(lengths); !sumKnown {
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
		part, ok := elements(c.Node.Input(i))
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
		if k != int64(outs) {
			return c.attrError("num_outputs", fmt.Sprintf("the number of outputs, %d", outs), k)
		}
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
	if len(sizes) != c.NumOutputs() {
		return nodeError(c.Node, ErrArity, fmt.Sprintf("an output for each of %d lengths", len(sizes)), itoa(c.NumOutputs()))
	}
	for _, d := range sizes {
		if n, ok := d.Const(); ok && (n < 0 || n > math.MaxInt64/maxContents/2) {
			return nodeError(c.Node, ErrShapeMismatch, "lengths of at least 0", Shape(sizes).String())
		}
	}
	if _, ok := sameDim(sumDims(sizes), in[a]); !ok {
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
