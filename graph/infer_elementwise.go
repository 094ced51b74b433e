package graph

import (
	"github.com/carve-dev/carve/graph/tensor"
)

// inferSame: the result has the shape of input 0.
func inferSame(c *Inference) error {
	if c.NumInputs() == 0 {
		return nil
	}
	return c.SetShape(0, c.Shape(0))
}

// inferIdentity: the result is input 0, of whatever type.
func inferIdentity(c *Inference) error {
	in := c.Node.Inputs[0]
	c.SetType(0, in.Type)
	c.SetDims(0, in.Dims)
	return nil
}

// inferUnary: as inferSame, following integer contents.
func inferUnary(c *Inference) error {
	if err := inferSame(c); err != nil {
		return err
	}
	switch c.Node.Op.Name {
	case "Neg":
		c.mapDims(func(d Dim) (Dim, bool) { return d.Scale(-1), true })
	case "Abs", "Relu":
		relu := c.Node.Op.Name == "Relu"
		c.mapDims(func(d Dim) (Dim, bool) {
			if n, ok := d.Const(); ok && n < 0 {
				if relu {
					return D(0), true
				}
				return Dim{c: -n}, true
			}
			return d, d.NonNegative()
		})
	}
	return nil
}

// inferClip: min and max are scalars (inputs since version 11).
func inferClip(c *Inference) error {
	for i := 1; i < 3; i++ {
		if err := c.needScalar(i); err != nil {
			return err
		}
	}
	if err := inferSame(c); err != nil {
		return err
	}
	var lim [2][]Dim
	for i := 1; i < 3; i++ {
		if c.Has(i) {
			d, ok := c.Dims(i)
			if !ok || len(d) != 1 {
				return nil
			}
			lim[i-1] = d
		}
	}
	c.mapDims(func(d Dim) (Dim, bool) {
		if lim[0] != nil {
			d, _ = maxDims(d, lim[0][0])
		}
		if lim[1] != nil {
			d = d.Min(lim[1][0])
		}
		return d, true
	})
	return nil
}

// broadcast returns the shape that these inputs broadcast to, nil where a rank is unknown.
func (c *Inference) broadcast(inputs ...int) (Shape, error) {
	var out Shape
	for k, i := range inputs {
		s := c.Shape(i)
		if s == nil {
			return nil, nil
		}
		if k == 0 {
			out = s
			continue
		}
		merged, ok := broadcastDims(out, s)
		if !ok {
			return nil, c.shapeError(i, "a shape that broadcasts with "+out.String())
		}
		out = merged
	}
	return out, nil
}

func broadcastDims(a, b Shape) (out Shape, ok bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	off := len(a) - len(b)
	out = append(Shape{}, a...)
	for i, d := range b {
		if out[off+i], ok = broadcastDim(a[off+i], d); !ok {
			return nil, false
		}
	}
	return out, true
}

// broadcastDim is Dim.Broadcast, but gives the plain dim where the other one is a part of it: min(x, n) with n, as where a
// table of positions is cut to the length of a sequence, and the broadcast of n and something with n.
func broadcastDim(a, b Dim) (Dim, bool) {
	if isPart(a, b) {
		return b, true
	}
	if isPart(b, a) {
		return a, true
	}
	return a.Broadcast(b)
}

// isPart reports whether a, wherever it broadcasts with b, gives b: it is min(x, b), or b is the broadcast of a and
// something else. With b 1 a may be 0, and gives itself.
func isPart(a, b Dim) bool {
	if b.Is(1) {
		return false
	}
	if at, ok := a.atom(); ok && at.kind == atomMin && (at.a.Equal(b) || at.b.Equal(b)) {
		return true
	}
	at, ok := b.atom()
	return ok && at.kind == atomBroadcast && (at.a.Equal(a) || at.b.Equal(a))
}

// atom returns the only atom that d is.
func (d Dim) atom() (atom, bool) {
	if d.c == 0 && len(d.terms()) == 1 && d.e.terms[0].coef == 1 && len(d.e.terms[0].atoms) == 1 {
		return d.e.terms[0].atoms[0], true
	}
	return atom{}, false
}

// inferBroadcast: elementwise operators of any number of inputs.
func inferBroadcast(c *Inference) error {
	if c.hasAttr("broadcast") { // versions before 7: B broadcasts to A
		return inferSame(c)
	}
	if c.Node.Op.Name == "BitShift" {
		if d := c.Node.Str("direction", ""); d != "LEFT" && d != "RIGHT" {
			return c.attrError("direction", "LEFT or RIGHT", d)
		}
	}
	inputs := make([]int, c.NumInputs())
	for i := range inputs {
		inputs[i] = i
	}
	s, err := c.broadcast(inputs...)
	if err != nil {
		return err
	}
	if err := c.SetShape(0, s); err != nil {
		return err
	}
	if f := c.dimArith(); f != nil {
		switch len(inputs) {
		case 1:
			c.mapDims(func(d Dim) (Dim, bool) { return d, true })
		case 2:
			c.zipDims(0, 1, f)
		}
	}
	return nil
}

// inferWhere: condition, X and Y broadcast together.
func inferWhere(c *Inference) error {
	s, err := c.broadcast(0, 1, 2)
	if err != nil {
		return err
	}
	if err := c.SetShape(0, s); err != nil || !c.vectorOutput() {
		return err
	}
	n, ok := numElements(s)
	k, isConst := n.Const()
	cond, okC := bools(c.Node.Inputs[0], followDepth)
	x, okX := elements(c.Node.Inputs[1])
	y, okY := elements(c.Node.Inputs[2])
	if !ok || !isConst || k > maxDimsContent || !okX || !okY {
		return nil
	}
	if !okC {
		cond = []truth{perhaps}
	}
	out := make([]Dim, k)
	for i := range out {
		a, b := x[min(i, len(x)-1)], y[min(i, len(y)-1)]
		switch at := cond[min(i, len(cond)-1)]; {
		case at == yes || at == perhaps && a.Equal(b):
			out[i] = a
		case at == no:
			out[i] = b
		default:
			out[i] = unknown
		}
	}
	c.SetDims(0, out)
	return nil
}

// inferPRelu: slope broadcasts to X, one way.
func inferPRelu(c *Inference) error {
	if c.Node.Schema.Since >= 7 {
		if x, slope := c.Shape(0), c.Shape(1); x != nil && slope != nil {
			if err := c.broadcastTo(1, x); err != nil {
				return err
			}
		}
	}
	return inferSame(c)
}

// broadcastTo checks that input i broadcasts to s without changing it.
func (c *Inference) broadcastTo(i int, s Shape) error {
	from := c.Shape(i)
	if from == nil || s == nil {
		return nil
	}
	if len(from) > len(s) {
		return c.shapeError(i, "a shape that broadcasts to "+s.String())
	}
	off := len(s) - len(from)
	for k, d := range from {
		n, ok := d.Const()
		m, ok2 := s[off+k].Const()
		if ok && ok2 && n != 1 && n != m {
			return c.shapeError(i, "a shape that broadcasts to "+s.String())
		}
	}
	return nil
}

// inferCast: the type is the attribute to.
func inferCast(c *Inference) error {
	if c.Node.Schema.Since < 6 { // a name, such as "FLOAT"
		return c.SetTensor(0, parseTypeName("tensor("+lower(c.Node.Str("to", ""))+")").DType, c.Shape(0))
	}
	dt, err := c.dtypeAttr("to")
	if err != nil {
		return err
	}
	if err := c.SetTensor(0, dt, c.Shape(0)); err != nil {
		return err
	}
	from := c.DType(0)
	switch {
	case followed(from) && followed(dt):
		c.mapDims(func(d Dim) (Dim, bool) { return d, true })
	case from.IsFloat() && followed(dt):
		c.castToDims()
	}
	return nil
}

func lower(s string) string {
	b := []byte(s)
	for i, x := range b {
		if 'A' <= x && x <= 'Z' {
			b[i] = x + 'a' - 'A'
		}
	}
	return string(b)
}

// inferCastLike: the type is that of input 1.
func inferCastLike(c *Inference) error {
	dt := c.DType(1)
	if err := c.SetTensor(0, dt, c.Shape(0)); err != nil {
		return err
	}
	if followed(c.DType(0)) && followed(dt) {
		c.mapDims(func(d Dim) (Dim, bool) { return d, true })
	}
	return nil
}

// inferBitCast: elements of the same size, seen as another type.
func inferBitCast(c *Inference) error {
	dt, err := c.dtypeAttr("to")
	if err != nil {
		return err
	}
	if from := c.DType(0); from != tensor.Invalid && dt != tensor.Invalid && from.Bits() != dt.Bits() {
		return c.attrError("to", from.String()+" or another type of its size", dt)
	}
	return c.SetTensor(0, dt, c.Shape(0))
}

// inferDtypeLike: the shape of input 0 and the type of the attribute dtype, else that of input 0.
func inferDtypeLike(c *Inference) error {
	dt, err := c.dtypeAttr("dtype")
	if err != nil {
		return err
	}
	if dt == tensor.Invalid {
		dt = c.DType(0)
	}
	if c.Node.Op.Name == "EyeLike" {
		if err := c.needRank(0, 2, 2); err != nil {
			return err
		}
	}
	return c.SetTensor(0, dt, c.Shape(0))
}

// inferDropout: the result and a mask of its shape, Bool since version 10.
func inferDropout(c *Inference) error {
	for i := 1; i < 3; i++ {
		if err := c.needScalar(i); err != nil {
			return err
		}
	}
	if err := inferSame(c); err != nil {
		return err
	}
	return c.SetShape(1, c.Shape(0))
}

// inferAxisSame: the shape of input 0, with an attribute axis that must fit its rank. Softmax, LogSoftmax and Hardmax
// before version 13 flatten to a matrix at the axis, which may then be the rank itself.
func inferAxisSame(c *Inference) error {
	if r, ok := c.rank(0); ok {
		axis := c.Node.Int("axis", attrDefault(c, "axis", -1))
		hi := int64(r)
		switch c.Node.Op.Name {
		case "Softmax", "LogSoftmax", "Hardmax":
			if c.Node.Schema.Since < 13 {
				hi++
			}
			if r == 0 {
				hi = 1 // a scalar is a list of one element
			}
		}
		if axis >= hi || axis < -max(int64(r), 1) {
			return c.attrError("axis", "an axis of "+c.Shape(0).String(), axis)
		}
	}
	return inferSame(c)
}

// attrDefault returns the schema's default of an integer attribute.
func attrDefault(c *Inference, name string, def int64) int64 {
	if a := c.Node.Schema.attr(name); a != nil && a.Default != nil && a.Default.Kind == AttrInt {
		return a.Default.Int
	}
	return def
}

// inferCumulative: CumSum and CumProd, whose axis is a scalar input.
func inferCumulative(c *Inference) error {
	r, ok := c.rank(0)
	if axis, known := c.scalar(1); ok && known {
		if _, err := NormAxis(axis, r); err != nil {
			return c.valueError(1, "an axis of "+c.Shape(0).String(), itoa(int(axis)))
		}
	}
	return inferSame(c)
}

// inferMinRank: the shape of input 0, which has at least two dims.
func inferMinRank(c *Inference) error {
	if err := c.needRank(0, 2, anyRank); err != nil {
		return err
	}
	return inferSame(c)
}

// inferSwiGLU: elementwise over two inputs of one shape.
func inferSwiGLU(c *Inference) error {
	s, err := c.broadcast(0, 1)
	if err != nil {
		return err
	}
	return c.SetShape(0, s)
}
