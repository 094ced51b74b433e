package graph

import "fmt"

// inferPad: attributes before version 11, then inputs pads and, since version 18, axes.
func inferPad(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, nil)
	}
	switch mode := c.Node.Str("mode", "constant"); mode {
	case "constant", "reflect", "edge", "wrap": // the last is of version 19, but PyTorch's exporter writes it in earlier ones, which ONNX Runtime runs
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
		for _, p := range []Dim{pads[i], pads[len(axes)+i]} {
			if n, isConst := p.Const(); isConst && (n < -mostPad || n > mostPad) {
				return nodeError(c.Node, ErrShapeMismatch, fmt.Sprintf("pads of at most %d elements at axis %d", int64(mostPad), a), Shape(pads).String())
			}
		}
		d := in[a].Add(pads[i]).Add(pads[len(axes)+i])
		if n, isConst := d.Const(); isConst && n < 0 {
			return nodeError(c.Node, ErrShapeMismatch, fmt.Sprintf("pads that leave at least 0 of %v at axis %d", in[a], a), Shape(pads).String())
		}
		out[a] = d
	}
	return c.SetShape(0, out)
}

// mostPad is the longest pad: two of them and a dim are no more than int64 holds.
const mostPad = 1 << 60

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
