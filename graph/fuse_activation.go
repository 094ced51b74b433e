package graph

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

// fuseActivations recognises products that are activation functions of a value x, in whatever order the exporter
// multiplied:
//
//	Gelu       0.5·x·(1 + erf(x/√2)), and with tanh(√(2/π)·(x + 0.044715·x³)) in place of erf
//	HardSwish  x·clip(x + 3, 0, 6)/6, and x·HardSigmoid(x) with its parameters
//	Swish      x·sigmoid(x)
//	Mish       x·tanh(softplus(x))
//
// A PRelu whose slopes are all one number is a LeakyRelu.
func (s *simplifier) fuseActivations() error {
	return s.each(func(n *Node) error {
		if slope, ok := oneSlope(n); ok {
			s.fuse(n, &match{}, Op{Name: "LeakyRelu", Since: 16}, []Attr{FloatAttr("alpha", slope)}, n.Inputs[0])
			return nil
		}
		if !isProduct(n) || !realFloat(n.Outputs[0]) {
			return nil
		}
		for _, rule := range activationRules {
			m := &match{}
			p, ok := m.product(n)
			if !ok {
				return nil
			}
			if p.pair(func(x, f *Value) bool { return rule(s, n, m, p.scale, x, f) }) {
				return nil
			}
		}
		return nil
	})
}

// oneSlope returns the number that all slopes of a PRelu are.
func oneSlope(n *Node) (slope float32, ok bool) {
	if !n.Is("PRelu") || !realFloat(n.Outputs[0]) {
		return 0, false
	}
	x, v := n.Inputs[0], n.Inputs[1]
	if v.Const == nil || v.Const.Len() == 0 || x.Type.Shape == nil || len(v.Const.Shape) > len(x.Type.Shape) {
		return 0, false
	}
	for i, d := range v.Const.Shape {
		if d != 1 && !x.Type.Shape[len(x.Type.Shape)-len(v.Const.Shape)+i].Is(int64(d)) {
			return 0, false
		}
	}
	first := v.Const.Float64At(0)
	slope = float32(first)
	return slope, float64(slope) == first && allElements(v.Const, func(t *tensor.Tensor, i int) bool { return t.Float64At(i) == first })
}

// activationRules try to read scale·x·f, which root computes, as an activation of x, and fuse it.
var activationRules = []func(s *simplifier, root *Node, m *match, scale float64, x, f *Value) bool{
	fuseGelu, fuseTanhGelu, fuseHardSwish, fuseSwish, fuseMish,
}

// fork returns a copy of m, for an attempt that may fail.
func (m *match) fork() *match { return &match{nodes: append([]*Node(nil), m.nodes...)} }

func fuseGelu(s *simplifier, root *Node, m *match, scale float64, x, f *Value) bool {
	m = m.fork()
	if !near(scale, 0.5) {
		return false
	}
	erf := m.node(m.withScalar(m.node(f, "Add"), 1), "Erf")
	if erf == nil {
		return false
	}
	p, ok := m.productOf(erf.Input(0))
	if !ok || len(p.factors) != 1 || p.factors[0] != x || !near(p.scale, math.Sqrt2/2) {
		return false
	}
	return s.fuse(root, m, Op{Name: "Gelu", Since: 20}, nil, x)
}

func fuseTanhGelu(s *simplifier, root *Node, m *match, scale float64, x, f *Value) bool {
	m = m.fork()
	if !near(scale, 0.5) {
		return false
	}
	tanh := m.node(m.withScalar(m.node(f, "Add"), 1), "Tanh")
	if tanh == nil {
		return false
	}
	p, ok := m.productOf(tanh.Input(0))
	if !ok || !near(p.scale, math.Sqrt(2/math.Pi)) {
		return false
	}
	switch len(p.factors) {
	case 1: // √(2/π)·(x + 0.044715·x³)
		sum := m.node(p.factors[0], "Add")
		if sum == nil || len(sum.Inputs) != 2 || !m.cubic(sum, x, 3) {
			return false
		}
	case 2: // √(2/π)·x·(1 + 0.044715·x²)
		one := p.factors[0]
		if one == x {
			one = p.factors[1]
		} else if p.factors[1] != x {
			return false
		}
		sum := m.node(one, "Add")
		if sum == nil || !m.power(m.withScalar(sum, 1), x, 2) {
			return false
		}
	default:
		return false
	}
	return s.fuse(root, m, Op{Name: "Gelu", Since: 20}, []Attr{StringAttr("approximate", "tanh")}, x)
}

// cubic reports whether sum is x + 0.044715·x^k.
func (m *match) cubic(sum *Node, x *Value, k int) bool {
	for i, v := range sum.Inputs {
		if v == x {
			return m.power(sum.Inputs[1-i], x, k)
		}
	}
	return false
}

// power reports whether v is 0.044715·x^k.
func (m *match) power(v, x *Value, k int) bool {
	p, ok := m.productOf(v)
	if !ok || !near(p.scale, 0.044715) {
		return false
	}
	for _, f := range p.factors {
		if f == x {
			k--
			continue
		}
		if n := m.node(f, "Pow"); n != nil && n.Input(0) == x {
			if e, ok := scalar(n.Input(1), x); ok && (e == 2 || e == 3) {
				k -= int(e)
				continue
			}
			return false
		}
		if n := m.node(f, "Mul"); n != nil && len(n.Inputs) == 2 && n.Inputs[0] == x && n.Inputs[1] == x { // x·x, read twice
			k -= 2
			continue
		}
		return false
	}
	return k == 0
}

func fuseHardSwish(s *simplifier, root *Node, m *match, scale float64, x, f *Value) bool {
	m = m.fork()
	switch n := m.node(f, "Clip", "HardSigmoid"); {
	case n == nil:
		return false
	case n.Is("Clip"):
		lo, hi, ok := clipBounds(n)
		if !ok || lo != 0 || hi != 6 || !near(scale, 1.0/6) || m.withScalar(m.node(n.Input(0), "Add"), 3) != x {
			return false
		}
	case n.Input(0) != x || !near(scale, 1) || !near(float64(n.Float("alpha", 0.2)), 1.0/6) || n.Float("beta", 0.5) != 0.5:
		return false
	}
	return s.fuse(root, m, Op{Name: "HardSwish", Since: 14}, nil, x)
}

// clipBounds returns the bounds of a Clip where they are numbers.
func clipBounds(n *Node) (lo, hi float64, ok bool) {
	if n.Op.Since < 11 {
		a, b := n.Attrs.Lookup("min"), n.Attrs.Lookup("max")
		if a == nil || b == nil {
			return 0, 0, false
		}
		return float64(a.Float), float64(b.Float), true
	}
	lo, ok = scalar(n.Input(1), nil)
	if !ok {
		return 0, 0, false
	}
	hi, ok = scalar(n.Input(2), nil)
	return lo, hi, ok
}

func fuseSwish(s *simplifier, root *Node, m *match, scale float64, x, f *Value) bool {
	m = m.fork()
	n := m.node(f, "Sigmoid")
	if n == nil || !near(scale, 1) {
		return false
	}
	p, ok := m.productOf(n.Input(0))
	if !ok || len(p.factors) != 1 || p.factors[0] != x {
		return false
	}
	var attrs []Attr
	if p.scale != 1 {
		attrs = []Attr{FloatAttr("alpha", float32(p.scale))}
	}
	return s.fuse(root, m, Op{Name: "Swish", Since: 24}, attrs, x)
}

func fuseMish(s *simplifier, root *Node, m *match, scale float64, x, f *Value) bool {
	m = m.fork()
	tanh := m.node(f, "Tanh")
	if tanh == nil || !near(scale, 1) {
		return false
	}
	if n := m.node(tanh.Input(0), "Softplus"); n == nil || n.Input(0) != x {
		return false
	}
	return s.fuse(root, m, Op{Name: "Mish", Since: 18}, nil, x)
}
