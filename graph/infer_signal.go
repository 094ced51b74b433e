package graph

import "fmt"

// inferDFT: the signal axis (an input since version 20) becomes dft_length, halved where one-sided; the last axis is 2
// for complex results and 1 for the real ones of a one-sided inverse.
func inferDFT(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(0, nil)
	}
	if err := c.needRank(0, 2, anyRank); err != nil {
		return err
	}
	if n, ok := in[len(in)-1].Const(); ok && n != 1 && n != 2 {
		return c.shapeError(0, "1 or 2 at the last axis")
	}
	inverse, oneSided := c.Node.Int("inverse", 0) != 0, c.Node.Int("onesided", 0) != 0
	last := D(2)
	if inverse && oneSided {
		last = D(1)
	}
	axis, known := c.Node.Int("axis", 1), true
	if !c.hasAttr("axis") {
		axis = -2
		if c.Has(2) {
			axis, known = c.scalar(2)
		}
	}
	if !known {
		out := c.freshShape(len(in))
		out[len(in)-1] = last
		return c.SetShape(0, out)
	}
	a, err := NormAxis(axis, len(in))
	if err != nil || a == len(in)-1 {
		return nodeError(c.Node, ErrAttr, fmt.Sprintf("an axis of %v but the last", in), fmt.Sprint(axis))
	}
	out := append(Shape{}, in...)
	n := in[a]
	if inverse && oneSided {
		n = n.Sub(D(1)).Scale(2)
	}
	if c.Has(1) {
		n = c.Fresh()
		if d, ok := c.contents(1); ok && len(d) == 1 {
			n = d[0]
		}
	}
	if oneSided && !inverse {
		n = n.FloorDiv(D(2)).Add(D(1))
	}
	out[a], out[len(in)-1] = n, last
	return c.SetShape(0, out)
}

// inferSTFT: signal [N, L, 1 or 2] gives [N, frames, bins, 2]. Exporters write real signals as [N, L], and runtimes take it.
func inferSTFT(c *Inference) error {
	if err := c.needRank(0, 2, 3); err != nil {
		return err
	}
	var frame Dim
	known := false
	if d, ok := c.contents(3); ok && len(d) == 1 {
		frame, known = d[0], true
	} else if w := c.Shape(2); len(w) == 1 && !c.Has(3) {
		frame, known = w[0], true
	}
	frames, bins := c.Fresh(), c.Fresh()
	if known {
		bins = frame
		if c.Node.Int("onesided", 1) != 0 {
			bins = frame.FloorDiv(D(2)).Add(D(1))
		}
		if step, ok := c.contents(1); ok && len(step) == 1 && c.Shape(0) != nil {
			if n, isConst := step[0].Const(); isConst && n <= 0 {
				return c.valueError(1, "a step above 0", fmt.Sprint(n))
			}
			frames = c.dim(0, 1).Sub(frame).FloorDiv(step[0]).Add(D(1))
		}
	}
	return c.SetShape(0, Shape{c.dim(0, 0), frames, bins, D(2)})
}
