package mkl

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// Properties implements backend.Backend: what is fused, in order of priority.
func (b *mkl) Properties() []property.SubgraphProperty {
	return []property.SubgraphProperty{
		&chain{b: b, name: "conv-sum-activation", head: (*mkl).isConvHead},
		&attention{b: b},
		&chain{b: b, name: "inner-product-sum-activation", head: (*mkl).isProductHead, bias: true},
		&chain{b: b, name: "norm-activation", head: (*mkl).isNormHead, noResidual: true},
		silu{},
		&shuffle{},
		&padPool{b: b},
	}
}

func (b *mkl) isConvHead(n *graph.Node) bool {
	if !n.Is("Conv", "ConvTranspose") || !n.Inputs[0].Type.Backed() || !n.Outputs[0].Type.Backed() {
		return false
	}
	_, why := convSignatures(b, n)
	return why == nil
}

// isProductHead: a product with a constant.
func (b *mkl) isProductHead(n *graph.Node) bool {
	if !n.Is("MatMul", "Gemm") || !isConst(n.Inputs[1]) || !n.Inputs[0].Type.Backed() || !n.Outputs[0].Type.Backed() {
		return false
	}
	_, why := matmulSignatures(b, n)
	return why == nil && len(n.Inputs[1].Type.Shape) == 2
}

func (b *mkl) isNormHead(n *graph.Node) bool {
	if !n.Is("BatchNormalization") || n.Input(0) == nil || !n.Inputs[0].Type.Backed() {
		return false
	}
	_, why := batchNormSignatures(b, n)
	return why == nil
}

// chain fuses a primitive with what follows it: a bias (of inner products), a residual addition, an activation, in that
// order, as far as each result has one reader. x·sigmoid(x) at the end counts as an activation.
type chain struct {
	b          *mkl
	name       string
	head       func(*mkl, *graph.Node) bool
	bias       bool
	noResidual bool
}

// Name implements property.SubgraphProperty.
func (c *chain) Name() string { return c.name }

// NewSelector implements property.SubgraphProperty.
func (c *chain) NewSelector(*graph.Graph) property.Selector { return &listSelector{list: c.nodes} }

// nodes are those of the chain that a node begins, nil where there is nothing to fuse.
func (c *chain) nodes(n *graph.Node) []*graph.Node {
	if !c.head(c.b, n) {
		return nil
	}
	return c.follow(n).nodes()
}

// listSelector selects what a function finds behind a seed: two nodes or more.
type listSelector struct {
	list func(seed *graph.Node) []*graph.Node
	set  map[*graph.Node]bool
}

// Select implements property.Selector.
func (s *listSelector) Select(seed *graph.Node) bool {
	s.set = nil
	nodes := s.list(seed)
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
func (s *listSelector) SelectInput(_, input *graph.Node) bool { return s.set[input] }

// SelectOutput implements property.Selector.
func (s *listSelector) SelectOutput(_, output *graph.Node) bool { return s.set[output] }

// Filter implements property.Selector: one node needs no fusion.
func (s *listSelector) Filter(candidates []*graph.Node) []*graph.Node {
	if len(candidates) < 2 {
		return nil
	}
	return candidates
}

// Reset implements property.Selector.
func (s *listSelector) Reset() {}

// links is a parsed chain.
type links struct {
	head     *graph.Node
	add      *graph.Node // bias of a product
	bias     *graph.Value
	sum      *graph.Node // residual addition
	residual *graph.Value
	acts     []*graph.Node // one node, or Sigmoid and Mul
	posts    []post
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

// outer returns the operand of a fused node that stands for a value of its body.
func outer(n *graph.Node, v *graph.Value) *graph.Value {
	if v == nil {
		return nil
	}
	for i, in := range n.Regions[0].Graph.Inputs {
		if in == v {
			return n.Inputs[i]
		}
	}
	return v
}

func outers(n *graph.Node, vs []*graph.Value) []*graph.Value {
	out := make([]*graph.Value, len(vs))
	for i, v := range vs {
		out[i] = outer(n, v)
	}
	return out
}

// follow walks down from the head.
func (c *chain) follow(head *graph.Node) *links {
	l := &links{head: head, out: head.Outputs[0]}
	if c.bias && head.Is("MatMul") {
		if n := next(l.out); n != nil && n.Is("Add") {
			if b := other(n, l.out); b != nil && isRow(constantBehind(b), l.out) {
				l.add, l.bias, l.out = n, b, n.Outputs[0]
			}
		}
	}
	if !c.noResidual {
		if n := next(l.out); n != nil && n.Is("Add") {
			if r := other(n, l.out); r != nil && r.Type.Equal(l.out.Type) && n.Outputs[0].Type.Shape.Equal(l.out.Type.Shape) && !isConst(r) {
				l.sum, l.residual, l.out = n, r, n.Outputs[0]
			}
		}
	}
	v := l.out
	if n := next(v); n != nil && len(n.Inputs) > 0 && n.Inputs[0] == v && n.Outputs[0].Type.DType == v.Type.DType {
		if a, ok := c.b.l.activationOf(n); ok {
			l.acts, l.posts, l.out = []*graph.Node{n}, a, n.Outputs[0]
		}
		return l
	}
	if s, m := siluOf(v); s != nil {
		l.acts, l.posts, l.out = []*graph.Node{s, m}, []post{{alg: eltSwish, alpha: 1}}, m.Outputs[0]
	}
	return l
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
		if !c.head(c.b, m) {
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

// signatures are the head's, with the residual in the format of the result and everything else row-major.
func (c *chain) signatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	l, err := c.parse(n)
	if err != nil {
		return nil, property.Because(property.Veto, "%v", err)
	}
	op, ok := lookup(l.head)
	if !ok {
		return nil, property.Because(property.Unsupported, "no primitive for %v", l.head.Op)
	}
	heads, why := op.signatures(c.b, l.head)
	if why != nil {
		return nil, why
	}
	var out []graph.Signature
	for _, h := range heads {
		s := graph.Signature{Name: h.Name, Vars: h.Vars, Extra: h.Extra, Outputs: []graph.Port{h.Outputs[0]}}
		for _, v := range n.Regions[0].Graph.Inputs {
			port := graph.Fixed(graph.HostFormat)
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
		out = append(out, s)
	}
	if l.residual != nil && len(out) > 0 {
		for k, v := range l.head.Inputs {
			if v == l.residual && heads[0].Inputs[k] != heads[0].Outputs[0] {
				return nil, property.Because(property.Layout, "the residual is read in two formats")
			}
		}
	}
	return out, nil
}

func (c *chain) plan(p *planner, n *graph.Node) error {
	l, err := c.parse(n)
	if err != nil {
		return err
	}
	t := tail{residual: outer(n, l.residual), act: l.posts}
	in, out := outers(n, l.head.Inputs), n.Outputs[0]
	switch {
	case l.head.Is("MatMul", "Gemm"):
		return p.product(l.head, in, out, outer(n, l.bias), t)
	case l.head.Is("BatchNormalization"):
		return p.batchNorm(l.head, in, out, t)
	}
	return p.conv(l.head, in, out, t)
}

// silu fuses v·sigmoid(v) where v has other readers too.
type silu struct{}

// Name implements property.SubgraphProperty.
func (silu) Name() string { return "silu" }

// NewSelector implements property.SubgraphProperty.
func (silu) NewSelector(*graph.Graph) property.Selector { return &listSelector{list: siluNodes} }

func siluNodes(n *graph.Node) []*graph.Node {
	if !n.Is("Sigmoid") || !isF32(n.Inputs[0]) || !n.Inputs[0].Type.Backed() {
		return nil
	}
	m := next(n.Outputs[0])
	if m == nil || !m.Is("Mul") || other(m, n.Outputs[0]) != n.Inputs[0] {
		return nil
	}
	return []*graph.Node{n, m}
}

// chainOf returns the chain that a fused node was made by.
func (b *mkl) chainOf(n *graph.Node) *chain {
	for _, p := range b.Properties() {
		if c, ok := p.(*chain); ok && c.name == n.Str("pattern", "") {
			return c
		}
	}
	return &chain{b: b, head: func(*mkl, *graph.Node) bool { return false }}
}

func init() {
	for _, name := range []string{"conv-sum-activation", "inner-product-sum-activation", "norm-activation"} {
		register("pattern:"+name, operator{
			func(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) { return b.chainOf(n).signatures(n) },
			func(p *planner, n *graph.Node) error { return p.b.chainOf(n).plan(p, n) },
		})
	}
	register("pattern:silu", operator{
		func(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
			return b.followSignatures(n, len(n.Inputs)), nil
		},
		func(p *planner, n *graph.Node) error {
			return p.activation([]post{{alg: eltSwish, alpha: 1}}, n.Inputs[0], n.Outputs[0])
		},
	})
}
