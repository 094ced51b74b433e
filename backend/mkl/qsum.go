package mkl

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// sumPattern is the name of the property of sums on integers, and of the fused nodes' pattern.
const sumPattern = "quantized-sum"

// sumLinks is a sum of two tensors of one shape, both dequantised for it alone, with its activation and QuantizeLinear.
type sumLinks struct {
	fuse.Links
	da, db, q *graph.Node
	a, b, y   quant
	posts     []post
}

func (l *sumLinks) nodes() []*graph.Node { return append(l.Links.Nodes(), l.da, l.db, l.q) }

// followSum reads the sum that n begins; own asks that nobody else reads what is dequantised.
func (b *mkl) followSum(n *graph.Node, own bool) *sumLinks {
	if !n.Is("Add") || n.Op.Since < 7 || len(n.Inputs) != 2 || n.Inputs[0] == n.Inputs[1] {
		return nil
	}
	l := &sumLinks{}
	l.da, l.a = dequantized(n.Inputs[0], own)
	l.db, l.b = dequantized(n.Inputs[1], own)
	if l.da == nil || l.db == nil || !n.Inputs[0].Type.Equal(n.Inputs[1].Type) || !n.Inputs[0].Type.Backed() || len(n.Inputs[0].Type.Shape) == 0 {
		return nil
	}
	l.Links = *(&fuse.Chain{Activation: b.activates}).Follow(n)
	l.posts = b.activation(&l.Links)
	if l.q = fuse.Next(l.Out); l.q == nil || !isQuantize(l.q) || l.q.Inputs[0] != l.Out {
		return nil
	}
	y, why := quantOf(l.q)
	if why != nil {
		return nil
	}
	l.y, l.Out = y, l.q.Outputs[0]
	return l
}

// recipe is the primitive for operands and result of these shapes: a · (scale of a in steps of b) + b, and what follows. The
// factor is an operand of one element.
func (l *sumLinks) recipe(b *mkl, x, y, z shape) (r recipe, factor float32, why *property.Reason) {
	step := stepOf(l.posts, l.y, false)
	sa, sb := float64(l.a.scale), float64(l.b.scale)
	list := finish([]post{{kind: postBinaryAdd, src: y}}, sb/step, -(sa*float64(l.a.zero)+sb*float64(l.b.zero))/step, l.posts, l.y, false)
	if repeated(list) {
		return r, 0, property.Because(property.Unsupported, "an activation that is no limit between two changes of unit")
	}
	return b.l.binary(binaryMul, x, l.one(x), z, list), float32(sa / sb), nil
}

// one describes the factor.
func (*sumLinks) one(x shape) shape {
	s := plain()
	for range x.dims {
		s.dims = append(s.dims, 1)
	}
	return s
}

// integerSum is the property of sums.
func (b *mkl) integerSum() property.SubgraphProperty {
	return property.Found(sumPattern, 2, func(seed *graph.Node) []*graph.Node {
		if l := b.followSum(seed, true); l != nil {
			return l.nodes()
		}
		return nil
	})
}

// parseSum reads the body of a fused node again.
func (b *mkl) parseSum(n *graph.Node) (*sumLinks, error) {
	body := n.Regions[0].Graph
	for m := range body.Nodes() {
		if l := b.followSum(m, true); l != nil && len(l.nodes()) == body.NumNodes() && len(body.Outputs) == 1 && body.Outputs[0] == l.Out {
			return l, nil
		}
	}
	return nil, fmt.Errorf("body of %v is no sum", n)
}

// integerSumSignatures: both operands and the result in one format.
func integerSumSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	l, err := b.parseSum(n)
	if err != nil {
		return nil, property.Because(property.Veto, "%v", err)
	}
	x, y := l.da.Inputs[0], l.db.Inputs[0]
	r, _, why := l.recipe(b, shapeOf(x, operators.AssumedDims(x)), shapeOf(y, operators.AssumedDims(y)), shapeOf(l.Out, operators.AssumedDims(l.Out)))
	if why != nil {
		return nil, why
	}
	a := b.l.ask(b.answers, r)
	if why := refused(a); why != nil {
		return nil, why
	}
	s := graph.Signature{Name: a.impl, Vars: [][]graph.Format{{graph.HostFormat}}, Outputs: []graph.Port{graph.Variable(0)}}
	if f := channelsLast(len(x.Type.Shape)); f != graph.HostFormat {
		s.Vars[0] = []graph.Format{f, graph.HostFormat}
	}
	for _, v := range n.Regions[0].Graph.Inputs {
		port := graph.Fixed(graph.HostFormat)
		if v == x || v == y {
			port = graph.Variable(0)
		}
		s.Inputs = append(s.Inputs, port)
	}
	return []graph.Signature{s}, nil
}

func planIntegerSum(p *planner, n *graph.Node) error {
	l, err := p.b.parseSum(n)
	if err != nil {
		return err
	}
	x, y, z := fuse.Outer(n, l.da.Inputs[0]), fuse.Outer(n, l.db.Inputs[0]), n.Outputs[0]
	r, factor, why := l.recipe(p.b, p.shape(x), p.shape(y), p.shape(z))
	if why != nil {
		return why
	}
	pr, err := p.make(r)
	if err != nil {
		return err
	}
	one, err := p.desc(l.one(p.shape(x)))
	if err != nil {
		return err
	}
	list := numbers[float32](1)
	list[0] = factor
	p.run(pr, arg{argSrc, p.In(x), pr.src, false}, arg{argSrc1, data(p, list), one, false}, p.plainArg(p.l.binaryArg(0), y),
		arg{argDst, p.Out(z), pr.dst, true})
	return nil
}

func init() {
	table.Register(operators.Pattern(sumPattern), operator{Signatures: integerSumSignatures, Plan: planIntegerSum})
}
