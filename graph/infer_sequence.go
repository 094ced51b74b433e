package graph

import (
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
)

// SequenceOf returns the type of sequences of t.
func SequenceOf(t Type) Type { return Type{Kind: KindSequence, Elem: &t} }

// OptionalOf returns the type of optionals of t.
func OptionalOf(t Type) Type { return Type{Kind: KindOptional, Elem: &t} }

// elem returns the type of the elements of input i, a sequence or optional. Each element may have other dims where they
// are symbols, so they are fresh.
func (c *Inference) elem(i int) Type {
	t := c.Type(i)
	if t.Elem == nil {
		return Type{}
	}
	e := c.trustedType(*t.Elem)
	if e.Kind == KindTensor {
		for k, d := range e.Shape {
			if !d.Backed() {
				e.Shape[k] = c.Fresh()
			}
		}
	}
	return e
}

// joinElems returns the type that covers the elements a and b of a sequence. Unknown types say nothing.
func (c *Inference) joinElems(a, b Type) (Type, bool) {
	if a.Kind == KindUnknown {
		return b, true
	}
	if b.Kind == KindUnknown {
		return a, true
	}
	return joinTypes(a, b, c.Fresh)
}

func inferSequenceAt(c *Inference) error {
	c.SetType(0, c.elem(0))
	return nil
}

func inferSequenceConstruct(c *Inference) error {
	t := c.Type(0)
	for i := 1; i < c.NumInputs(); i++ {
		var ok bool
		if t, ok = c.joinElems(t, c.Type(i)); !ok {
			return c.typeError(i, c.Type(0).String())
		}
	}
	c.SetType(0, SequenceOf(t))
	return nil
}

func inferSequenceEmpty(c *Inference) error {
	dt, err := c.dtypeAttr("dtype")
	if err != nil {
		return err
	}
	if dt == tensor.Invalid {
		dt = tensor.Float32
	}
	c.SetType(0, SequenceOf(TensorType(dt, nil)))
	return nil
}

func inferSequenceErase(c *Inference) error {
	c.SetType(0, c.Type(0))
	return nil
}

func inferSequenceInsert(c *Inference) error {
	var have Type
	if t := c.Type(0); t.Elem != nil {
		have = *t.Elem
	}
	t, ok := c.joinElems(have, c.Type(1))
	if !ok {
		return c.typeError(1, have.String())
	}
	c.SetType(0, SequenceOf(t))
	return nil
}

func inferScalar(c *Inference) error { return c.SetShape(0, Shape{}) }

// inferSplitToSequence: parts along an axis, of length 1 (which vanishes without keepdims) or as split says.
func inferSplitToSequence(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		c.SetType(0, SequenceOf(TensorType(c.DType(0), nil)))
		return nil
	}
	axis := c.Node.Int("axis", 0)
	a, err := NormAxis(axis, len(in))
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of %v", in), axis)
	}
	if err := c.needRank(1, 0, 1); err != nil {
		return err
	}
	out := append(Shape{}, in...)
	switch {
	case !c.Has(1) && c.Node.Int("keepdims", 1) == 0:
		out = append(out[:a], out[a+1:]...)
	case !c.Has(1):
		out[a] = D(1)
	default:
		out[a] = c.Fresh()
		sizes, ok := c.contents(1)
		n, isConst := in[a].Const()
		if ok && len(c.Shape(1)) == 0 && len(sizes) == 1 && sizes[0].Is(1) {
			out[a] = D(1)
		} else if ok && len(sizes) > 0 && (len(c.Shape(1)) == 1 || isConst) {
			equal := true
			for _, d := range sizes {
				equal = equal && d.Equal(sizes[0])
			}
			k, kc := sizes[0].Const()
			if kc && k <= 0 && len(c.Shape(1)) == 0 {
				return c.valueError(1, "a length above 0", fmt.Sprint(k))
			}
			if equal && (len(c.Shape(1)) == 1 || kc && n%k == 0) {
				out[a] = sizes[0]
			}
		}
	}
	if err := c.needNonNegative(out); err != nil {
		return err
	}
	c.SetType(0, SequenceOf(TensorType(c.DType(0), out)))
	return nil
}

func (c *Inference) needNonNegative(s Shape) error {
	for _, d := range s {
		if n, ok := d.Const(); ok && n < 0 {
			return portError(c.Node, true, 0, ErrShapeMismatch, "dims of at least 0", s.String())
		}
	}
	return nil
}

// inferConcatFromSequence: the elements joined along the axis, or stacked along a new one.
func inferConcatFromSequence(c *Inference) error {
	e := c.elem(0)
	if e.Kind != KindTensor || e.Shape == nil {
		return c.SetTensor(0, e.DType, nil)
	}
	axis, stack := c.Node.Int("axis", 0), c.Node.Int("new_axis", 0) != 0
	rank := len(e.Shape)
	if stack {
		rank++
	}
	a, err := NormAxis(axis, rank)
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of rank %d", rank), axis)
	}
	out := append(Shape{}, e.Shape[:a]...)
	out = append(out, c.Fresh())
	if stack {
		out = append(out, e.Shape[a:]...)
	} else {
		out = append(out, e.Shape[a+1:]...)
	}
	return c.SetTensor(0, e.DType, out)
}

// inferSequenceMap: the body maps elements, and values as they are, to the elements of the results.
func inferSequenceMap(c *Inference) error {
	body := c.Node.Region("body")
	if err := regionPorts(c.Node, "body", c.NumInputs(), c.NumOutputs()); err != nil {
		return err
	}
	changed := false
	types := make([]Type, c.NumInputs())
	for i, p := range body.Inputs {
		types[i] = c.Type(i)
		if types[i].Kind == KindSequence {
			types[i] = c.elem(i)
		}
		if types[i].Kind == KindUnknown {
			types[i] = c.trustedType(p.Type)
		}
		changed = changed || !types[i].Equal(p.Type)
	}
	if changed {
		forget(body)
	}
	for i, p := range body.Inputs {
		p.Type, p.Dims = types[i], nil
	}
	if err := inferRegion(c.Node, "body"); err != nil {
		return err
	}
	for i, v := range body.Outputs {
		c.SetType(i, SequenceOf(c.outerType(v.Type)))
	}
	return nil
}

// inferOptional: an optional of the input, or an empty one of the type in the attribute.
func inferOptional(c *Inference) error {
	a := c.Node.Attrs.Lookup("type")
	switch {
	case c.Has(0):
		c.SetType(0, OptionalOf(c.Type(0)))
	case a == nil:
		return c.attrError("type", "a type, where there is no input", "none")
	default:
		c.SetType(0, OptionalOf(a.Type))
	}
	return nil
}

// inferOptionalGetElement: what the optional holds; since version 18, other values pass as they are.
func inferOptionalGetElement(c *Inference) error {
	t := c.Type(0)
	if t.Kind == KindOptional {
		if t.Elem != nil {
			c.SetType(0, *t.Elem)
		}
		return nil
	}
	c.SetType(0, t)
	return nil
}
