package graph

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// outputType returns what the schema alone says of output i: the type that its type variable stands for, without the
// shape, or the only type that the port admits; the zero Type where neither is known.
func (c *Inference) outputType(i int) Type {
	if c.Node.Schema == nil {
		return Type{}
	}
	p := formal(c.Node.Schema.Outputs, i)
	if p == nil {
		return Type{}
	}
	list, isVar := c.Node.Schema.Types[p.Type]
	if !isVar {
		return parseTypeName(p.Type)
	}
	if !p.Hetero {
		for _, b := range c.bound {
			if b.name == p.Type {
				t := b.t
				t.Shape = nil
				return t
			}
		}
	}
	if len(list) == 1 {
		return parseTypeName(list[0])
	}
	return Type{Kind: KindTensor}
}

// SetShape sets the type of tensor output i: the element type that the schema implies, and that shape. Dims that are
// negative numbers are an error.
func (c *Inference) SetShape(i int, s Shape) error {
	dt := tensor.Invalid
	if t := c.outputType(i); t.Kind == KindTensor {
		dt = t.DType
	}
	return c.SetTensor(i, dt, s)
}

// SetTensor sets the type of tensor output i. Dims that are negative numbers are an error.
func (c *Inference) SetTensor(i int, dt tensor.DType, s Shape) error {
	if c.Node.Output(i) == nil {
		return nil
	}
	for _, d := range s {
		if n, ok := d.Const(); ok && n < 0 {
			return portError(c.Node, true, i, ErrShapeMismatch, "dims of at least 0", s.String())
		}
	}
	c.SetType(i, TensorType(dt, s))
	return nil
}

// rank returns the rank of input i; ok is false where it is unknown.
func (c *Inference) rank(i int) (r int, ok bool) {
	s := c.Shape(i)
	return len(s), s != nil
}

// needRank checks the rank of input i, where it is known: at least lo, at most hi.
func (c *Inference) needRank(i, lo, hi int) error {
	r, ok := c.rank(i)
	switch {
	case !ok || r >= lo && r <= hi:
		return nil
	case lo == hi:
		return c.shapeError(i, fmt.Sprintf("rank %d", lo))
	case hi >= anyRank:
		return c.shapeError(i, fmt.Sprintf("a rank of at least %d", lo))
	}
	return c.shapeError(i, fmt.Sprintf("a rank from %d to %d", lo, hi))
}

// needScalar checks that input i can hold one element: as a scalar or, as exporters write it, a vector. A vector whose
// length only a run knows is left to the kernel.
func (c *Inference) needScalar(i int) error {
	s := c.Shape(i)
	if len(s) > 1 || len(s) == 1 && s[0].Backed() && !s[0].Is(1) {
		return c.shapeError(i, "a scalar")
	}
	return nil
}

// anyRank stands for no upper bound of a rank.
const anyRank = 1 << 20

// maxRank bounds ranks that attributes or contents ask for.
const maxRank = 1 << 12

// dim returns dim axis of input i, or a fresh symbol where the rank is unknown.
func (c *Inference) dim(i, axis int) Dim {
	if s := c.Shape(i); axis >= 0 && axis < len(s) {
		return s[axis]
	}
	return c.Fresh()
}

// freshShape returns a shape of that rank with fresh dims.
func (c *Inference) freshShape(rank int) Shape {
	s := make(Shape, rank)
	for i := range s {
		s[i] = c.Fresh()
	}
	return s
}

// sameDim returns the better known of two dims that must be equal; ok is false where both are different numbers.
func sameDim(a, b Dim) (d Dim, ok bool) {
	an, ac := a.Const()
	bn, bc := b.Const()
	switch {
	case ac && bc:
		return a, an == bn
	case ac:
		return a, true
	case bc:
		return b, true
	case !a.Backed() && b.Backed():
		return b, true
	}
	return a, true
}

// needDim checks that dim axis of input i can be d.
func (c *Inference) needDim(i, axis int, d Dim) error {
	s := c.Shape(i)
	if axis < 0 {
		axis += len(s)
	}
	if axis < 0 || axis >= len(s) {
		return nil
	}
	if _, ok := sameDim(s[axis], d); !ok {
		return c.shapeError(i, fmt.Sprintf("%v at axis %d", d, axis))
	}
	return nil
}

// constOf returns the data of a constant, also of the result of a node Constant, and of what a region sees as a capture,
// or as an input where the region runs once.
func constOf(v *Value) *tensor.Tensor {
	for v != nil && v.Const == nil {
		if n := v.Producer; n != nil {
			if !n.Is("Constant") || len(n.Attrs) != 1 {
				return nil
			}
			switch a := &n.Attrs[0]; a.Kind {
			case AttrTensor:
				return a.Tensor
			case AttrFloat:
				return tensor.Scalar(a.Float)
			case AttrFloats:
				return tensor.From(a.Floats, len(a.Floats))
			}
			return nil
		}
		owner := v.graph.owner
		if owner == nil {
			return nil
		}
		params, operands := v.graph.Captures, owner.Captures
		switch {
		case v.IsCapture():
		case v.IsInput() && owner.carveName() != "":
			params, operands = v.graph.Inputs, owner.Inputs
		default:
			return nil
		}
		i := slices.Index(params, v)
		if i < 0 || i >= len(operands) {
			return nil
		}
		v = operands[i]
	}
	if v == nil {
		return nil
	}
	return v.Const
}

// maxContents bounds the length of constant operands whose elements inference reads.
const maxContents = 1 << 16

// ints returns the elements of integer input i where all are known as numbers, in row-major order.
func (c *Inference) ints(i int) (vals []int64, ok bool) {
	v := c.Node.Input(i)
	if v == nil {
		return nil, false
	}
	if t := constOf(v); t != nil && (t.DType.IsInt() || t.DType == tensor.Bool) && t.Len() <= maxContents {
		vals = make([]int64, t.Len())
		if tensor.DecodeInts(vals, t) == nil {
			return vals, true
		}
		return nil, false
	}
	if v.Dims == nil {
		return nil, false
	}
	for _, d := range v.Dims {
		n, ok := d.Const()
		if !ok {
			return nil, false
		}
		vals = append(vals, n)
	}
	return vals, true
}

// floats returns the elements of constant float input i.
func (c *Inference) floats(i int) (vals []float64, ok bool) {
	t := c.Const(i)
	if t == nil || t.Len() > maxContents || !t.DType.IsFloat() && !t.DType.IsInt() {
		return nil, false
	}
	vals = make([]float64, t.Len())
	return vals, tensor.Decode(vals, t) == nil
}

// contents returns the elements of integer input i as dims where they are known, its constants of any integer type and
// rank included. Of others whose number is known it makes symbols, so that all who ask see the same ones.
func (c *Inference) contents(i int) (dims []Dim, ok bool) {
	if dims, ok = c.Dims(i); ok {
		return dims, true
	}
	vals, ok := c.ints(i)
	if !ok {
		return c.name(c.Node.Input(i))
	}
	dims = make([]Dim, len(vals))
	for k, n := range vals {
		dims[k] = Dim{c: n}
	}
	return dims, true
}

// name gives the elements of a value, of which nothing is known, symbols. Parameters of regions have those of their owner's operands.
func (c *Inference) name(v *Value) ([]Dim, bool) {
	if v == nil || v.IsConst() || v.Producer == nil && (!v.IsInput() || c.g.owner != nil) {
		return nil, false
	}
	dims, ok := elements(v)
	if !ok {
		return nil, false
	}
	for k := range dims {
		dims[k] = c.g.fresh(unknownPrefix)
	}
	v.Dims = dims
	return dims, true
}

// length returns the number of elements of rank-1 input i, where it is known as a number.
func (c *Inference) length(i int) (n int, ok bool) {
	s := c.Shape(i)
	if len(s) != 1 {
		return 0, false
	}
	k, ok := s[0].Const()
	if !ok || k < 0 || k > 1<<30 {
		return 0, false
	}
	return int(k), true
}

// scalar returns the number that input i of one element holds.
func (c *Inference) scalar(i int) (n int64, ok bool) {
	vals, ok := c.ints(i)
	if !ok || len(vals) != 1 {
		return 0, false
	}
	return vals[0], true
}

// hasAttr reports whether this version of the operator takes the attribute of that name.
func (c *Inference) hasAttr(name string) bool { return c.Node.Schema.attr(name) != nil }

// axesOf returns the axes that older versions of an operator take as an attribute and newer ones as that input.
// present is false where the node has none; known is false where the elements are not numbers.
func (c *Inference) axesOf(input int) (vals []int64, present, known bool) {
	if c.hasAttr("axes") {
		vals, present = c.Node.Ints("axes")
		return vals, present, true
	}
	if !c.Has(input) {
		return nil, false, true
	}
	vals, known = c.ints(input)
	return vals, true, known
}

// dtypeAttr returns the element type that an integer attribute names; Invalid where the node lacks it.
func (c *Inference) dtypeAttr(name string) (tensor.DType, error) {
	a := c.Node.Attrs.Lookup(name)
	if a == nil {
		return tensor.Invalid, nil
	}
	if a.Int <= 0 || a.Int > 255 || !tensor.DType(a.Int).Valid() {
		return tensor.Invalid, c.attrError(name, "an element type", a.Int)
	}
	return tensor.DType(a.Int), nil
}
