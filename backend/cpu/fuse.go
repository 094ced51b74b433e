package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// Properties implements backend.Backend: what is fused, in order of priority.
func (b cpu) Properties() []property.SubgraphProperty {
	return []property.SubgraphProperty{
		&quantizedOperands{b.quants}, quantizedProduct(b.quants), nibbleProduct(), fuseByteFunctions(), quantizedElements(), quantizedMean(), fuseAttention(), convTail.Property(), matmulTail.Property(), scaleTail.Property(), fuseIntegerTail(), fuse.Silu(), fuse.Shuffle(), roundedPool(),
		fuse.FakeQuantize(), halfRows(), alone(),
	}
}

// Chains of a kernel and what is fused behind it.
var (
	convTail   = &fuse.Chain{Name: "conv-tail", Head: isConvHead, Residual: mayAdd, Activation: isImageActivation, Rounds: true}
	matmulTail = &fuse.Chain{Name: "matmul-tail", Head: isMatMulHead, Bias: fuse.ConstantMatrix, Residual: mayAdd, Activation: isActivation, Rounds: true}
	scaleTail  = &fuse.Chain{Name: "scale-tail", Head: isScaleHead, Activation: isActivation, Rounds: true}
)

func isActivation(n *graph.Node) bool {
	_, ok := activationOf(n)
	return ok
}

// isImageActivation reports whether convolutions apply a node to their results.
func isImageActivation(n *graph.Node) bool { return isActivation(n) || slopesOf(n) != nil }

func isScaleHead(n *graph.Node) bool {
	if n.Is("GroupNormalization", "InstanceNormalization") {
		_, why := groupNormSignatures(n)
		return why == nil
	}
	return n.Is("BatchNormalization") && n.Input(0) != nil && operators.NoScale(n) == nil
}

func isConvHead(n *graph.Node) bool {
	if n.Is("Conv") {
		_, why := convKindOf(n)
		return why == nil && n.Input(0).Type.Backed() && fixedWeights(n)
	}
	if n.Is("ConvTranspose") {
		_, why := convTransposeSignatures(n)
		return why == nil && fixedWeights(n)
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
		return why == nil && rowBehind(n)
	}
	return false
}

// mayAdd reports whether the kernel of a head adds a residual. Where that is an operand of the head too, it has to have the
// format that the head wants of it.
func mayAdd(head *graph.Node, r *graph.Value) bool {
	if head.Is("ConvTranspose") || head.Is("Conv") && len(head.Inputs[0].Type.Shape) == 3 {
		return false
	}
	k := slices.Index(head.Inputs, r)
	kind := convDense
	if head.Is("Conv") {
		kind, _ = convKindOf(head)
	}
	switch {
	case kind == convFew, kind == convFewPlanar:
		return false
	case k < 0:
		return true
	case k > 0:
		return false
	case head.Is("Conv"):
		return kind != convPlanar
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

// chainSignatures are those of the head of a fused node.
func chainSignatures(c *fuse.Chain, n *graph.Node) ([]graph.Signature, *property.Reason) {
	return c.Signatures(n, func(head *graph.Node) ([]graph.Signature, *property.Reason) {
		op, _ := table.Lookup(head)
		return op.Signatures(head)
	})
}

// linksOf returns what a fused node consists of, which is read once whatever shapes it is planned for.
func (p *planner) linksOf(c *fuse.Chain, n *graph.Node) (*fuse.Links, error) {
	e := p.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.links[n]; l != nil {
		return l, nil
	}
	l, err := c.Parse(n)
	if err != nil {
		return nil, err
	}
	if e.links == nil {
		e.links = map[*graph.Node]*fuse.Links{}
	}
	e.links[n] = l
	return l, nil
}

// settleChain lets the result overwrite the operand of a normalisation, or the residual where the kernel adds that.
func (p *planner) settleChain(c *fuse.Chain, n *graph.Node) {
	l, err := p.linksOf(c, n)
	if err != nil {
		return
	}
	in, y, residual := fuse.Outers(n, l.Head.Inputs), n.Outputs[0], fuse.Outer(n, l.Residual)
	switch {
	case l.Head.Is("BatchNormalization"), inBlocks(y.Format) && l.Head.Is("GroupNormalization", "InstanceNormalization"):
		p.inPlace(y, in[0])
	case l.Head.Is("MatMul"):
		if _, db := matrixDims(p.Dims[in[0].ID], p.Dims[in[1].ID]); (operands{dimsB: db}).oneMatrix() {
			p.overAddend(y, residual, in[:2])
		}
	case l.Head.Is("Gemm"):
		p.overAddend(y, p.gemmResidual(l.Head, in, y, residual), in[:2])
	default:
		p.overAddend(y, residual, in[:2])
	}
}

// overAddend lets y overwrite what a product or convolution adds to its result, if it adds something, unless it reads others
// of its operands there: it reads those after it has written results.
func (p *planner) overAddend(y, addend *graph.Value, operands []*graph.Value) {
	if addend == nil {
		return
	}
	for _, v := range operands {
		if p.In(v).Slot == p.In(addend).Slot {
			return
		}
	}
	p.inPlace(y, addend)
}

// planChain emits a fused node.
func (p *planner) planChain(c *fuse.Chain, n *graph.Node) error {
	l, err := p.linksOf(c, n)
	if err != nil {
		return err
	}
	t := tailOf(l, n)
	in, out := fuse.Outers(n, l.Head.Inputs), n.Outputs[0]
	switch {
	case l.Head.Is("MatMul"):
		return p.matmul(in, out, fuse.Outer(n, l.Bias), t)
	case l.Head.Is("Gemm"):
		return p.gemm(l.Head, in, out, t)
	case l.Head.Is("BatchNormalization"):
		return p.fusedBatchNorm(l.Head, in, out, t)
	case l.Head.Is("GroupNormalization", "InstanceNormalization"):
		return p.groupNorm(l.Head, in, out, t)
	}
	if part := (convNode{n, l.Head, in, t}); part.head.Is("Conv") {
		return p.convOrPair(part)
	}
	return p.conv(l.Head, in, out, t)
}

// tailOf returns what a fused node does behind its kernel's bias.
func tailOf(l *fuse.Links, n *graph.Node) tail {
	t := tail{residual: fuse.Outer(n, l.Residual)}
	switch {
	case l.Silu():
		t.act = activation{some: true, op: vec.Silu}
	case len(l.Acts) == 1 && l.Acts[0].Is("PRelu"):
		t.slopes = slopesOf(l.Acts[0])
	case len(l.Acts) == 1:
		t.act, _ = activationOf(l.Acts[0])
	}
	if l.Rounding != nil {
		t.levels, _ = fuse.LevelsOf(l.Rounding[0])
	}
	return t
}

func init() {
	for _, c := range []*fuse.Chain{convTail, matmulTail, scaleTail} {
		strided := imagesStrided
		if c == matmulTail {
			strided = productStrided
		}
		table.Register(operators.Pattern(c.Name), operator{
			Signatures: func(n *graph.Node) ([]graph.Signature, *property.Reason) { return chainSignatures(c, n) },
			Settle:     func(p *planner, n *graph.Node) { p.settleChain(c, n) },
			Plan:       func(p *planner, n *graph.Node) error { return p.planChain(c, n) },
			Strided:    strided,
		})
	}
	table.Register(operators.Pattern(fuse.SiluName), operator{
		Signatures: func(n *graph.Node) ([]graph.Signature, *property.Reason) {
			return followSignatures(n, len(n.Inputs)), nil
		},
		Settle: overFirst,
		Plan: func(p *planner, n *graph.Node) error {
			x, y := n.Inputs[0], n.Outputs[0]
			p.unary(activation{some: true, op: vec.Silu}, p.In(x), p.Out(y), p.stored(y), padding{})
			return nil
		},
		Strided: anyRows,
	})
}
