package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// sinkTransposes takes transpositions behind the element-wise operators and Concats that read them, so that they meet those that undo
// them, and one is left of those of all operands:
//
//	QLinearConv → Transpose → DequantizeLinear → Concat → QuantizeLinear → Transpose⁻¹ → QLinearConv
//
// A node is passed where all its operands are transposed alike, or are constants that may be broadcast on other axes, and where fewer
// transpositions are left then; nodes that pay together only, as those of x·Sigmoid(x) do, see sinkTogether.
func (s *simplifier) sinkTransposes() error {
	err := s.each(func(n *Node) error {
		p, ok := passableOf(n, transposition)
		if !ok || !p.pays() {
			return nil
		}
		return s.sink(&p)
	})
	if err != nil {
		return err
	}
	return s.sinkTogether()
}

// passable is a node that a transposition may be taken behind.
type passable struct {
	n       *Node
	data    int     // operands from 0 on that may be transposed
	axis    string  // the attribute that names an axis of theirs, "" where none does
	axisDef int64   // its default
	perm    []int64 // what the transpositions of its operands do
}

// elementWise are operators whose result has, for each element of the first operand, one that depends on it alone. Other operands are numbers.
var elementWise = map[string]bool{"Abs": true, "Acos": true, "Acosh": true, "Asin": true, "Asinh": true, "Atan": true, "Atanh": true, "BitwiseNot": true,
	"Cast": true, "Ceil": true, "Celu": true, "Clip": true, "Cos": true, "Cosh": true, "Elu": true, "Erf": true, "Exp": true, "Floor": true, "Gelu": true,
	"HardSigmoid": true, "HardSwish": true, "IsInf": true, "IsNaN": true, "LeakyRelu": true, "Log": true, "Mish": true, "Neg": true, "Not": true,
	"Reciprocal": true, "Relu": true, "Round": true, "Selu": true, "Shrink": true, "Sigmoid": true, "Sign": true, "Sin": true, "Sinh": true, "Softplus": true,
	"Softsign": true, "Sqrt": true, "Swish": true, "Tan": true, "Tanh": true, "ThresholdedRelu": true}

// broadcasting are operators that broadcast their operands to one shape.
var broadcasting = map[string]bool{"Add": true, "And": true, "BitShift": true, "BitwiseAnd": true, "BitwiseOr": true, "BitwiseXor": true, "Div": true,
	"Equal": true, "Greater": true, "GreaterOrEqual": true, "Less": true, "LessOrEqual": true, "Max": true, "Mean": true, "Min": true, "Mod": true, "Mul": true,
	"Or": true, "PRelu": true, "Pow": true, "Sub": true, "Sum": true, "Where": true, "Xor": true}

// byShapes is the version from which on operators broadcast by shapes alone.
const byShapes = 7

// byAxis is the version from which on numbers are quantised along an axis.
const byAxis = 13

// passableOf describes n; ok is false where it is another operator, or its operands are not transposed alike, as of says.
func passableOf(n *Node, of func(v *Value) []int64) (p passable, ok bool) {
	if n.Op.Domain != "" || len(n.Inputs) == 0 || len(n.Regions) > 0 || !onlyFirst(n) {
		return p, false
	}
	p = passable{n: n, data: len(n.Inputs)}
	switch {
	case elementWise[n.Op.Name], changesType(n):
		p.data = 1
		if n.Is("QuantizeLinear", "DequantizeLinear") && len(n.Inputs[1].Type.Shape) == 1 && n.Op.Since >= byAxis {
			p.axis, p.axisDef = "axis", 1
		}
	case broadcasting[n.Op.Name] && n.Op.Since >= byShapes:
	case n.Is("Concat"):
		p.axis = "axis"
	default:
		return p, false
	}
	return p, p.alike(of) && (p.axis == "" || p.axisOf() >= 0)
}

// axisOf returns the axis that the node names, -1 where its operands have no such.
func (p *passable) axisOf() int64 {
	axis, rank := p.n.Int(p.axis, p.axisDef), int64(len(p.perm))
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank {
		return -1
	}
	return axis
}

// changesType reports whether a node quantises or dequantises with one scale, or one for each index of an axis.
func changesType(n *Node) bool {
	if !n.Is("QuantizeLinear", "DequantizeLinear") || n.Int("block_size", 0) != 0 || n.Input(1) == nil {
		return false
	}
	scales := n.Inputs[1].Type.Shape
	return scales != nil && len(scales) < 2
}

// alike finds the permutation of the operands, and reports whether all have it or are constants that follow it.
func (p *passable) alike(of func(v *Value) []int64) bool {
	y := p.n.Outputs[0]
	for _, v := range p.n.Inputs[:p.data] {
		perm := of(v)
		if perm == nil {
			continue
		}
		if p.perm != nil && !slices.Equal(perm, p.perm) || v.Format != y.Format {
			return false
		}
		p.perm = perm
	}
	if p.perm == nil || len(y.Type.Shape) != len(p.perm) {
		return false
	}
	for _, v := range p.n.Inputs[:p.data] {
		if v == nil || of(v) == nil && (p.axis != "" || !p.follows(v)) {
			return false
		}
	}
	return true
}

// transposition returns the permutation of the Transpose that makes v, nil where another node does.
func transposition(v *Value) []int64 {
	if v == nil || v.Producer == nil || !v.Producer.Is("Transpose") || v.Producer.Inputs[0].Format != v.Format {
		return nil
	}
	return permutation(v.Producer)
}

// follows reports whether v is a constant that is broadcast and is longer than 1 along one axis at most: its elements lie as they do
// whatever axis that is.
func (p *passable) follows(v *Value) bool {
	if v.Const == nil || v.Const.Rank() > len(p.perm) || !v.Const.IsCompact() {
		return false
	}
	long := 0
	for _, d := range v.Const.Shape {
		if d != 1 {
			long++
		}
	}
	return long < 2
}

// turned returns a constant that follows, as it is where the operands are not transposed yet.
func (p *passable) turned(c *tensor.Tensor) (*tensor.Tensor, error) {
	if c.Len() == 1 {
		return c, nil
	}
	shape := slices.Repeat([]int{1}, len(p.perm))
	for i, d := range c.Shape {
		shape[p.perm[len(p.perm)-c.Rank()+i]] = d
	}
	return c.View(shape...)
}

// pays reports whether fewer transpositions are left when the operands' are taken behind the node.
func (p *passable) pays() bool {
	gone := 0 // operands' transpositions that nobody else reads
	for i, v := range p.n.Inputs[:p.data] {
		if transposition(v) != nil && !slices.Contains(p.n.Inputs[:i], v) && readOnlyBy(v, p.n) {
			gone++
		}
	}
	all, some := undone(p.n.Outputs[0], p.perm, maxSink)
	return all || gone > 1 || gone > 0 && some
}

func readOnlyBy(v *Value, n *Node) bool {
	if v.output > 0 {
		return false
	}
	for _, u := range v.uses {
		if u.Node != n {
			return false
		}
	}
	return true
}

// maxSink bounds how many nodes in a row are looked at for the transposition that undoes one.
const maxSink = 6

// undone reports whether all, and whether some, of those that read v undo a permutation, at once or behind nodes with one operand that it
// may be taken behind.
func undone(v *Value, perm []int64, depth int) (all, some bool) {
	if v == nil || v.output > 0 || len(v.uses) == 0 || depth == 0 {
		return false, false
	}
	all = true
	for _, u := range v.uses {
		m := u.Node
		a, b := false, false
		switch {
		case m.graph != v.Producer.graph || m.Op.Domain != "":
		case m.Is("Concat") || broadcasting[m.Op.Name]: // whose other operands may not be transposed
			_, b = undone(m.Output(0), perm, depth-1)
		case u.Slot > 0:
		case m.Is("Transpose"):
			a = undoes(perm, permutation(m))
			b = a
		case elementWise[m.Op.Name] || changesType(m):
			a, b = undone(m.Output(0), perm, depth-1)
		}
		all, some = all && a, some || b
	}
	return all, some
}

// undoes reports whether a permutation behind another puts everything back.
func undoes(first, second []int64) bool {
	if first == nil || len(first) != len(second) {
		return false
	}
	for i, k := range second {
		if first[k] != int64(i) {
			return false
		}
	}
	return true
}

// sink takes the operands' transpositions behind the node.
func (s *simplifier) sink(p *passable) error {
	n, y := p.n, p.n.Outputs[0]
	i := slices.IndexFunc(n.Inputs[:p.data], func(v *Value) bool { return v.Producer != nil })
	t := s.g.AddNode(NodeSpec{Op: n.Inputs[i].Producer.Op, Attrs: []Attr{IntsAttr("perm", p.perm...)}, Inputs: []*Value{nil}, Outputs: []string{""}, Origins: []string{}})
	t.Outputs[0].Type, t.Outputs[0].Format = y.Type, y.Format
	s.replace(y, t.Outputs[0])
	t.SetOperand(0, y)
	y.Type.Shape = make(Shape, len(p.perm)) // inference keeps numbers that were known of an axis where it knows less
	for i, axis := range p.perm {
		y.Type.Shape[axis] = t.Outputs[0].Type.Shape[i]
	}
	for k, v := range n.Inputs[:p.data] {
		if v.Const != nil {
			c, err := p.turned(v.Const)
			if err != nil {
				return err
			}
			n.SetOperand(k, s.g.AddConst(v.Name, c))
			continue
		}
		first := v.Producer
		n.SetOperand(k, first.Inputs[0])
		if len(v.uses) == 0 && v.output == 0 {
			if s.absorb(t, first); t.Name == "" {
				t.Name = first.Name
			}
			s.g.Remove(first)
		}
	}
	if p.axis != "" {
		n.Attrs = n.Attrs.With(IntAttr(p.axis, p.perm[p.axisOf()]))
	}
	s.stale(n)
	s.stale(t)
	return s.refresh(n)
}
