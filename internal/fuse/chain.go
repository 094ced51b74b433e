package fuse

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// Chain fuses a kernel with what follows it: a bias (of matrix products), a residual addition, an activation, in that
// order, as far as each result has one reader. x·sigmoid(x) at the end counts as an activation. Where the kernel can, the
// result is then rounded to levels (FakeQuantize).
type Chain struct {
	Name string
	// Head reports whether a chain may begin with a node.
	Head func(*graph.Node) bool
	// Bias reports whether the kernel of a head, a MatMul, adds one value per column; nil: none does.
	Bias func(head *graph.Node) bool
	// Residual reports whether the kernel of a head adds a tensor of its result's shape; nil: none does.
	Residual func(head *graph.Node, residual *graph.Value) bool
	// Activation reports whether the kernel applies a unary node.
	Activation func(*graph.Node) bool
	// Rounds says that the kernel rounds to levels.
	Rounds bool
}

// Links is a chain that was read.
type Links struct {
	Head     *graph.Node
	Add      *graph.Node // of the bias
	Bias     *graph.Value
	Sum      *graph.Node // residual addition
	Residual *graph.Value
	Acts     []*graph.Node // one node, or Sigmoid and Mul
	Rounding []*graph.Node // QuantizeLinear and DequantizeLinear
	Out      *graph.Value
	acts     [2]*graph.Node // storage of Acts
}

// Silu reports whether the activation is x·sigmoid(x) in two nodes.
func (l *Links) Silu() bool { return len(l.Acts) == 2 }

// Nodes returns the chain's nodes, operands first.
func (l *Links) Nodes() []*graph.Node {
	out := append(make([]*graph.Node, 0, l.Len()), l.Head)
	if l.Add != nil {
		out = append(out, l.Add)
	}
	if l.Sum != nil {
		out = append(out, l.Sum)
	}
	return append(append(out, l.Acts...), l.Rounding...)
}

// Len returns the number of the chain's nodes.
func (l *Links) Len() int {
	n := 1 + len(l.Acts) + len(l.Rounding)
	if l.Add != nil {
		n++
	}
	if l.Sum != nil {
		n++
	}
	return n
}

// Property returns the property of the chains. Where something on the way belongs to another unit, what hangs together with
// the head still makes a chain.
func (c *Chain) Property() property.SubgraphProperty {
	return property.Found(c.Name, 2, func(seed *graph.Node) []*graph.Node {
		if !c.Head(seed) {
			return nil
		}
		l := c.Follow(seed)
		if l.Len() < 2 {
			return nil
		}
		return l.Nodes()
	})
}

// Follow reads the chain behind a head, as far as it goes: at least the head.
func (c *Chain) Follow(head *graph.Node) *Links {
	l := &Links{Head: head, Out: head.Outputs[0]}
	if c.Bias != nil && head.Is("MatMul") && c.Bias(head) {
		if n := Next(l.Out); n != nil && n.Is("Add") {
			if b := Other(n, l.Out); isRow(Behind(b), l.Out) && !slices.Contains(head.Inputs, b) {
				l.Add, l.Bias, l.Out = n, b, n.Outputs[0]
			}
		}
	}
	if c.Residual != nil {
		if n := Next(l.Out); n != nil && n.Is("Add") {
			if r := Other(n, l.Out); r != nil && r.Type.Equal(l.Out.Type) && n.Outputs[0].Type.Shape.Equal(l.Out.Type.Shape) && c.Residual(head, r) {
				l.Sum, l.Residual, l.Out = n, r, n.Outputs[0]
			}
		}
	}
	v := l.Out
	if n := Next(v); n == nil {
		if s, m := siluOf(v); s != nil {
			l.acts = [2]*graph.Node{s, m}
			l.Acts, l.Out = l.acts[:], m.Outputs[0]
		}
	} else if n.Input(0) == v && n.Outputs[0].Type.DType == v.Type.DType && c.Activation(n) {
		l.acts[0] = n
		l.Acts, l.Out = l.acts[:1], n.Outputs[0]
	}
	if c.Rounds {
		if l.Rounding = roundingOf(l.Out); l.Rounding != nil {
			l.Out = l.Rounding[1].Outputs[0]
		}
	}
	return l
}

// ConstantMatrix reports whether a product's second operand is a constant matrix: a Bias of chains.
func ConstantMatrix(head *graph.Node) bool {
	return IsConst(head.Inputs[1]) && len(head.Inputs[1].Type.Shape) == 2
}

// isRow reports whether b is a constant with one value per column of v.
func isRow(b, v *graph.Value) bool {
	if b == nil || !b.IsConst() || len(v.Type.Shape) == 0 {
		return false
	}
	n, ok := v.Type.Shape[len(v.Type.Shape)-1].Const()
	s := b.Const.Shape
	return ok && len(s) > 0 && s[len(s)-1] == int(n) && b.Const.Len() == int(n)
}

// Parse reads the body of a fused node.
func (c *Chain) Parse(fused *graph.Node) (*Links, error) {
	body := fused.Regions[0].Graph
	for m := range body.Nodes() {
		if !c.Head(m) {
			continue
		}
		l := c.Follow(m)
		if l.Len() != body.NumNodes() || len(body.Outputs) != 1 || body.Outputs[0] != l.Out {
			return nil, fmt.Errorf("body of %v is no chain", fused)
		}
		return l, nil
	}
	return nil, fmt.Errorf("body of %v has no head", fused)
}

// Signatures derives a fused node's signatures from those of its head: operands of the head as there, the residual in the
// format of the result, everything else row-major.
func (c *Chain) Signatures(fused *graph.Node, of func(head *graph.Node) ([]graph.Signature, *property.Reason)) ([]graph.Signature, *property.Reason) {
	l, err := c.Parse(fused)
	if err != nil {
		return nil, property.Because(property.Veto, "%v", err)
	}
	heads, why := of(l.Head)
	if why != nil {
		return nil, why
	}
	params := fused.Regions[0].Graph.Inputs
	out := make([]graph.Signature, 0, len(heads))
	ports := make([]graph.Port, 0, len(heads)*(len(params)+1)) // of all signatures
	for _, h := range heads {
		from := len(ports)
		for _, v := range params {
			port := graph.Fixed(graph.HostFormat)
			for k, hv := range l.Head.Inputs {
				if hv == v {
					port = h.Inputs[k]
					if v == l.Residual && port != h.Outputs[0] {
						return nil, property.Because(property.Layout, "the residual is read in two formats")
					}
				}
			}
			if v == l.Residual {
				port = h.Outputs[0]
			}
			ports = append(ports, port)
		}
		ports = append(ports, h.Outputs[0])
		last := len(ports) - 1
		out = append(out, graph.Signature{Name: h.Name, Vars: h.Vars, Extra: h.Extra, Inputs: ports[from:last:last], Outputs: ports[last : last+1 : last+1]})
	}
	return out, nil
}
