package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

func unarySignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Input(0)
	if x == nil || !operators.IsFloat32(x, n.Outputs[0]) {
		return nil, property.Because(property.DTypeReason, "float32 only")
	}
	if len(n.Outputs) > 1 {
		return nil, property.Because(property.Unsupported, "several outputs")
	}
	posts, ok := b.l.activationOf(n)
	if !ok {
		return nil, property.Because(property.Attribute, "no algorithm for %v with these limits", n)
	}
	for _, x := range posts {
		if why := refused(b.l.ask(b.answers, b.l.elementwise(x.alg, x.alpha, x.beta, plain(1024)))); why != nil {
			return nil, why
		}
	}
	return b.followSignatures(n, 1), nil
}

func planUnary(p *planner, n *graph.Node) error {
	posts, _ := p.l.activationOf(n)
	return p.activation(posts, n.Inputs[0], n.Outputs[0])
}

// activation emits element-wise operations.
func (p *planner) activation(posts []post, x, y *graph.Value) error {
	src, dst := p.In(x), p.Out(y)
	s := p.shape(y)
	if keepsZero(posts) || p.Bytes(y) == product(s.dims)*4 { // whatever the layout, a vector
		s = plain(p.Bytes(y) / 4)
	}
	for _, x := range posts {
		pr, err := p.make(p.l.elementwise(x.alg, x.alpha, x.beta, s))
		if err != nil {
			return err
		}
		p.run(pr, arg{argSrc, src, pr.src, false}, arg{argDst, dst, pr.dst, true})
		src = dst
	}
	return nil
}

func init() {
	for _, name := range []string{"Relu", "LeakyRelu", "Clip", "Elu", "Selu", "HardSigmoid", "HardSwish", "Swish", "Gelu", "Sigmoid", "Tanh",
		"Exp", "Abs", "Sqrt", "Neg", "Reciprocal", "Round", "Softplus", "Mish"} {
		table.Register(name, operator{Signatures: unarySignatures, Settle: overFirst, Plan: planUnary, Strided: byImages, Single: true})
	}
}
