package graph

import (
	"fmt"
	"slices"
	"strings"
)

// inferRegion gives the captures of a region the types of the owner's operands and infers its nodes.
func inferRegion(n *Node, name string) error {
	r := n.Region(name)
	if len(r.Captures) != len(n.Captures) {
		return regionError(n, name, ErrArity, fmt.Sprintf("%d captures", len(n.Captures)), fmt.Sprint(len(r.Captures)))
	}
	for i, p := range r.Captures {
		if v := n.Captures[i]; v != nil && v.Type.Kind != KindUnknown {
			p.Type, p.Dims = v.Type, v.Dims
		}
	}
	return InferGraph(r)
}

func regionError(n *Node, name string, cause error, expected, found string) *InferError {
	e := nodeError(n, cause, expected, found)
	e.Port = fmt.Sprintf("region %q", capped(name))
	return e
}

// regionPorts checks the number of a region's inputs and that it has outputs enough.
func regionPorts(n *Node, name string, inputs, outputs int) error {
	r := n.Region(name)
	if len(r.Inputs) != inputs {
		return regionError(n, name, ErrArity, fmt.Sprintf("%d inputs", inputs), fmt.Sprint(len(r.Inputs)))
	}
	if len(r.Outputs) != outputs {
		return regionError(n, name, ErrArity, fmt.Sprintf("%d outputs", outputs), fmt.Sprint(len(r.Outputs)))
	}
	return nil
}

// forget makes the types of all results in a region unknown, so that nothing of an earlier inference is taken for known.
func forget(g *Graph) {
	for n := range g.Nodes() {
		for _, v := range n.Outputs {
			if v != nil {
				v.Type, v.Dims = Type{}, nil
			}
		}
		for _, r := range n.Regions {
			forget(r.Graph)
		}
	}
}

// joinTypes returns the type of a value that is of type a at times and of type b at others: dims that differ become what
// fresh returns, ranks that differ unknown. ok is false where no type covers both.
func joinTypes(a, b Type, fresh func() Dim) (_ Type, ok bool) {
	if a.Kind == KindUnknown || b.Kind == KindUnknown {
		return Type{}, true
	}
	if a.Kind != b.Kind || a.DType != b.DType && a.DType != 0 && b.DType != 0 {
		return Type{}, false
	}
	if b.DType == 0 {
		a.DType = 0
	}
	if a.Kind != KindTensor {
		if a.Elem == nil || b.Elem == nil {
			a.Elem = nil
			return a, true
		}
		e, ok := joinTypes(*a.Elem, *b.Elem, fresh)
		a.Elem = &e
		return a, ok
	}
	a.Shape = joinShapes(a.Shape, b.Shape, fresh)
	return a, true
}

func joinShapes(a, b Shape, fresh func() Dim) Shape {
	if a == nil || b == nil || len(a) != len(b) {
		return nil
	}
	out := append(Shape{}, a...)
	for i := range out {
		if !a[i].Equal(b[i]) {
			out[i] = fresh()
		}
	}
	return out
}

// outerType returns the type of a region's result as the owner sees it: dims with symbols that only the region knows
// become fresh.
func (c *Inference) outerType(t Type) Type {
	if t.Kind == KindTensor {
		t.Shape = c.outerShape(t.Shape)
		return t
	}
	if t.Elem != nil {
		e := c.outerType(*t.Elem)
		t.Elem = &e
	}
	return t
}

func (c *Inference) outerShape(s Shape) Shape {
	if s.Backed() || s == nil {
		return s
	}
	known := map[string]bool{}
	for _, v := range c.Node.Operands() {
		for _, d := range v.Type.Shape {
			d.Symbols(known)
		}
		for _, d := range v.Dims {
			d.Symbols(known)
		}
	}
	out := append(Shape{}, s...)
	for i, d := range out {
		syms := map[string]bool{}
		d.Symbols(syms)
		for name := range syms {
			if strings.HasPrefix(name, "?") && !known[name] {
				out[i] = c.Fresh()
				break
			}
		}
	}
	return out
}

// trustedType returns t with dims that no run can evaluate made fresh.
func (c *Inference) trustedType(t Type) Type {
	if t.Kind == KindTensor {
		out := append(Shape(nil), t.Shape...)
		if t.Shape != nil && out == nil {
			out = Shape{}
		}
		for i, d := range out {
			out[i] = c.trusted(d)
		}
		t.Shape = out
	} else if t.Elem != nil {
		e := c.trustedType(*t.Elem)
		t.Elem = &e
	}
	return t
}

// inferIf: the results are what both arms have in common; where the condition is known, those of its arm.
func inferIf(c *Inference) error {
	if s := c.Shape(0); len(s) > 0 {
		if n, ok := numElements(s); ok {
			if k, isConst := n.Const(); isConst && k != 1 {
				return c.shapeError(0, "one element")
			}
		}
	}
	names := [2]string{"then_branch", "else_branch"}
	taken := -1
	if cond, ok := bools(c.Node.Inputs[0], followDepth); ok && len(cond) == 1 && cond[0] != perhaps {
		if taken = 1; cond[0] == yes {
			taken = 0
		}
	}
	for i, name := range names {
		if err := regionPorts(c.Node, name, 0, c.NumOutputs()); err != nil {
			return err
		}
		// An arm that is never run need not fit the shapes: exporters write a Squeeze under the condition that it can be.
		if err := inferRegion(c.Node, name); err != nil && (taken < 0 || taken == i) {
			return err
		}
	}
	a, b := c.Node.Region(names[0]), c.Node.Region(names[1])
	for i := range c.NumOutputs() {
		va, vb := a.Outputs[i], b.Outputs[i]
		ta, tb := c.outerType(va.Type), c.outerType(vb.Type)
		t, ok := joinTypes(ta, tb, c.Fresh)
		if !ok {
			return portError(c.Node, true, i, ErrTypeMismatch, ta.String()+" as in then_branch", tb.String())
		}
		dims := va.Dims
		switch {
		case taken == 0:
			t = ta
		case taken == 1:
			t, dims = tb, vb.Dims
		default:
			dims = commonDims(va, vb)
		}
		c.SetType(i, t)
		if dims != nil {
			c.SetDims(i, c.ownDims(dims))
		}
	}
	return nil
}

// commonDims returns the elements that two values have in common, nil where there are none.
func commonDims(v, w *Value) []Dim {
	a, ok := elements(v)
	b, ok2 := elements(w)
	if !ok || !ok2 || len(a) != len(b) {
		return nil
	}
	a = slices.Clone(a)
	for i, d := range a {
		if !d.Equal(b[i]) {
			a[i] = unknown
		}
	}
	return a
}

// ownDims returns elements, unknown ones in place of those with symbols that only a region knows.
func (c *Inference) ownDims(dims []Dim) []Dim {
	out := c.outerShape(Shape(dims))
	for i, d := range out {
		if !d.Equal(dims[i]) {
			out[i] = unknown
		}
	}
	return out
}
