package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// fuseLayerNorms recognises layer normalisation over the last axes:
//
//	d = x - mean(x);  y = d / √(mean(d²) + ε) · γ + β
//
// with d² as Pow or Mul, the division as Div or as Mul with a Reciprocal, and without + β where it is missing. γ and β have
// the shape of the axes. LayerNormalization computes in float32, so only float32 is fused.
func (s *simplifier) fuseLayerNorms() error {
	return s.each(func(n *Node) error {
		if !n.Is("Add", "Mul") || len(n.Inputs) != 2 || n.Inputs[0] == nil || n.Inputs[1] == nil || !onlyFirst(n) ||
			n.Outputs[0].Type.DType != tensor.Float32 || n.Is("Mul") && addFollows(n.Outputs[0]) {
			return nil
		}
		for k := range n.Inputs {
			m := &match{}
			last, beta := n, (*Value)(nil)
			if n.Is("Add") {
				if last, beta = m.node(n.Inputs[k], "Mul"), n.Inputs[1-k]; last == nil || len(last.Inputs) != 2 {
					continue
				}
			}
			if s.fuseScaled(n, last, beta, m) {
				return nil
			}
			if n.Is("Mul") {
				return nil // both operands were tried
			}
		}
		return nil
	})
}

// addFollows reports whether the only reader of v is an Add, which then is the end of the pattern.
func addFollows(v *Value) bool { return v.HasOneUse() && v.uses[0].Node.Is("Add") }

// fuseScaled reads mul as the normalised value times γ.
func (s *simplifier) fuseScaled(root, mul *Node, beta *Value, m *match) bool {
	for k := range mul.Inputs {
		attempt := m.fork()
		x, axis, epsilon, ok := attempt.normalised(mul.Inputs[k])
		if !ok {
			continue
		}
		gamma := mul.Inputs[1-k]
		want := x.Type.Shape[axis:]
		if !ofShape(gamma, want) || beta != nil && !ofShape(beta, want) || attempt.produces(gamma) || attempt.produces(beta) {
			continue
		}
		inputs := []*Value{x, gamma}
		if beta != nil {
			inputs = append(inputs, beta)
		}
		attrs := []Attr{IntAttr("axis", int64(axis-len(x.Type.Shape))), FloatAttr("epsilon", float32(epsilon))}
		if s.fuse(root, attempt, Op{Name: "LayerNormalization", Since: 17}, attrs, inputs...) {
			return true
		}
	}
	return false
}

func (m *match) produces(v *Value) bool {
	return v != nil && v.Producer != nil && slices.Contains(m.nodes, v.Producer)
}

func ofShape(v *Value, s Shape) bool {
	return v != nil && v.Type.IsTensor() && v.Type.DType == tensor.Float32 && v.Type.Shape.Known() && v.Type.Shape.Equal(s)
}

// normalised reads v as d/√(mean(d²)+ε).
func (m *match) normalised(v *Value) (x *Value, axis int, epsilon float64, ok bool) {
	n := m.node(v, "Div", "Mul")
	if n == nil || len(n.Inputs) != 2 {
		return nil, 0, 0, false
	}
	if n.Is("Div") {
		return m.deviation(n.Inputs[0], n.Inputs[1])
	}
	for k := range n.Inputs {
		attempt := m.fork()
		r := attempt.node(n.Inputs[k], "Reciprocal")
		if r == nil {
			continue
		}
		if x, axis, epsilon, ok = attempt.deviation(n.Inputs[1-k], r.Input(0)); ok {
			*m = *attempt
			return x, axis, epsilon, true
		}
	}
	return nil, 0, 0, false
}

// deviation reads d as x - mean(x), and sd as √(mean(d²)+ε).
func (m *match) deviation(d, sd *Value) (x *Value, axis int, epsilon float64, ok bool) {
	sub := m.node(d, "Sub")
	sqrt := m.node(sd, "Sqrt")
	if sub == nil || sqrt == nil || len(sub.Inputs) != 2 {
		return nil, 0, 0, false
	}
	x = sub.Inputs[0]
	mean := m.node(sub.Inputs[1], "ReduceMean")
	add := m.node(sqrt.Input(0), "Add")
	if mean == nil || add == nil || len(add.Inputs) != 2 || x == nil || mean.Input(0) != x {
		return nil, 0, 0, false
	}
	for k := range add.Inputs {
		e, isNumber := scalar(add.Inputs[k], add.Inputs[1-k])
		if !isNumber {
			continue
		}
		variance := m.node(add.Inputs[1-k], "ReduceMean")
		if variance == nil || !m.isSquare(variance.Input(0), d) {
			return nil, 0, 0, false
		}
		axis, ok = meanAxis(mean, x)
		if again, same := meanAxis(variance, d); !ok || !same || again != axis {
			return nil, 0, 0, false
		}
		return x, axis, e, true
	}
	return nil, 0, 0, false
}

// isSquare reports whether v is d².
func (m *match) isSquare(v, d *Value) bool {
	n := m.node(v, "Pow", "Mul")
	if n == nil || len(n.Inputs) != 2 || n.Inputs[0] != d {
		return false
	}
	if n.Is("Mul") {
		return n.Inputs[1] == d
	}
	e, ok := scalar(n.Inputs[1], d)
	if !ok && n.Inputs[1] != nil && n.Inputs[1].Const != nil && n.Inputs[1].Const.Len() == 1 && n.Inputs[1].Const.Rank() == 0 {
		e, ok = n.Inputs[1].Const.Float64At(0), true // an exponent of an integer type
	}
	return ok && e == 2
}

// meanAxis returns the first of the axes that a ReduceMean over the last axes of x reduces and keeps.
func meanAxis(n *Node, x *Value) (axis int, ok bool) {
	if x == nil || !x.Type.IsTensor() || len(x.Type.Shape) == 0 || n.Int("keepdims", 1) != 1 || n.Int("noop_with_empty_axes", 0) != 0 {
		return 0, false
	}
	rank := len(x.Type.Shape)
	axes, ok := n.Ints("axes")
	if in := n.Input(1); in != nil {
		if in.Const == nil || in.Const.DType != tensor.Int64 || in.Const.Rank() != 1 || in.Const.Len() > rank {
			return 0, false
		}
		axes, ok = nil, true
		for i := range in.Const.Len() {
			axes = append(axes, in.Const.Int64At(i))
		}
	}
	if !ok || len(axes) == 0 {
		return 0, false
	}
	axis = rank - len(axes)
	seen := map[int64]bool{}
	for _, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		if a < int64(axis) || a >= int64(rank) || seen[a] {
			return 0, false
		}
		seen[a] = true
	}
	return axis, true
}
