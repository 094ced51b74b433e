package graph

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

// match collects the nodes of a pattern while it is recognised. Nothing is changed until all of it is.
type match struct {
	nodes []*Node // without the root
}

// node returns the node that produces v, if it is one of these operators with v as its only result, and takes it into the
// match.
func (m *match) node(v *Value, ops ...string) *Node {
	if v == nil || v.Producer == nil || v.Producer.graph != v.graph || !v.Producer.Is(ops...) || !onlyFirst(v.Producer) {
		return nil
	}
	m.add(v.Producer)
	return v.Producer
}

func (m *match) add(n *Node) {
	for _, o := range m.nodes {
		if o == n {
			return
		}
	}
	m.nodes = append(m.nodes, n)
}

// closed reports whether nothing but the match and its root reads results of the matched nodes, and none is an output.
func (m *match) closed(root *Node) bool {
	in := make(map[*Node]bool, len(m.nodes)+1)
	in[root] = true
	for _, n := range m.nodes {
		in[n] = true
	}
	for _, n := range m.nodes {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			if v.output > 0 {
				return false
			}
			for _, u := range v.uses {
				if !in[u.Node] {
					return false
				}
			}
		}
	}
	return true
}

// scalar returns the number that every element of a floating constant is, where it has one element; it broadcasts
// without changing the shape of x.
func scalar(v, x *Value) (float64, bool) {
	if v == nil || v.Const == nil || !v.Type.DType.IsFloat() || v.Const.Len() != 1 {
		return 0, false
	}
	if len(v.Const.Shape) > 0 && (x == nil || x.Type.Shape == nil || len(v.Const.Shape) > len(x.Type.Shape)) {
		return 0, false
	}
	return v.Const.Float64At(0), true
}

// near reports whether a is b up to the rounding of float32 constants.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

// withScalar returns the other operand of a binary node whose one operand is the number want.
func (m *match) withScalar(n *Node, want float64) *Value {
	if n == nil || len(n.Inputs) != 2 {
		return nil
	}
	for k := range n.Inputs {
		if c, ok := scalar(n.Inputs[k], n.Inputs[1-k]); ok && near(c, want) {
			return n.Inputs[1-k]
		}
	}
	return nil
}

// product is a tree of multiplications, flattened: a number times values.
type product struct {
	scale   float64
	factors []*Value
}

// maxFactors bounds how much of a tree of multiplications is looked at.
const maxFactors = 4

// product flattens the multiplications, and the divisions by numbers, that end in the node root.
func (m *match) product(root *Node) (p product, ok bool) {
	p.scale = 1
	if !m.multiply(root, &p, 0) {
		return p, false
	}
	return p, len(p.factors) <= maxFactors
}

// productOf is product for the node that produces v; a value that is no product is itself its only factor.
func (m *match) productOf(v *Value) (p product, ok bool) {
	if v == nil {
		return p, false
	}
	if v.Producer != nil && v.HasOneUse() && isProduct(v.Producer) {
		m.add(v.Producer)
		return m.product(v.Producer)
	}
	return product{scale: 1, factors: []*Value{v}}, true
}

func isProduct(n *Node) bool {
	if len(n.Inputs) != 2 || n.Inputs[0] == nil || n.Inputs[1] == nil || !onlyFirst(n) {
		return false
	}
	if n.Is("Div") {
		_, ok := scalar(n.Inputs[1], n.Inputs[0])
		return ok
	}
	return n.Is("Mul")
}

func (m *match) multiply(n *Node, p *product, depth int) bool {
	if depth > maxFactors || !isProduct(n) {
		return false
	}
	for k, v := range n.Inputs {
		if c, ok := scalar(v, n.Inputs[1-k]); ok {
			if n.Is("Div") {
				if k == 0 {
					return false
				}
				c = 1 / c
			}
			p.scale *= c
			continue
		}
		if v.Producer != nil && v.HasOneUse() && isProduct(v.Producer) && depth < maxFactors {
			m.add(v.Producer)
			if !m.multiply(v.Producer, p, depth+1) {
				return false
			}
			continue
		}
		if p.factors = append(p.factors, v); len(p.factors) > maxFactors {
			return false
		}
	}
	return true
}

// pair calls fn with two factors in both orders, until it reports true.
func (p product) pair(fn func(a, b *Value) bool) bool {
	if len(p.factors) != 2 {
		return false
	}
	return fn(p.factors[0], p.factors[1]) || fn(p.factors[1], p.factors[0])
}

// fuse makes root the operator that the matched nodes and it compute from inputs, and removes them. It reports whether it
// did: the operator has to be wanted, known, and of the shape and type that root has.
func (s *simplifier) fuse(root *Node, m *match, op Op, attrs []Attr, inputs ...*Value) bool {
	x, y := inputs[0], root.Outputs[0]
	if !x.Type.IsTensor() || x.Type.Shape == nil || !x.Type.Equal(y.Type) || !m.closed(root) {
		return false
	}
	for _, n := range append(m.nodes, root) {
		for _, v := range n.Inputs {
			if v != nil && v.Format != y.Format && v.Const == nil {
				return false
			}
		}
	}
	if s.o.NewOps != nil && !s.o.NewOps(op) || !s.rewrite(root, op, attrs, inputs...) {
		return false
	}
	s.absorbBefore(root, s.inOrder(m.nodes))
	for again := true; again; { // patterns have a dozen nodes at most
		again = false
		for _, n := range m.nodes {
			if n.graph != nil && isDead(n) {
				s.g.Remove(n)
				again = true
			}
		}
	}
	s.stale(root)
	s.changes++
	return true
}

// inOrder sorts nodes of a pattern so that each comes after what it reads.
func (s *simplifier) inOrder(nodes []*Node) []*Node {
	in := make(map[*Node]bool, len(nodes))
	for _, n := range nodes {
		in[n] = true
	}
	var out []*Node
	var visit func(n *Node)
	visit = func(n *Node) { // as deep as the pattern
		if !in[n] {
			return
		}
		delete(in, n)
		for _, v := range n.Inputs {
			if v != nil && v.Producer != nil {
				visit(v.Producer)
			}
		}
		out = append(out, n)
	}
	for _, n := range nodes {
		visit(n)
	}
	return out
}

// realFloat reports whether v is a tensor of a floating type that patterns are sought for.
func realFloat(v *Value) bool {
	return v != nil && v.Type.IsTensor() && (v.Type.DType == tensor.Float32 || v.Type.DType == tensor.Float64 ||
		v.Type.DType == tensor.Float16 || v.Type.DType == tensor.BFloat16)
}
