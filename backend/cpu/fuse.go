package cpu

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/property"
)

// Properties implements backend.Backend: what is fused, in order of priority.
func (cpu) Properties() []property.SubgraphProperty {
	return []property.SubgraphProperty{
		&chain{name: "conv-tail", head: isConvHead},
		&chain{name: "matmul-tail", head: isMatMulHead, bias: true},
		&chain{name: "scale-tail", head: func(n *graph.Node) bool { return n.Is("BatchNormalization") && n.Input(0) != nil }, noResidual: true},
		silu{},
		&shuffle{},
	}
}

func isConvHead(n *graph.Node) bool {
	if n.Is("Conv") {
		_, why := convKindOf(n)
		return why == nil && n.Input(0).Type.Backed()
	}
	if n.Is("ConvTranspose") {
		_, why := convTransposeSignatures(n)
		return why == nil
	}
	return false
}

func isMatMulHead(n *graph.Node) bool {
	switch {
	case n.Is("MatMul"):
		_, why := matmulSignatures(n)
		return why == nil
	case n.Is("Gemm"):
		_, why := gemmSignatures(n)
		return why == nil
	}
	return false
}

// chain fuses a kernel with what follows it: a bias (of matrix products), a residual addition, an activation, in that
// order, as far as each result has one reader. x·sigmoid(x) at the end counts as an activation.
type chain struct {
	name       string
	head       func(*graph.Node) bool
	bias       bool
	noResidual bool
}

// Name implements property.SubgraphProperty.
func (c *chain) Name() string { return c.name }

// NewSelector implements property.SubgraphProperty.
func (c *chain) NewSelector(*graph.Graph) property.Selector { return &chainSelector{c: c} }

type chainSelector struct {
	c   *chain
	set map[*graph.Node]bool
}

// Select implements property.Selector: it follows the chain at once, so that growing only confirms it.
func (s *chainSelector) Select(seed *graph.Node) bool {
	s.set = nil
	if !s.c.head(seed) {
		return false
	}
	l := s.c.follow(seed)
	nodes := l.nodes()
	if len(nodes) < 2 {
		return false
	}
	s.set = map[*graph.Node]bool{}
	for _, n := range nodes {
		s.set[n] = true
	}
	return true
}

// SelectInput implements property.Selector.
func (s *chainSelector) SelectInput(_, input *graph.Node) bool { return s.set[input] }

// SelectOutput implements property.Selector.
func (s *chainSelector) SelectOutput(_, output *graph.Node) bool { return s.set[output] }

// Filter implements property.Selector: a chain of one node needs no fusion. Where something on the way belongs to another
// unit, what hangs together with the head still makes a chain.
func (s *chainSelector) Filter(candidates []*graph.Node) []*graph.Node {
	if len(candidates) < 2 {
		return nil
	}
	return candidates
}

// Reset implements property.Selector.
func (s *chainSelector) Reset() {}

// links is a parsed chain.
type links struct {
	head     *graph.Node
	add      *graph.Node // bias of a matrix product
	bias     *graph.Value
	sum      *graph.Node // residual addition
	residual *graph.Value
	acts     []*graph.Node // one node, or Sigmoid and Mul
	act      activation
	out      *graph.Value
}

func (l *links) nodes() []*graph.Node {
	out := []*graph.Node{l.head}
	if l.add != nil {
		out = append(out, l.add)
	}
	if l.sum != nil {
		out = append(out, l.sum)
	}
	return append(out, l.acts...)
}

// next returns the one reader of v, nil where it has several or is an output.
func next(v *graph.Value) *graph.Node {
	if !v.HasOneUse() {
		return nil
	}
	return v.Uses()[0].Node
}

// other returns the operand of a two-operand node that is not v.
func other(n *graph.Node, v *graph.Value) *graph.Value {
	if len(n.Inputs) != 2 || n.Inputs[0] == nil || n.Inputs[1] == nil || n.Inputs[0] == n.Inputs[1] {
		return nil
	}
	if n.Inputs[0] == v {
		return n.Inputs[1]
	}
	return n.Inputs[0]
}

// follow walks down from the head.
func (c *chain) follow(head *graph.Node) *links {
	l := &links{head: head, out: head.Outputs[0]}
	if c.bias && head.Is("MatMul") && constantBehind(head.Inputs[1]).IsConst() && len(head.Inputs[1].Type.Shape) == 2 {
		if n := next(l.out); n != nil && n.Is("Add") {
			if b := other(n, l.out); b != nil && isRow(constantBehind(b), l.out) && !slices.Contains(head.Inputs, b) {
				l.add, l.bias, l.out = n, b, n.Outputs[0]
			}
		}
	}
	if head.Is("Gemm") && !rowBehind(head) {
		return l // the kernel has no place for a tail: C is added behind it
	}
	if !c.noResidual && c.canAdd(head) {
		if n := next(l.out); n != nil && n.Is("Add") {
			if r := other(n, l.out); r != nil && r.Type.Equal(l.out.Type) && n.Outputs[0].Type.Shape.Equal(l.out.Type.Shape) && mayRepeat(head, r) {
				l.sum, l.residual, l.out = n, r, n.Outputs[0]
			}
		}
	}
	c.activation(l)
	return l
}

// canAdd reports whether the kernel adds a residual.
func (c *chain) canAdd(head *graph.Node) bool {
	return !head.Is("ConvTranspose") && (!head.Is("Conv") || is4D(head.Inputs[0]))
}

// mayRepeat reports whether a residual has the format that the head wants of it where it is an operand of the head too.
func mayRepeat(head *graph.Node, r *graph.Value) bool {
	k := slices.Index(head.Inputs, r)
	switch {
	case k < 0:
		return true
	case k > 0:
		return false
	case head.Is("Conv"):
		kind, why := convKindOf(head)
		return why == nil && kind != convPlanar
	}
	return true
}

// rowBehind reports whether a Gemm adds nothing, or one value per column.
func rowBehind(gemm *graph.Node) bool {
	c := gemm.Input(2)
	if c == nil {
		return true
	}
	s, y := c.Type.Shape, gemm.Outputs[0].Type.Shape
	if len(s) == 0 || len(s) > 2 || len(y) != 2 {
		return false
	}
	last, known := s[len(s)-1].Const()
	cols, static := y[1].Const()
	rows := int64(1)
	if len(s) == 2 {
		rows, _ = s[0].Const()
	}
	return known && static && last == cols && rows == 1
}

// isRow reports whether b is a constant with one value per column of v.
func isRow(b, v *graph.Value) bool {
	if !b.IsConst() || len(v.Type.Shape) == 0 {
		return false
	}
	n, ok := v.Type.Shape[len(v.Type.Shape)-1].Const()
	s := b.Const.Shape
	return ok && len(s) > 0 && s[len(s)-1] == int(n) && b.Const.Len() == int(n)
}

func (c *chain) activation(l *links) {
	v := l.out
	if n := next(v); n != nil && len(n.Inputs) > 0 && n.Inputs[0] == v && n.Outputs[0].Type.DType == v.Type.DType {
		if a, ok := activationOf(n); ok {
			l.acts, l.act, l.out = []*graph.Node{n}, a, n.Outputs[0]
		}
		return
	}
	if s, m := siluOf(v); s != nil {
		l.acts, l.act, l.out = []*graph.Node{s, m}, activation{some: true, op: vec.Silu}, m.Outputs[0]
	}
}

// siluOf returns the Sigmoid and Mul of v·sigmoid(v) where nothing else reads v.
func siluOf(v *graph.Value) (sigmoid, mul *graph.Node) {
	if v.IsOutput() || v.NumUses() != 2 {
		return nil, nil
	}
	for _, u := range v.Uses() {
		switch {
		case u.Node.Is("Sigmoid"):
			sigmoid = u.Node
		case u.Node.Is("Mul"):
			mul = u.Node
		}
	}
	if sigmoid == nil || mul == nil || next(sigmoid.Outputs[0]) != mul {
		return nil, nil
	}
	return sigmoid, mul
}

// parse reads the body of a fused node again.
func (c *chain) parse(n *graph.Node) (*links, error) {
	body := n.Regions[0].Graph
	for m := range body.Nodes() {
		if !c.head(m) {
			continue
		}
		l := c.follow(m)
		if len(l.nodes()) != body.NumNodes() || len(body.Outputs) != 1 || body.Outputs[0] != l.out {
			return nil, fmt.Errorf("body of %v is no chain", n)
		}
		return l, nil
	}
	return nil, fmt.Errorf("body of %v has no head", n)
}

// outer returns the fused node's operand for a value of its body.
func outer(n *graph.Node, v *graph.Value) *graph.Value {
	if v == nil {
		return nil
	}
	for i, in := range n.Regions[0].Graph.Inputs {
		if in == v {
			return n.Inputs[i]
		}
	}
	return nil
}

func outers(n *graph.Node, vs []*graph.Value) []*graph.Value {
	out := make([]*graph.Value, len(vs))
	for i, v := range vs {
		out[i] = outer(n, v)
	}
	return out
}

// signatures derives a fused node's signatures from its head's: operands of the head as there, the residual in the
// format of the result, everything else row-major.
func (c *chain) signatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	l, err := c.parse(n)
	if err != nil {
		return nil, property.Because(property.Veto, "%v", err)
	}
	op, _ := lookup(l.head)
	heads, why := op.signatures(l.head)
	if why != nil {
		return nil, why
	}
	var out []graph.Signature
	for _, h := range heads {
		s := graph.Signature{Name: h.Name, Vars: h.Vars, Extra: h.Extra}
		for _, v := range n.Regions[0].Graph.Inputs {
			port := graph.Fixed(rowMaj)
			for k, hv := range l.head.Inputs {
				if hv == v {
					port = h.Inputs[k]
				}
			}
			if v == l.residual {
				port = h.Outputs[0]
			}
			s.Inputs = append(s.Inputs, port)
		}
		s.Outputs = []graph.Port{h.Outputs[0]}
		out = append(out, s)
	}
	return out, nil
}

func (c *chain) plan(p *planner, n *graph.Node) error {
	l, err := c.parse(n)
	if err != nil {
		return err
	}
	t := tail{residual: outer(n, l.residual), act: l.act}
	in, out := outers(n, l.head.Inputs), n.Outputs[0]
	switch {
	case l.head.Is("MatMul"):
		return p.matmul(l.head, in, out, outer(n, l.bias), t)
	case l.head.Is("Gemm"):
		return p.gemm(l.head, in, out, t)
	case l.head.Is("BatchNormalization"):
		return p.fusedBatchNorm(l.head, in, out, l.act)
	}
	return p.conv(l.head, in, out, t)
}

// silu fuses v·sigmoid(v) where v has other readers too.
type silu struct{}

// Name implements property.SubgraphProperty.
func (silu) Name() string { return "silu" }

// NewSelector implements property.SubgraphProperty.
func (silu) NewSelector(*graph.Graph) property.Selector { return &siluSelector{} }

type siluSelector struct{ mul *graph.Node }

func (s *siluSelector) Select(seed *graph.Node) bool {
	s.mul = nil
	if !seed.Is("Sigmoid") || !isF32(seed.Inputs[0]) || !seed.Inputs[0].Type.Backed() {
		return false
	}
	m := next(seed.Outputs[0])
	if m == nil || !m.Is("Mul") || other(m, seed.Outputs[0]) != seed.Inputs[0] {
		return false
	}
	s.mul = m
	return true
}

func (s *siluSelector) SelectInput(_, _ *graph.Node) bool       { return false }
func (s *siluSelector) SelectOutput(_, output *graph.Node) bool { return output == s.mul }
func (s *siluSelector) Filter(candidates []*graph.Node) []*graph.Node {
	if len(candidates) != 2 {
		return nil
	}
	return candidates
}
func (s *siluSelector) Reset() {}

func init() {
	for _, p := range (cpu{}).Properties() {
		if c, ok := p.(*chain); ok {
			register("pattern:"+c.name, operator{c.signatures, c.plan})
		}
	}
	register("pattern:silu", operator{
		func(n *graph.Node) ([]graph.Signature, *property.Reason) {
			return followSignatures(n, len(n.Inputs)), nil
		},
		func(p *planner, n *graph.Node) error {
			p.inPlace(n.Outputs[0], n.Inputs[0])
			p.unary(activation{some: true, op: vec.Silu}, p.in(n.Inputs[0]), p.out(n.Outputs[0]), padding{})
			return nil
		},
	})
}
