package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// Properties implements backend.Backend: what is fused, in order of priority.
func (b *mkl) Properties() []property.SubgraphProperty {
	c := b.chains()
	return []property.SubgraphProperty{&operands{b: b}, b.integerProduct(), b.integerSum(), c[0].Property(), b.attention(), c[1].Property(), c[2].Property(), fuse.Silu(), fuse.Shuffle(), padPool()}
}

// chainNames are the names of the properties of chains.
var chainNames = []string{"conv-sum-activation", "inner-product-sum-activation", "norm-activation"}

// chains are the primitives that are fused with what follows them, in the order of chainNames.
func (b *mkl) chains() []fuse.Chain {
	residual := func(_ *graph.Node, r *graph.Value) bool { return !fuse.IsConst(r) }
	return []fuse.Chain{
		{Name: chainNames[0], Head: b.isConvHead, Residual: residual, Activation: b.activates},
		{Name: chainNames[1], Head: b.isProductHead, Bias: fuse.ConstantMatrix, Residual: residual, Activation: b.activates},
		{Name: chainNames[2], Head: b.isNormHead, Activation: b.activatesNorm},
	}
}

// activates reports whether the library applies a node behind a primitive.
func (b *mkl) activates(n *graph.Node) bool {
	_, ok := b.l.activationOf(n)
	return ok
}

// activatesNorm reports whether the library applies a node behind a normalisation: it has fewer kernels for those.
func (b *mkl) activatesNorm(n *graph.Node) bool {
	posts, ok := b.l.activationOf(n)
	if !ok {
		return false
	}
	head := n.Inputs[0].Producer
	if head == nil || !head.Is("BatchNormalization") {
		return true // part of a Swish, which signatures look at
	}
	_, why := normSignatures(b, head, posts)
	return why == nil
}

// activation returns the operations of a chain's activation.
func (b *mkl) activation(l *fuse.Links) []post {
	if l.Silu() {
		return []post{{alg: eltSwish, alpha: 1}}
	}
	if len(l.Acts) == 0 {
		return nil
	}
	list, _ := b.l.activationOf(l.Acts[0])
	return list
}

func (b *mkl) isConvHead(n *graph.Node) bool {
	if !n.Is("Conv", "ConvTranspose") || !b.settled(n) {
		return false
	}
	_, why := convSignatures(b, n)
	return why == nil
}

// isProductHead: a product with a constant.
func (b *mkl) isProductHead(n *graph.Node) bool {
	if !n.Is("MatMul", "Gemm") || !fuse.IsConst(n.Inputs[1]) || !b.settled(n) {
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

// chainSignatures are those of the head of fused node n, which chain i made.
func (b *mkl) chainSignatures(i int, n *graph.Node) ([]graph.Signature, *property.Reason) {
	return b.chains()[i].Signatures(n, func(head *graph.Node) ([]graph.Signature, *property.Reason) {
		if l, err := b.chains()[i].Parse(n); err == nil && head.Is("BatchNormalization") {
			return normSignatures(b, head, b.activation(l))
		}
		op, ok := table.Lookup(head)
		if !ok {
			return nil, property.Because(property.Unsupported, "no primitive for %v", head.Op)
		}
		return op.Signatures(b, head)
	})
}

// settleChain lets the result overwrite the operand of a normalisation, or the residual where nothing else reads it, not
// even the kernel, which reads its operand while it writes.
func (p *planner) settleChain(i int, n *graph.Node) {
	l, err := p.b.chains()[i].Parse(n)
	if err != nil {
		return
	}
	x, residual := fuse.Outer(n, l.Head.Inputs[0]), fuse.Outer(n, l.Residual)
	switch {
	case l.Head.Is("BatchNormalization"):
		p.InPlace(n.Outputs[0], x)
	case residual != nil && p.In(residual).Slot != p.In(x).Slot:
		p.InPlace(n.Outputs[0], residual)
	}
}

// planChain emits a fused node that chain i made.
func (p *planner) planChain(i int, n *graph.Node) error {
	l, err := p.b.chains()[i].Parse(n)
	if err != nil {
		return err
	}
	t := tail{residual: fuse.Outer(n, l.Residual), act: p.b.activation(l)}
	in, out := fuse.Outers(n, l.Head.Inputs), n.Outputs[0]
	switch {
	case l.Head.Is("MatMul", "Gemm"):
		return p.product(l.Head, in, out, fuse.Outer(n, l.Bias), t)
	case l.Head.Is("BatchNormalization"):
		return p.batchNorm(l.Head, in, out, t)
	}
	return p.conv(l.Head, in, out, t)
}

func init() {
	for i, name := range chainNames {
		strided := byImages
		if name == chainNames[1] {
			strided = manyRows
		}
		table.Register(operators.Pattern(name), operator{
			Signatures: func(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) { return b.chainSignatures(i, n) },
			Settle:     func(p *planner, n *graph.Node) { p.settleChain(i, n) },
			Plan:       func(p *planner, n *graph.Node) error { return p.planChain(i, n) },
			Strided:    strided, Single: true,
		})
	}
	table.Register(operators.Pattern(fuse.SiluName), operator{
		Signatures: func(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
			return b.followSignatures(n, len(n.Inputs)), nil
		},
		Settle: overFirst,
		Plan: func(p *planner, n *graph.Node) error {
			return p.activation([]post{{alg: eltSwish, alpha: 1}}, n.Inputs[0], n.Outputs[0])
		},
		Strided: byImages, Single: true,
	})
}
