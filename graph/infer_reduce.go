package graph

import "fmt"

// inferReduce: the reduced axes become 1, or vanish without keepdims.
func inferReduce(c *Inference) error {
	in := c.Shape(0)
	axes, _, known := c.axesOf(1)
	keep := c.Node.Int("keepdims", 1) != 0
	if in == nil || !known {
		list, counted := c.contents(1)
		switch {
		case in != nil && keep:
			return c.SetShape(0, c.freshShape(len(in)))
		case in != nil && counted && 0 < len(list) && len(list) <= len(in): // each names another axis
			return c.SetShape(0, c.freshShape(len(in)-len(list)))
		}
		return c.SetShape(0, nil)
	}
	var list []int
	var err error
	if len(axes) > 0 {
		list, err = c.normAxes(axes, len(in), 1)
	} else {
		list, err = ReduceAxes(c.Node, nil, len(in))
	}
	if err != nil {
		return err
	}
	if err := c.SetShape(0, reducedShape(in, list, keep)); err != nil {
		return err
	}
	dims, ok := c.Dims(0)
	if !ok || len(list) != 1 || !c.vectorOutput() {
		return nil
	}
	var f func(a, b Dim) (Dim, bool)
	acc := D(0)
	switch c.Node.Op.Name {
	case "ReduceProd":
		f, acc = mulDims, D(1)
	case "ReduceSum":
		f = func(a, b Dim) (Dim, bool) { return a.Add(b), true }
	case "ReduceMax", "ReduceMin":
		if len(dims) == 0 {
			return nil
		}
		acc, dims = dims[0], dims[1:]
		f = maxDims
		if c.Node.Op.Name == "ReduceMin" {
			f = func(a, b Dim) (Dim, bool) { return minDims(a, b), true }
		}
	default:
		return nil
	}
	for _, d := range dims {
		if acc, ok = f(acc, d); !ok {
			return nil
		}
	}
	c.SetDims(0, []Dim{acc})
	return nil
}

func reducedShape(in Shape, axes []int, keep bool) Shape {
	drop := make([]bool, len(in))
	for _, a := range axes {
		drop[a] = true
	}
	out := Shape{}
	for i, d := range in {
		switch {
		case !drop[i]:
			out = append(out, d)
		case keep:
			out = append(out, D(1))
		}
	}
	return out
}

// inferArg: ArgMax and ArgMin reduce one axis.
func inferArg(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, nil)
	}
	axis := c.Node.Int("axis", 0)
	a, err := NormAxis(axis, max(len(in), 1))
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of %v", in), axis)
	}
	if len(in) == 0 {
		return c.SetShape(0, Shape{})
	}
	return c.SetShape(0, reducedShape(in, []int{a}, c.Node.Int("keepdims", 1) != 0))
}

// inferDet: the determinants of the square matrices in the last two dims.
func inferDet(c *Inference) error {
	if err := c.needRank(0, 2, anyRank); err != nil {
		return err
	}
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, nil)
	}
	if _, ok := sameDim(in[len(in)-1], in[len(in)-2]); !ok {
		return c.shapeError(0, "square matrices")
	}
	return c.SetShape(0, append(Shape{}, in[:len(in)-2]...))
}
