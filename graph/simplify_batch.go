package graph

import "slices"

// partBatches takes out the views that merge dims in front of batched products and divide them again behind, as exporters write
// attention, [batch, heads, rows, size], in products of rank 3:
//
//	Reshape [b·h, r, s] → MatMul → Mul → Add → Reshape [b, h, r, t] → Add → Softmax → Reshape [b·h, r, t] → MatMul → Reshape [b, h, r, s]
//
// It begins at the view that divides dim 0 of a product, or of what element-wise operators make of one. Where all that this is made of
// comes from values that have the divided dims, it is computed on those.
func (s *simplifier) partBatches() error {
	return s.each(func(n *Node) error {
		x := n.Input(0)
		if x == nil || !n.Is("Reshape") || !s.cannotFail(n) {
			return nil
		}
		out := n.Outputs[0].Type.Shape
		starts := division(x.Type.Shape, out)
		if len(starts) != 4 || starts[1] < 2 || starts[2] != starts[1]+1 {
			return nil
		}
		p := batches{s: s, whole: x.Type.Shape[0], parts: out[:starts[1]], format: n.Outputs[0].Format}
		if !out.Equal(p.divided(x)) || p.merged(x) != nil || !p.divides(x, 0) || !p.product {
			return nil
		}
		p.divide(x)
		s.forward(n, x)
		return nil
	})
}

// batches are products of rank 3 whose dim 0 is to be divided.
type batches struct {
	s      *simplifier
	whole  Dim
	parts  Shape
	format Format

	product bool // divides has found one
}

// maxBatches bounds how many nodes in a row are looked at.
const maxBatches = 16

// alongAxis is the version from which on a Softmax is along one axis.
const alongAxis = 13

// divided returns the dims of v, of rank 3, with the first one divided.
func (b *batches) divided(v *Value) Shape { return slices.Concat(b.parts, v.Type.Shape[1:]) }

// batched reports whether v has the dim that is to be divided.
func (b *batches) batched(v *Value) bool {
	return v != nil && v.Format == b.format && len(v.Type.Shape) == 3 && v.Type.Shape[0].Equal(b.whole)
}

// merged returns what v was made of by merging the parts, nil where it was not.
func (b *batches) merged(v *Value) *Value {
	n := v.Producer
	if n == nil || !n.Is("Reshape", "Flatten", "Squeeze") || !onlyFirst(n) || !b.s.cannotFail(n) {
		return nil
	}
	if src := n.Inputs[0]; src.Format == b.format && src.Type.Shape.Equal(b.divided(v)) {
		return src
	}
	return nil
}

// divides reports whether v can be computed with its dim 0 divided, and is made of values that have the parts already.
func (b *batches) divides(v *Value, depth int) bool {
	switch {
	case !b.batched(v) || depth > maxBatches:
		return false
	case b.merged(v) != nil:
		return true
	case v.Producer == nil || !v.HasOneUse() || !onlyFirst(v.Producer):
		return false
	}
	switch n := v.Producer; {
	case n.Is("MatMul"):
		b.product = true
		return b.divides(n.Inputs[0], depth+1) && b.divides(n.Inputs[1], depth+1)
	case n.Is("Transpose"):
		perm := permutation(n)
		return len(perm) == 3 && perm[0] == 0 && b.divides(n.Inputs[0], depth+1)
	case n.Is("Softmax"):
		axis := n.Int("axis", -1)
		return n.Op.Since >= alongAxis && (axis == -1 || axis == 2) && b.divides(n.Inputs[0], depth+1)
	case n.Op.Domain == "" && elementWise[n.Op.Name]:
		return b.divides(n.Inputs[0], depth+1)
	case n.Op.Domain == "" && broadcasting[n.Op.Name] && n.Op.Since >= byShapes:
		return b.dividesOne(n, depth+1)
	}
	return false
}

// dividesOne reports whether an operand of n, which broadcasts them, divides, and the others can stay as they are or be viewed with the
// parts.
func (b *batches) dividesOne(n *Node, depth int) bool {
	some := false
	for _, v := range n.Inputs {
		switch {
		case v == nil:
			return false
		case b.divides(v, depth):
			some = true
		case !b.stays(v) && !b.viewed(v):
			return false
		}
	}
	return some
}

// stays reports whether v is broadcast along the parts as it is.
func (b *batches) stays(v *Value) bool {
	shape := v.Type.Shape
	return v.Format == b.format && shape.Known() && (len(shape) < 3 || len(shape) == 3 && shape[0].Is(1) && !b.whole.Is(1))
}

// viewed reports whether a Reshape may divide v.
func (b *batches) viewed(v *Value) bool { return b.batched(v) && b.s.canView(b.divided(v)) }

// divide computes v, of which divides holds or which is an operand of such a node, with its dim 0 divided, and returns it.
func (b *batches) divide(v *Value) *Value {
	if src := b.merged(v); src != nil {
		return src
	}
	if !b.divides(v, 0) {
		return b.s.view(v, b.divided(v))
	}
	n, extra := v.Producer, int64(len(b.parts)-1)
	switch {
	case n.Is("Transpose"):
		perm := make([]int64, 0, len(b.parts)+2)
		for i := range b.parts {
			perm = append(perm, int64(i))
		}
		for _, k := range permutation(n)[1:] {
			perm = append(perm, k+extra)
		}
		n.Attrs = n.Attrs.With(IntsAttr("perm", perm...))
	case n.Is("Softmax"):
		n.Attrs = n.Attrs.With(IntAttr("axis", -1))
	}
	for i, x := range n.Inputs {
		if b.batched(x) {
			n.SetOperand(i, b.divide(x))
		}
	}
	v.Type.Shape = b.divided(v)
	b.s.stale(n)
	return v
}
